//! What waits for signals lasts as long as the server and its loops, and no longer.

use std::sync::mpsc;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_server::{Router, Server, ServerError, ServerHandle};

const LONG: Duration = Duration::from_secs(5);

fn start(name: &str, loops: &Loops) -> ServerHandle {
    let server = Server::new(Router::new()).listen(format!("memory:{name}")).on(loops);
    let mut running = server.start().expect("a free name");
    running.register_signals().expect("signals can be received");
    running
}

#[test]
fn nothing_of_a_dropped_server_stays_on_its_loops() {
    let loops = Loops::start(1).expect("threads");
    drop(start("dropped", &loops));
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || done.send(loops.shutdown(LONG * 2)));
    let shutdown = is_done.recv_timeout(LONG).expect("nobody is waited for").expect("this is no loop");
    assert_eq!(shutdown.tasks_cut, 0);
}

#[test]
fn whoever_waits_for_a_signal_hears_that_the_loops_have_ended() {
    let loops = Loops::start(1).expect("threads");
    let running = start("ended", &loops);
    loops.shutdown(Duration::ZERO).expect("this is no loop");
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || done.send(running.wait_for_signal()));
    let outcome = is_done.recv_timeout(LONG).expect("it does not wait for ever");
    assert!(matches!(outcome, Err(ServerError::Signals(_))), "{outcome:?}");
}
