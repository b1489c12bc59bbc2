//! An answer that a deadline gives has the date of its own, not that of the turn before the wait.

use std::time::Duration;

use anywire_server::{Limits, Router};

#[test]
fn a_late_refusal_has_its_own_date() {
    let limits = Limits { head_timeout: Duration::from_millis(1500), ..Limits::default() };
    let served = crate::support::Scene::tcp().serve_with(Router::new().get("/", async || "ok"), limits);
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET /");
    let (first, late) = (peer.answer(false), peer.answer(false));
    assert_eq!((first.status, late.status), (200, 408));
    assert!(first.header("date").is_some() && late.header("date").is_some());
    assert_ne!(late.header("date"), first.header("date"), "a second and more lies between");

    // As well if it is the first answer of its connection.
    let before = served.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut peer = served.connect();
    peer.send("GET /");
    let late = peer.answer(false);
    assert_eq!(late.status, 408);
    assert_ne!(late.header("date"), before.header("date"));
}
