//! Calls from outside go to the loops that still run; if none does, they fail at once.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::time::Duration;

use crate::support::{OK, Peer, block_on, client, wire};
use anywire_client::Error;
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
