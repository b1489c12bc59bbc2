//! A signal ends a server in order though the loop that received signals has died.
//!
//! A process of its own: the signals go to all of it.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use anywire_loops::{LoopHandle, LoopState, Loops};
use anywire_server::{Router, Server};
use rustix::process::{Signal, getpid, kill_process};

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as the test wishes");
    }
}

/// Has a loop die.
fn kill(one: &LoopHandle) {
    let killer = one.spawn(|| async {
        // The runtime's own timer calls it.
        let mut sleep = std::pin::pin!(tokio::time::sleep(Duration::from_millis(1)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
        std::future::pending::<()>().await;
    });
    killer.wait().expect_err("its loop dies");
    assert_eq!(one.state(), LoopState::Died);
}

#[test]
fn a_signal_ends_the_server_while_a_loop_lives() {
    // Whichever of them receives, in two of the three scenes it dies.
    for survivor in 1..4 {
        let loops = Loops::start(4).expect("threads");
        kill(&loops.get(0));
        let server = Server::new(Router::new()).listen("memory:signals").on(&loops);
        let mut running = server.start().expect("a free name");
        running.register_signals().expect("signals can be received");
        (1..4).filter(|one| *one != survivor).for_each(|one| kill(&loops.get(one)));
        let (ended, has_ended) = channel();
        std::thread::spawn(move || ended.send(running.wait_for_signal()));
        let shutdown = loop {
            kill_process(getpid(), Signal::TERM).expect("a process may signal itself");
            match has_ended.recv_timeout(Duration::from_millis(10)) {
                Err(RecvTimeoutError::Timeout) => {}
                ended => break ended.expect("no panic"),
            }
        };
        assert_eq!(shutdown.expect("a loop lives").connections_cut, 0);
    }
}
