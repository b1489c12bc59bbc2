//! Who uses a device: the loops, and what they have told each other.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anywire_advice::Advice;
use anywire_tcp::PortBlock;

use super::addresses::SharedAddresses;
use super::flow_hash::Key;
use super::peer::Peer;
use super::queues::Queue;
use super::shard::Shard;
use super::steering::{LoopNumber, Steering};
use crate::device::{Capabilities, Device, LinkEvent};
use crate::xdp::Attachment;

/// A device of which several loops have a [`Shard`] each. See the [module's documentation](super).
///
/// What is changed here is changed by a lock that no frame waits for: each loop has a copy of the table, and looks whether there is a
/// newer one once it has taken a batch in, before it sorts it.
pub struct Shards {
    capabilities: Capabilities,
    attachment: Option<Arc<Attachment>>,
    state: Mutex<State>,
    /// Of the table.
    version: AtomicU64,
    /// How often queues began to wait for a new owner, or a loop to want one.
    orders: AtomicU64,
    is_gone: AtomicBool,
    /// Bytes of the longest packet that the device carries by now.
    mtu: AtomicUsize,
    pub(super) addresses: SharedAddresses,
}

struct State {
    steering: Arc<Steering>,
    peers: Vec<Arc<Peer>>,
    /// The number that was given out last. None is used again before all others were.
    last: LoopNumber,
    /// Queues on their way to a loop that has none.
    given: Vec<(LoopNumber, Queue)>,
    /// Queues of loops that have left, for whoever looks first.
    left: Vec<Queue>,
    /// Loops that have no queue.
    wanting: Vec<LoopNumber>,
    /// The link was down, when a loop with a queue has heard of it last.
    is_link_down: bool,
    random: fastrand::Rng,
}

impl State {
    /// Loops that have no queue may send by another loop from now on, and hear by it what becomes of the link next. They are told if
    /// that loop has heard more of it than the one before.
    fn tell_whether_down(&self) {
        for number in self.steering.without_queue() {
            let peers = self.peers.iter().filter(|peer| peer.number == number);
            peers.for_each(|peer| peer.tell_whether_down(self.is_link_down));
        }
    }
}

/// Why a service cannot be on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Another service listens there, or the port is one from which this process dials.
    #[error(
        "cannot listen at {0}: this process uses the port already{help}",
        help = Advice("choose another port, or listen before this process dials")
    )]
    InUse(SocketAddr),
    /// All ports that may be chosen are in use.
    #[error("no port is left to listen at{help}", help = Advice("name one below 16,384"))]
    NoPort,
    /// As many loops listen there as the service is for.
    #[error(
        "cannot listen at {0}: as many loops do as the service was reserved for{help}",
        help = Advice("reserve it for more, or try again once one of them has ended")
    )]
    TooManyLoops(SocketAddr),
    /// Nobody drives the host any more: its device is gone, or its driver has panicked. Start another host.
    #[error("nobody drives this host any more{help}", help = Advice("start another one"))]
    Stopped,
}

/// Why a loop cannot use a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoShard {
    /// As many loops use it as may.
    #[error("{LOOPS_MAX} loops of this process use the device already{help}", help = Advice("use fewer loops"))]
    TooManyLoops,
    /// The loop brings no queue, and no other loop is there to send for it.
    #[error("no loop of this process has a queue of the device{help}", help = Advice("open one"))]
    NoQueue,
}

impl Shards {
    /// A device that nobody uses yet, and what sends it packets, if it is an interface that the kernel uses as well. `secret` is random,
    /// and decides which loop has which connection; keep it to yourself.
    pub fn new(
        capabilities: Capabilities,
        attachment: Option<Arc<Attachment>>,
        secret: [u64; 2],
    ) -> Arc<Self> {
        let state = State {
            steering: Arc::new(Steering::new(Key::new(secret))),
            peers: Vec::new(),
            last: 0,
            given: Vec::new(),
            left: Vec::new(),
            wanting: Vec::new(),
            is_link_down: false,
            random: fastrand::Rng::with_seed(secret[0].rotate_left(32)),
        };
        Arc::new(Self {
            capabilities,
            attachment,
            state: Mutex::new(state),
            version: AtomicU64::new(0),
            orders: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            mtu: AtomicUsize::new(capabilities.mtu),
            addresses: SharedAddresses::default(),
        })
    }

    /// Another loop uses the device, with queues of it. Without any, it gets one of a loop that has several, or else sends by the queue
    /// of another. To be called on the loop.
    ///
    /// # Errors
    /// See [`NoShard`]; there may be 64 loops. After [`NoQueue`](NoShard::NoQueue) all queues of the device are closed.
    pub fn join(
        self: &Arc<Self>,
        queues: impl IntoIterator<Item = Box<dyn Device + Send>>,
    ) -> Result<Shard, NoShard> {
        let queues: Vec<_> = queues.into_iter().collect();
        let mut state = self.state();
        if state.peers.len() >= LOOPS_MAX {
            return Err(NoShard::TooManyLoops);
        }
        if queues.is_empty() && state.peers.is_empty() {
            return Err(NoShard::NoQueue);
        }
        let is_taken = |number| number == 0 || state.peers.iter().any(|other| other.number == number);
        let mut number = state.last.wrapping_add(1);
        while is_taken(number) {
            number = number.wrapping_add(1);
        }
        let peer = Arc::new(Peer::new(number));
        state.last = number;
        state.peers.push(Arc::clone(&peer));
        self.change(&mut state, |steering| steering.join(number, !queues.is_empty()));
        if queues.is_empty() {
            state.wanting.push(number);
            self.order(&state);
        }
        state.tell_whether_down();
        drop(state);
        Ok(Shard::new(Arc::clone(self), peer, queues))
    }

    /// So many loops will listen at an address, each by [`SharedHost::listen`](super::SharedHost::listen). Port 0 stands for a free one.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn reserve(
        self: &Arc<Self>,
        mut address: SocketAddr,
        loops: usize,
    ) -> Result<Reservation, ServiceError> {
        let mut state = self.state();
        if address.port() == 0 {
            address.set_port(state.steering.free_port(address.ip()).ok_or(ServiceError::NoPort)?);
        }
        if state.steering.is_open(address) || state.steering.is_dialled_from(address.port()) {
            return Err(ServiceError::InUse(address));
        }
        self.change(&mut state, |steering| steering.open(address, loops));
        drop(state);
        Ok(Reservation { shards: Arc::clone(self), address })
    }

    /// What the device was able to do when it was opened.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What sends us packets, if the device is an interface that the kernel uses as well.
    pub const fn attachment(&self) -> Option<&Arc<Attachment>> {
        self.attachment.as_ref()
    }

    /// Nobody on the link has this address, as [`who_has`](crate::ip::who_has) has found a moment ago: the first loop that
    /// [joins](super::SharedHost::join) it within ten seconds does not ask again.
    pub fn note_free(&self, address: IpAddr) {
        self.addresses.note_free(address);
    }

    /// Whether an address [is free](Self::note_free), and no loop has it yet.
    pub fn is_free(&self, address: IpAddr) -> bool {
        self.addresses.is_free(address)
    }

    /// Whether a loop of this process has an address on the device, or asks for it.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.has(address)
    }

    /// How many loops use the device.
    pub fn loops(&self) -> usize {
        self.state().peers.len()
    }

    /// A loop listens there from now on, unless as many do as the service is for.
    pub(super) fn listen(&self, address: SocketAddr, number: LoopNumber) -> Result<(), ServiceError> {
        let (mut state, mut has_slot) = (self.state(), false);
        if !state.steering.has_member(number) {
            return Err(ServiceError::Stopped);
        }
        self.change(&mut state, |steering| has_slot = steering.listen(address, number));
        // SYNs may wait for it.
        self.order(&state);
        if has_slot { Ok(()) } else { Err(ServiceError::TooManyLoops(address)) }
    }

    /// More ports for a loop to dial from; none if none is left.
    pub(super) fn give_blocks(&self, number: LoopNumber) -> Vec<PortBlock> {
        let (mut state, mut blocks) = (self.state(), Vec::new());
        let start = state.random.usize(..);
        self.change(&mut state, |steering| blocks = steering.give_blocks(number, start));
        blocks
    }

    /// The loop has ended, which had these queues: others read them from now on. Without others they are closed.
    pub(super) fn leave(&self, number: LoopNumber, queues: impl Iterator<Item = Queue>) {
        let mut state = self.state();
        let own = state.peers.iter().position(|peer| peer.number == number);
        let own = own.map(|own| state.peers.swap_remove(own));
        state.wanting.retain(|other| *other != number);
        self.change(&mut state, |steering| steering.leave(number));
        state.tell_whether_down();
        let (to_us, given): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.given).into_iter().partition(|(to, _)| *to == number);
        state.given = given;
        state.left.extend(queues.chain(to_us.into_iter().map(|(_, queue)| queue)));
        let closed = if state.peers.is_empty() { std::mem::take(&mut state.left) } else { Vec::new() };
        self.order(&state);
        // Before another loop may open them anew.
        drop(closed);
        drop(state);
        own.iter().for_each(|own| own.close());
    }

    /// Another loop gets one of the queues of a loop that has several.
    pub(super) fn hand_on(&self, take: impl FnOnce() -> Option<Queue>) {
        let mut state = self.state();
        let Some(heir) = state.wanting.pop() else { return };
        match take() {
            Some(queue) => {
                state.given.push((heir, queue));
                self.order(&state);
            }
            None => state.wanting.push(heir),
        }
    }

    /// Whether queues are on their way or wanted since the last look.
    #[inline]
    pub(super) fn has_orders(&self, seen: u64) -> bool {
        self.orders.load(Ordering::Acquire) != seen
    }

    /// The queues that this loop gets, and whether another one wants some. Of those that were left it takes one at a time, so that loops
    /// that look share them, and none waits for a loop that is stuck.
    pub(super) fn orders(&self, number: LoopNumber, seen: &mut u64) -> (Vec<Queue>, bool) {
        *seen = self.orders.load(Ordering::Acquire);
        let mut state = self.state();
        let (ours, given): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.given).into_iter().partition(|(to, _)| *to == number);
        state.given = given;
        let left = state.left.pop();
        let ours: Vec<_> = ours.into_iter().map(|(_, queue)| queue).chain(left).collect();
        if !ours.is_empty() {
            state.wanting.retain(|other| *other != number);
            self.change(&mut state, |steering| steering.set_queue(number, true));
            state.tell_whether_down();
            self.order(&state);
        }
        (ours, !state.wanting.is_empty())
    }

    /// The table, if it is not the one of this version.
    #[inline]
    pub(super) fn newer(&self, version: &mut u64) -> Option<Arc<Steering>> {
        let newest = self.version.load(Ordering::Acquire);
        if newest == *version {
            return None;
        }
        *version = newest;
        Some(Arc::clone(&self.state().steering))
    }

    pub(super) fn peer(&self, number: LoopNumber) -> Option<Arc<Peer>> {
        self.state().peers.iter().find(|peer| peer.number == number).cloned()
    }

    /// The engine of a loop has an address from now on, or not any more: it is one that answers for it, or none.
    pub(super) fn set_answers(&self, ip: IpAddr, number: LoopNumber, answers: bool) {
        let mut state = self.state();
        self.change(&mut state, |steering| {
            if answers { steering.begin_to_answer(ip, number) } else { steering.end_to_answer(ip, number) }
        });
        // SYNs may wait for a loop that listens there.
        self.order(&state);
    }

    /// Something has become of the link, as a loop with a queue has heard: those without one that send by it hear of it too.
    pub(super) fn tell_link(&self, uplink: LoopNumber, event: LinkEvent) {
        let mut state = self.state();
        match event {
            LinkEvent::Up => state.is_link_down = false,
            LinkEvent::Down => state.is_link_down = true,
            // Loops that begin later hear of it by this alone.
            LinkEvent::MtuLowered { mtu } => drop(self.mtu.fetch_min(mtu, Ordering::AcqRel)),
            _ => {}
        }
        for number in state.steering.sending_by(uplink) {
            state.peers.iter().filter(|peer| peer.number == number).for_each(|peer| peer.tell(event));
        }
    }

    /// The device is gone for good: those without a queue would not hear of it.
    pub(super) fn tell_gone(&self) {
        if !self.is_gone.swap(true, Ordering::AcqRel) {
            self.state().peers.iter().for_each(|peer| peer.notifier.notify());
        }
    }

    /// Whether the device was removed, for good: one that is made anew under its name is another one.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Bytes of the longest packet that the device carries now.
    pub(super) fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Acquire)
    }

    /// Has all loops look.
    fn order(&self, state: &State) {
        self.orders.fetch_add(1, Ordering::Release);
        state.peers.iter().for_each(|peer| peer.notifier.notify());
    }

    fn change(&self, state: &mut State, change: impl FnOnce(&mut Steering)) {
        let mut steering = Steering::clone(&state.steering);
        change(&mut steering);
        state.steering = Arc::new(steering);
        // A loop that sees the new version waits for the lock, and so for the new table.
        self.version.fetch_add(1, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shards").field("loops", &self.loops()).finish_non_exhaustive()
    }
}

/// An address that is listened on; free again when this is dropped. Connections go on.
#[derive(Debug)]
pub struct Reservation {
    shards: Arc<Shards>,
    address: SocketAddr,
}

impl Reservation {
    /// Where it is, with the port that was chosen.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let address = self.address;
        // What was found out for this service may not hold for the next one.
        self.shards.addresses.take_free(address.ip());
        self.shards.change(&mut self.shards.state(), |steering| steering.close(address));
    }
}

/// Loops of a device. Each pair that shares connections has a megabyte of rings.
const LOOPS_MAX: usize = 64;
