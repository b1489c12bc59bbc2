//! What the memory accesses of a user-space TCP cost alone: the limit beside which its figures stand.
//!
//! Clients and servers, each side with blocks of 128 bytes, tasks and a table of its own, exchange echoes in frames that are
//! really written and read: Ethernet, IPv4, TCP with timestamps. The model does what every engine must do: checksums
//! over headers and payload at both ends, a lookup by the four-tuple for each frame, sequence numbers, windows,
//! timestamps and round-trip times checked and brought up to date, the payload copied into memory that is kept until
//! it is acknowledged and from there into the frame, and compared byte by byte when it comes back. What is left out is
//! all that comes with loss, timers, scheduling, options, other states, and a hash that withstands attacks. So an
//! engine can come near to these figures and not reach them.
//!
//! One batch goes through five stages at each end, each over the whole batch: read the headers and hash; find; bring
//! the connection up to date; let its task answer; write the frame. Each stage ends by asking for the memory of the
//! next one. With no batch, frames go one by one and nothing is asked for ahead.
//!
//! In a closed loop with three segments an echo, the client acknowledges the response at once, and what the server
//! keeps is soon free again and in cache. With two, its next request does so; the server keeps one response for each
//! connection meanwhile, which is memory that is out of cache when its turn comes. [`Kept::UntilSent`] shows what that
//! costs; no TCP may do so.

mod engine;
mod frame;
mod table;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use anywire_sys::arena::Pages;
use anywire_sys::cpu::current_thread_cpu;
use clap::ValueEnum;
use serde::Serialize;

use self::engine::{Engine, Settings};
use self::frame::{Frame, PAYLOAD_BYTES_MAX};

/// The modelled load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Model {
    /// Clients, each with a server's end of its own; so endpoints are twice as many.
    pub connections: u32,
    /// The order of the connections' turns.
    pub order: Order,
    /// Segments an echo: 2, or 3 with an acknowledgment of its own for the response.
    pub segments: u32,
    /// Whether checksums are written and verified.
    pub checksum: bool,
    /// Frames a batch, with prefetch; `None`: one by one, without.
    pub batch: Option<usize>,
    /// How long sent data is kept.
    pub kept: Kept,
    /// Bytes of payload each way; 240 at most.
    pub payload_bytes: usize,
}

impl Model {
    /// Memory that it takes, for all of it.
    pub fn bytes(&self) -> u64 {
        let kept = if self.keeps_answers() { 256 } else { 0 };
        // Two blocks, two tasks, two places in tables that are three quarters full, a turn.
        u64::from(self.connections) * (2 * (128 + 16) + 2 * 64 * 4 / 30 + kept + 4) + (16 << 20)
    }

    /// Whether each server keeps its response until the next request.
    fn keeps_answers(&self) -> bool {
        self.segments == 2 && self.kept == Kept::UntilAcknowledged
    }
}

impl Default for Model {
    /// As the engine is meant to be measured: 6 million connections in random order, checksums, three segments.
    fn default() -> Self {
        Self {
            connections: 6_000_000,
            order: Order::Random,
            segments: 3,
            checksum: true,
            batch: Some(64),
            kept: Kept::UntilAcknowledged,
            payload_bytes: 200,
        }
    }
}

/// The order of the connections' turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As they were made, so that the processor foresees the next block.
    Sequential,
    /// A random order, the same in each round.
    Random,
}

/// How long a segment is kept after it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// As TCP must.
    UntilAcknowledged,
    /// Not at all: what the reference system did. It could not send again.
    UntilSent,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// Echoes a second.
    pub echoes_per_second: f64,
    /// Nanoseconds an echo.
    pub ns_per_echo: f64,
    /// Nanoseconds of CPU time an echo: less, if something else ran on the core.
    pub cpu_ns_per_echo: f64,
    /// Frames a second, of both directions together.
    pub frames_per_second: f64,
    /// Echoes counted.
    pub echoes: u64,
    /// The part of the time that this thread had the core; below 1, something else ran there.
    pub core_share: f64,
}

/// Both ends of so many connections, for any number of runs: `World::of(model.connections)?.run(&model, time)?`.
pub struct World {
    connections: u32,
    client: Engine,
    server: Engine,
    /// Whose turn it is; the first ones once more at the end, so that looking ahead needs no thought.
    turns: Vec<u32>,
    random: Random,
    to_server: Vec<Frame>,
    to_client: Vec<Frame>,
    /// Milliseconds, as timestamps count.
    now: u32,
}

impl World {
    /// All connections established.
    ///
    /// # Errors
    /// No connections, or more than are possible.
    pub fn of(connections: u32) -> Result<Self> {
        ensure!(
            (1..=CONNECTIONS_MAX).contains(&connections),
            "cannot model {connections} connections: from 1 to {CONNECTIONS_MAX} are possible"
        );
        Ok(Self {
            connections,
            client: Engine::established(connections, true)?,
            server: Engine::established(connections, false)?,
            turns: Vec::new(),
            random: Random(0x853c_49e6_748f_ea9b),
            to_server: vec![Frame::EMPTY; BATCH_MAX],
            to_client: vec![Frame::EMPTY; BATCH_MAX],
            now: 1,
        })
    }

    /// Measures a model of as many connections for this long, after one round over all of them.
    ///
    /// # Errors
    /// The model is out of its limits, or for another number of connections; or a payload came back changed, or a
    /// segment was refused, which would be its own fault.
    pub fn run(&mut self, model: &Model, time: Duration) -> Result<Measured> {
        ensure!(model.connections == self.connections, "this world has {} connections", self.connections);
        ensure!(matches!(model.segments, 2 | 3), "an echo takes 2 or 3 segments, not {}", model.segments);
        ensure!(
            (STAMP_BYTES..=PAYLOAD_BYTES_MAX).contains(&model.payload_bytes),
            "a payload of {} bytes is not possible: from {STAMP_BYTES} to {PAYLOAD_BYTES_MAX} are",
            model.payload_bytes
        );
        let batch = model.batch.unwrap_or(1);
        ensure!(
            (1..=BATCH_MAX).contains(&batch),
            "a batch of {batch} is not possible: from 1 to {BATCH_MAX} are"
        );
        let settings = Settings {
            checksum: model.checksum,
            prefetch: model.batch.is_some(),
            keep_until_sent: model.kept == Kept::UntilSent,
        };
        self.start_over(model);
        // Each connection has a turn first. Then the kept segments have their places, and the caches are in a steady state.
        let round = u64::from(self.connections.max(WARM_UP_ECHOES_MIN));
        self.echo(model, &settings, &mut |echoes| echoes < round)?;
        let (wall, cpu) = (Instant::now(), current_thread_cpu()?);
        let echoes = self.echo(model, &settings, &mut |_| wall.elapsed() < time)?;
        let seconds = wall.elapsed().as_secs_f64();
        let cpu_seconds = (current_thread_cpu()? - cpu).total().as_secs_f64();
        let echoes_per_second = echoes as f64 / seconds;
        Ok(Measured {
            echoes_per_second,
            ns_per_echo: seconds * 1e9 / echoes as f64,
            cpu_ns_per_echo: cpu_seconds * 1e9 / echoes as f64,
            frames_per_second: echoes_per_second * f64::from(model.segments),
            echoes,
            core_share: cpu_seconds / seconds,
        })
    }

    /// Memory of both ends: blocks, tables, and the places for kept segments.
    pub fn bytes(&self) -> usize {
        self.client.bytes() + self.server.bytes()
    }

    /// The pages that the blocks lie in.
    pub fn pages(&self) -> Pages {
        self.client.pages()
    }

    fn start_over(&mut self, model: &Model) {
        let answers_kept = if model.keeps_answers() { self.connections as usize } else { 0 };
        self.turns.clear();
        self.turns.extend(0..self.connections);
        let mut random = None;
        if model.order == Order::Random {
            self.random.shuffle(&mut self.turns);
            random = Some(&mut self.random);
        }
        for place in 0..TURNS_AHEAD {
            self.turns.push(self.turns[place % self.connections as usize]);
        }
        self.client.start_over(BATCH_MAX, None);
        // In an engine that has run for long, places have been given out and taken back in any order.
        self.server.start_over(answers_kept + BATCH_MAX, random);
    }

    /// Goes round, batch by batch, as long as it is told to (asked after each 64 echoes or more). Returns the echoes.
    fn echo(
        &mut self,
        model: &Model,
        settings: &Settings,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<u64> {
        let started = (Instant::now(), self.now);
        let (mut echoes, mut asked) = (0, 0);
        loop {
            let mut at = 0;
            while at < self.connections as usize {
                let count = model.batch.unwrap_or(1).min(self.connections as usize - at);
                self.batch(at, count, model, settings)?;
                at += count;
                echoes += count as u64;
                if echoes - asked >= 64 {
                    asked = echoes;
                    self.now = started.1.wrapping_add(started.0.elapsed().as_millis() as u32);
                    if !go_on(echoes) {
                        return Ok(echoes);
                    }
                }
            }
        }
    }

    /// One echo on each of the next connections.
    #[inline(always)]
    fn batch(&mut self, at: usize, count: usize, model: &Model, settings: &Settings) -> Result<()> {
        let Self { client, server, turns, to_server, to_client, now, .. } = self;
        let (to_server, to_client, now) = (&mut to_server[..count], &mut to_client[..count], *now);
        let mut payload = PAYLOAD;
        let payload = &mut payload[..model.payload_bytes];

        for (place, &index) in turns[at..at + count].iter().enumerate() {
            if settings.prefetch {
                client.prefetch(turns[at + place + TURNS_AHEAD]);
            }
            stamp(payload, index, client.messages(index));
            client.send(index, payload, now, settings.prefetch);
        }
        for (&index, frame) in turns[at..at + count].iter().zip(&mut *to_server) {
            client.transmit(index, frame, now, settings)?;
        }

        server.receive(to_server, now, settings)?;
        for (place, frame) in to_server.iter().enumerate() {
            let (index, bytes) = server.arrived(place);
            server.resume(index);
            server.send(index, frame.payload(bytes), now, settings.prefetch);
        }
        for (place, frame) in to_client.iter_mut().enumerate() {
            server.transmit(server.arrived(place).0, frame, now, settings)?;
        }

        client.receive(to_client, now, settings)?;
        for (place, frame) in to_client.iter().enumerate() {
            let (index, bytes) = client.arrived(place);
            stamp(payload, index, client.messages(index));
            client.resume(index);
            ensure!(frame.payload(bytes) == payload, "{BROKEN}: a payload came back changed");
        }
        if model.segments == 3 {
            for (place, frame) in to_server.iter_mut().enumerate() {
                client.transmit(client.arrived(place).0, frame, now, settings)?;
            }
            server.receive(to_server, now, settings)?;
        }
        Ok(())
    }
}

/// Makes a payload that of one echo of one connection.
#[inline(always)]
fn stamp(payload: &mut [u8], index: u32, echoes: u32) {
    payload[..4].copy_from_slice(&index.to_ne_bytes());
    payload[4..STAMP_BYTES].copy_from_slice(&echoes.to_ne_bytes());
}

/// Random numbers (SplitMix64); the same in each run.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Fisher-Yates.
    pub fn shuffle(&mut self, values: &mut [u32]) {
        for last in (1..values.len()).rev() {
            let other = (u128::from(self.next()) * (last as u128 + 1)) >> 64;
            values.swap(last, other as usize);
        }
    }
}

const fn pattern() -> [u8; PAYLOAD_BYTES_MAX] {
    let mut bytes = [0; PAYLOAD_BYTES_MAX];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = (index * 151 + 17) as u8;
        index += 1;
    }
    bytes
}

/// What payloads consist of, behind their stamp.
const PAYLOAD: [u8; PAYLOAD_BYTES_MAX] = pattern();
/// At the head of a payload: connection and number of the echo.
const STAMP_BYTES: usize = 8;
/// How many turns ahead a client's block is prefetched.
const TURNS_AHEAD: usize = 16;
/// The largest batch.
const BATCH_MAX: usize = 1024;
/// So that the ports and addresses of the model suffice, and indices fit.
const CONNECTIONS_MAX: u32 = 100_000_000;
/// Before few connections are measured, so that the clock of the processor is up.
const WARM_UP_ECHOES_MIN: u32 = if cfg!(test) { 1 } else { 1_000_000 };
const BROKEN: &str = "the model is broken";

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn every_kind_of_model_runs_in_the_same_world_and_loses_nothing() {
        // More than a batch, and not a multiple of one.
        let connections = 1000;
        let mut world = World::of(connections).unwrap();
        for (order, batch) in
            [(Order::Random, Some(64)), (Order::Sequential, None), (Order::Random, Some(BATCH_MAX))]
        {
            for (segments, kept) in
                [(2, Kept::UntilAcknowledged), (3, Kept::UntilAcknowledged), (2, Kept::UntilSent)]
            {
                for (checksum, payload_bytes) in
                    [(true, 200), (false, STAMP_BYTES), (true, PAYLOAD_BYTES_MAX)]
                {
                    let model = Model { connections, order, segments, checksum, batch, kept, payload_bytes };
                    let measured = world.run(&model, SHORT).unwrap();
                    assert!(measured.echoes > 0 && measured.ns_per_echo > 0.0);
                }
            }
        }
    }

    #[test]
    fn what_is_out_of_limits_is_refused() {
        let run = |model: Model| World::of(model.connections)?.run(&model, SHORT);
        let refused = |model: Model| run(model).unwrap_err().to_string();
        let model = Model { connections: 10, ..Model::default() };
        assert!(refused(Model { connections: 0, ..model }).contains("0 connections"));
        assert!(refused(Model { segments: 4, ..model }).contains("not 4"));
        assert!(refused(Model { batch: Some(0), ..model }).contains("batch of 0"));
        assert!(refused(Model { batch: Some(BATCH_MAX + 1), ..model }).contains("batch of 1025"));
        assert!(refused(Model { payload_bytes: 241, ..model }).contains("payload of 241"));
        assert!(run(model).is_ok());
    }

    #[test]
    fn a_shuffle_keeps_all_values() {
        let mut values: Vec<u32> = (0..1000).collect();
        Random(1).shuffle(&mut values);
        assert!(values.iter().zip(0..).filter(|&(&value, place)| value == place).count() < 20);
        values.sort_unstable();
        assert!(values.iter().copied().eq(0..1000));
    }
}
