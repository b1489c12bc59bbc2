//! The engine: every connection of one core, fed with frames and time, drained of frames and events.
//!
//! After any input ([`receive`](Engine::receive), [`advance`](Engine::advance), a call for a connection) the caller drains
//! the outputs. [`next_ready`](Engine::next_ready) gives the events for the users of connections.
//! [`transmit`](Engine::transmit) gives as many frames as the device has room for. Segments without room stay in their
//! connection until a later `transmit`.
//!
//! | file | holds |
//! | --- | --- |
//! | `input` | segments that arrive: a batch in stages, prediction, the states, ACKs and losses, payload |
//! | `output` | segments that leave: in their turn, at their rate, and those that belong to no connection |
//! | `opening` | LISTEN and half-open connections, the handshake, the backlog, ports to dial from |
//! | `ending` | FIN, reset, TIME-WAIT, giving places back |
//! | `timers` | deadlines, those of users and keep-alive, and times of 32 bits |
//! | `memory` | what is taken, and who loses some when others find none |
//! | `user` | what the holder of a connection calls and hears |
//! | `ip` | our addresses and listeners; ways out; the Ethernet header for each next hop |
//! | `id`, `place` | the names of connections; their places in the slabs |
//! | `check` | what always holds, looked at after every input in debug builds |

mod check;
mod ending;
mod id;
mod input;
mod ip;
mod memory;
mod opening;
mod output;
mod place;
mod timers;
mod user;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::IpAddr;

use anywire_packet::{Checks, Cidr};

use crate::counters::Counters;
use crate::extension::{Extension, ExtensionId};
use crate::fifo::Fifo;
use crate::fragment_ids::FragmentIds;
use crate::frames::Frames;
use crate::half_open::HalfOpen;
use crate::hash::Keys;
use crate::idle_timer::IdleTimers;
use crate::path_mtu::PathMtus;
use crate::pool::{Pool, SEGMENT_BYTES};
use crate::settings::{Limits, Settings};
use crate::slab::Slab;
use crate::table::Table;
use crate::tcb::{Flags, Tcb};
use crate::time::{Instant, Tick};
use crate::time_wait::TimeWait;
use crate::wheel::Wheel;

pub(crate) use self::memory::usage::{bytes_of_list, bytes_of_map, bytes_of_queue};
pub(crate) use self::output::pace::Pace;

pub(crate) use self::id::ConnIndex;
pub use self::id::{ConnId, ListenerId};
pub use self::ip::link::NextHop;
pub use self::ip::routes::{Route, RouteError, Via};
pub use self::memory::usage::Memory;
pub use self::opening::source::PortBlock;
pub use self::user::calls::{ConnectError, ConnectOptions, End, ListenError, Status};
pub use self::user::info::{Info, SoftError, TcpState};
pub use self::user::ready::{Events, Ready};

use self::input::answered::Answered;
use self::input::deliver::InFrame;
use self::input::receive::Arrived;
use self::ip::local::Local;
use self::memory::reclaim::Reclaim;
use self::memory::waiting::Waiting;
use self::opening::source::Sources;
use self::output::reply::Reply;
use self::output::scheduler::Scheduler;
use self::place::{PLACE, Place};
use self::timers::aging::Aging;
use self::user::info::Troubles;

/// The TCP of one core.
pub struct Engine {
    settings: Settings,
    limits: Limits,
    /// The time as it was given last.
    now: Instant,
    tick: Tick,
    aging: Aging,
    /// Half a second and the other timings in ticks, made once.
    timings: timers::deadlines::Timings,

    tcbs: Slab<Tcb>,
    extensions: Slab<Extension>,
    half_open: Slab<HalfOpen>,
    time_wait: Slab<TimeWait>,
    /// From the hash of addresses and ports to a place in one of the three.
    table: Table,
    pool: Pool,
    /// A message up to so long has room in an empty send queue, and in a cell.
    at_once_bytes: usize,
    local: Local,

    scheduler: Scheduler,
    /// Connections whose users had something to send when the pool was full, and that nothing else would wake.
    waiting_for_memory: Waiting,
    /// Connections that had to cut a segment in two when not even promised memory was left.
    waiting_to_split: BTreeSet<ConnIndex>,
    /// Segments out of order, of all connections.
    out_of_order_segments: usize,
    reclaim: Reclaim,
    replies: VecDeque<Reply>,
    /// Places of connections with events.
    ready: Fifo<ConnIndex>,
    idle_timers: IdleTimers,
    /// Deadlines that have passed and were not reported yet.
    expired: usize,
    /// Probes that found the queue of replies full in this tick.
    probes_put_off: (Tick, u32),
    /// User timeouts in ticks, of the few connections that have one of their own.
    user_timeouts: HashMap<ConnIndex, u32>,
    troubles: Troubles,

    /// The batch that came in last: payload is read from it as long as it is here.
    received: Frames,
    in_frames: Vec<InFrame>,
    /// Connections to which this batch brought payload, and that may owe an ACK for it.
    delayed_ack_candidates: Vec<ConnIndex>,
    batch: Vec<Arrived>,
    /// Frames of the batch that are no TCP, for who resolves addresses and answers ICMP.
    left_over: Vec<u32>,
    /// Which checksums are made of what leaves.
    leaving_checks: Checks,

    wheel: Wheel,
    due: Vec<u32>,
    /// Connections that sent something lately, with the time at which to see whether it got through.
    fresh: Fifo<(ConnIndex, Tick)>,
    delayed_acks: Fifo<(ConnIndex, Tick)>,
    /// Half-open connections of the last moment, with the time at which each is looked at.
    young: Fifo<(u32, Tick)>,
    /// Paths that are narrower than their first link.
    path_mtus: PathMtus,
    fragment_ids: FragmentIds,
    /// With the time at which each ends: a place that was given up early may be taken by another one meanwhile.
    time_wait_queue: Fifo<(u32, Tick)>,

    keys: Keys,
    answered: Answered,
    /// When a SYN was answered with a cookie last.
    cookie_sent_at: Option<Instant>,
    sources: Sources,
    counters: Counters,
    /// The first sender without a route to it, and the address of ours that it has called, until somebody asks.
    unroutable: Option<(IpAddr, IpAddr)>,
}

impl Engine {
    /// An engine without addresses, routes and connections.
    ///
    /// # Errors
    /// The system's, if address space for the limits cannot be had.
    pub fn new(mut settings: Settings, limits: Limits) -> io::Result<Self> {
        settings.receive_window = settings.receive_window.min(opening::handshake::RECEIVE_WINDOW_MAX);
        // A packet with none would pass no router, and not leave some cards.
        settings.hop_limit = settings.hop_limit.max(1);
        let entries = limits.connections + limits.half_open + limits.time_wait;
        let local = Local::new(settings.loops_back, limits.neighbours);
        Ok(Self {
            now: Instant::default(),
            tick: Tick(0),
            aging: Aging::default(),
            timings: timers::deadlines::Timings::new(&settings),
            tcbs: Slab::new(limits.connections)?,
            extensions: Slab::new(limits.extensions.min(ExtensionId::COUNT_MAX))?,
            half_open: Slab::new(limits.half_open)?,
            time_wait: Slab::new(limits.time_wait)?,
            table: Table::new(entries)?,
            pool: Pool::new(limits.segment_bytes, limits.connections)?,
            at_once_bytes: match limits.send_segments {
                0 => 0,
                _ => SEGMENT_BYTES.min(limits.send_bytes as usize),
            },
            local,
            scheduler: Scheduler::default(),
            replies: VecDeque::new(),
            ready: Fifo::default(),
            idle_timers: IdleTimers::new(limits.connections)?,
            expired: 0,
            probes_put_off: (Tick(0), 0),
            user_timeouts: HashMap::new(),
            troubles: Troubles::default(),
            received: Frames::with_room(0, 0),
            in_frames: Vec::new(),
            delayed_ack_candidates: Vec::new(),
            batch: Vec::new(),
            left_over: Vec::new(),
            leaving_checks: Checks {
                ip: settings.checksums,
                tcp: settings.checksums && !settings.checksum_offload,
            },
            waiting_for_memory: Waiting::default(),
            waiting_to_split: BTreeSet::new(),
            out_of_order_segments: 0,
            reclaim: Reclaim::default(),
            sources: Sources::default(),
            wheel: Wheel::new(Tick(0), 2 * entries + 1024)?,
            due: Vec::new(),
            fresh: Fifo::default(),
            delayed_acks: Fifo::default(),
            young: Fifo::default(),
            path_mtus: PathMtus::default(),
            fragment_ids: FragmentIds::new(),
            time_wait_queue: Fifo::default(),
            keys: Keys::new(settings.secret),
            answered: Answered::default(),
            cookie_sent_at: None,
            counters: Counters::default(),
            unroutable: None,
            settings,
            limits,
        })
    }

    /// The first peer that could not be answered because no route leads to it, and the network of ours that it has called, whose hosts
    /// alone can be answered without a [gateway](crate::Via::Gateway). Told once; later ones are
    /// [counted](Counters::unroutable).
    pub fn take_unroutable(&mut self) -> Option<(IpAddr, Cidr)> {
        let (peer, local) = self.unroutable.take()?;
        Some((peer, self.local.network_of(local)))
    }

    /// The counters.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How it was told to behave.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Connections that have a TCB: open, opening or ending.
    pub fn connections(&self) -> usize {
        self.tcbs.used()
    }

    /// Half-open connections: only a SYN has come.
    pub fn half_open(&self) -> usize {
        self.half_open.used()
    }

    /// Connections in TIME-WAIT without a user.
    pub fn in_time_wait(&self) -> usize {
        self.time_wait.used()
    }

    /// An extension by the number in a TCB, if it is one.
    fn extensions_mut(&mut self, id: ExtensionId) -> Option<&mut Extension> {
        if id == Tcb::NO_EXTENSION { None } else { Some(&mut self.extensions[id]) }
    }

    /// Whether this is the id of a connection that its user holds, and not of an earlier one in its place.
    #[inline(always)]
    pub fn is_held(&self, id: ConnId) -> bool {
        id.index() < self.tcbs.places() && {
            let tcb = &self.tcbs[id.0];
            if id.1 == id::CLAIMED {
                tcb.has(Flags::CLAIMED)
            } else {
                tcb.tag() == id.1 && !tcb.has(Flags::DETACHED)
            }
        }
    }

    /// The id of the connection that is in a place now; none if no user holds one there.
    #[inline]
    pub fn at(&self, index: u32) -> Option<ConnId> {
        let (index, is_place) = (ConnIndex(index), index < self.tcbs.places());
        let tcb = is_place.then(|| &self.tcbs[index])?;
        Some(ConnId(index, tcb.tag())).filter(|_| tcb.local_port != 0 && !tcb.has(Flags::DETACHED))
    }

    /// Puts a connection into the ring of those to send, if it is not there.
    #[inline]
    fn schedule(&mut self, index: ConnIndex) {
        self.scheduler.enter(index, &mut self.tcbs[index]);
    }
}
