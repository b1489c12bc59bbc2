//! The outcome of a run. JSON has these names, and `Display` writes the table.

use std::fmt;
use std::time::Duration;

use anywire_load::text::{Columns, digits, grouped, known, time, whole};
use anywire_load::{Latency, LatencySummary};
use anywire_sys::memory;
use serde::Serialize;

use crate::book::{Connection, Record};
use crate::drive::Side;
use crate::error::Error;
use crate::plan::{Mode, Plan};

/// Everything that is known of a run. Rates and counts are of the measured part, both ends together.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The form of this object: `anywire.swarm/1`.
    pub schema: &'static str,
    /// The plan of the run.
    #[serde(flatten)]
    pub plan: Plan,
    /// Two a connection, all in this process and on this core.
    pub endpoints: u64,
    /// Counts of the measured part.
    #[serde(flatten)]
    pub measured: Measured,
    /// Counted, including handshakes and retransmissions.
    pub segments_per_echo: f64,
    /// When data is acknowledged, in words.
    pub acknowledgments: &'static str,
    /// The rate.
    pub echoes_per_second: f64,
    /// Frames of both ends.
    pub frames_per_second: f64,
    /// The inverse of the rate.
    pub ns_per_echo: f64,
    /// CPU time of the thread for each echo: less than `ns_per_echo` if other programs use the core.
    pub cpu_ns_per_echo: f64,
    /// The rate of a model that does the memory accesses alone; `null` until a reader has measured it.
    pub model_echoes_per_second: Option<f64>,
    /// The part of the time that the thread had its core.
    pub core_share: f64,
    /// Bytes of both ends.
    pub memory: Memory,
    /// Resident, from the kernel's count (smaps): engines, tasks, segments, frames; including this test's numbers in
    /// the clients' tasks.
    pub bytes_per_endpoint: f64,
    /// Half of all messages took this long at most, in microseconds.
    pub p50_us: Option<f64>,
    /// 99 % took this long at most.
    pub p99_us: Option<f64>,
    /// 99.99 % took this long at most.
    pub p9999_us: Option<f64>,
    /// The longest.
    pub max_us: Option<f64>,
    /// Jain's index of the completions of each connection; `null` where each completes one.
    pub jain: Option<f64>,
    /// How many messages connections completed; `null` where each completes one.
    pub completions: Option<Completions>,
    /// The longest time without a completion, in times of a round (connections / rate).
    pub longest_gap_ratio: Option<f64>,
    /// Connections that went without for longer than three rounds; of short ones, all that took longer than that.
    pub starved: u64,
    /// Mean latency x rate / connections: 1 if nothing was left out.
    pub little: Option<f64>,
    /// Payloads that differ from the ones sent.
    pub corrupt: u64,
    /// Short connections that did not get their echo.
    pub failed: u64,
    /// Where latencies come from: the clock is read once a round, for up to 64 frames.
    pub clock: &'static str,
    /// The latencies of all messages.
    pub latency: Option<LatencySummary>,
}

/// Counts of the measured part.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// How long it was.
    pub seconds: f64,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// Messages that were sent, answered if the mode has answers, and verified.
    pub echoes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Probes of keep-alive.
    pub keep_alive_probes: u64,
    /// What only short connections have.
    pub short: Option<Short>,
    /// How long opening all connections took, before the measured part.
    pub opening_seconds: f64,
    #[serde(skip)]
    pub(crate) cpu_seconds: f64,
    #[serde(skip)]
    pub(crate) frames: u64,
}

/// What only short connections have.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct Short {
    /// Closed by FINs.
    pub connections_per_second: f64,
    /// How long TIME-WAIT lasts.
    pub time_wait_seconds: f64,
    /// TIME-WAITs at the end.
    pub time_waits: u64,
    /// New connections that took the place of a TIME-WAIT by newer timestamps (RFC 6191).
    pub time_wait_reused: u64,
    /// TIME-WAITs that were cut short.
    pub time_wait_evicted: u64,
}

/// Completed messages of a connection.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct Completions {
    /// The fewest.
    pub min: u32,
    /// One connection in ten thousand has less.
    pub p0_01: u32,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub max: u32,
}

/// Bytes of both ends.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct Memory {
    /// Growth since the start, as the kernel counts it.
    pub resident_bytes: u64,
    /// The part of it in huge pages.
    pub huge_page_bytes: u64,
    /// `huge` if nine tenths of it do, `small` if less than a tenth does, else `mixed`.
    pub pages: &'static str,
    /// The sum of the parts below, as the engines and the executors count them.
    pub computed_bytes: u64,
    /// The same for each endpoint.
    pub computed_bytes_per_endpoint: f64,
    /// The part of control blocks.
    pub blocks_bytes: u64,
    /// The part of the table.
    pub table_bytes: u64,
    /// The part of segments.
    pub segments_bytes: u64,
    /// The part of timers.
    pub timers_bytes: u64,
    /// The rest of the engines.
    pub others_bytes: u64,
    /// The part of the tasks with their rings.
    pub tasks_bytes: u64,
    /// One slot of a client's task.
    pub client_task_bytes: usize,
    /// One slot of a server's task.
    pub server_task_bytes: usize,
    /// This test's own numbers in a client's task.
    pub test_bytes_per_connection: usize,
}

impl Outcome {
    pub(crate) fn new(
        plan: &Plan,
        measured: Measured,
        memory: Memory,
        latency: &Latency,
        mut connections: Vec<Connection>,
        corrupt: u64,
        failed: u64,
    ) -> Self {
        let endpoints = 2 * u64::from(plan.connections);
        let (seconds, echoes, cpu) = (measured.seconds, measured.echoes as f64, measured.cpu_seconds);
        let rate = echoes / seconds;
        let round_us = f64::from(plan.connections) / rate * 1e6;
        let summary = latency.summary();
        let at = |field: fn(&LatencySummary) -> f64| summary.as_ref().map(field);
        let (longest_us, starved) = if plan.stays() {
            let gaps = || connections.iter().map(|connection| f64::from(connection.longest));
            (gaps().fold(0.0, f64::max), gaps().filter(|gap| *gap > 3.0 * round_us).count() as u64)
        } else {
            let limit = Duration::try_from_secs_f64(3e-6 * round_us).unwrap_or(Duration::MAX);
            (at(|summary| summary.max).unwrap_or(0.0), latency.count_above(limit))
        };
        let completions = Completions::of(&mut connections);
        Self {
            schema: "anywire.swarm/1",
            plan: plan.clone(),
            endpoints,
            segments_per_echo: measured.frames as f64 / echoes,
            acknowledgments: match plan.segments {
                3 => "within the batch, as RFC 9293 asks",
                _ => "ride on the next request, however late",
            },
            echoes_per_second: rate,
            frames_per_second: measured.frames as f64 / seconds,
            ns_per_echo: 1e9 / rate,
            cpu_ns_per_echo: 1e9 * cpu / echoes,
            model_echoes_per_second: None,
            core_share: cpu / seconds,
            bytes_per_endpoint: memory.resident_bytes as f64 / endpoints as f64,
            memory,
            p50_us: at(|summary| summary.p50),
            p99_us: at(|summary| summary.p99),
            p9999_us: at(|summary| summary.p99_99),
            max_us: at(|summary| summary.max),
            jain: completions.map(|_| jain(&connections)),
            completions,
            longest_gap_ratio: (measured.echoes > 0).then_some(longest_us / round_us),
            starved,
            little: at(|summary| summary.mean).map(|mean| mean / round_us),
            corrupt,
            failed,
            clock: "read once a round, for up to 64 frames",
            latency: summary,
            measured,
        }
    }

    /// Whether the outcome may be relied on.
    ///
    /// # Errors
    ///
    /// A run that completed nothing, or a payload that differs from the one sent.
    pub fn check(&self) -> Result<(), Error> {
        match (self.corrupt, self.measured.echoes) {
            (0, 0) => Err(Error::Nothing),
            (0, _) => Ok(()),
            (corrupt, _) => Err(Error::Corrupt(corrupt)),
        }
    }

    /// The rows of the table: a name and its figures.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        let mut row = |name, figures| rows.push((name, figures));
        let Self { ns_per_echo, segments_per_echo, acknowledgments, memory, .. } = self;
        let (rate, frames) = (whole(self.echoes_per_second), whole(self.frames_per_second));
        let is_one_way = matches!(self.plan.mode, Mode::Push | Mode::Group);
        let unit = if is_one_way { "messages" } else { "echoes" };
        row("rate", format!("{rate} {unit}/s, {ns_per_echo:.1} ns each"));
        row(
            "frames",
            format!("{frames}/s, {segments_per_echo:.2} an echo; acknowledgments {acknowledgments}"),
        );
        if let Some(short) = &self.measured.short {
            let Short { connections_per_second, time_wait_seconds, .. } = *short;
            let [left, reused, evicted] =
                [short.time_waits, short.time_wait_reused, short.time_wait_evicted].map(grouped);
            row("closed", format!("{}/s by FINs, {} failed", whole(connections_per_second), self.failed));
            let ends = format!("{reused} reused by timestamps, {evicted} cut short");
            row("TIME-WAIT", format!("{time_wait_seconds} s, {left} at the end, {ends}"));
        }
        let [p50, p99, p9999, max] =
            [self.p50_us, self.p99_us, self.p9999_us, self.max_us].map(|us| known(us, time));
        let little = known(self.little, |little| format!("{little:.3}"));
        row("latency", format!("p50 {p50}, p99 {p99}, p99.99 {p9999}, max {max}; Little {little}"));
        let gap = known(self.longest_gap_ratio, |gap| format!("{gap:.2}"));
        let mut fairness = format!("longest gap {gap} rounds, {} starved", grouped(self.starved));
        if let (Some(jain), Some(Completions { min, mean, max, .. })) = (self.jain, self.completions) {
            fairness = format!("Jain {jain:.6}, completions {min} to {max} (mean {mean:.1}), {fairness}");
        }
        row("fairness", fairness);
        let Measured { echoes, retransmits, timeouts, .. } = self.measured;
        let [echoes, corrupt, retransmits, timeouts] =
            [echoes, self.corrupt, retransmits, timeouts].map(grouped);
        row("verified", format!("{echoes} payloads, {corrupt} corrupt"));
        row("retransmits", format!("{retransmits} segments, {timeouts} timeouts"));
        if let Some(idle) = self.plan.keep_alive {
            let probes = grouped(self.measured.keep_alive_probes);
            row("keep-alive", format!("after {} s of silence; {probes} probes", idle.as_secs_f64()));
        }
        if let Some(idle) = self.plan.idle_deadline {
            row("idle deadline", format!("{} s after the last message", idle.as_secs_f64()));
        }
        let megabytes = |bytes: u64| grouped(bytes / 1_000_000);
        let (each, computed) = (self.bytes_per_endpoint, memory.computed_bytes_per_endpoint);
        let (resident, huge) = (megabytes(memory.resident_bytes), megabytes(memory.huge_page_bytes));
        let pages = format!("{resident} MB, {huge} MB in huge pages ({})", memory.pages);
        row("memory", format!("{each:.1} bytes an endpoint resident, {computed:.1} computed; {pages}"));
        let parts = [
            ("blocks", memory.blocks_bytes),
            ("table", memory.table_bytes),
            ("segments", memory.segments_bytes),
            ("timers", memory.timers_bytes),
            ("others", memory.others_bytes),
            ("tasks", memory.tasks_bytes),
        ];
        let parts = parts.map(|(name, bytes)| format!("{name} {}", megabytes(bytes))).join(", ");
        let Memory { client_task_bytes, server_task_bytes, .. } = memory;
        row("", format!("{parts} MB; tasks of {client_task_bytes} and {server_task_bytes} bytes"));
        // Conditions that make the figures less reliable.
        let mut note = |text| row("note", text);
        let rounds = self.measured.echoes as f64 / f64::from(self.plan.connections);
        if self.measured.interrupted {
            let seconds = digits(self.measured.seconds);
            note(format!("interrupted: the figures are of the {seconds} s that were measured"));
        }
        if self.completions.is_some() && rounds < ROUNDS_MIN {
            note(format!("{rounds:.1} rounds were measured: for fairness, measure {ROUNDS_MIN} or more"));
        }
        if self.core_share < CORE_SHARE_MIN {
            let (share, cpu_ns) = (100.0 * self.core_share, self.cpu_ns_per_echo);
            note(format!("the core was shared: {share:.0} % of it was had, {cpu_ns:.1} ns an echo of it"));
        }
        if self.little.is_some_and(|little| (little - 1.0).abs() > LITTLE_MAX) {
            note("Little's law does not hold: the latencies are not those of all messages".to_owned());
        }
        rows
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { mode, order, connections, core, payload_bytes, checksums, timestamps, loss, .. } =
            &self.plan;
        let [mode, order] = [format!("{mode:?}"), format!("{order:?}")].map(|name| name.to_lowercase());
        let connections = grouped(u64::from(*connections));
        let [sums, stamps] = [*checksums, *timestamps].map(|is_on| if is_on { "on" } else { "off" });
        write!(
            f,
            "{mode} over {connections} connections, both ends on core {core}: {payload_bytes} bytes, "
        )?;
        writeln!(f, "{order} order, checksums {sums}, timestamps {stamps}, loss {loss}\n")?;
        let mut columns = Columns::new(2, &[]);
        self.rows().into_iter().for_each(|(name, figures)| columns.row(vec![name.to_owned(), figures]));
        f.write_str(&columns.render())
    }
}

impl Memory {
    /// Bytes of this process, and those in huge pages, as the kernel counts them.
    pub(crate) fn resident() -> [u64; 2] {
        [memory::anonymous_bytes(), memory::huge_page_bytes()].map(Result::unwrap_or_default)
    }

    pub(crate) fn of(
        plan: &Plan,
        before: [u64; 2],
        mut ends: [&mut dyn Side; 2],
        [client_task_bytes, server_task_bytes]: [usize; 2],
    ) -> Self {
        let now = Self::resident();
        let [resident_bytes, huge_page_bytes] = [0, 1].map(|index| now[index].saturating_sub(before[index]));
        let parts = ends.each_mut().map(|end| (end.engine().memory(), end.bytes()));
        let sum =
            |part: fn(&(anywire_tcp::Memory, usize)) -> usize| parts.iter().map(part).sum::<usize>() as u64;
        let computed_bytes = sum(|(engine, tasks)| engine.total() + tasks);
        Self {
            resident_bytes,
            huge_page_bytes,
            pages: match huge_page_bytes * 10 {
                huge if huge >= resident_bytes * 9 => "huge",
                huge if huge < resident_bytes => "small",
                _ => "mixed",
            },
            computed_bytes,
            computed_bytes_per_endpoint: computed_bytes as f64 / f64::from(plan.connections) / 2.0,
            blocks_bytes: sum(|(engine, _)| engine.tcbs),
            table_bytes: sum(|(engine, _)| engine.table),
            segments_bytes: sum(|(engine, _)| engine.segments),
            timers_bytes: sum(|(engine, _)| engine.timers),
            others_bytes: sum(|(engine, _)| engine.others),
            tasks_bytes: sum(|(_, tasks)| *tasks),
            client_task_bytes,
            server_task_bytes,
            test_bytes_per_connection: if plan.stays() { size_of::<Record>() } else { size_of::<u32>() },
        }
    }
}

impl Completions {
    /// None if there is nothing to compare.
    fn of(connections: &mut [Connection]) -> Option<Self> {
        let rank = connections.len() / 10_000;
        if connections.is_empty() {
            return None;
        }
        let p0_01 = connections.select_nth_unstable_by_key(rank, |one| one.completed).1.completed;
        let all = || connections.iter().map(|one| one.completed);
        let mean = all().map(f64::from).sum::<f64>() / connections.len() as f64;
        Some(Self { min: all().min()?, p0_01, mean, max: all().max()? })
    }
}

/// (sum of x)^2 / (n x sum of x^2): 1 if all have the same, 1/n if one has all (Jain, Chiu, Hawe 1984).
fn jain(connections: &[Connection]) -> f64 {
    let all = || connections.iter().map(|one| f64::from(one.completed));
    let (sum, squares) = (all().sum::<f64>(), all().map(|one| one * one).sum::<f64>());
    if squares == 0.0 { 1.0 } else { sum * sum / (connections.len() as f64 * squares) }
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
        let connections = |counts: &[u32]| {
            counts.iter().map(|&completed| Connection { completed, longest: 0 }).collect::<Vec<_>>()
        };
        assert!((jain(&connections(&[5; 100])) - 1.0).abs() < 1e-12);
        assert!((jain(&connections(&[7, 0, 0, 0])) - 0.25).abs() < 1e-12);
        let of = Completions::of(&mut connections(&[3, 1, 2])).expect("there are some");
        assert_eq!((of.min, of.p0_01, of.mean, of.max), (1, 1, 2.0, 3));
        assert!(Completions::of(&mut []).is_none());
    }
}
