//! Requests on which the peer has announced not to act are sent again, and a request that says `close` is the last one of its
//! connection: whichever end announces it, each request of the plan is answered.

use crate::support::h2_server::{self, H2Server};
use crate::support::run;
use crate::support::server::{Manner, TestServer};
use anywire_http::Headers;
use anywire_load::{Outcome, Plan};
use anywire_loops::Loops;

fn load(plan: Plan) -> Outcome {
    run(&Loops::start(2).unwrap(), plan).unwrap()
}

#[track_caller]
fn assert_all_answered(outcome: &Outcome) {
    let all = &outcome.totals.measured;
    assert_eq!((all.sent, all.answered, all.errors.total()), (100, 100, 0), "{outcome}");
    assert_eq!(outcome.totals.unsent, Some(0));
}

#[test]
fn behind_an_announced_close() {
    let server = TestServer::start("memory:again-close", Manner::SayCloseAfter(10));
    let outcome = load(Plan { depth: 4, ..server.plan(100) });
    assert_all_answered(&outcome);
    assert!(outcome.totals.measured.sent_again > 0, "{outcome}");
    assert!(outcome.to_string().contains(" sent again, "), "{outcome}");
}

#[test]
fn behind_the_last_stream_of_a_goaway() {
    let server = H2Server::start("memory:again-goaway", h2_server::Manner::LeaveAfter(10));
    assert_all_answered(&load(Plan { depth: 4, ..server.plan(100) }));
}

#[test]
fn a_request_that_says_close_is_the_last_of_its_connection() {
    for (depth, value) in [(1, "close"), (4, "x, Close")] {
        let server = TestServer::start(&format!("memory:again-own-{depth}"), Manner::Answer);
        let mut headers = Headers::new();
        headers.append("connection", value).unwrap();
        let outcome = load(Plan { depth, headers, ..server.plan(100) });
        assert_all_answered(&outcome);
        assert_eq!((outcome.totals.connections.opened, outcome.totals.measured.sent_again), (100, 0));
    }
}
