//! A sequence that keeps cookies: what answers set goes with its later requests, by the rules of RFC 6265bis, to nobody else, and not into
//! the next sequence.

use anywire_load::script::{Script, Sequence, Step, Text, Variable};
use anywire_load::{Plan, Protocol};
use anywire_loops::Loops;

use crate::support::recorder::{Recorded, Recorder, Reply};
use crate::support::run;

/// The login sets a session of its user, and a cookie for a path that nothing else asks for.
fn shop(request: &Recorded) -> Reply {
    let set = |cookies: &[String]| Reply {
        headers: cookies.iter().map(|cookie| ("set-cookie", cookie.clone())).collect(),
        ..Reply::text("ok")
    };
    match request.target.split('?').collect::<Vec<_>>()[..] {
        ["/login", user] => {
            set(&[format!("sid={user}; Path=/"), "admin=1; Path=/admin".to_owned(), "x=1; Secure".to_owned()])
        }
        ["/logout"] => set(&["sid=; Path=/; Max-Age=0".to_owned()]),
        ["/many"] => set(&(0..60).map(|number| format!("c{number}=1")).collect::<Vec<_>>()),
        _ => Reply::text("ok"),
    }
}

fn visit(cookies: bool) -> Script {
    let own = ("cookie".to_owned(), Text::template("own={{n}}"));
    let steps = vec![
        Step::get(Text::template("/login?{{n}}")),
        Step::get("/cart"),
        Step { headers: vec![own], ..Step::get("/cart/pay") },
        Step::get("/logout"),
        Step::get("/cart"),
    ];
    let sequence = Sequence { cookies, steps, ..Sequence::one(Step::get("/")) };
    Script { sequences: vec![sequence], ..Script::default() }
}

fn cookies(server: &Recorder) -> Vec<Option<String>> {
    server.recorded().iter().map(|request| request.header("cookie").map(str::to_owned)).collect()
}

#[test]
fn the_later_requests_of_a_sequence_have_what_its_answers_set() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:cookies-{protocol:?}"), protocol, shop);
        let plan = Plan { script: Some(visit(true)), ..server.plan(7) };
        let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
        assert_eq!(outcome.totals.measured.errors.total(), 0, "{outcome}");
        let sid = |number: u32| Some(format!("sid={number}"));
        let own = Some("own=3; sid=1".to_owned());
        assert_eq!(cookies(&server), [None, sid(1), own, sid(1), None, None, sid(6)], "{protocol:?}");
        // Of each login the one with `Secure` is refused, since it came in clear text.
        let figures = outcome.cookies.expect("they are counted");
        assert_eq!((figures.kept, figures.refused, figures.ended, figures.over_limit), (4, 2, 1, 0));
        assert!(outcome.to_string().contains("4 kept, 1 removed by the server, 2 refused"), "{outcome}");
    }
}

#[test]
fn without_the_key_none_is_kept() {
    let server = Recorder::start("memory:no-cookies", Protocol::Http1, shop);
    let plan = Plan { script: Some(visit(false)), ..server.plan(5) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!(cookies(&server), [None, None, Some("own=3".to_owned()), None, None]);
    assert_eq!(outcome.cookies, None);
}

#[test]
fn no_user_has_the_cookies_of_another() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:users-cookies-{protocol:?}"), protocol, shop);
        let sequence = Sequence {
            cookies: true,
            variables: vec![Variable { name: "id".to_owned(), text: Text::template("{{n}}") }],
            steps: vec![
                Step::get(Text::template("/login?{{id}}")),
                Step::get(Text::template("/cart/{{id}}")),
            ],
            ..Sequence::one(Step::get("/"))
        };
        let script = Script { sequences: vec![sequence], ..Script::default() };
        let plan = Plan { script: Some(script), depth: 4, connections: 2, ..server.plan(400) };
        let outcome = run(&Loops::start(2).unwrap(), plan).unwrap();
        assert_eq!(outcome.totals.measured.errors.total(), 0, "{outcome}");
        let seen = server.recorded();
        let carts: Vec<_> = seen.iter().filter(|request| request.target.starts_with("/cart/")).collect();
        assert!(carts.len() >= 190, "{}", carts.len());
        for cart in carts {
            let own = cart.target.replace("/cart/", "sid=");
            assert_eq!(cart.header("cookie"), Some(own.as_str()), "{cart:?}");
        }
    }
}

#[test]
fn more_than_a_user_keeps_is_counted_and_said() {
    let server = Recorder::start("memory:many-cookies", Protocol::Http1, shop);
    let sequence = Sequence {
        cookies: true,
        steps: vec![Step::get("/many"), Step::get("/cart")],
        ..Sequence::one(Step::get("/"))
    };
    let script = Script { sequences: vec![sequence], ..Script::default() };
    let outcome = run(&Loops::start(1).unwrap(), Plan { script: Some(script), ..server.plan(2) }).unwrap();
    let figures = outcome.cookies.expect("they are counted");
    assert_eq!((figures.kept, figures.over_limit), (50, 10));
    let sent = cookies(&server)[1].clone().expect("the second request has them");
    assert_eq!(sent.split("; ").count(), 50);
    assert!(outcome.remarks().iter().any(|said| said.starts_with("10 cookies were not kept")), "{outcome}");
}
