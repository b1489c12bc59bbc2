//! The figures of an outcome that are one number each.

use super::{Figure, NO_ANSWER, Unit, Whole};
use crate::outcome::Outcome;

/// All figures that are no latencies, in the order in which they are listed.
pub const FIGURES: &[Figure] = &[
    Figure {
        heading: "requests/s",
        unit: Unit::PerSecond,
        unknown: NOTHING_MEASURED,
        ..figure(
            "rate.achieved",
            "rate",
            "Responses per second of the measured part; with a rate, requests that left in it.",
            |outcome| outcome.rate.achieved,
        )
    },
    Figure {
        unit: Unit::Ratio,
        unknown: "requests left when answers came, and not by a schedule",
        ..figure(
            "rate.rate_ratio",
            "rate_ratio",
            "The share of the requests due that had left by the end of the measured part.",
            |outcome| outcome.rate.rate_ratio,
        )
    },
    Figure {
        unit: Unit::Seconds,
        ..figure("rate.seconds", "seconds", "Length of the measured part.", |outcome| {
            Some(outcome.rate.seconds)
        })
    },
    of_sent("totals.errors", "errors", "Errors of all kinds; the JSON has them by kind.", |outcome| {
        count(outcome.totals.measured.errors.total())
    }),
    figure("totals.sent", "sent", "Requests that left in the measured part.", |outcome| {
        count(outcome.totals.measured.sent)
    }),
    of_sent("totals.answered", "answered", "Requests whose whole response came.", |outcome| {
        count(outcome.totals.measured.answered)
    }),
    of_sent("totals.timed_out", "timed_out", "Requests that waited longer than the timeout.", |outcome| {
        count(outcome.totals.measured.timed_out)
    }),
    of_sent(
        "totals.reset",
        "reset",
        "Requests whose stream was reset or refused; only over HTTP/2.",
        |outcome| count(outcome.totals.measured.reset),
    ),
    of_sent(
        "totals.unanswered_at_close",
        "unanswered_at_close",
        "Requests that were lost with a connection that ended.",
        |outcome| count(outcome.totals.measured.unanswered_at_close),
    ),
    of_sent(
        "totals.sent_again",
        "sent_again",
        "How often a request was taken back to be sent once more, because the peer had announced not to act on it.",
        |outcome| count(outcome.totals.measured.sent_again),
    ),
    of_sent(
        "totals.unanswered_at_end",
        "unanswered_at_end",
        "Requests on their way when the run ended, which are no errors.",
        |outcome| count(outcome.totals.measured.unanswered_at_end),
    ),
    figure("totals.connections.opened", "connections.opened", "Connections opened in all.", |outcome| {
        count(outcome.totals.connections.opened)
    }),
    figure(
        "totals.connections.lost",
        "connections.lost",
        "Connections that ended before the run did.",
        |outcome| count(outcome.totals.connections.lost),
    ),
    figure(
        "totals.connections.given_up",
        "connections.given_up",
        "Connections given up after too many failures in a row.",
        |outcome| count(outcome.totals.connections.given_up),
    ),
    figure(
        "totals.connections.never_open",
        "connections.never_open",
        "Connections of the plan that were not open at any time.",
        |outcome| count(outcome.totals.connections.never_open),
    ),
    Figure {
        unit: Unit::Bytes,
        ..figure(
            "totals.bytes_out",
            "bytes_out",
            "Bytes of the requests that the wire has taken.",
            |outcome| count(outcome.totals.bytes_out),
        )
    },
    Figure {
        unit: Unit::Bytes,
        ..figure("totals.bytes_in", "bytes_in", "Bytes of the whole responses.", |outcome| {
            count(outcome.totals.bytes_in)
        })
    },
    Figure {
        unit: Unit::Bytes,
        ..figure("totals.body_bytes_in", "body_bytes_in", "Bytes of the bodies among these.", |outcome| {
            count(outcome.totals.body_bytes_in)
        })
    },
    Figure {
        heading: "client CPU us/request",
        unit: Unit::Us,
        unknown: "no request was answered, or the CPU time of the loops could not be read",
        ..figure(
            "generator.cpu_us_per_request",
            "cpu/request",
            "CPU time of the generator's loops per response, user and system.",
            |outcome| outcome.generator.cpu_us_per_request,
        )
    },
    Figure {
        heading: "system calls/request",
        unit: Unit::PerRequest,
        unknown: "system calls were not counted (--count-calls), or the system forbids it",
        ..figure(
            "generator.syscalls_per_request",
            "syscalls/request",
            "System calls of the generator's loops per response.",
            |outcome| outcome.generator.syscalls_per_request,
        )
    },
    Figure {
        unknown: "the system does not say",
        ..figure(
            "generator.voluntary_switches",
            "voluntary_switches",
            "How often the generator's loops left their cores because they had to wait.",
            |outcome| outcome.generator.voluntary_switches.map(|count| count as f64),
        )
    },
    Figure {
        unknown: "the system does not say",
        ..figure(
            "generator.involuntary_switches",
            "involuntary_switches",
            "How often the scheduler gave the cores of the generator's loops to another thread.",
            |outcome| outcome.generator.involuntary_switches.map(|count| count as f64),
        )
    },
    Figure {
        heading: "segments/response",
        unit: Unit::PerRequest,
        unknown: NO_SEGMENTS,
        ..figure(
            "wire.segments_per_response",
            "segments/response",
            "Data segments that arrived per response; more than expected if the server splits its writes.",
            |outcome| outcome.wire.segments_per_response,
        )
    },
    Figure {
        heading: "expected segments/response",
        unit: Unit::PerRequest,
        unknown: NO_SEGMENTS,
        ..figure(
            "wire.expected_segments_per_response",
            "expected_segments/response",
            "Data segments that a response of that length needs.",
            |outcome| outcome.wire.expected_segments_per_response,
        )
    },
    Figure {
        unknown: NO_SEGMENTS,
        ..figure("wire.retransmits", "retransmits", "Segments that the generator sent again.", |outcome| {
            outcome.wire.retransmits.map(|count| count as f64)
        })
    },
    Figure {
        unit: Unit::Us,
        unknown: NO_SEGMENTS,
        ..figure(
            "wire.round_trip_us",
            "rtt",
            "The round trip as the kernel smoothes it, mean of all connections at the end.",
            |outcome| outcome.wire.round_trip_us,
        )
    },
    Figure {
        unit: Unit::Ratio,
        ..figure(
            "balance",
            "balance",
            "The busiest loop's responses over the mean of all loops; 1 is even.",
            |outcome| outcome.balance,
        )
    },
];

/// A count that is always known, or a figure that is unknown without a response.
const fn figure(
    path: &'static str,
    name: &'static str,
    meaning: &'static str,
    value: fn(&Outcome) -> Option<f64>,
) -> Figure {
    Figure { path, name, heading: name, unit: Unit::Count, meaning, unknown: NO_ANSWER, whole: None, value }
}

/// A count whose share is of the requests sent.
const fn of_sent(
    path: &'static str,
    name: &'static str,
    meaning: &'static str,
    value: fn(&Outcome) -> Option<f64>,
) -> Figure {
    Figure { whole: Some(Whole::Sent), ..figure(path, name, meaning, value) }
}

fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

const NO_SEGMENTS: &str = "no response came, or the wire has no segments: only tcp and tls do";
const NOTHING_MEASURED: &str = "the run ended before anything was measured";
