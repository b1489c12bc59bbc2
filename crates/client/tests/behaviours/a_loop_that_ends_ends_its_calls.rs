//! A call that is made while its loop ends fails at once: nothing that the loop is given then will ever run.

use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::support::{HANG, OK, Peer, client, on_each_wire};
use anywire_client::{Client, Error};
use anywire_loops::TaskError;
use anywire_wire::Address;

/// Makes a call when it is dropped, and reports what the first poll gave.
struct CallsWhenDropped {
    client: Client,
    url: String,
    via: Address,
    report: mpsc::Sender<Option<Error>>,
}

impl Drop for CallsWhenDropped {
    fn drop(&mut self) {
        let mut call = self.client.get(&self.url).via(&self.via).send();
        let polled = Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
        let error = match polled {
            Poll::Ready(answer) => answer.err(),
            Poll::Pending => None,
        };
        // A test that does not wait has failed already.
        let _ = self.report.send(error);
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
                std::future::pending::<()>().await;
                drop(calls);
            }));
            beginning.recv().expect("the task begins");
            let shutdown = loops.shutdown(Duration::ZERO).expect("not on a loop");
            assert_eq!(shutdown.loops_stuck, 0, "{shutdown:?}");
            let error = errors.recv_timeout(HANG).expect("the poll returns").expect("an error at once");
            assert!(matches!(error, Error::Loop { source: TaskError::Stopped, sent: false }), "{error:?}");
            assert_eq!(client.counters().total().waiting, 0);
        }
    });
}
