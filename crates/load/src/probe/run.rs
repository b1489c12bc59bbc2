//! The probe from its start to its verdicts: all patterns, then once more those of which a rule has something to say.

use std::collections::BTreeSet;
use std::rc::Rc;

use anywire_advice::Message;
use anywire_loops::Loops;

use super::error::ProbeError;
use super::link::{Fault, FaultKind};
use super::loops;
use super::outcome::{Missing, Outcome};
use super::plan::Plan;
use super::queues::{self, QueueWatch};
use super::rules;
use super::server::{self, Moment};
use super::target::Target;
use super::verdict::Class;
use super::{measures::SlowPath, patterns};
use crate::protocol::Protocol;

/// Probes a service from the first of these loops, and waits for the outcome.
///
/// Takes a second or two with a quick service, and never longer than its deadlines add up to. Blocks the thread.
///
/// # Errors
///
/// [`ProbeError`]: nothing could be measured at all. A pattern that fails alone is in [`Outcome::missing`].
pub fn run(loops: &Loops, plan: Plan) -> Result<Outcome, ProbeError> {
    if anywire_loops::current().is_some() {
        return Err(ProbeError::OnLoop);
    }
    let target = Target::new(plan)?;
    if let Some(pid) = target.plan.pid {
        Moment::now(pid)?;
    }
    let task = loops.get(0).spawn(move || async move { Probe::new(target).run().await });
    task.wait().unwrap_or_else(|source| Err(ProbeError::LoopLost(source)))
}

/// The patterns, in the order in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    Single,
    Pipelined,
    Head,
    Compression,
    Expect,
    Large,
    SlowReader,
    SlowPath,
    Counted,
    Many,
    Tls,
    Http2,
}

impl Pattern {
    const ALL: [Self; 12] = [
        Self::Single,
        Self::Pipelined,
        Self::Head,
        Self::Compression,
        Self::Expect,
        Self::Large,
        Self::SlowReader,
        Self::SlowPath,
        Self::Counted,
        Self::Many,
        Self::Tls,
        Self::Http2,
    ];

    /// Its name in the JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Pipelined => "pipelining",
            Self::Head => "head",
            Self::Compression => "compression",
            Self::Expect => "expect",
            Self::Large => "large",
            Self::SlowReader => "slow_reader",
            Self::SlowPath => "slow_path",
            Self::Counted => "server.syscalls_per_request",
            Self::Many => "many",
            Self::Tls => "tls",
            Self::Http2 => "http2",
        }
    }

    /// Whether it makes sense over HTTP/1 alone: over HTTP/2 each request has a stream of its own, and hardly any client waits for 100.
    fn is_of_http1(self) -> bool {
        matches!(self, Self::Pipelined | Self::Expect)
    }

    /// Those whose figures make a verdict of this class.
    fn of(class: Class) -> &'static [Self] {
        match class {
            Class::EarlyClose => &[Self::Single, Self::Pipelined],
            Class::OutOfOrder => &[Self::Pipelined],
            Class::BlocksItsLoop => &[Self::Single],
            Class::ManySyscalls => &[Self::Counted],
            Class::ListenOverflow | Class::UnbalancedThreads | Class::Softirq => &[Self::Many],
            Class::CertificateEnds | Class::OldTls | Class::NoResumption => &[Self::Tls],
            Class::SmallWindow => &[Self::Single, Self::Http2],
            Class::HeadWithBody | Class::HeadDiffers => &[Self::Head],
            Class::IgnoresExpect => &[Self::Expect],
            Class::CutsSlowReaders => &[Self::SlowReader],
            Class::Clean => &[],
            _ => &[Self::Single],
        }
    }
}

struct Probe {
    target: Rc<Target>,
    outcome: Outcome,
    /// Client and server have one IP address.
    is_local: bool,
    /// Looks at the accept queues of the server, if its process is known.
    queues: Option<QueueWatch>,
    /// The process when the probe began, or when softirqs were last counted.
    since: Option<Moment>,
}

impl Probe {
    fn new(target: Target) -> Self {
        let pid = target.plan.pid;
        let watched = pid.zip(target.address.port());
        Self {
            outcome: Outcome::of(&target),
            target: Rc::new(target),
            is_local: false,
            queues: watched.and_then(|(pid, port)| queues::watch(pid, port)),
            since: pid.and_then(|pid| Moment::now(pid).ok()),
        }
    }

    async fn run(mut self) -> Result<Outcome, ProbeError> {
        if self.target.plan.protocol == Protocol::Http1 {
            self.begin().await?;
        } else {
            self.begin_http2().await?;
        }
        for pattern in Pattern::ALL.into_iter().skip(1) {
            self.measure(pattern).await;
        }
        let first = rules::judge(&self.outcome);
        let again: BTreeSet<Pattern> =
            first.iter().flat_map(|verdict| self.patterns_of(verdict.class)).copied().collect();
        for pattern in again {
            if self.was_made(pattern) && !self.is_stopped() {
                self.outcome.repeated.push(pattern.name().to_owned());
                self.measure(pattern).await;
            }
        }
        let mut verdicts = rules::judge(&self.outcome);
        // What only one of both shows is chance.
        verdicts.retain(|verdict| first.iter().any(|before| before.class == verdict.class));
        if verdicts.is_empty() {
            verdicts.push(rules::clean(&self.outcome));
        }
        self.outcome.verdicts = verdicts;
        self.outcome.interrupted = self.is_stopped();
        Ok(self.outcome)
    }

    /// Those whose figures made a verdict of this class here.
    fn patterns_of(&self, class: Class) -> &'static [Pattern] {
        match class {
            // Quick requests beside a slow one show more than looks at the process.
            Class::BlocksItsLoop if self.outcome.slow_path.is_some() => &[Pattern::SlowPath],
            class => Pattern::of(class),
        }
    }

    /// What was never made has shown nothing.
    fn was_made(&self, pattern: Pattern) -> bool {
        let is_over_http2 = self.target.plan.protocol == Protocol::Http2;
        match pattern {
            Pattern::Http2 => self.outcome.http2.is_some(),

            other => !(is_over_http2 && other.is_of_http1()),
        }
    }

    fn is_stopped(&self) -> bool {
        self.target.plan.stop.is_stopped()
    }

    /// The first pattern, without which there is no outcome. A server may have been starting, so it has two attempts.
    async fn begin(&mut self) -> Result<(), ProbeError> {
        self.target.dial(None).await.map_err(ProbeError::Dial)?;
        if self.single().await.is_ok() {
            return Ok(());
        }
        self.single().await.map_err(|fault| ProbeError::NoAnswer(fault.message))
    }

    async fn begin_http2(&mut self) -> Result<(), ProbeError> {
        self.target.dial(Some("h2")).await.map_err(ProbeError::Dial)?;
        match patterns::http2(&self.target).await {
            Ok(Some(seen)) => {
                self.outcome.target.status = Some(seen.status);
                self.outcome.http2 = Some(seen);
                self.single().await.map_err(|fault| ProbeError::NoAnswer(fault.message))
            }
            Ok(None) => Err(ProbeError::NoAnswer(
                Message::new("the server does not agree to HTTP/2 (ALPN)")
                    .with_help("leave out --http2, or let the server offer h2"),
            )),
            Err(fault) => Err(ProbeError::NoAnswer(fault.message)),
        }
    }

    async fn measure(&mut self, pattern: Pattern) {
        let is_over_http2 = self.target.plan.protocol == Protocol::Http2;
        if self.is_stopped() || (is_over_http2 && pattern.is_of_http1()) {
            return;
        }
        let measured = match pattern {
            Pattern::Single => self.single().await,
            Pattern::Pipelined => keep(patterns::pipelined(&self.target).await, &mut self.outcome.pipelining),
            Pattern::Head => keep(patterns::head(&self.target).await, &mut self.outcome.head),
            Pattern::Compression => {
                keep(patterns::compression(&self.target).await, &mut self.outcome.compression)
            }
            Pattern::Expect => keep(patterns::expect(&self.target).await, &mut self.outcome.expect),
            Pattern::Large | Pattern::SlowReader if !self.has_large_answer() => return,
            Pattern::Large => keep(patterns::large(&self.target).await, &mut self.outcome.large),
            Pattern::SlowReader => {
                keep(patterns::slow_reader(&self.target).await, &mut self.outcome.slow_reader)
            }
            Pattern::SlowPath => self.slow_path().await,
            Pattern::Counted => return self.count().await,
            Pattern::Many => return self.many().await,
            Pattern::Tls if !self.target.address.has_tls() => return,
            Pattern::Tls => patterns::tls(&self.target).await.map(|seen| self.outcome.tls = seen),
            // Without TLS nobody has asked for it, and a server that speaks HTTP/1 alone would take it for garbage.
            Pattern::Http2 if !self.target.address.has_tls() && !is_over_http2 => return,
            Pattern::Http2 => self.http2().await,
        };
        self.outcome.missing.retain(|missing| missing.what != pattern.name());
        if let Err(fault) = measured {
            self.misses(pattern, fault.message);
        }
    }

    fn misses(&mut self, pattern: Pattern, why: Message) {
        let missing = Missing { what: pattern.name().to_owned(), why: why.found, help: why.help };
        self.outcome.missing.push(missing);
    }

    fn has_large_answer(&self) -> bool {
        self.outcome.target.body_bytes.is_some_and(patterns::is_large)
    }

    async fn single(&mut self) -> Result<(), Fault> {
        let watch = self.since.as_ref().and_then(|now| loops::watch(now.pids()));
        let seen = patterns::single(&self.target).await?;
        let outcome = &mut self.outcome;
        outcome.loops = watch.map(|watch| watch.seen().loops()).filter(|loops| !loops.is_empty());
        let target = &mut outcome.target;
        (target.status, target.body_bytes, target.server) =
            (Some(seen.status), Some(seen.body_bytes), seen.server);
        outcome.connection = Some(seen.connection);
        (outcome.segments, outcome.reads, outcome.gap) = (seen.segments, Some(seen.reads), Some(seen.gap));
        (outcome.latency, outcome.tcp) = (Some(seen.latency), seen.tcp);
        (outcome.clock, outcome.server_timing) = (seen.clock, seen.server_timing);
        self.is_local = seen.is_local;
        outcome.missing.retain(|missing| missing.what != SEGMENTS);
        if outcome.segments.is_none() {
            let why =
                format!("they are not counted on the wire {}: only TCP counts them", outcome.target.wire);
            outcome.missing.push(Missing { what: SEGMENTS.to_owned(), why, help: None });
        }
        Ok(())
    }

    async fn http2(&mut self) -> Result<(), Fault> {
        let why = "the server does not agree to HTTP/2 (ALPN)".to_owned();
        let agreed = patterns::http2(&self.target).await?;
        let refused = || Fault { kind: FaultKind::Dial, message: why.into() };
        self.outcome.http2 = Some(agreed.ok_or_else(refused)?);
        Ok(())
    }

    async fn slow_path(&mut self) -> Result<(), Fault> {
        let Some(path) = self.target.plan.slow_path.clone() else { return Ok(()) };
        let seen: SlowPath = patterns::slow_path(&self.target, &path).await?;
        self.outcome.slow_path = Some(seen);
        Ok(())
    }

    /// Many connections, and what the server's process does meanwhile.
    async fn many(&mut self) {
        let Some(pid) = self.target.plan.pid else {
            self.outcome.many = Some(patterns::many(&self.target).await.0);
            return;
        };
        let before = Moment::now(pid);
        let (many, open) = patterns::many(&self.target).await;
        let after = Moment::now(pid);
        drop(open);
        let answered = many.answered;
        self.outcome.many = Some(many);
        self.outcome.missing.retain(|missing| missing.what != "server");
        let (before, after) = match (before, after) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(error), _) | (_, Err(error)) => {
                let missing = Message::read(&error);
                let what = "server".to_owned();
                return self.outcome.missing.push(Missing { what, why: missing.found, help: missing.help });
            }
        };
        let counted = self.outcome.server.take();
        let mut server = after.since(&before, pid, answered);
        server.softirq = after.softirqs_since(self.since.as_ref().unwrap_or(&before), self.is_local);
        if let Some(counted) = counted {
            server.syscalls_per_request = counted.syscalls_per_request;
            server.syscalls_method = counted.syscalls_method;
        }
        self.outcome.server = Some(server);
        self.outcome.listen_drops = after.overflows_since(&before);
        self.outcome.listeners =
            self.target.address.port().and_then(|port| server::listeners(pid, port, self.queues.as_ref()));
        self.since = Some(after);
        let is_own = |listeners: &Vec<server::ListenerFacts>| {
            listeners.is_empty() || listeners.iter().any(|listener| listener.is_own != Some(false))
        };
        if !self.outcome.listeners.as_ref().is_none_or(is_own) {
            let message = format!(
                "process {pid} and its children hold no socket that listens there: the figures of 'server' are of another service"
            );
            let help = "see 'ss -ltnp' for the process that listens";
            let what = "listeners".to_owned();
            self.outcome.missing.retain(|missing| missing.what != what);
            self.outcome.missing.push(Missing { what, why: message, help: Some(help.to_owned()) });
        }
    }

    /// The system calls of the process.
    async fn count(&mut self) {
        let Some(pid) = self.target.plan.pid else { return };
        self.outcome.missing.retain(|missing| missing.what != Pattern::Counted.name());
        let counted = match Moment::now(pid) {
            Ok(now) => patterns::count(&self.target, now.tids()).await,
            Err(error) => Err(Message::read(&error)),
        };
        match counted {
            Ok(calls) => {
                let server = self.outcome.server.get_or_insert_default();
                server.syscalls_per_request = Some(calls);
                server.syscalls_method = Some("perf, raw_syscalls:sys_enter on each thread".to_owned());
            }
            Err(why) => self.misses(Pattern::Counted, why),
        }
    }
}

/// Puts what a pattern has measured in its place; one that failed leaves what was there before.
fn keep<T>(measured: Result<T, Fault>, place: &mut Option<T>) -> Result<(), Fault> {
    measured.map(|measured| *place = Some(measured))
}

const SEGMENTS: &str = "segments";
