//! Single requests, one after the other on one connection: segments, reads, times, and how the connection ends.

use std::time::{Duration, SystemTime};

use anywire_http::Headers;
use anywire_http::date::parse_date;
use anywire_loops::clock::{after, precise};
use anywire_sys::tcp_info::TcpInfo;

use super::super::line::Line;
use super::super::link::{Answer, Fault, FaultKind, segment_bytes};
use super::super::measures::{
    Clock, Closings, ConnectionFacts, Gap, LatencyFacts, Reads, Segments, ServerTiming, TcpFacts,
};
use super::super::question::Question;
use super::super::spread::{Spread, median, micros, share};
use super::super::target::Target;
use crate::server_time::ServerTime;

/// What single requests have shown.
#[derive(Debug)]
pub(crate) struct Single {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) server: Option<String>,
    pub(crate) connection: ConnectionFacts,
    pub(crate) segments: Option<Segments>,
    pub(crate) reads: Reads,
    pub(crate) gap: Gap,
    pub(crate) latency: LatencyFacts,
    pub(crate) tcp: Option<TcpFacts>,
    pub(crate) clock: Option<Clock>,
    pub(crate) server_timing: Option<ServerTiming>,
    /// Whether the server is this host: both ends of the connection have one IP address.
    pub(crate) is_local: bool,
}

/// Makes them. Connections that end are opened anew, a few times.
///
/// # Errors
///
/// There was not one answer, and why.
pub(crate) async fn single(target: &Target) -> Result<Single, Fault> {
    let mut series = Series::begin(target).await?;
    let begun = precise();
    while series.samples.len() < target.plan.requests && !target.is_over(begun) {
        if !series.step(target).await {
            break;
        }
    }
    if series.slow_pauses().is_some_and(|share| share >= PAUSES_TO_TRY) && series.line.is_some() {
        series.acknowledge_at_once(target).await;
    }
    series.look_behind_the_answers().await;
    series.summed_up()
}

/// The requests so far.
struct Series {
    /// `None` once no more are to be opened.
    line: Option<Line>,
    question: Question,
    connect: Duration,
    tls: Option<Duration>,
    alpn: Option<String>,
    is_local: bool,
    is_http2: bool,
    samples: Vec<Sample>,
    /// Answers while this end acknowledged at once.
    at_once: Vec<Answer>,
    closings: Closings,
    opened: usize,
    requests_until_close: Option<usize>,
    served_several: bool,
    retransmits: u64,
    out_of_order: Option<u64>,
    data_segments: u64,
    tcp: Option<TcpInfo>,
    first_fault: Option<Fault>,
    unasked: Option<bool>,
}

/// An answer, as far as it is counted.
struct Sample {
    answer: Answer,
    /// On a new connection, whose first answer comes with what TLS has to say, and while TCP acknowledges everything at once.
    is_first: bool,
    skew: Option<f64>,
    said: Option<Duration>,
    rtt: Option<Duration>,
}

impl Sample {
    fn is_short(&self) -> bool {
        self.answer.bytes <= SHORT_BYTES
    }
}

impl Series {
    async fn begin(target: &Target) -> Result<Self, Fault> {
        let line = target.open().await?;
        let connection = line.connection();
        let alpn = connection.negotiated().and_then(|agreed| agreed.protocol.clone());
        let is_local = connection.local().ip().is_some_and(|ip| Some(ip) == connection.peer().ip());
        Ok(Self {
            connect: line.connect(),
            tls: line.tls(),
            alpn,
            is_local,
            is_http2: matches!(line, Line::Http2(_)),
            line: Some(line),
            question: target.get(),
            samples: Vec::new(),
            at_once: Vec::new(),
            closings: Closings::default(),
            opened: 1,
            requests_until_close: None,
            served_several: false,
            retransmits: 0,
            out_of_order: None,
            data_segments: 0,
            tcp: None,
            first_fault: None,
            unasked: None,
        })
    }

    /// One request. Whether there can be another one.
    async fn step(&mut self, target: &Target) -> bool {
        let Some(line) = &mut self.line else { return false };
        let is_first = line.answers() == 0;
        match line.exchange(&self.question, target.patience()).await {
            Ok(answer) => {
                self.served_several |= line.answers() > 1;
                let keep_alive = answer.keep_alive;
                let rtt = line.tcp().map(|tcp| tcp.round_trip);
                self.samples.push(Sample {
                    is_first,
                    skew: skew(&answer.headers, SystemTime::now()),
                    said: server_time(&answer.headers),
                    rtt,
                    answer,
                });
                if keep_alive {
                    return true;
                }
                self.closings.announced += 1;
            }
            Err(fault) => {
                match fault.kind {
                    FaultKind::Left => self.closings.announced += 1,
                    FaultKind::Closed => self.closings.unannounced += 1,
                    FaultKind::Cut => self.closings.cut += 1,
                    FaultKind::Timeout => self.closings.timeouts += 1,
                    FaultKind::Parse | FaultKind::Dial => self.closings.refused += 1,
                }
                self.first_fault.get_or_insert(fault);
            }
        }
        self.reopen(target).await
    }

    /// The connection is over: another one, unless there were enough.
    async fn reopen(&mut self, target: &Target) -> bool {
        self.leave();
        let closings = &self.closings;
        if self.opened >= CONNECTIONS_MAX || closings.timeouts + closings.refused >= FAULTS_MAX {
            return false;
        }
        match target.open().await {
            Ok(line) => self.line = Some(line),
            Err(fault) => {
                self.first_fault.get_or_insert(fault);
                return false;
            }
        }
        self.opened += 1;
        true
    }

    /// Counts what the connection has seen, and drops it.
    fn leave(&mut self) {
        let Some(line) = self.line.take() else { return };
        let answers = line.answers();
        self.requests_until_close =
            Some(self.requests_until_close.map_or(answers, |least| least.min(answers)));
        self.count(&line);
    }

    fn count(&mut self, line: &Line) {
        let Some(tcp) = line.tcp() else { return };
        self.retransmits += u64::from(tcp.retransmits);
        let out_of_order = tcp.out_of_order_in.map(u64::from);
        self.out_of_order = out_of_order.map(|count| count + self.out_of_order.unwrap_or(0));
        self.data_segments += u64::from(tcp.data_segments_in) + u64::from(tcp.data_segments_out);
        self.tcp = Some(tcp);
    }

    /// The share of short answers that paused in their middle.
    fn slow_pauses(&self) -> Option<f64> {
        slow_pauses(self.samples.iter().filter(|sample| sample.is_short()).map(|sample| &sample.answer))
    }

    /// A few requests while this end acknowledges at once: if the pauses vanish, the server waits for acknowledgements.
    async fn acknowledge_at_once(&mut self, target: &Target) {
        let begun = precise();
        let Some(line) = &mut self.line else { return };
        line.acknowledge_at_once();
        while self.at_once.len() < TRIALS && !target.is_over(begun) {
            match line.exchange(&self.question, target.patience()).await {
                Ok(answer) if answer.keep_alive => self.at_once.push(answer),
                _ => return,
            }
        }
    }

    /// Whether answers are left behind the last one. They answer earlier requests, so that they have come by now.
    async fn look_behind_the_answers(&mut self) {
        let Some(line) = &mut self.line else { return };
        self.unasked = Some(line.says_more(after(precise(), LOOK_BEHIND)).await);
    }

    fn summed_up(mut self) -> Result<Single, Fault> {
        if let Some(line) = self.line.take() {
            self.count(&line);
        }
        let Some(last) = self.samples.last() else {
            let nothing = || Fault {
                kind: FaultKind::Timeout,
                message: "the probe was ended before the first answer".into(),
            };
            return Err(self.first_fault.unwrap_or_else(nothing));
        };
        let (status, body_bytes) = (last.answer.status.as_u16(), last.answer.body_bytes);
        let server = last.answer.headers.get("server").map(str::to_owned);
        // First answers of connections are counted only if there are hardly any others.
        let later: Vec<&Sample> = self.samples.iter().filter(|sample| !sample.is_first).collect();
        let counted = if later.len() >= COUNTED_MIN { later } else { self.samples.iter().collect() };
        // With TLS a first answer comes with tickets of the session, and over HTTP/2 with settings.
        let has_extra = self.tls.is_some() || self.is_http2;
        Ok(Single {
            status,
            body_bytes,
            server,
            connection: ConnectionFacts {
                connect: micros(self.connect),
                tls: self.tls.map(micros),
                alpn: self.alpn,
                keep_alive: self.served_several,
                requests_until_close: self.requests_until_close,
                closings: self.closings,
                unasked: self.unasked,
            },
            segments: self.tcp.as_ref().and_then(|tcp| segments(&counted, tcp, has_extra)),
            reads: reads(&counted),
            gap: gap(&counted, &self.at_once),
            latency: latency(&counted).ok_or_else(|| Fault {
                kind: FaultKind::Timeout,
                message: "the probe was ended before the first answer".into(),
            })?,
            tcp: self.tcp.map(|tcp| TcpFacts {
                retransmits: self.retransmits,
                out_of_order_in: self.out_of_order,
                data_segments: self.data_segments,
                rtt: micros(tcp.round_trip),
                rttvar: micros(tcp.round_trip_variance),
                cwnd: tcp.congestion_window,
                delivery_rate: tcp.delivery_rate,
                busy: tcp.busy.map(micros),
                rwnd_limited: tcp.window_limited.map(micros),
                sndbuf_limited: tcp.send_buffer_limited.map(micros),
                peer_window_bytes: tcp.peer_window_bytes,
            }),
            clock: clock(&self.samples),
            server_timing: server_timing(&counted),
            is_local: self.is_local,
        })
    }
}

/// `has_extra`: first answers come with something else.
fn segments(samples: &[&Sample], tcp: &TcpInfo, has_extra: bool) -> Option<Segments> {
    let counted = samples.iter().filter(|sample| !(has_extra && sample.is_first));
    let counted: Vec<_> = counted.filter_map(|sample| Some((sample, sample.answer.on_wire?))).collect();
    let count = counted.len();
    let data_in: u64 = counted.iter().map(|(_, wire)| u64::from(wire.segments)).sum();
    let expected: u64 = counted.iter().map(|(_, wire)| u64::from(wire.expected)).sum();
    let short: Vec<_> = counted.iter().filter(|(sample, _)| sample.is_short()).collect();
    let above = short.iter().filter(|(_, wire)| wire.segments > wire.expected).count();
    let excess = short.iter().map(|(_, wire)| f64::from(wire.segments) - f64::from(wire.expected));
    Some(Segments {
        data_in,
        per_response: share(data_in as usize, count)?,
        p50: median(counted.iter().map(|(_, wire)| f64::from(wire.segments)))?,
        expected: share(expected as usize, count)?,
        expected_p50: median(counted.iter().map(|(_, wire)| f64::from(wire.expected)))?,
        mss: segment_bytes(tcp),
        short_answers: short.len(),
        above_expected: share(above, short.len()),
        excess_p50: median(excess),
    })
}

fn reads(samples: &[&Sample]) -> Reads {
    let all: usize = samples.iter().map(|sample| sample.answer.reads).sum();
    let partial = samples.iter().filter(|sample| sample.answer.reads > 1).count();
    let short = || samples.iter().filter(|sample| sample.is_short());
    let with_body = || short().filter(|sample| sample.answer.body_bytes > 0);
    Reads {
        per_response: share(all, samples.len()).unwrap_or(0.0),
        short_p50: median(short().map(|sample| sample.answer.reads as f64)),
        head_alone: share(with_body().filter(|sample| sample.answer.head_alone).count(), with_body().count()),
        partial: share(partial, samples.len()).unwrap_or(0.0),
    }
}

fn gap(samples: &[&Sample], at_once: &[Answer]) -> Gap {
    let short = || samples.iter().filter(|sample| sample.is_short()).map(|sample| &sample.answer);
    Gap {
        head_to_body: Spread::of(samples.iter().filter_map(|sample| sample.answer.gap)),
        between_reads: Spread::of(samples.iter().filter_map(|sample| sample.answer.pause)),
        over_30ms: slow_pauses(short()),
        over_30ms_acknowledged_at_once: slow_pauses(at_once.iter()),
        p50_acknowledged_at_once: median(at_once.iter().filter_map(|answer| answer.pause).map(micros)),
    }
}

/// The share of answers that paused in their middle.
fn slow_pauses<'a>(answers: impl Iterator<Item = &'a Answer> + Clone) -> Option<f64> {
    let slow = answers.clone().filter(|answer| answer.pause.is_some_and(|pause| pause >= SLOW_PAUSE));
    share(slow.count(), answers.count())
}

fn latency(samples: &[&Sample]) -> Option<LatencyFacts> {
    let times = || samples.iter().map(|sample| sample.answer.latency());
    let within = |from, to| {
        let is_in = |time: &Duration| (from..=to).contains(&time.as_millis());
        share(times().filter(is_in).count(), samples.len())
    };
    Some(LatencyFacts {
        spread: Spread::of(times())?,
        cluster_40ms: within(38, 45)?,
        cluster_200ms: within(195, 230)?,
    })
}

/// The smallest skew: a date may be a second old when it is sent.
fn clock(samples: &[Sample]) -> Option<Clock> {
    let skews = samples.iter().filter_map(|sample| sample.skew);
    let skew_seconds = skews.min_by(|one, other| one.abs().total_cmp(&other.abs()))?;
    Some(Clock { skew_seconds })
}

/// How far the `Date` is ahead of this time, in seconds.
fn skew(headers: &Headers, now: SystemTime) -> Option<f64> {
    let date = parse_date(headers.get_bytes("date")?, now)?;
    Some(match date.duration_since(now) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    })
}

fn server_timing(samples: &[&Sample]) -> Option<ServerTiming> {
    let timed = || samples.iter().filter_map(|sample| Some((sample, sample.said?)));
    let unexplained = |(sample, said): (&&Sample, Duration)| {
        micros(sample.answer.latency().saturating_sub(said).saturating_sub(sample.rtt.unwrap_or_default()))
    };
    Some(ServerTiming {
        answers: timed().count(),
        said_p50: median(timed().map(|(_, said)| micros(said)))?,
        seen_p50: median(timed().map(|(sample, _)| micros(sample.answer.latency())))?,
        unexplained_p50: median(timed().map(unexplained))?,
    })
}

/// The time that `Server-Timing` tells, as a load reads it.
fn server_time(headers: &Headers) -> Option<Duration> {
    ServerTime::new(None).of(headers.iter())
}

/// Answers of up to this size are short: no server has a reason to send them in parts.
const SHORT_BYTES: u64 = 16 << 10;
/// A pause within an answer from here on is a wait and no chance: a delayed acknowledgement takes 40 ms.
const SLOW_PAUSE: Duration = Duration::from_millis(30);
/// With this share of pauses it is tried whether they vanish if this end acknowledges at once.
const PAUSES_TO_TRY: f64 = 0.2;
/// How long the last answer may be the last one. No server is idle for so short a time that it says good-bye.
const LOOK_BEHIND: Duration = Duration::from_millis(20);
/// Answers of that trial.
const TRIALS: usize = 16;
/// Connections that are opened anew at most: enough to know how they end.
const CONNECTIONS_MAX: usize = 16;
/// Answers that are late, or none, after which no more are asked for.
const FAULTS_MAX: usize = 2;
/// With so many later answers the first ones of connections are left out.
const COUNTED_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(values: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in values {
            headers.append(name, value).expect("valid in this test");
        }
        headers
    }

    #[test]
    fn a_date_is_compared_with_our_clock() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let of = |date| skew(&fields(&[("date", date)]), now);
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0.0));
        assert_eq!(of("Sun, 06 Nov 1994 09:49:37 GMT"), Some(3600.0));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:27 GMT"), Some(-10.0));
        assert_eq!((of("yesterday"), skew(&fields(&[]), now)), (None, None));
    }

    proptest! {
        #[test]
        fn any_date_and_any_time_are_read_or_unknown(
            date in "[ -~]{0,40}|(Mon|Sun), [0-9]{2} (Feb|Nov) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT", timing in "[ -~]{0,60}",
        ) {
            let headers = fields(&[("date", &date), ("server-timing", &timing)]);
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
            prop_assert!(skew(&headers, now).is_none_or(f64::is_finite));
            let _ = server_time(&headers);
        }
    }
}
