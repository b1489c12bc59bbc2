//! The times and limits of the layer, and what it counts.

use std::time::Duration;

/// How a layer behaves. The defaults are the constants of RFC 4861 10, which ARP has to keep to as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// From it follow all random times: a simulation with the same seed is the same. Take it from the system's random numbers, so
    /// that hosts that start together do not ask together.
    pub seed: u64,
    /// How long a neighbour counts as reachable after it was heard of, more or less: half to one and a half of it (RFC 4861
    /// 6.3.2). Default: 30 s.
    pub reachable_time: Duration,
    /// How long a question waits for its answer. Default: 1 s.
    pub retransmit_time: Duration,
    /// How often a neighbour is asked for before it is given up. Default: 3.
    pub tries: u8,
    /// How long a connection may show that its neighbour is still there, before it is asked (RFC 4861 7.3.2, DELAY). Default: 5 s.
    pub progress_time: Duration,
    /// How an address is checked before it is used.
    pub probing: Probing,
}

impl Settings {
    /// The defaults with this seed.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            reachable_time: Duration::from_secs(30),
            retransmit_time: Duration::from_secs(1),
            tries: 3,
            progress_time: Duration::from_secs(5),
            probing: Probing::RFC_5227,
        }
    }
}

/// How an address is checked before it is used: whether somebody else answers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// How often is asked. With zero the address is used at once.
    pub probes: u8,
    /// The first question is asked within this time, drawn at random.
    pub wait_max: Duration,
    /// The least time between questions.
    pub interval_min: Duration,
    /// The most.
    pub interval_max: Duration,
    /// How long the last one waits for an answer.
    pub answer_wait: Duration,
}

impl Probing {
    /// As RFC 5227 1.1 has it for IPv4, which is more than RFC 4862 asks for: 4 to 7 seconds.
    pub const RFC_5227: Self = Self {
        probes: 3,
        wait_max: Duration::from_secs(1),
        interval_min: Duration::from_secs(1),
        interval_max: Duration::from_secs(2),
        answer_wait: Duration::from_secs(2),
    };

    /// For a link within one machine, where an answer takes microseconds: 0.2 to 0.3 seconds.
    pub const LOCAL: Self = Self {
        probes: 3,
        wait_max: Duration::from_millis(50),
        interval_min: Duration::from_millis(50),
        interval_max: Duration::from_millis(75),
        answer_wait: Duration::from_millis(100),
    };

    /// Nobody is asked.
    pub const OFF: Self = Self { probes: 0, ..Self::LOCAL };
}

/// How much a layer holds. What reaches a limit has a counter in [`Counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Neighbours that are known or asked for. Those without a connection give way, the oldest first. Default: 1024.
    pub neighbours: usize,
    /// Neighbours that are asked for at the same time. Default: 128.
    pub resolving: usize,
    /// Frames that wait for one neighbour; above that the oldest gives way (RFC 4861 7.2.2). Default: 3.
    pub pending_each: usize,
    /// Frames that wait for all of them. Default: 256.
    pub pending: usize,
    /// Frames of the layer's own that wait for room in the device. Default: 256.
    pub outgoing: usize,
    /// Answers of ICMP a second. Default: 1000.
    pub answers_per_second: u32,
    /// Of these, how many may follow each other at once. Default: 100.
    pub answers_burst: u32,
    /// Answers a second to neighbours who ask for an address of ours, so that a flood of questions costs no more than to read it. A
    /// neighbour with connections is answered in any case; others ask again. Default: 1000.
    pub neighbour_answers_per_second: u32,
    /// Of these, how many may follow each other at once. Default: 100.
    pub neighbour_answers_burst: u32,
    /// Addresses of ours. Default: 64.
    pub addresses: usize,
    /// Events that wait to be taken; above that one is lost: the oldest that says nothing of whether an address is ours. Default: 64.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            neighbours: 1024,
            resolving: 128,
            pending_each: 3,
            pending: 256,
            outgoing: 256,
            answers_per_second: 1000,
            answers_burst: 100,
            neighbour_answers_per_second: 1000,
            neighbour_answers_burst: 100,
            addresses: 64,
            events: 64,
        }
    }
}

/// What a layer has counted; all of it only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Messages of ARP and of neighbour discovery that came in.
    pub asked_and_told: u64,
    /// Of these, questions for an address of ours, which were answered.
    pub answered: u64,
    /// Questions of neighbours that the [limit](Limits::neighbour_answers_per_second) left without an answer.
    pub neighbours_unanswered: u64,
    /// Questions that were sent: for new neighbours, for known ones, and for addresses of ours.
    pub questions: u64,
    /// Neighbours that were found.
    pub resolved: u64,
    /// Neighbours that have not answered, or not any more.
    pub unreachable: u64,
    /// Neighbours whose interface became another one.
    pub moved: u64,
    /// Neighbours forgotten for others ([`Limits::neighbours`]).
    pub evicted: u64,
    /// Frames dropped since their neighbour could not be asked for: at [`Limits::resolving`], or at [`Limits::neighbours`] when all
    /// have connections.
    pub not_asked: u64,
    /// Frames that gave way to later ones of the same neighbour ([`Limits::pending_each`]), or found [`Limits::pending`] reached.
    pub pending_dropped: u64,
    /// Frames that waited for a neighbour in vain.
    pub undelivered: u64,
    /// Requests of ICMP echo that were answered.
    pub echoes: u64,
    /// Datagrams for no port, which was told.
    pub ports_unreachable: u64,
    /// Answers of ICMP that the [limit](Limits::answers_per_second) held back.
    pub answers_withheld: u64,
    /// Frames of the layer's own that found no room ([`Limits::outgoing`]).
    pub outgoing_dropped: u64,
    /// Frames that are not as they must be, or that were meant for another interface.
    pub refused: u64,
    /// Questions of routers for groups (MLD).
    pub group_queries: u64,
    /// Reports of groups of ours that were sent.
    pub group_reports: u64,
    /// Frames of other protocols, with a VLAN tag say.
    pub ignored: u64,
    /// Times that somebody else was seen with an address of ours.
    pub conflicts: u64,
    /// Events lost ([`Limits::events`]).
    pub events_lost: u64,
}
