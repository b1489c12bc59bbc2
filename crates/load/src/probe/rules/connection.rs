//! How connections last, what order answers keep, and what holds them up.

use super::super::outcome::Outcome;
use super::super::verdict::Class;
use super::{Found, Rule, percent};
use crate::text::{counted, time};

pub(super) const RULES: &[Rule] = &[
    Rule {
        class: Class::NoKeepAlive,
        judge: no_keep_alive,
        why: "each request pays for a connection: a round trip more, two with TLS besides the handshake's CPU time, and a slow start",
        change: "keep connections open: no 'Connection: close' in answers, HTTP/1.1 instead of 1.0, and a length or chunks so that the end \
                 of a body needs no close",
    },
    Rule {
        class: Class::ShortKeepAlive,
        judge: short_keep_alive,
        why: "clients open connections again and again: a round trip each, and the handshake with TLS",
        change: "raise the number of requests that a connection may serve (nginx: keepalive_requests), or drop the limit",
    },
    Rule {
        class: Class::EarlyClose,
        judge: early_close,
        why: "the request that is on its way is lost, and no client may send one again by itself that is not idempotent: users see errors",
        change: "say 'Connection: close' in the last answer and close behind its last byte; find in the log why answers are cut",
    },
    Rule {
        class: Class::OutOfOrder,
        judge: out_of_order,
        why: "a client that sends several requests takes each answer for that of another request (RFC 9112 section 9.3.2)",
        change: "answer the requests of a connection in their order: one at a time, or with a queue of answers",
    },
    Rule {
        class: Class::UnaskedAnswers,
        judge: unasked_answers,
        why: "a client takes what is left for the answer to its next request, and each later answer for that of another one, perhaps of \
              another user (RFC 9112 section 9.2)",
        change: "answer each request once: look for an error handler or middleware that answers again, and for a body behind an answer that \
                 has none or is longer than its Content-Length",
    },
    Rule {
        class: Class::BlocksItsLoop,
        judge: blocks_its_loop,
        why: "while a handler blocks its event loop, all connections of that loop wait, however quick their own requests are",
        change: "move what blocks to a pool of threads (worker threads, spawn_blocking, a pool of handlers), or use its asynchronous form",
    },
    Rule {
        class: Class::ServerTimeDiffers,
        judge: server_time_differs,
        why: "the time between is spent before the server's clock starts or after it stops: in a queue, a proxy, a write that waits",
        change: "look at what is around the handler: queues and pools in front of it, middleware, proxies, how the answer is written",
    },
    Rule {
        class: Class::ListenOverflow,
        judge: listen_overflow,
        why: "a connection that finds the accept queue full is dropped, and its client tries again after one second, then two more",
        change: "raise the backlog (listen(2), nginx: listen ... backlog=) and net.core.somaxconn, and accept in a loop that nothing blocks",
    },
    Rule {
        class: Class::Retransmits,
        judge: retransmits,
        why: "a lost segment costs a round trip at best, and 200 ms or more if it was the last one",
        change: "look at the network: 'tc -s qdisc' and 'ethtool -S' show drops at this end, and a path that is too full drops elsewhere",
    },
    Rule {
        class: Class::SmallWindow,
        judge: small_window,
        why: "the client may send no more than the window in one round trip, so that requests with a body, and many at once, wait",
        change: "leave the receive buffer to the kernel: no SO_RCVBUF on the listening socket, and see net.ipv4.tcp_rmem; with HTTP/2 raise \
                 SETTINGS_INITIAL_WINDOW_SIZE (nginx: http2_body_preread_size)",
    },
];

fn no_keep_alive(outcome: &Outcome) -> Option<Found> {
    let connection = outcome.connection.as_ref()?;
    if connection.keep_alive || connection.closings.announced < CLOSINGS_MIN {
        return None;
    }
    Some(Found::problem(format!(
        "{} served one request each, and said that they close",
        counted(connection.closings.announced as u64, "connection")
    )))
}

fn short_keep_alive(outcome: &Outcome) -> Option<Found> {
    let connection = outcome.connection.as_ref()?;
    let until = connection.requests_until_close?;
    if !connection.keep_alive || connection.closings.announced == 0 || until >= LONG_ENOUGH {
        return None;
    }
    let evidence =
        format!("the server closes a connection after {}, and says so", counted(until as u64, "request"));
    Some(if until < VERY_SHORT { Found::warning(evidence) } else { Found::note(evidence) })
}

fn early_close(outcome: &Outcome) -> Option<Found> {
    let closings = outcome.connection.as_ref()?.closings;
    let in_pipeline =
        outcome.pipelining.as_ref().filter(|many| many.closed == Some(false) && !many.supported);
    let single = closings.unannounced + closings.cut;
    if single < CLOSINGS_MIN && in_pipeline.is_none() {
        return None;
    }
    let mut seen = Vec::new();
    if closings.unannounced > 0 {
        seen.push(format!(
            "{} ended between two answers without a word",
            counted(closings.unannounced as u64, "connection")
        ));
    }
    if closings.cut > 0 {
        seen.push(format!("{} inside an answer", counted(closings.cut as u64, "connection")));
    }
    if let Some(many) = in_pipeline {
        seen.push(format!(
            "{} of {} requests in one write were answered before the close",
            many.answered, many.requests
        ));
    }
    Some(Found::problem(seen.join(", ")))
}

fn out_of_order(outcome: &Outcome) -> Option<Found> {
    let pipelining = outcome.pipelining.as_ref()?;
    (pipelining.in_order == Some(false)).then(|| {
        Found::problem(format!(
            "the answers to {} in one write came in another order than the requests",
            counted(pipelining.requests as u64, "request")
        ))
    })
}

fn unasked_answers(outcome: &Outcome) -> Option<Found> {
    let is_more = outcome.connection.as_ref()?.unasked == Some(true);
    is_more.then(|| {
        Found::problem(
            "more came on a connection than was asked for: it was not empty behind the last answer"
                .to_owned(),
        )
    })
}

fn blocks_its_loop(outcome: &Outcome) -> Option<Found> {
    held_up_beside(outcome).or_else(|| held_up_by_single_requests(outcome))
}

/// By what /proc shows: nobody waited on an event loop for most of the time of slow requests, which came one after the other.
fn held_up_by_single_requests(outcome: &Outcome) -> Option<Found> {
    let latency = outcome.latency?.spread.p50;
    let seen = outcome.loops.as_ref()?.iter().max_by_key(|seen| seen.slept + seen.ran)?;
    let share = (seen.slept + seen.ran) as f64 / seen.looks.max(1) as f64;
    if latency < SLOW_SINGLE_US || seen.looks < LOOKS_MIN || share < HELD_UP_SHARE {
        return None;
    }
    let did = if seen.slept > seen.ran { "slept in another call" } else { "was running" };
    Some(Found::problem(format!(
        "while single requests of {} were under way, nobody waited on an event loop of process {} in {} of {} looks, and its thread {} {did}",
        time(latency),
        seen.pid,
        seen.slept + seen.ran,
        seen.looks,
        seen.tid,
    )))
}

/// By quick requests beside a slow one.
fn held_up_beside(outcome: &Outcome) -> Option<Found> {
    let seen = outcome.slow_path.as_ref()?;
    let (alone, beside) = (seen.alone?, seen.beside?);
    // What is no slower than a busy machine's hiccup shows nothing; nor does a quick path that is as slow.
    let is_slow = seen.slow >= SLOW_US && seen.slow >= 4.0 * alone.p50;
    if !is_slow || seen.held_up == 0 || beside.max < 4.0 * alone.p50 {
        return None;
    }
    Some(Found::problem(format!(
        "beside a request of {} to {}, quick requests on {} of {} waited up to {}, which take {} alone",
        time(seen.slow),
        seen.path,
        seen.held_up,
        counted(seen.connections as u64, "other connection"),
        time(beside.max),
        time(alone.p50),
    )))
}

fn server_time_differs(outcome: &Outcome) -> Option<Found> {
    let timing = outcome.server_timing?;
    let is_large = timing.unexplained_p50 >= UNEXPLAINED_US && timing.seen_p50 >= 2.0 * timing.said_p50;
    (timing.answers >= ANSWERS_MIN && is_large).then(|| {
        Found::warning(format!(
            "the server says {}, the wire says {}: {} are neither the server's nor the round trip (p50 of {} answers)",
            time(timing.said_p50),
            time(timing.seen_p50),
            time(timing.unexplained_p50),
            timing.answers,
        ))
    })
}

fn listen_overflow(outcome: &Outcome) -> Option<Found> {
    let many = outcome.many.as_ref()?;
    let connects = many.connect?;
    let late = many.slow_connects + many.connections.saturating_sub(many.opened);
    // Other connections were quick, so that it is not the way that is long.
    let is_queue = late >= LATE_MIN && connects.min < QUICK_CONNECT_US && outcome.listen_drops != Some(0);
    // On a lossy way SYNs are lost as well: then only the system's own count tells of a queue.
    let is_way = outcome.listen_drops.is_none() && retransmits(outcome).is_some();
    let is_queue = is_queue && !is_way;
    is_queue.then(|| {
        let drops = outcome.listen_drops.map_or_else(String::new, |drops| {
            format!("; the system counted {} of an accept queue meanwhile", counted(drops, "overflow"))
        });
        let backlogs = outcome.listeners.iter().flatten().filter_map(|listener| listener.backlog);
        let backlog =
            backlogs.min().map_or_else(String::new, |least| format!("; the backlog is {least}"));
        Found::problem(format!(
            "of {} connections at once {late} took 0.9 s or more to open, or did not open, while the quickest took {}{drops}{backlog}",
            many.connections,
            time(connects.min),
        ))
    })
}

fn retransmits(outcome: &Outcome) -> Option<Found> {
    let tcp = outcome.tcp?;
    let lost = tcp.retransmits + tcp.out_of_order_in.unwrap_or(0);
    let share = lost as f64 / tcp.data_segments.max(1) as f64;
    (lost >= LOST_MIN && share >= LOST_SHARE).then(|| {
        Found::warning(format!(
            "{} were sent again and {} came out of order, of {} data segments ({})",
            counted(tcp.retransmits, "segment"),
            tcp.out_of_order_in.map_or_else(|| "an unknown number".to_owned(), |count| count.to_string()),
            tcp.data_segments,
            percent(share),
        ))
    })
}

fn small_window(outcome: &Outcome) -> Option<Found> {
    let of_streams = outcome.http2.as_ref().map(|seen| seen.stream_window_bytes);
    if let Some(window) = of_streams.filter(|window| *window < WINDOW_MIN) {
        return Some(Found::warning(format!(
            "a new stream of HTTP/2 may send {} before the server says more",
            counted(window.into(), "byte")
        )));
    }
    let window = outcome.tcp?.peer_window_bytes?;
    (window < WINDOW_MIN).then(|| {
        Found::warning(format!(
            "the server's receive window is {window} bytes when it has nothing left to read"
        ))
    })
}

/// One connection that is closed may be a restart.
const CLOSINGS_MIN: usize = 2;
/// As many requests as nginx serves on a connection by default.
const LONG_ENOUGH: usize = 1000;
/// Fewer cost each page of a browser a connection.
const VERY_SHORT: usize = 20;
/// A hundred ms: far above what a busy machine adds to a quick request.
const SLOW_US: f64 = 100_000.0;
/// Five ms: quicker handlers are on the loop of most services, and a loop that computes for so long holds up many.
const SLOW_SINGLE_US: f64 = 5_000.0;
/// Fewer looks show nothing.
const LOOKS_MIN: u64 = 20;
/// With half of the time between requests in it, a loop is held up for nearly all of a request.
const HELD_UP_SHARE: f64 = 0.5;
/// What a busy machine adds to a request at worst, in the median.
const UNEXPLAINED_US: f64 = 10_000.0;
/// Fewer answers show nothing.
const ANSWERS_MIN: usize = 4;
/// One late connection may be a lost segment.
const LATE_MIN: usize = 2;
/// Half of the time after which a SYN is sent again.
const QUICK_CONNECT_US: f64 = 500_000.0;
/// Fewer lost segments are chance.
const LOST_MIN: u64 = 3;
/// From one in a hundred on, losses show in the latency.
const LOST_SHARE: f64 = 0.01;
/// Smaller than the smallest window that Linux, BSD, macOS or Windows begins with.
pub(super) const WINDOW_MIN: u32 = 8192;
