//! How answers leave: in one write, or in several.

use super::super::outcome::Outcome;
use super::super::verdict::Class;
use super::{Found, Rule, percent};
use crate::text::time;

pub(super) const RULES: &[Rule] = &[
    Rule {
        class: Class::DelayedAck,
        judge: delayed_ack,
        why: "the server writes an answer in parts; by Nagle's algorithm the kernel holds the second part back until the client has \
              acknowledged the first, and the client's kernel delays that by 40 ms",
        change: "write head and body in one call (writev, or a buffer that is flushed at the end of the answer); \
                 TCP_NODELAY alone ends the wait, and the second segment stays",
    },
    Rule {
        class: Class::SplitWrite,
        judge: split_write,
        why: "each write is a system call, a segment, and mostly a wake-up of the client of its own: the kernel's part of a request, \
              which is nearly all of it, is paid twice",
        change: "write head and body in one call (writev, or a buffer that is flushed at the end of the answer)",
    },
    Rule {
        class: Class::FlushPerAnswer,
        judge: flush_per_answer,
        why: "each flush is a system call and a segment of its own, and the client wakes up for each of them",
        change: "flush once, at the end of the answer: drop the flush behind each chunk, and let the buffer hold the whole of a short answer",
    },
];

fn delayed_ack(outcome: &Outcome) -> Option<Found> {
    let gap = outcome.gap?;
    let (share, at_once) = (gap.over_30ms?, gap.over_30ms_acknowledged_at_once?);
    // The rest of an answer may be late for its own sake: then it stays late when this end acknowledges at once.
    let waits_for_us = at_once <= share / 2.0;
    if share < SLOW_SHARE || !waits_for_us || !is_split(outcome) {
        return None;
    }
    let (what, spread) = match gap.head_to_body.filter(|spread| spread.p50 >= SLOW_US) {
        Some(spread) => ("bring their body 30 ms or more behind their head", spread),
        None => ("pause for 30 ms or more in their middle", gap.between_reads?),
    };
    Some(Found::problem(format!(
        "{} of the answers {what} (p50 {}, p99 {}), and {} do while the client acknowledges at once",
        percent(share),
        time(spread.p50),
        time(spread.p99),
        percent(at_once),
    )))
}

fn split_write(outcome: &Outcome) -> Option<Found> {
    if !is_split(outcome) || is_in_pieces(outcome) || delayed_ack(outcome).is_some() {
        return None;
    }
    let gap = outcome.gap.and_then(|gap| gap.head_to_body);
    let gap = gap
        .map_or_else(String::new, |gap| format!("; the body comes {} behind the head (p50)", time(gap.p50)));
    Some(Found::warning(format!("{}{gap}", pieces(outcome)?)))
}

fn flush_per_answer(outcome: &Outcome) -> Option<Found> {
    if !is_split(outcome) || !is_in_pieces(outcome) || delayed_ack(outcome).is_some() {
        return None;
    }
    Some(Found::warning(pieces(outcome)?))
}

/// In what an answer came.
fn pieces(outcome: &Outcome) -> Option<String> {
    let bytes =
        outcome.target.body_bytes.map_or_else(String::new, |bytes| format!(" with a body of {bytes} bytes"));
    Some(match (outcome.segments, outcome.reads?) {
        (Some(segments), _) => format!(
            "an answer{bytes} takes {} data segments where {} would do (p50; the largest is {} bytes); {} of the answers take more than they need",
            segments.p50,
            segments.expected_p50,
            segments.mss,
            percent(segments.above_expected?),
        ),
        (None, reads) => format!(
            "an answer{bytes} takes {:.2} reads, and {} of them begin with the head alone",
            reads.per_response,
            percent(reads.head_alone?),
        ),
    })
}

/// Whether most short answers leave in more than one write. By segments on TCP, where each is counted; else by reads, of which one
/// may bring two writes.
fn is_split(outcome: &Outcome) -> bool {
    match (outcome.segments, outcome.reads) {
        (Some(segments), _) => {
            segments.short_answers >= ANSWERS_MIN
                && segments.above_expected.is_some_and(|share| share >= MOST)
        }
        (None, Some(reads)) => {
            reads.head_alone.is_some_and(|share| share >= MOST)
                || reads.short_p50.is_some_and(|reads| reads >= 3.0)
        }
        (None, None) => false,
    }
}

/// Whether they leave in three writes or more.
fn is_in_pieces(outcome: &Outcome) -> bool {
    match (outcome.segments, outcome.reads) {
        (Some(segments), _) => segments.excess_p50.is_some_and(|excess| excess >= 2.0),
        (None, Some(reads)) => reads.short_p50.is_some_and(|reads| reads >= 3.0),
        (None, None) => false,
    }
}

/// Half of the answers: the rest may have waited for something else.
const MOST: f64 = 0.5;
/// A quarter of the answers. Acknowledgements are not delayed on a new connection, nor while data leaves in time.
const SLOW_SHARE: f64 = 0.25;
/// Fewer answers show nothing.
const ANSWERS_MIN: usize = 4;
/// A pause that is a wait and no chance.
const SLOW_US: f64 = 30_000.0;
