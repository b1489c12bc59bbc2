//! The neighbours and their states (RFC 4861 7.3.2), for ARP as well.
//!
//! ```text
//!               frame                    answer                     time
//!    (nothing) ──────► INCOMPLETE ───────────────► REACHABLE ─────────────────┐
//!                        │  asked three times      ▲   ▲   ▲                  ▼
//!                        ▼                 answer  │   │   │ progress   in use?  ── no ──► STALE
//!                     given up ◄────────── PROBE ──┘   │   │                  │              │ frame
//!                         asked three times  ▲         │   │                 yes             │
//!                                            └──────── DELAY ◄───────────────┴───────────────┘
//!                                               5 s without progress
//! ```
//!
//! A neighbour with connections is watched whether frames pass here or not: when its time is over, progress of its connections
//! proves it reachable, or else it is asked. One without connections is STALE, and the engine is told to ask before the next frame.
//!
//! What is to be done comes out as a list of [`Todo`], which the owner drains after each call.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

use anywire_packet::Mac;
use anywire_tcp::{Engine, Instant};
use fastrand::Rng;

pub(super) use super::inspect::NeighbourState as State;
use super::settings::{Limits, Settings};

/// What is known of the connections that use a neighbour.
pub(super) trait Users {
    /// Whether there are some.
    fn use_neighbour(&self, address: IpAddr) -> bool;

    /// Whether a peer has acknowledged something that went there, since the last call.
    fn have_progressed(&mut self, address: IpAddr) -> bool;
}

impl Users for Engine {
    fn use_neighbour(&self, address: IpAddr) -> bool {
        self.uses_neighbour(address)
    }

    fn have_progressed(&mut self, address: IpAddr) -> bool {
        self.take_progress(address)
    }
}

/// What the owner of the cache has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Todo {
    /// Ask for a neighbour: the interface that it had, or all.
    Ask(IpAddr, Option<Mac>),
    /// Tell the engine.
    Set(IpAddr, Option<Mac>),
    /// Whatever its connections have progressed before proves nothing any more.
    Watch(IpAddr),
    /// A frame that has waited may leave.
    Send(Mac, Vec<u8>),
    /// It has another interface now.
    Moved { address: IpAddr, from: Mac, to: Mac },
    /// It does not answer.
    Unreachable(IpAddr),
    /// A frame that has waited for it in vain.
    Undelivered(Vec<u8>),
}

/// What the cache has counted, under the names of [`Counters`](super::settings::Counters).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CacheCounters {
    pub(super) resolved: u64,
    pub(super) unreachable: u64,
    pub(super) moved: u64,
    pub(super) evicted: u64,
    pub(super) not_asked: u64,
    pub(super) pending_dropped: u64,
    pub(super) undelivered: u64,
}

/// A neighbour.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) state: State,
    /// None while it is incomplete, and then alone.
    pub(super) mac: Option<Mac>,
    /// When its state ends by itself.
    pub(super) until: Option<Instant>,
    /// How often it was asked in this state.
    pub(super) tries: u8,
    /// Frames that wait for it.
    pub(super) pending: VecDeque<Vec<u8>>,
}

/// The neighbours of a link.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) settings: Settings,
    pub(super) limits: Limits,
    pub(super) neighbours: HashMap<IpAddr, Neighbour>,
    /// Each of them once: whose turn it is to give way.
    pub(super) order: VecDeque<IpAddr>,
    pub(super) deadlines: BTreeSet<(Instant, IpAddr)>,
    pub(super) incomplete: usize,
    pub(super) pending: usize,
    pub(super) todo: VecDeque<Todo>,
    pub(super) random: Rng,
    pub(super) counters: CacheCounters,
}

impl Cache {
    pub(super) fn new(settings: Settings, limits: Limits) -> Self {
        Self {
            settings,
            limits,
            neighbours: HashMap::new(),
            order: VecDeque::new(),
            deadlines: BTreeSet::new(),
            incomplete: 0,
            pending: 0,
            todo: VecDeque::new(),
            random: Rng::with_seed(settings.seed),
            counters: CacheCounters::default(),
        }
    }

    /// Has a frame sent to a neighbour, as soon as it is known. Its destination is filled in by the owner.
    pub(super) fn send(&mut self, now: Instant, address: IpAddr, frame: Vec<u8>, users: &impl Users) {
        let Some(neighbour) = self.neighbours.get(&address) else {
            return self.ask_for_new(now, address, frame, users);
        };
        let Some(mac) = neighbour.mac else { return self.wait(address, frame) };
        if neighbour.state == State::Stale {
            let until = now + self.settings.progress_time;
            self.enter(address, State::Delay, Some(until));
        }
        self.todo.push_back(Todo::Set(address, Some(mac)));
        self.todo.push_back(Todo::Send(mac, frame));
    }

    fn ask_for_new(&mut self, now: Instant, address: IpAddr, frame: Vec<u8>, users: &impl Users) {
        if self.incomplete >= self.limits.resolving || !self.make_room(users) {
            self.counters.not_asked += 1;
            return;
        }
        let neighbour = Neighbour {
            state: State::Incomplete,
            mac: None,
            until: None,
            tries: 1,
            pending: VecDeque::new(),
        };
        self.neighbours.insert(address, neighbour);
        self.order.push_back(address);
        self.incomplete += 1;
        self.enter(address, State::Incomplete, Some(now + self.settings.retransmit_time));
        self.todo.push_back(Todo::Ask(address, None));
        self.wait(address, frame);
    }

    /// Keeps a frame until its neighbour is known.
    fn wait(&mut self, address: IpAddr, frame: Vec<u8>) {
        let Some(neighbour) = self.neighbours.get_mut(&address) else { return };
        // The latest is worth most: what it answers is still waited for.
        if neighbour.pending.len() >= self.limits.pending_each && neighbour.pending.pop_front().is_some() {
            self.pending -= 1;
            self.counters.pending_dropped += 1;
        }
        if self.pending >= self.limits.pending || neighbour.pending.len() >= self.limits.pending_each {
            self.counters.pending_dropped += 1;
            return;
        }
        self.pending += 1;
        neighbour.pending.push_back(frame);
    }

    /// Moves a neighbour to a state, which ends by itself at `until`.
    pub(super) fn enter(&mut self, address: IpAddr, state: State, until: Option<Instant>) {
        let Some(neighbour) = self.neighbours.get_mut(&address) else { return };
        if let Some(before) = std::mem::replace(&mut neighbour.until, until) {
            self.deadlines.remove(&(before, address));
        }
        if let Some(until) = until {
            self.deadlines.insert((until, address));
        }
        if neighbour.state != state {
            neighbour.state = state;
            neighbour.tries = 0;
            if state == State::Delay {
                self.todo.push_back(Todo::Watch(address));
            }
        }
    }

    /// A neighbour was heard of, or proved by progress: it is reachable for a while.
    pub(super) fn confirm(&mut self, now: Instant, address: IpAddr) {
        let half = self.settings.reachable_time / 2;
        let until = now + half + self.settings.reachable_time.mul_f64(self.random.f64());
        self.enter(address, State::Reachable, Some(until));
    }

    /// Whether a question for a neighbour waits for its answer.
    pub(super) fn is_asked(&self, address: IpAddr) -> bool {
        let neighbour = self.neighbours.get(&address);
        neighbour.is_some_and(|neighbour| matches!(neighbour.state, State::Incomplete | State::Probe))
    }

    /// When time changes something next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The state of a neighbour, and its interface.
    #[cfg(test)]
    pub(super) fn state_of(&self, address: IpAddr) -> Option<(State, Option<Mac>)> {
        self.neighbours.get(&address).map(|neighbour| (neighbour.state, neighbour.mac))
    }
}
