//! What a server gets of a script: values of templates, requests by their weights, and both the same over either version of HTTP.

use crate::support::recorder::{Recorder, Reply};
use crate::support::run;
use anywire_http::{Headers, Method};
use anywire_load::script::{Order, Script, Sequence, Step, Table, Text};
use anywire_load::{Plan, Protocol};
use anywire_loops::Loops;
use anywire_wire::Wire;

fn script(sequences: Vec<Sequence>) -> Option<Script> {
    Some(Script { sequences, ..Script::default() })
}

fn weighted(target: &str, weight: u32) -> Sequence {
    Sequence { weight, ..Sequence::one(Step::get(target)) }
}

#[test]
fn values_stand_in_target_fields_and_body() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:values-{protocol:?}"), protocol, |_| Reply::text("ok"));
        let step = Step {
            method: Method::POST,
            headers: vec![("x-id".to_owned(), Text::template("id {{n 10}}"))],
            body: Text::template("{\"n\":{{n}},\"user\":\"{{users.name | json}}\"}"),
            ..Step::get(Text::template("/items/{{n}}?u={{users.name}}"))
        };
        let mut headers = Headers::new();
        headers.append("x-plan", "all").unwrap();
        let tables = vec![Table::new("users", "name\nann\n\"b \"\"o\"\"\"\n")];
        let script = Script { tables, ..script(vec![Sequence::one(step)]).unwrap() };
        let plan = Plan { headers, script: Some(script), ..server.plan(3) };
        let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
        assert_eq!(
            (outcome.totals.measured.answered, outcome.totals.measured.errors.total()),
            (3, 0),
            "{outcome}"
        );
        let seen = server.recorded();
        let lines: Vec<_> = seen.iter().map(|request| request.line()).collect();
        assert_eq!(
            lines,
            ["/1?u=ann", "/2?u=b%20%22o%22", "/3?u=ann"].map(|rest| format!("POST /items{rest}"))
        );
        let bodies: Vec<_> = seen.iter().map(|request| String::from_utf8_lossy(&request.body)).collect();
        assert_eq!(
            bodies,
            [
                "{\"n\":1,\"user\":\"ann\"}",
                "{\"n\":2,\"user\":\"b \\\"o\\\"\"}",
                "{\"n\":3,\"user\":\"ann\"}"
            ]
        );
        let fields: Vec<_> =
            seen.iter().map(|request| (request.header("x-id"), request.header("x-plan"))).collect();
        assert_eq!(fields, ["id 10", "id 11", "id 12"].map(|id| (Some(id), Some("all"))));
    }
}

#[test]
fn the_seed_gives_the_order_and_the_weights_give_the_shares() {
    let lines = |name: &str, seed| {
        let server = Recorder::start(name, Protocol::Http1, |_| Reply::text("ok"));
        let script = script(vec![weighted("/often", 9), weighted("/never", 0), weighted("/seldom", 1)]);
        let plan = Plan { script, seed, ..server.plan(1000) };
        let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
        let shares: Vec<_> = outcome.requests.iter().map(|one| (one.name.clone(), one.answered)).collect();
        let lines = server.lines();
        let seen = |target: &str| lines.iter().filter(|line| line.ends_with(target)).count() as u64;
        assert_eq!(
            shares,
            ["/often", "/never", "/seldom"].map(|target| (format!("GET {target}"), seen(target))).to_vec()
        );
        assert!((850..950).contains(&seen("/often")) && seen("/never") == 0, "{shares:?}");
        lines
    };
    let first = lines("memory:seed-a", 7);
    assert_eq!(lines("memory:seed-b", 7), first);
    assert_ne!(lines("memory:seed-c", 8), first);
}

#[test]
fn in_turn_each_request_comes_as_often() {
    let server = Recorder::start("memory:in-turn", Protocol::Http1, |_| Reply::text("ok"));
    let sequences = ["/a", "/b", "/c"].map(|target| weighted(target, 1)).to_vec();
    let script = Script { sequences, order: Order::InTurn, ..Script::default() };
    run(&Loops::start(1).unwrap(), Plan { script: Some(script), ..server.plan(7) }).unwrap();
    assert_eq!(
        server.lines(),
        ["/a", "/b", "/c", "/a", "/b", "/c", "/a"].map(|target| format!("GET {target}"))
    );
}

#[test]
fn no_number_comes_twice_from_several_loops() {
    let server = Recorder::start("memory:numbers", Protocol::Http1, |_| Reply::text("ok"));
    let script = script(vec![Sequence::one(Step::get(Text::template("/{{n}}")))]);
    let plan = Plan { script, connections: 4, ..server.plan(200) };
    run(&Loops::start(2).unwrap(), plan).unwrap();
    let mut numbers: Vec<u64> =
        server.recorded().iter().map(|request| request.target[1..].parse().unwrap()).collect();
    numbers.sort_unstable();
    // Each of two loops counts every other number, and sends half of the requests.
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
}

#[test]
fn answers_to_head_and_get_are_told_apart_at_any_depth() {
    for (protocol, depth) in [(Protocol::Http1, 1), (Protocol::Http1, 5), (Protocol::Http2, 5)] {
        let address = format!("memory:heads-{protocol:?}-{depth}");
        let server = Recorder::start(&address, protocol, |_| Reply::text("thirteen byte"));
        let head = Sequence::one(Step { method: Method::HEAD, ..Step::get("/head") });
        let plan = Plan {
            script: script(vec![head, weighted("/get", 1)]),
            depth,
            connections: 2,
            ..server.plan(500)
        };
        let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
        let totals = &outcome.totals;
        assert_eq!((totals.measured.answered, totals.measured.errors.total()), (500, 0), "{outcome}");
        let gets = server.lines().iter().filter(|line| *line == "GET /get").count() as u64;
        assert!(gets > 100 && gets < 400, "{gets}");
        assert_eq!(totals.body_bytes_in, gets * 13);
    }
}

#[test]
fn a_script_goes_over_every_wire() {
    for address in anywire_wire::wires().filter_map(Wire::scratch) {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let server = Recorder::start(&address.to_string(), protocol, |_| Reply::text("ok"));
            let script = script(vec![Sequence::one(Step::get(Text::template("/{{n}}")))]);
            let plan = Plan { script, connections: 2, depth: 3, ..server.plan(50) };
            let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
            assert_eq!(outcome.totals.measured.errors.total(), 0, "{address}: {outcome}");
            let mut numbers: Vec<u64> =
                server.recorded().iter().map(|request| request.target[1..].parse().unwrap()).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=50).collect::<Vec<_>>(), "{address}");
        }
    }
}

#[test]
fn a_body_larger_than_what_the_wire_takes_at_once_arrives_whole() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start("tcp:127.0.0.1:0", protocol, |_| Reply::text("ok"));
        let body = "0123456789abcdef".repeat(64 * 1024);
        let step =
            Step { method: Method::PUT, body: Text::template(format!("{body}{{{{n}}}}")), ..Step::get("/") };
        let plan = Plan { script: script(vec![Sequence::one(step)]), depth: 2, ..server.plan(4) };
        let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
        assert_eq!(outcome.totals.measured.errors.total(), 0, "{outcome}");
        let mut ends: Vec<_> =
            server.recorded().iter().map(|request| request.body[body.len()..].to_vec()).collect();
        ends.sort();
        assert_eq!(ends, [b"1", b"2", b"3", b"4"]);
        assert!(outcome.totals.bytes_out >= 4 * (body.len() as u64 + 1), "{outcome}");
    }
}
