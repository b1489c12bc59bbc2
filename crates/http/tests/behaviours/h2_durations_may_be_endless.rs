//! `Duration::MAX` means never, for each duration and in both roles: no deadline, no panic, and the other deadlines hold.

use std::time::Duration;

use anywire_http::h2::{Engine, Error, Limits, Unacknowledged};

use crate::support::h2::*;

const MAX: Duration = Duration::MAX;

/// Longer than anything runs.
const AGES: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

fn ends(limits: Limits) -> [End; 2] {
    [End::server(limits), End::client(limits)]
}

#[test]
fn settings_may_be_acknowledged_at_any_time() {
    let limits = Limits { settings_deadline: MAX, ..Limits::default() };
    for make in [Engine::server, Engine::client] {
        let (now, mut out) = (clock(), Vec::new());
        let mut engine = make(limits, now, &mut out);
        assert_eq!(engine.next_deadline(), None);
        assert_eq!(engine.advance(now + AGES, &mut out), Ok(()));
        let mut other = make(Limits::default(), now, &mut out);
        assert_eq!(
            other.advance(now + AGES, &mut out),
            Err(Error::Silent { what: Unacknowledged::Settings })
        );
    }
}

#[test]
fn a_peer_may_be_silent_for_ever() {
    for mut end in ends(Limits { ping_interval: Some(MAX), ..Limits::default() }) {
        assert_eq!(end.engine.next_deadline(), None);
        assert_eq!(end.engine.advance(end.now + AGES, &mut end.out), Ok(()));
        assert_eq!(frames(&end.out), [], "no ping");
    }
}

#[test]
fn a_ping_may_be_answered_at_any_time() {
    let interval = Duration::from_secs(1);
    for mut end in ends(Limits { ping_interval: Some(interval), ping_deadline: MAX, ..Limits::default() }) {
        assert_eq!(end.engine.next_deadline(), Some(end.now + interval));
        assert_eq!(end.engine.advance(end.now + interval, &mut end.out), Ok(()));
        assert!(matches!(frames(&end.out)[..], [(PING, 0, 0, _)]), "{:?}", end.out);
        assert_eq!(end.engine.next_deadline(), None);
        assert_eq!(end.engine.advance(end.now + AGES, &mut end.out), Ok(()));
    }
}
