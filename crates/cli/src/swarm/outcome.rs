//! The result of a run: what JSON holds under these names, and the table.

use std::fmt;
use std::time::Duration;

use anywire::load::{Latency, LatencySummary};
use serde::Serialize;

use super::book::Kept;
use super::drive::Measured;
use super::options::{Mode, Options, Order};
use super::tasks::grouped;

/// Everything that is known of a run. Rates and counts are of the measured part, both ends together.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// The form of this object: `anywire.swarm/1`.
    schema: &'static str,
    mode: Mode,
    order: Order,
    /// Whether checksums were made and verified.
    checksum: bool,
    payload_bytes: usize,
    loss: f64,
    seed: u64,
    core: usize,
    connections: u32,
    /// Two a connection, all in this process and on this core.
    endpoints: u64,
    /// What was asked for: 3, or 2 where the acknowledgment rides on the next request.
    segments: u8,
    /// What was seen, handshakes and retransmissions included.
    segments_per_echo: f64,
    acknowledgments: &'static str,
    seconds: f64,
    interrupted: bool,
    /// Messages that were sent, answered if the mode has answers, and verified.
    echoes: u64,
    pub(super) echoes_per_second: f64,
    frames_per_second: f64,
    ns_per_echo: f64,
    /// Time that the thread had its core, for each: what remains of `ns_per_echo` if others run there too.
    cpu_ns_per_echo: f64,
    /// The rate of a model that does the memory accesses alone; `null` if whoever reads this has not measured
    /// it.
    model_echoes_per_second: Option<f64>,
    /// The part of the time that the thread had its core.
    core_share: f64,
    memory: MemoryOutcome,
    /// Resident, from the kernel's count (smaps): engines, tasks, segments, the switch; this test's numbers
    /// in the clients' tasks included.
    bytes_per_endpoint: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    p9999_us: Option<f64>,
    max_us: Option<f64>,
    /// Jain's index of the completions of each connection; `null` where each completes one.
    jain: Option<f64>,
    completions: Option<Completions>,
    /// The longest time without a completion, in times of a round (connections / rate).
    longest_gap_ratio: Option<f64>,
    /// Connections that went without for longer than three rounds.
    starved: u64,
    /// Mean latency x rate / connections: 1 if nothing was left out.
    little: Option<f64>,
    retransmits: u64,
    timeouts: u64,
    /// Payloads that were not what was sent.
    corrupt: u64,
    /// Short connections: those that did not get their echo.
    failed: u64,
    short: Option<Short>,
    opening_seconds: f64,
    /// Where latencies come from: the clock is read once a round, for up to 64 frames.
    clock: &'static str,
    latency: Option<LatencySummary>,
}

/// Bytes of both ends.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct MemoryOutcome {
    /// What came since the start, as the kernel counts it.
    pub(super) resident_bytes: u64,
    /// What of it lies in huge pages.
    pub(super) huge_page_bytes: u64,
    /// `huge` if nine tenths of it do, `small` if less than a tenth does.
    pub(super) pages: &'static str,
    /// What the engines and the executors say themselves.
    pub(super) computed_bytes: u64,
    pub(super) computed_bytes_per_endpoint: f64,
    /// Of the computed: control blocks, table, segments, timers, the rest, tasks with their rings.
    pub(super) blocks_bytes: u64,
    pub(super) table_bytes: u64,
    pub(super) segments_bytes: u64,
    pub(super) timers_bytes: u64,
    pub(super) others_bytes: u64,
    pub(super) tasks_bytes: u64,
    /// One slot of a client's task, and of a server's.
    pub(super) client_task_bytes: usize,
    pub(super) server_task_bytes: usize,
    /// This test's own numbers in a client's task.
    pub(super) test_bytes_per_connection: usize,
}

/// Completions of a connection.
#[derive(Debug, Clone, Copy, Serialize)]
struct Completions {
    min: u32,
    /// One in ten thousand has less.
    p0_01: u32,
    mean: f64,
    max: u32,
}

/// What only short connections have.
#[derive(Debug, Clone, Copy, Serialize)]
struct Short {
    connections_per_second: f64,
    time_wait_seconds: f64,
    /// At the end.
    time_waits: u64,
    /// New connections that took the place of a TIME-WAIT by newer timestamps (RFC 6191).
    time_wait_reused: u64,
    /// TIME-WAITs that were cut short.
    time_wait_evicted: u64,
}

/// What a run has found.
pub(super) struct Found {
    pub(super) measured: Measured,
    pub(super) memory: MemoryOutcome,
    pub(super) latency: Latency,
    pub(super) kept: Vec<Kept>,
    pub(super) corrupt: u64,
    pub(super) failed: u64,
}

impl Outcome {
    pub(super) fn new(options: &Options, found: Found) -> Self {
        let Found { measured, memory, latency, mut kept, corrupt, failed } = found;
        let endpoints = 2 * u64::from(options.connections);
        let rate = measured.completed as f64 / measured.seconds;
        let round_us = f64::from(options.connections) / rate * 1e6;
        let summary = latency.summary();
        let longest_us = match options.stays() {
            true => kept.iter().map(|kept| f64::from(kept.longest)).fold(0.0, f64::max),
            false => summary.as_ref().map_or(0.0, |summary| summary.max),
        };
        let starved = match options.stays() {
            true => kept.iter().filter(|kept| f64::from(kept.longest) > 3.0 * round_us).count() as u64,
            false => count_above(&latency, 3.0 * round_us),
        };
        let at = |field: fn(&LatencySummary) -> f64| summary.as_ref().map(field);
        let completions = Completions::of(&mut kept);
        Self {
            schema: "anywire.swarm/1",
            mode: options.mode,
            order: options.order,
            checksum: !options.no_checksum,
            payload_bytes: options.payload,
            loss: options.loss,
            seed: options.seed,
            core: options.core(),
            connections: options.connections,
            endpoints,
            segments: options.segments,
            segments_per_echo: measured.frames as f64 / measured.completed as f64,
            acknowledgments: match options.segments {
                3 => "within the batch, as RFC 9293 asks",
                _ => "ride on the next request, however late",
            },
            seconds: measured.seconds,
            interrupted: measured.interrupted,
            echoes: measured.completed,
            echoes_per_second: rate,
            frames_per_second: measured.frames as f64 / measured.seconds,
            ns_per_echo: 1e9 / rate,
            cpu_ns_per_echo: 1e9 * measured.cpu_seconds / measured.completed as f64,
            model_echoes_per_second: None,
            core_share: measured.cpu_seconds / measured.seconds,
            memory,
            bytes_per_endpoint: memory.resident_bytes as f64 / endpoints as f64,
            p50_us: at(|summary| summary.p50),
            p99_us: at(|summary| summary.p99),
            p9999_us: at(|summary| summary.p99_99),
            max_us: at(|summary| summary.max),
            jain: completions.map(|_| jain(&kept)),
            completions,
            longest_gap_ratio: (measured.completed > 0).then_some(longest_us / round_us),
            starved,
            little: at(|summary| summary.mean).map(|mean| mean / round_us),
            retransmits: measured.retransmits,
            timeouts: measured.timeouts,
            corrupt,
            failed,
            short: (!options.stays()).then(|| Short {
                connections_per_second: measured.closed as f64 / measured.seconds,
                time_wait_seconds: options.time_wait.as_secs_f64(),
                time_waits: measured.time_waits,
                time_wait_reused: measured.time_wait_reused,
                time_wait_evicted: measured.time_wait_evicted,
            }),
            opening_seconds: measured.opening_seconds,
            clock: "read once a round, for up to 64 frames",
            latency: summary,
        }
    }

    pub(super) const fn echoes(&self) -> u64 {
        self.echoes
    }

    pub(super) const fn corrupt(&self) -> u64 {
        self.corrupt
    }

    /// What makes the figures say less than they seem to.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let rounds = self.seconds * self.echoes_per_second / f64::from(self.connections);
        if self.interrupted {
            notes.push("interrupted: the figures are of a part".to_owned());
        }
        if self.completions.is_some() && rounds < ROUNDS_MIN {
            notes.push(format!(
                "{rounds:.1} rounds were measured: for fairness, measure {ROUNDS_MIN} or more"
            ));
        }
        if self.core_share < CORE_SHARE_MIN {
            notes.push(format!(
                "the core was shared: {:.0} % of it was had, {:.1} ns an echo of it",
                100.0 * self.core_share,
                self.cpu_ns_per_echo
            ));
        }
        if self.little.is_some_and(|little| (little - 1.0).abs() > LITTLE_MAX) {
            notes.push("Little's law does not hold: the latencies are not those of all messages".to_owned());
        }
        notes
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |value: &dyn fmt::Debug| format!("{value:?}").to_lowercase();
        writeln!(
            f,
            "{} over {} connections, both ends on core {}: {} bytes, {} order, checksums {}, loss {}\n",
            name(&self.mode),
            grouped(self.connections.into()),
            self.core,
            self.payload_bytes,
            name(&self.order),
            if self.checksum { "on" } else { "off" },
            self.loss,
        )?;
        let mut line = |name: &str, value: String| writeln!(f, "  {name:<14}  {value}");
        let unit = if matches!(self.mode, Mode::Push) { "messages" } else { "echoes" };
        let per_second = |rate: f64| grouped(rate.round() as u64);
        line(
            "rate",
            format!("{} {unit}/s, {:.1} ns each", per_second(self.echoes_per_second), self.ns_per_echo),
        )?;
        line(
            "frames",
            format!(
                "{}/s, {:.2} an echo; acknowledgments {}",
                per_second(self.frames_per_second),
                self.segments_per_echo,
                self.acknowledgments
            ),
        )?;
        if let Some(short) = &self.short {
            line(
                "closed",
                format!("{}/s by FINs, {} failed", per_second(short.connections_per_second), self.failed),
            )?;
            line(
                "TIME-WAIT",
                format!(
                    "{} s, {} at the end, {} reused by timestamps, {} cut short",
                    short.time_wait_seconds,
                    grouped(short.time_waits),
                    grouped(short.time_wait_reused),
                    grouped(short.time_wait_evicted)
                ),
            )?;
        }
        let time = |us: Option<f64>| {
            us.map_or_else(|| "-".to_owned(), |us| format!("{:.1?}", Duration::from_nanos((us * 1e3) as u64)))
        };
        line(
            "latency",
            format!(
                "p50 {}, p99 {}, p99.99 {}, max {}; Little {:.3}",
                time(self.p50_us),
                time(self.p99_us),
                time(self.p9999_us),
                time(self.max_us),
                self.little.unwrap_or(f64::NAN),
            ),
        )?;
        let gap = self.longest_gap_ratio.unwrap_or(f64::NAN);
        let starved = grouped(self.starved);
        match (self.jain, self.completions) {
            (Some(jain), Some(of)) => line(
                "fairness",
                format!(
                    "Jain {jain:.6}, completions {} to {} (mean {:.1}), longest gap {gap:.2} rounds, {starved} starved",
                    of.min, of.max, of.mean
                ),
            )?,
            _ => line("fairness", format!("longest gap {gap:.2} rounds, {starved} starved"))?,
        }
        line("verified", format!("{} payloads, {} corrupt", grouped(self.echoes), grouped(self.corrupt)))?;
        line("retransmits", format!("{}, {} by timeout", grouped(self.retransmits), grouped(self.timeouts)))?;
        let memory = &self.memory;
        let megabytes = |bytes: u64| grouped(bytes / 1_000_000);
        line(
            "memory",
            format!(
                "{:.1} bytes an endpoint resident, {:.1} computed; {} MB, {} MB in huge pages ({})",
                self.bytes_per_endpoint,
                memory.computed_bytes_per_endpoint,
                megabytes(memory.resident_bytes),
                megabytes(memory.huge_page_bytes),
                memory.pages,
            ),
        )?;
        line(
            "",
            format!(
                "blocks {}, table {}, segments {}, timers {}, others {}, tasks {} MB; tasks of {} and {} bytes",
                megabytes(memory.blocks_bytes),
                megabytes(memory.table_bytes),
                megabytes(memory.segments_bytes),
                megabytes(memory.timers_bytes),
                megabytes(memory.others_bytes),
                megabytes(memory.tasks_bytes),
                memory.client_task_bytes,
                memory.server_task_bytes,
            ),
        )?;
        for note in self.notes() {
            line("note", note)?;
        }
        Ok(())
    }
}

impl Completions {
    /// None if there is nothing to compare.
    fn of(kept: &mut [Kept]) -> Option<Self> {
        let count = kept.len();
        if count == 0 {
            return None;
        }
        kept.select_nth_unstable_by_key(count / 10_000, |kept| kept.completed);
        let p0_01 = kept[count / 10_000].completed;
        let all = || kept.iter().map(|kept| kept.completed);
        let sum: u64 = all().map(u64::from).sum();
        Some(Self {
            min: all().min().unwrap_or(0),
            p0_01,
            mean: sum as f64 / count as f64,
            max: all().max().unwrap_or(0),
        })
    }
}

/// (sum of x)^2 / (n x sum of x^2): 1 if all have the same, 1/n if one has all (Jain, Chiu, Hawe 1984).
fn jain(kept: &[Kept]) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for kept in kept {
        sum += f64::from(kept.completed);
        squares += f64::from(kept.completed).powi(2);
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (kept.len() as f64 * squares) }
}

/// How many took longer than `us`, to the three digits that are kept.
fn count_above(latency: &Latency, us: f64) -> u64 {
    let is_above = |share| latency.quantile(share).is_some_and(|time| time.as_secs_f64() * 1e6 > us);
    if !is_above(1.0) {
        return 0;
    }
    let (mut below, mut above) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(below, above);
        if is_above(middle) { above = middle } else { below = middle }
    }
    ((1.0 - below) * latency.count() as f64).ceil() as u64
}

/// Fewer rounds than this say little about fairness: the first and the last are cut.
const ROUNDS_MIN: f64 = 10.0;
const CORE_SHARE_MIN: f64 = 0.98;
const LITTLE_MAX: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_if_all_have_the_same() {
        let kept = |counts: &[u32]| {
            counts.iter().map(|&completed| Kept { completed, longest: 0 }).collect::<Vec<_>>()
        };
        assert!((jain(&kept(&[5; 100])) - 1.0).abs() < 1e-12);
        assert!((jain(&kept(&[7, 0, 0, 0])) - 0.25).abs() < 1e-12);
        let of = Completions::of(&mut kept(&[3, 1, 2])).expect("there are some");
        assert_eq!((of.min, of.p0_01, of.mean, of.max), (1, 1, 2.0, 3));
        assert!(Completions::of(&mut []).is_none());
    }

    #[test]
    fn those_above_are_counted() {
        let mut latency = Latency::new();
        (1..=1000).for_each(|us| latency.record(Duration::from_micros(us)));
        assert_eq!((count_above(&latency, 5000.0), count_above(&latency, 0.5)), (0, 1000));
        assert!(count_above(&latency, 900.5).abs_diff(100) <= 2);
    }
}
