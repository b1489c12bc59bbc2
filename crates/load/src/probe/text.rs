//! The outcome as text: the verdicts first, then what was measured, a line each.

use std::fmt;

use super::measures::{LatencyFacts, Many, Pipelining};
use super::outcome::Outcome;
use super::server::{Server, Softirq};
use super::spread::Spread;
use super::verdict::Class;
use crate::text::{counted, time, whole};

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        writeln!(f, "{} over {} ({}){}", target.url, target.address, target.protocol, answer(self))?;
        writeln!(f, "{}", self.host.line())?;
        if self.interrupted {
            writeln!(f, "interrupted: what was measured until then")?;
        }
        for verdict in &self.verdicts {
            writeln!(f)?;
            if verdict.class == Class::Clean {
                writeln!(f, "clean: {}", verdict.evidence)?;
                continue;
            }
            writeln!(f, "{} {}: {}", verdict.severity, verdict.class, verdict.evidence)?;
            writeln!(f, "  why     {}", verdict.why)?;
            writeln!(f, "  change  {}", verdict.change)?;
        }
        writeln!(f)?;
        for (what, line) in lines(self) {
            writeln!(f, "  {what:<11} {line}")?;
        }
        for missing in &self.missing {
            writeln!(f, "  no {}: {}", missing.what, missing.why)?;
            if let Some(help) = &missing.help {
                writeln!(f, "     {help}")?;
            }
        }
        Ok(())
    }
}

fn answer(outcome: &Outcome) -> String {
    let target = &outcome.target;
    let server =
        target.server.as_deref().map_or_else(String::new, |server| format!(" by {}", server.escape_debug()));
    match (target.status, target.body_bytes) {
        (Some(status), Some(bytes)) => format!(": {status}, {} bytes{server}", whole(bytes as f64)),
        (Some(status), None) => format!(": {status}{server}"),
        _ => String::new(),
    }
}

/// What was measured, by name.
fn lines(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let mut line = |what, text: Option<String>| lines.extend(text.map(|text| (what, text)));
    line("connection", connection(outcome));
    line("latency", outcome.latency.map(|seen| latency(&seen)));
    line("segments", segments(outcome));
    line(
        "reads",
        outcome.reads.map(|reads| {
            let alone = reads
                .head_alone
                .map_or_else(String::new, |share| format!("; the head came alone in {}", percent(share)));
            format!("{:.2} an answer{alone}", reads.per_response)
        }),
    );
    line(
        "head, body",
        outcome.gap.and_then(|gap| gap.head_to_body).map(|gap| format!("apart by {}", spread(&gap))),
    );
    // Where the head comes alone, the line above has it.
    let pauses = outcome.gap.filter(|gap| gap.head_to_body.is_none()).and_then(|gap| gap.between_reads);
    line("pauses", pauses.map(|pauses| format!("between reads of an answer {}", spread(&pauses))));
    line("tcp", tcp(outcome));
    line("pipeline", outcome.pipelining.as_ref().map(pipelining));
    line("many", outcome.many.as_ref().map(many));
    line(
        "head",
        outcome.head.as_ref().map(|head| {
            let length = match head.same_length {
                Some(true) => ", the length of GET",
                Some(false) => ", another length than GET",
                None => "",
            };
            let body = if head.has_body { ", and a body behind it, which breaks the connection" } else { "" };
            format!("{}{length}{body}", head.status)
        }),
    );
    line(
        "compression",
        outcome.compression.as_ref().map(|seen| match &seen.coding {
            Some(coding) => format!(
                "{}: {} bytes instead of {}",
                coding.escape_debug(),
                seen.body_bytes,
                seen.plain_bytes
            ),
            None => format!("none of {} was chosen", seen.offered),
        }),
    );
    line(
        "expect",
        outcome.expect.as_ref().map(|seen| match (seen.continue_after, seen.status) {
            (Some(after), _) => format!("100 Continue after {}", time(after)),
            (None, Some(status)) if seen.answered_without_body => {
                format!("{status}, without waiting for the body")
            }
            (None, Some(status)) => {
                format!("no 100 Continue within 1 s, which clients wait for; {status} to the body")
            }
            (None, None) => "no 100 Continue and no answer".to_owned(),
        }),
    );
    line(
        "large",
        outcome.large.as_ref().map(|large| {
            format!(
                "{} bytes at {} MB/s",
                whole(large.body_bytes as f64),
                whole(large.bytes_per_second / 1e6)
            )
        }),
    );
    line(
        "slow reader",
        outcome.slow_reader.as_ref().map(|seen| match &seen.failure {
            None => format!("waited {}, and got all of it", time(seen.pause)),
            Some(failure) => format!("waited {}, and then: {failure}", time(seen.pause)),
        }),
    );
    line(
        "slow path",
        outcome.slow_path.as_ref().map(|seen| {
            format!(
                "{} took {}; {} of {} others were held up",
                seen.path,
                time(seen.slow),
                seen.held_up,
                seen.connections
            )
        }),
    );
    line("clock", outcome.clock.map(|clock| format!("{:+.1} s beside ours", clock.skew_seconds)));
    line(
        "server says",
        outcome
            .server_timing
            .map(|timing| format!("{}, the wire {} (p50)", time(timing.said_p50), time(timing.seen_p50))),
    );
    line("tls", tls(outcome));
    line("http/2", http2(outcome));
    if let Some(server) = &outcome.server {
        lines.extend(process(server));
    }
    let mut line = |what, text: Option<String>| lines.extend(text.map(|text| (what, text)));
    line("queue", queue(outcome));
    line(
        "overflows",
        outcome
            .listen_drops
            .map(|drops| format!("{} of accept queues in this namespace", whole(drops as f64))),
    );
    lines
}

fn connection(outcome: &Outcome) -> Option<String> {
    let connection = outcome.connection.as_ref()?;
    let tls = connection.tls.map_or_else(String::new, |tls| format!(", TLS {}", time(tls)));
    let kept = match (connection.keep_alive, connection.requests_until_close) {
        (true, None) => "kept open".to_owned(),
        (_, Some(until)) => format!("closed after {}", counted(until as u64, "request")),
        (false, None) => "not used twice".to_owned(),
    };
    Some(format!("made in {}{tls}; {kept}", time(connection.connect)))
}

fn latency(latency: &LatencyFacts) -> String {
    let near = |share: f64, what: &str| match share >= CLUSTER_SHOWN {
        true => format!("; {} near {what}", percent(share)),
        false => String::new(),
    };
    let clusters = [near(latency.cluster_40ms, "40 ms"), near(latency.cluster_200ms, "200 ms")];
    format!("{}{}", spread(&latency.spread), clusters.concat())
}

fn segments(outcome: &Outcome) -> Option<String> {
    let segments = outcome.segments?;
    Some(format!(
        "{:.2} an answer, {:.2} expected, of at most {} bytes",
        segments.per_response, segments.expected, segments.mss
    ))
}

fn tcp(outcome: &Outcome) -> Option<String> {
    let tcp = outcome.tcp?;
    let window = tcp
        .peer_window_bytes
        .map_or_else(String::new, |bytes| format!(", the server's window {} bytes", whole(bytes.into())));
    Some(format!("round trip {}, {}{window}", time(tcp.rtt), counted(tcp.retransmits, "retransmit")))
}

/// The longest of the accept queues.
fn queue(outcome: &Outcome) -> Option<String> {
    let longest = outcome.listeners.as_ref()?.iter().max_by_key(|listener| listener.accept_queue)?;
    Some(format!(
        "at most {} waited to be accepted at {}, of {}",
        counted(longest.accept_queue.into(), "connection"),
        longest.address,
        counted(longest.looks, "look"),
    ))
}

fn pipelining(seen: &Pipelining) -> String {
    let order = match seen.in_order {
        Some(true) => "in order",
        Some(false) => "out of order",
        None => "all alike, so that their order is unknown",
    };
    let segments =
        seen.segments.map_or_else(String::new, |segments| format!(" in {}", counted(segments, "segment")));
    format!("{} of {} answered{segments}, {order}", seen.answered, seen.requests)
}

fn many(many: &Many) -> String {
    let connect =
        many.connect.map_or_else(String::new, |connect| format!(", opened in {} (max)", time(connect.max)));
    let latency = many.latency.map_or_else(String::new, |latency| format!("; {}", spread(&latency)));
    let failed = match (many.failed, &many.first_failure) {
        (0, _) | (_, None) => String::new(),
        (count, Some(first)) => format!("; {} (first: {first})", counted(count as u64, "failure")),
    };
    format!(
        "{} of {} connections{connect}; {} answers{latency}{failed}",
        many.opened,
        many.connections,
        whole(many.answered as f64)
    )
}

fn tls(outcome: &Outcome) -> Option<String> {
    let tls = outcome.tls.as_ref()?;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let days =
        tls.days_left.map_or_else(String::new, |days| format!("; the certificate ends in {days:.0} days"));
    let spoken = tls.versions.as_ref().filter(|versions| versions.len() > 1);
    let spoken =
        spoken.map_or_else(String::new, |versions| format!(" (of {} that it speaks)", versions.join(", ")));
    Some(format!(
        "{}{spoken}, {}; {} of {} later connections resumed{days}",
        known(&tls.version),
        known(&tls.cipher_suite),
        tls.resumed,
        tls.offered
    ))
}

fn http2(outcome: &Outcome) -> Option<String> {
    let seen = outcome.http2.as_ref()?;
    let streams =
        seen.max_streams.map_or_else(|| "any number of".to_owned(), |streams| whole(streams as f64));
    let ping = seen.ping.map_or_else(String::new, |ping| format!(", PING {}", time(ping)));
    Some(format!(
        "{streams} streams, windows of {} and {} bytes, settings after {}{ping}{}",
        whole(seen.stream_window_bytes.into()),
        whole(seen.connection_window_bytes as f64),
        time(seen.settings),
        seen.latency.map_or_else(String::new, |latency| format!("; {}", spread(&latency))),
    ))
}

fn process(server: &Server) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(calls) = &server.syscalls_per_request {
        let mut sorted: Vec<_> = calls.iter().collect();
        sorted.sort_by(|one, other| other.1.total_cmp(one.1));
        let each: Vec<_> = sorted.iter().map(|(name, count)| format!("{count:.2} {name}")).collect();
        lines.push(("calls", format!("{:.1} a request: {}", calls.values().sum::<f64>(), each.join(", "))));
    }
    if let Some(cpu) = server.cpu_us_per_request {
        let split = cpu
            .user
            .zip(cpu.sys)
            .map_or_else(String::new, |(user, sys)| format!(" ({} user, {} system)", time(user), time(sys)));
        lines.push(("cpu", format!("{} a request{split}", time(cpu.total))));
    }
    if let (Some(voluntary), Some(involuntary)) =
        (server.voluntary_switches_per_request, server.involuntary_switches_per_request)
    {
        lines.push((
            "switches",
            format!("{voluntary:.2} voluntary and {involuntary:.2} involuntary a request"),
        ));
    }
    let busy: Vec<_> = server.threads.iter().filter(|thread| thread.cpu > 0.0).collect();
    if !busy.is_empty() {
        let shown: Vec<_> = busy
            .iter()
            .take(THREADS_SHOWN)
            .map(|thread| format!("{} {}", thread.name.escape_debug(), percent(thread.share)))
            .collect();
        let more = busy.len().saturating_sub(THREADS_SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        lines.push(("threads", format!("{}{more}", shown.join(", "))));
    }
    if let Some(seen) = &server.softirq {
        lines.push(("softirq", softirq(seen)));
    }
    lines
}

fn softirq(seen: &Softirq) -> String {
    let mut cores: Vec<_> = seen.cores.iter().filter(|core| core.softirq > 0.0).collect();
    cores.sort_by(|one, other| other.softirq.total_cmp(&one.softirq));
    let each: Vec<_> = cores
        .iter()
        .take(CORES_SHOWN)
        .map(|core| format!("core {} {}", core.core, time(core.softirq)))
        .collect();
    let more = cores.len().saturating_sub(CORES_SHOWN);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let each = if each.is_empty() { String::new() } else { format!(" ({}{more})", each.join(", ")) };
    let local =
        if seen.is_local { "; client and server are on one host, so that half is the client's" } else { "" };
    let others = if seen.others > 0.0 {
        format!("; other processes used {}, and some of it may be theirs", time(seen.others))
    } else {
        String::new()
    };
    format!("{}{each} beside {} of the process{local}{others}", time(seen.softirq), time(seen.process))
}

fn spread(spread: &Spread) -> String {
    format!("p50 {}, p99 {}, max {}", time(spread.p50), time(spread.p99), time(spread.max))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Threads in one line.
const THREADS_SHOWN: usize = 6;
/// Cores in one line.
const CORES_SHOWN: usize = 4;
/// A smaller share of answers near a time is chance.
const CLUSTER_SHOWN: f64 = 0.05;
