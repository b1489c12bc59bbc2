//! A call that is made while its loop ends fails, at once or with the loop: nothing that the loop is given then will ever run.

mod support;

use std::future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anywire_client::{Client, Error};
use anywire_loops::TaskError;
use anywire_wire::Address;
use support::{HANG, OK, Peer, block_on, client, on_each_wire};

/// A call's error, or what becomes of it.
type Outcome = Pin<Box<dyn Future<Output = Option<Error>> + Send>>;

/// Makes a call when it is dropped, polls it once, and reports it.
struct CallsWhenDropped {
    client: Client,
    url: String,
    via: Address,
    report: mpsc::Sender<Outcome>,
}

impl Drop for CallsWhenDropped {
    fn drop(&mut self) {
        let mut call = Box::pin(self.client.get(&self.url).via(&self.via).send());
        let outcome: Outcome = match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Box::pin(future::ready(answer.err())),
            Poll::Pending => Box::pin(async { call.await.err() }),
        };
        // A test that does not wait has failed already.
        let _ = self.report.send(outcome);
    }
}

#[test]
fn a_call_in_a_destructor_at_the_end_of_its_loop() {
    on_each_wire(|wire| {
        for warm in [false, true] {
            let peer = Peer::answering(wire, OK);
            let (loops, client) = client(1, |builder| builder);
            let (report, errors) = mpsc::channel();
            let (begun, beginning) = mpsc::channel();
            let calls = CallsWhenDropped {
                client: client.clone(),
                url: peer.url("/"),
                via: peer.via().clone(),
                report,
            };
            drop(loops.get(0).spawn(move || async move {
                if warm {
                    calls.client.get(&calls.url).via(&calls.via).send().await.expect("an answer");
                }
                begun.send(()).expect("the test waits");
                future::pending::<()>().await;
                drop(calls);
            }));
            beginning.recv().expect("the task begins");
            let shutdown = loops.shutdown(Duration::ZERO).expect("not on a loop");
            assert_eq!(shutdown.loops_stuck, 0, "{shutdown:?}");
            let outcome = errors.recv_timeout(HANG).expect("the poll returns");
            let error = block_on(outcome).expect("nobody answers");
            assert!(matches!(error, Error::Loop { source: TaskError::Stopped, .. }), "{error:?}");
            assert_eq!(client.counters().total().waiting, 0);
        }
    });
}
