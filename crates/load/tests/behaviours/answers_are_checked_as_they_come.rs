//! Checks on answers: what is not as expected is counted under its kind, with the first in words, over either version of HTTP.

use crate::support::recorder::{Recorder, Reply};
use crate::support::run;
use anywire_http::StatusCode;
use anywire_load::script::{Script, Sequence, Step};
use anywire_load::{ErrorKind, Expect, Outcome, Plan, Protocol};
use anywire_loops::Loops;

fn checked(protocol: Protocol, name: &str, expect: Expect) -> Outcome {
    let address = format!("memory:check-{name}-{protocol:?}");
    let server = Recorder::start(&address, protocol, |_| Reply {
        headers: vec![("x-cache", "hit".to_owned())],
        ..Reply::text("abc")
    });
    run(&Loops::start(1).unwrap(), Plan { expect, depth: 3, ..server.plan(20) }).unwrap()
}

const SUM_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn good_answers_are_good() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let expect = Expect {
            status: Some(StatusCode::OK),
            body_bytes: Some(3),
            headers: vec!["X-Cache: hit".parse().unwrap(), "content-length".parse().unwrap()],
            contains: vec!["bc".to_owned()],
            sha256: Some(SUM_OF_ABC.parse().unwrap()),
        };
        let outcome = checked(protocol, "good", expect);
        assert_eq!(
            (outcome.totals.measured.good(), outcome.totals.measured.errors.total()),
            (20, 0),
            "{outcome}"
        );
    }
}

#[test]
fn bad_answers_are_counted_with_the_first_in_words() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let usual = Expect::default;
        for (name, expect, kind, words) in [
            (
                "status",
                Expect { status: Some(StatusCode::CREATED), ..usual() },
                ErrorKind::Status,
                "the status 200",
            ),
            (
                "header",
                Expect { headers: vec!["x-cache: miss".parse().unwrap()], ..usual() },
                ErrorKind::Check,
                "x-cache: hit",
            ),
            (
                "absent",
                Expect { headers: vec!["etag".parse().unwrap()], ..usual() },
                ErrorKind::Check,
                "no header etag",
            ),
            (
                "body",
                Expect { contains: vec!["abcd".to_owned()], ..usual() },
                ErrorKind::Check,
                "did not contain \"abcd\"",
            ),
            ("bytes", Expect { body_bytes: Some(4), ..usual() }, ErrorKind::Check, "had 3 bytes"),
            (
                "sum",
                Expect { sha256: Some("00".repeat(32).parse().unwrap()), ..usual() },
                ErrorKind::Check,
                SUM_OF_ABC,
            ),
        ] {
            let outcome = checked(protocol, name, expect);
            let measured = &outcome.totals.measured;
            assert_eq!(
                (measured.answered, measured.errors.of(kind), measured.errors.total()),
                (20, 20, 20),
                "{name}"
            );
            let [sample] = &measured.error_samples[..] else { panic!("{name}: {outcome}") };
            assert!(sample.message.contains(words), "{name}: {}", sample.message);
        }
    }
}

#[test]
fn a_request_of_a_script_has_its_own_checks() {
    let server = Recorder::start("memory:own-checks", Protocol::Http1, |request| Reply {
        status: if request.target == "/made" { 201 } else { 404 },
        ..Reply::text("")
    });
    let expect =
        |status| Some(Expect { status: Some(StatusCode::from_u16(status).unwrap()), ..Expect::default() });
    let steps = vec![
        Step { expect: expect(201), ..Step::get("/made") },
        Step { expect: expect(404), ..Step::get("/gone") },
        Step::get("/else"),
    ];
    let script =
        Script { sequences: vec![Sequence { steps, ..Sequence::one(Step::get("/")) }], ..Script::default() };
    let outcome = run(&Loops::start(1).unwrap(), Plan { script: Some(script), ..server.plan(30) }).unwrap();
    assert_eq!(outcome.requests.iter().map(|request| request.bad).collect::<Vec<_>>(), [0, 0, 10]);
    assert_eq!(outcome.totals.measured.errors.of(ErrorKind::Status), 10);
    let table = outcome.to_string();
    assert!(table.contains("GET /made") && table.contains("10 x 201"), "{table}");
}
