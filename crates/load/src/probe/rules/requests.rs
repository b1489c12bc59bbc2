//! How the server answers requests that are not the usual ones: HEAD, a body that waits, a reader that pauses, a head of many KiB.

use super::super::outcome::Outcome;
use super::super::verdict::Class;
use super::connection::WINDOW_MIN;
use super::{Found, Rule, percent};
use crate::text::time;

pub(super) const RULES: &[Rule] = &[
    Rule {
        class: Class::HeadWithBody,
        judge: head_with_body,
        why: "the answer to HEAD ends with its head (RFC 9112 section 6.3): a client takes the body for the answer to its next request, and \
              breaks the connection",
        change: "write no body if the method is HEAD: let the framework do so, and look for a handler or proxy that writes to the socket itself",
    },
    Rule {
        class: Class::HeadDiffers,
        judge: head_differs,
        why: "caches and downloads trust the length that HEAD states, which must be that of GET (RFC 9110 section 8.6): they drop what they \
              have, or ask for ranges that are not there",
        change: "state the length of GET, or none at all",
    },
    Rule {
        class: Class::IgnoresExpect,
        judge: ignores_expect,
        why: "a client that sends 'Expect: 100-continue', as curl does with a large body, waits a second before each of its uploads",
        change: "answer it with 100 Continue before the body is read, or with a final status (RFC 9110 section 10.1.1); a proxy in front must \
                 pass it on or answer itself",
    },
    Rule {
        class: Class::CutsSlowReaders,
        judge: cuts_slow_readers,
        why: "users on slow networks never get the whole answer, and each attempt costs all of it again",
        change: "raise the timeout of writes, or let it begin anew with each write that succeeds (nginx: send_timeout; Go: no WriteTimeout for \
                 long answers)",
    },
    Rule {
        class: Class::WindowStalls,
        judge: window_stalls,
        why: "what the server does not read fills its window, and its clients stop in the middle of a request",
        change: "read as soon as something has come, into a buffer of 16 KiB or more, and not from a loop that other work holds up",
    },
];

fn head_with_body(outcome: &Outcome) -> Option<Found> {
    let head = outcome.head.as_ref()?;
    // More behind each answer has a verdict of its own.
    let is_more_behind_all = outcome.connection.as_ref().is_some_and(|seen| seen.unasked == Some(true));
    (head.has_body && !is_more_behind_all)
        .then(|| Found::problem(format!("a body came behind the {} that answers HEAD", head.status)))
}

fn head_differs(outcome: &Outcome) -> Option<Found> {
    let differs = outcome.head.as_ref()?.same_length == Some(false);
    differs.then(|| {
        Found::warning("HEAD states another length than GET, which has the same one each time".to_owned())
    })
}

fn ignores_expect(outcome: &Outcome) -> Option<Found> {
    let seen = outcome.expect.as_ref()?;
    let latency = outcome.latency.map_or(0.0, |latency| latency.spread.p99);
    // A server that answers without the body, and slowly, is not waiting for it.
    (seen.ignored && latency < SLOW_US).then(|| {
        Found::warning(format!(
            "no 100 Continue came within the second that clients wait, and {} came to the body",
            seen.status.map_or_else(|| "nothing".to_owned(), |status| status.to_string()),
        ))
    })
}

fn cuts_slow_readers(outcome: &Outcome) -> Option<Found> {
    let seen = outcome.slow_reader.as_ref()?;
    let bytes = outcome.target.body_bytes.unwrap_or_default();
    seen.cut.then(|| {
        Found::problem(format!(
            "an answer of {bytes} bytes was cut, because its reader paused for {}",
            time(seen.pause)
        ))
    })
}

fn window_stalls(outcome: &Outcome) -> Option<Found> {
    let tcp = outcome.tcp?;
    let (busy, limited) = tcp.busy.zip(tcp.rwnd_limited)?;
    let share = limited / busy.max(1.0);
    // A window that is small in itself has a verdict of its own.
    let is_small = tcp.peer_window_bytes.is_some_and(|window| window < WINDOW_MIN);
    (limited >= STALLED_US && share >= STALLED_SHARE && !is_small).then(|| {
        Found::warning(format!(
            "the server's window was full for {} of the {} in which requests were under way to it ({})",
            time(limited),
            time(busy),
            percent(share),
        ))
    })
}

/// Half of what clients wait for 100 Continue.
const SLOW_US: f64 = 500_000.0;
/// Less is a busy machine's hiccup.
const STALLED_US: f64 = 20_000.0;
/// From a quarter on, stalls show in the latency.
const STALLED_SHARE: f64 = 0.25;
