//! What the generator says it sent is what the server got, on every wire, with one loop and with several.

use crate::support::run;
use crate::support::server::{Manner, TestServer};
use anywire_load::{Amount, ErrorKind, Expect, Plan};
use anywire_loops::Loops;
use anywire_wire::Wire;

#[test]
fn every_request_is_sent_once_and_every_answer_counted_once() {
    for address in anywire_wire::wires().filter_map(Wire::scratch) {
        let server = TestServer::start(&address.to_string(), Manner::Answer);
        let loops = Loops::start(2).unwrap();
        let plan = Plan {
            connections: 5,
            depth: 3,
            expect: Expect { body_bytes: Some(13), ..Expect::default() },
            ..server.plan(2_500)
        };
        let outcome = run(&loops, plan).unwrap();
        let totals = &outcome.totals;
        assert_eq!(
            (totals.measured.sent, totals.measured.answered, server.seen.requests()),
            (2_500, 2_500, 2_500),
            "{address}"
        );
        assert_eq!(totals.statuses, [(200, 2_500)].into());
        assert_eq!(totals.measured.errors.total(), 0, "{:?}", totals.measured.error_samples);
        assert_eq!(totals.body_bytes_in, 32_500);
        assert_eq!(outcome.latency.send.as_ref().unwrap().count, 2_500);
        assert_eq!((totals.connections.opened, server.seen.connections()), (5, 5));
        // None was lost: each has finished, or was open when the last one had.
        let all = totals.connections;
        assert_eq!((all.lost, all.finished + all.open_at_end), (0, all.opened), "{all:?}");
        assert_eq!(
            (
                totals.measured.unanswered_at_close,
                totals.measured.unanswered_at_end,
                totals.measured.timed_out
            ),
            (0, 0, 0)
        );
        // Connections and requests are spread as evenly as whole numbers allow.
        assert_eq!(outcome.loops.iter().map(|one| one.requests).collect::<Vec<_>>(), [1_500, 1_000]);
        assert!(outcome.generator.cpu_us_per_request.unwrap() > 0.0);
        assert_eq!(outcome.target.wire, server.address.scheme());
    }
}

#[test]
fn statuses_are_told_apart_and_bad_ones_are_errors_too() {
    let server = TestServer::start("memory:statuses", Manner::Statuses);
    let loops = Loops::start(1).unwrap();
    let totals = run(&loops, server.plan(30)).unwrap().totals;
    assert_eq!(totals.statuses, [(200, 10), (201, 10), (404, 10)].into());
    assert_eq!(
        (
            totals.measured.errors.of(ErrorKind::Status),
            totals.measured.errors.total(),
            totals.measured.answered
        ),
        (10, 10, 30)
    );
}

#[test]
fn a_body_of_another_length_is_an_error_of_its_kind() {
    let server = TestServer::start("memory:lengths", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let expect = Expect { body_bytes: Some(14), ..Expect::default() };
    let totals = run(&loops, Plan { expect, ..server.plan(7) }).unwrap().totals;
    assert_eq!(
        (
            totals.measured.errors.of(ErrorKind::Check),
            totals.measured.errors.total(),
            totals.measured.answered
        ),
        (7, 7, 7)
    );
    assert!(
        totals.measured.error_samples[0].message.contains("13 bytes"),
        "{:?}",
        totals.measured.error_samples
    );
}

#[test]
fn fewer_requests_than_connections_is_no_problem() {
    let server = TestServer::start("memory:few", Manner::Answer);
    let loops = Loops::start(3).unwrap();
    let plan = Plan { connections: 20, amount: Amount::Requests(4), ..server.plan(4) };
    let totals = run(&loops, plan).unwrap().totals;
    assert_eq!((totals.measured.sent, totals.measured.answered, server.seen.requests()), (4, 4, 4));
}
