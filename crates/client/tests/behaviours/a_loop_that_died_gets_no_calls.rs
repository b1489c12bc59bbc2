//! Calls from outside go to the loops that still run; if none does, they fail at once.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};
use std::time::Duration;

use crate::support::{OK, Peer, block_on, client, eventually, wire};
use anywire_client::connector::{Connecting, Connector, Direct, Target};
use anywire_client::{Error, Limits};
use anywire_loops::{LoopState, Loops, TaskError};

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("this panic is part of the test");
    }
}

/// Ends a loop in the one way that is left: the runtime's timer calls a waker that panics.
fn kill(loops: &Loops, index: usize) {
    let killer = loops.get(index).spawn(|| async {
        let mut sleep = pin!(tokio::time::sleep(Duration::from_millis(1)));
        let waker = Arc::new(PanicsWhenWoken).into();
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        std::future::pending::<()>().await;
    });
    assert_eq!(killer.wait(), Err(TaskError::Stopped));
    assert_eq!(loops.get(index).state(), LoopState::Died);
}

#[test]
fn a_loop_that_died_gets_no_calls() {
    let peer = Peer::answering(wire("tcp"), OK);
    let (loops, client) = client(3, |builder| builder);
    kill(&loops, 1);
    for _ in 0..9 {
        block_on(client.get(peer.url("/")).send()).expect("two loops are left");
    }
    kill(&loops, 0);
    kill(&loops, 2);
    for _ in 0..3 {
        let error = block_on(client.get(peer.url("/")).send()).expect_err("no loop is left");
        assert!(matches!(error, Error::Loop { source: TaskError::Stopped, .. }), "{error:?}");
    }
}

/// Its first dials never end.
struct Hanging {
    dials: AtomicUsize,
    hang: usize,
}

impl Connector for Hanging {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        match self.dials.fetch_add(1, Ordering::SeqCst) < self.hang {
            true => Box::pin(std::future::pending()),
            false => Direct.connect(target),
        }
    }
}

/// Those that it was dialling, and those that it had: a call on another loop waits for one of them.
#[test]
fn a_loop_that_dies_gives_its_connections_back() {
    for hang in [2, 1, 0] {
        let peer = Peer::start(wire("tcp"), |mut talk| {
            while let Some(request) = talk.request() {
                match request.head.path() {
                    "/hold" => return talk.wait_for_end(),
                    _ => talk.say(OK),
                }
            }
        });
        let (loops, client) = client(2, |builder| {
            let limits = Limits { connections_per_origin: 2, ..Limits::default() };
            let long = Duration::from_secs(60);
            let connector = Hanging { dials: AtomicUsize::new(0), hang };
            builder.connector(connector).limits(limits).acquire_timeout(long).read_timeout(long)
        });
        let call = |index: usize, path: &str| {
            let (client, url) = (client.clone(), peer.url(path));
            loops
                .get(index)
                .spawn(move || async move { client.get(url).send().await.map(|found| found.status()) })
        };
        let held = [call(0, "/hold"), call(0, "/hold")];
        eventually("one loop has all connections", || {
            let counters = client.counters().total();
            counters.lent == 1 && counters.active == 2 - hang as u64
        });
        let waits = call(1, "/");
        eventually("the other one waits", || client.counters().total().waiting == hang as u64 + 1);
        kill(&loops, 0);
        assert_eq!(waits.wait().expect("its loop goes on").expect("an answer"), 200, "{hang} hang");
        for held in held {
            assert_eq!(held.wait().map(|_| ()), Err(TaskError::Stopped));
        }
    }
}
