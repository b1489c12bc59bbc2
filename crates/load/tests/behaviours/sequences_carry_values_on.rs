//! A sequence: its requests come in order, with what its variables, its row and earlier answers say.

use std::time::Duration;

use crate::support::recorder::{Recorded, Recorder, Reply};
use crate::support::run;
use anywire_http::Method;
use anywire_load::script::{Keep, Origin, Script, Sequence, Step, Table, Text, Variable};
use anywire_load::{ErrorKind, Limits, Plan, Protocol};
use anywire_loops::Loops;

/// A token in JSON for each login, a session in a header, and `ok` for the rest.
fn shop(request: &Recorded) -> Reply {
    match request.target.as_str() {
        "/login" => {
            let user = String::from_utf8_lossy(&request.body).into_owned();
            let headers = vec![("set-cookie", format!("sid=s-{user}; Path=/"))];
            Reply { headers, ..Reply::text(format!("{{\"token\":[\"t-{user}\"],\"id\":7}}")) }
        }
        _ => Reply::text("<a href=\"/next/41\">"),
    }
}

fn order() -> Script {
    let keep = |variable: &str, from| Keep { variable: variable.to_owned(), from };
    let login = Step {
        method: Method::POST,
        body: Text::template("{{users.name}}"),
        keep: vec![
            keep("token", Origin::Json("/token/0".to_owned())),
            keep(
                "sid",
                Origin::Header { name: "set-cookie".to_owned(), regex: Some("sid=([^;]+)".to_owned()) },
            ),
        ],
        ..Step::get("/login")
    };
    let cart = Step {
        headers: vec![
            ("authorization".to_owned(), Text::template("Bearer {{token}}")),
            ("cookie".to_owned(), Text::template("sid={{sid}}")),
        ],
        keep: vec![keep("next", Origin::Regex("/next/(\\d+)".to_owned()))],
        ..Step::get(Text::template("/cart/{{id}}"))
    };
    let next = Step::get(Text::template("/next/{{next}}/{{id}}"));
    let variables = vec![Variable { name: "id".to_owned(), text: Text::template("{{users.name}}-{{n}}") }];
    Script {
        sequences: vec![Sequence {
            variables,
            ..Sequence { steps: vec![login, cart, next], ..Sequence::one(Step::get("/")) }
        }],
        tables: vec![Table::new("users", "name\nann\nbob\n")],
        ..Script::default()
    }
}

#[test]
fn values_of_answers_stand_in_later_requests() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:shop-{protocol:?}"), protocol, shop);
        let outcome =
            run(&Loops::start(1).unwrap(), Plan { script: Some(order()), ..server.plan(7) }).unwrap();
        assert_eq!(outcome.totals.measured.errors.total(), 0, "{outcome}");
        assert_eq!(
            server.lines(),
            [
                "POST /login",
                "GET /cart/ann-1",
                "GET /next/41/ann-1",
                "POST /login",
                "GET /cart/bob-4",
                "GET /next/41/bob-4",
                "POST /login"
            ]
        );
        let seen = server.recorded();
        assert_eq!(
            (&seen[0].body[..], &seen[3].body[..], &seen[6].body[..]),
            (&b"ann"[..], &b"bob"[..], &b"ann"[..])
        );
        assert_eq!(
            (seen[1].header("authorization"), seen[1].header("cookie")),
            (Some("Bearer t-ann"), Some("sid=s-ann"))
        );
        assert_eq!(
            (seen[4].header("authorization"), seen[4].header("cookie")),
            (Some("Bearer t-bob"), Some("sid=s-bob"))
        );
    }
}

#[test]
fn each_place_in_flight_is_a_user_of_its_own() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:users-{protocol:?}"), protocol, shop);
        let plan = Plan { script: Some(order()), depth: 4, connections: 2, ..server.plan(600) };
        let outcome = run(&Loops::start(2).unwrap(), plan).unwrap();
        assert_eq!(
            (outcome.totals.measured.answered, outcome.totals.measured.errors.total()),
            (600, 0),
            "{outcome}"
        );
        // Whoever has a cart has the token of the same user.
        for cart in server.recorded().iter().filter(|request| request.target.starts_with("/cart/")) {
            let (user, _) = cart.target["/cart/".len()..].split_once('-').unwrap();
            assert_eq!(cart.header("authorization"), Some(format!("Bearer t-{user}").as_str()), "{cart:?}");
        }
        let names: Vec<_> = outcome.requests.iter().map(|request| request.name.as_str()).collect();
        assert_eq!(names, ["POST /login", "GET /cart/{{id}}", "GET /next/{{next}}/{{id}}"]);
        assert_eq!(outcome.requests.iter().map(|request| request.answered).sum::<u64>(), 600);
        assert!(outcome.requests.iter().all(|request| request.latency.is_some() && request.bad == 0));
    }
}

#[test]
fn a_value_that_is_missing_ends_the_sequence_and_is_counted() {
    let server =
        Recorder::start("memory:missing", Protocol::Http1, |request| match request.target.as_str() {
            "/login" => Reply { headers: vec![("set-cookie", "sid=1".to_owned())], ..Reply::text("no JSON") },
            _ => Reply::text(""),
        });
    let outcome = run(&Loops::start(1).unwrap(), Plan { script: Some(order()), ..server.plan(5) }).unwrap();
    assert_eq!(server.lines(), vec!["POST /login"; 5]);
    let errors = &outcome.totals.measured.errors;
    assert_eq!((errors.of(ErrorKind::Check), errors.total()), (5, 5));
    let message = &outcome.totals.measured.error_samples[0].message;
    assert!(message.contains("no value for token in its body, which is no JSON"), "{message}");
    assert_eq!((outcome.requests[0].bad, outcome.requests[1].answered), (5, 0));
}

#[test]
fn a_body_beyond_what_is_held_gives_no_value() {
    let server = Recorder::start("memory:held", Protocol::Http1, |_| Reply::text("x".repeat(3000)));
    let keep = vec![Keep { variable: "v".to_owned(), from: Origin::Regex("x".to_owned()) }];
    let script =
        Script { sequences: vec![Sequence::one(Step { keep, ..Step::get("/") })], ..Script::default() };
    let mut limits = Limits::default();
    limits.script.held_body_bytes = 2999;
    let plan = Plan { script: Some(script), limits, ..server.plan(3) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!(outcome.totals.measured.errors.of(ErrorKind::Check), 3);
    assert!(outcome.totals.measured.error_samples[0].message.contains("first 2999 bytes"), "{outcome}");
}

#[test]
fn a_user_waits_as_long_as_it_thinks() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:think-{protocol:?}"), protocol, |_| Reply::text("ok"));
        let think = Duration::from_millis(40);
        let steps = vec![Step { think, ..Step::get("/first") }, Step::get("/second")];
        let sequence = Sequence { steps, ..Sequence::one(Step::get("/")) };
        let script = Script { sequences: vec![sequence], ..Script::default() };
        let outcome =
            run(&Loops::start(1).unwrap(), Plan { script: Some(script), ..server.plan(4) }).unwrap();
        assert_eq!(server.lines(), ["GET /first", "GET /second", "GET /first", "GET /second"]);
        // Two of them waited, and no request took so long.
        assert!(outcome.rate.seconds >= 0.08, "{}", outcome.rate.seconds);
        assert_eq!(outcome.totals.measured.errors.total(), 0, "{outcome}");
    }
}

#[test]
fn a_run_does_not_wait_for_a_user_that_thinks() {
    let server = Recorder::start("memory:thinks-on", Protocol::Http1, |_| Reply::text("ok"));
    let step = Step { think: Duration::from_secs(3600), ..Step::get("/") };
    let script = Script { sequences: vec![Sequence::one(step)], ..Script::default() };
    let plan = Plan { script: Some(script), connections: 3, ..server.plan(3) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!(outcome.totals.measured.answered, 3);
}
