//! AF_XDP: sockets that exchange whole frames with one queue of a network interface, through memory shared with the kernel.
//!
//! [`Sockets`] are the sockets of one loop, two for each receive queue that it serves, over one UMEM (`XDP_SHARED_UMEM`). An XDP
//! program has to [redirect](crate::bpf::SocketMap) packets to them, and says by which of the two each packet comes: its
//! [`Class`]. Each class has a receive ring of its own and chunks for all of it. So a flood of one class takes neither the place of the
//! other nor, because few frames of [`Class::BestEffort`] are handed over at a time, the time of the loop. Frames leave by the first queue
//! alone, so that they stay in order.
//!
//! Each frame is copied once between the UMEM and the caller. So a chunk returns to its ring at once and never leaves this
//! module. A ledger knows who holds each chunk. A descriptor that the kernel writes is checked against it, and a wrong one is
//! counted and passed over.
//!
//! Limits: a ring has [`Settings::depth`] entries, but the fill ring twice as many. The UMEM has as many chunks as the fill rings of its
//! queues, and for the one that sends as many more as the transmit ring. A frame that arrives in parts, because generic receive offload has joined it,
//! has at most [`FRAME_BYTES_MAX`] bytes.

mod exchange;
mod ring;
mod socket;
mod umem;

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::xdp::XdpDesc;

use self::exchange::{Chunks, Incoming, Outgoing};
use self::ring::{Consumer, Producer};
use self::socket::{Rings, Role, Socket};

/// The AF_XDP sockets of one loop, bound to queues of one interface, over one UMEM.
pub struct Sockets {
    // Dropped before the UMEM: closing a socket ends the kernel's use of it.
    queues: Vec<Queue>,
    outgoing: Outgoing,
    /// Readable when one of the sockets is, or what else is [watched](Self::watch).
    epoll: OwnedFd,
    chunks: Chunks,
    /// The queue that is read first next time, so that a busy one does not starve the others.
    next: usize,
}

struct Queue {
    /// The one of [`Class::Priority`], which has the fill ring.
    socket: Socket,
    /// The one of [`Class::BestEffort`].
    best_effort: Socket,
    incoming: Incoming,
}

impl Queue {
    /// The second socket of a queue, beside the first, which is bound.
    fn new(
        place: u16,
        interface: u32,
        depth: u32,
        socket: Socket,
        fill: Option<Producer<u64>>,
        receive: Consumer<XdpDesc>,
    ) -> Result<Self, Error> {
        let (best_effort, rings) = Socket::new(socket.queue, depth, 0, Role::SameQueue)?;
        best_effort.bind_shared(interface, &socket)?;
        let fill = fill.expect("the first socket of a queue has a fill ring");
        Ok(Self { socket, best_effort, incoming: Incoming::new(place, fill, [receive, rings.receive]) })
    }
}

impl Sockets {
    /// Makes the UMEM and the sockets, and binds them to these queues of an interface, which is given by its index. Frames leave
    /// by the first one.
    ///
    /// # Errors
    ///
    /// [`Error`] tells the step that failed and what the system said.
    pub fn open(interface: u32, queues: &[u32], settings: Settings) -> Result<Self, Error> {
        let Settings { depth, chunk_bytes, mode } = settings;
        let refused = |what: &'static str| Error {
            step: Step::Settings,
            source: io::Error::new(io::ErrorKind::InvalidInput, what),
        };
        let (Some((&first, others)), Ok(count)) = (queues.split_first(), u16::try_from(queues.len())) else {
            return Err(refused("1 to 65,535 queues share a UMEM"));
        };
        if !depth.is_power_of_two() || depth > DEPTH_MAX {
            return Err(refused("the depth is a power of two, at most 32,768"));
        }
        if ![2048, 4096].contains(&chunk_bytes) {
            return Err(refused("a chunk has 2,048 or 4,096 bytes"));
        }
        // For both classes of each queue, and for what is sent.
        let to_receive = 2 * depth;
        let chunks = Chunks::of(to_receive * u32::from(count) + depth, chunk_bytes)
            .map_err(|source| Error { step: Step::Memory, source })?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|errno| Error { step: Step::Readiness, source: errno.into() })?;

        let (socket, rings) = Socket::new(first, depth, to_receive, Role::Owner(chunks.registration()))?;
        socket.bind(interface, mode)?;
        let Rings { fill, receive, sending } = rings;
        let (transmit, completion) = sending.expect("the socket that registers the UMEM sends");
        let mut bound = vec![Queue::new(0, interface, depth, socket, fill, receive)?];
        for (place, &queue) in (1..).zip(others) {
            let (socket, Rings { fill, receive, .. }) =
                Socket::new(queue, depth, to_receive, Role::OtherQueue)?;
            socket.bind_shared(interface, &bound[0].socket)?;
            bound.push(Queue::new(place, interface, depth, socket, fill, receive)?);
        }
        let outgoing = Outgoing::new(transmit, completion);
        let mut sockets = Self { queues: bound, outgoing, epoll, chunks, next: 0 };
        for queue in &sockets.queues {
            for socket in [&queue.socket, &queue.best_effort] {
                sockets.watch(socket).map_err(|source| Error { step: Step::Readiness, source })?;
            }
        }
        sockets.refill();
        Ok(sockets)
    }

    /// Hands over frames that have arrived, so many at most, or until `take` breaks off, and gives their chunks back to be received into.
    /// Takes back the chunks of frames that have left, too.
    ///
    /// Those of [`Class::Priority`] come first. Of the others a quarter as many follow, and [`BEST_EFFORT_MAX`] if nothing else
    /// is there; room is kept for them. A driver that has
    /// found no chunk is woken, since an owner that never sleeps does not do so [before](Self::before_sleep).
    pub fn receive(&mut self, frames_max: usize, mut take: impl FnMut(&[u8]) -> ControlFlow<()>) {
        let [priority, best_effort] = [Class::Priority, Class::BestEffort].map(|class| self.available(class));
        let best_effort = frames_max.min(best_effort).min(best_effort_share(priority));
        let count = self.queues.len();
        'all: for (class, mut left) in
            [(Class::Priority, frames_max - best_effort), (Class::BestEffort, best_effort)]
        {
            for step in 0..count {
                let incoming = &mut self.queues[(self.next + step) % count].incoming;
                if incoming.receive(class, &mut self.chunks, &mut left, &mut take).is_break() {
                    break 'all;
                }
            }
        }
        self.next = (self.next + 1) % count;
        self.refill();
        self.outgoing.reap(&mut self.chunks);
        // What keeps it from being woken is told before the owner sleeps, or by the next frame that leaves.
        let _ = self.wake_to_receive();
    }

    /// How many frames of a class wait to be received.
    pub fn available(&self, class: Class) -> usize {
        self.queues.iter().map(|queue| queue.incoming.available(class) as usize).sum()
    }

    /// How many frames [`transmit`](Self::transmit) takes now.
    pub fn room(&self) -> usize {
        self.outgoing.room(&self.chunks)
    }

    /// Copies a frame to the transmit ring, to leave with the next [`flush`](Self::flush). False if there is no
    /// [room](Self::room), or if the frame is longer than a chunk.
    #[inline]
    #[must_use = "a frame that found no room is still the caller's"]
    pub fn transmit(&mut self, frame: &[u8]) -> bool {
        self.outgoing.transmit(&mut self.chunks, frame)
    }

    /// Shows the kernel the frames to send, and wakes it if it asks to be woken. Returns whether it has taken all of them; if
    /// not, the interface has no room now, and a later call goes on.
    ///
    /// # Errors
    ///
    /// `NetworkDown` if the interface is down, `ENXIO` if it has gone. The frames stay in the ring.
    pub fn flush(&mut self) -> io::Result<bool> {
        let is_flushed = self.wake_to_send();
        self.outgoing.reap(&mut self.chunks);
        is_flushed
    }

    fn wake_to_send(&mut self) -> io::Result<bool> {
        let transmit = &mut self.outgoing.transmit;
        transmit.publish();
        let mut left = transmit.unconsumed();
        while left > 0 && transmit.needs_wakeup() {
            match self.queues[0].socket.wake_to_send() {
                // In zero-copy mode the driver goes on by itself.
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {
                    self.chunks.counters.transmit_busy += 1;
                    let still_left = transmit.unconsumed();
                    if still_left == left {
                        return Ok(false);
                    }
                    left = still_left;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    /// Wakes drivers that wait for chunks.
    fn wake_to_receive(&self) -> io::Result<()> {
        for queue in self.queues.iter().filter(|queue| queue.incoming.is_stalled()) {
            match queue.socket.wake_to_receive() {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::BUSY) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// To be called before the loop waits: wakes a driver that waits for chunks or frames, and returns whether there is more to do
    /// at once, because frames have arrived meanwhile, could not leave, or left no room for others.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush).
    pub fn before_sleep(&mut self) -> io::Result<bool> {
        let all_left = self.flush()?;
        self.wake_to_receive()?;
        Ok(!all_left
            || self.room() == 0
            || self.available(Class::Priority) > 0
            || self.available(Class::BestEffort) > 0)
    }

    /// Makes the descriptor of [`as_fd`](Self::as_fd) readable also when this one is, until this one is closed.
    ///
    /// # Errors
    ///
    /// What `epoll_ctl(2)` said.
    pub fn watch(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(0), EventFlags::IN)?)
    }

    /// The sockets of each queue with its number, for the map of an XDP program.
    pub fn each_socket(&self) -> impl Iterator<Item = (u32, Class, BorrowedFd<'_>)> {
        self.queues.iter().flat_map(|Queue { socket, best_effort, .. }| {
            [
                (socket.queue, Class::Priority, socket.as_fd()),
                (socket.queue, Class::BestEffort, best_effort.as_fd()),
            ]
        })
    }

    /// Whether the driver reads and writes the UMEM itself, without a copy by the kernel.
    pub fn is_zero_copy(&self) -> bool {
        self.queues[0].socket.is_zero_copy()
    }

    /// What was counted here.
    pub fn counters(&self) -> Counters {
        self.chunks.counters
    }

    /// What the kernel has counted on all of the sockets: a system call for each.
    ///
    /// # Errors
    ///
    /// What `getsockopt(2)` said. No cause is known on an open socket.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let mut sum = Statistics::default();
        for queue in &self.queues {
            let [first, second] = [queue.socket.statistics()?, queue.best_effort.statistics()?];
            // Both tell the count of the fill ring that they share.
            sum.no_chunk += first.no_chunk;
            for counted in [first, second] {
                sum.dropped += counted.dropped;
                sum.receive_ring_full += counted.receive_ring_full;
                sum.invalid += counted.invalid;
            }
        }
        Ok(sum)
    }

    /// Gives each fill ring as many chunks as it has entries.
    fn refill(&mut self) {
        for queue in &mut self.queues {
            queue.incoming.refill(&mut self.chunks);
        }
    }
}

impl AsFd for Sockets {
    /// Readable while frames wait to be received. It never gives anything to read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues: Vec<_> = self.queues.iter().map(|queue| queue.socket.queue).collect();
        f.debug_struct("Sockets").field("queues", &queues).finish_non_exhaustive()
    }
}

// SAFETY: the rings and the UMEM are memory that this value owns as a `Vec` owns its buffer. The kernel's side of them knows no
// thread. All access is through `self`.
#[allow(unsafe_code)]
unsafe impl Send for Sockets {}

/// How [`Sockets`] are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Entries of each ring, and so frames that may wait to be sent, and to be received of each [`Class`]: a power of two, at most 32,768.
    /// 1,024 by default, with which the UMEM of one queue has 6 MiB.
    pub depth: u32,
    /// Bytes of a chunk: 2,048 (the default) or 4,096. [`frame_bytes`](Self::frame_bytes) of them are for a frame.
    pub chunk_bytes: u32,
    /// Who copies frames. [`CopyMode::Any`] by default.
    pub mode: CopyMode,
}

impl Settings {
    /// The longest frame that arrives in one chunk. The kernel keeps 256 bytes in front of it (`XDP_PACKET_HEADROOM`).
    pub const fn frame_bytes(&self) -> u32 {
        self.chunk_bytes - 256
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { depth: 1024, chunk_bytes: 2048, mode: CopyMode::Any }
    }
}

/// By which socket of its queue a frame comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// What is handed over first.
    Priority = 0,
    /// What may be dropped in a flood of its kind.
    BestEffort = 1,
}

/// Whether the kernel copies frames between its own memory and the UMEM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CopyMode {
    /// Zero-copy if the driver can, else copy.
    #[default]
    Any,
    /// The kernel copies: works with each driver.
    Copy,
    /// The driver reads and writes the UMEM, or opening fails.
    ZeroCopy,
}

/// What [`Sockets`] have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that arrived over several chunks.
    pub in_parts: u64,
    /// Frames that were dropped because they have more than [`FRAME_BYTES_MAX`] bytes.
    pub too_long: u64,
    /// Descriptors of the kernel that name no chunk that it holds. Each is a fault of the kernel or the driver, and its chunk is lost.
    pub bad_descriptors: u64,
    /// Times that the interface took no more frames for now, or dropped one because its own queue was full: the kernel tells only in
    /// part which.
    pub transmit_busy: u64,
}

/// What the kernel has counted on sockets since they were opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Times that a frame arrived, or was about to, and the fill ring had no chunk for it.
    pub no_chunk: u64,
    /// Frames that were dropped: no chunk in copy mode, or longer than a chunk.
    pub dropped: u64,
    /// Frames that were dropped because the receive ring was full.
    pub receive_ring_full: u64,
    /// Descriptors of ours that the kernel refused.
    pub invalid: u64,
}

/// Why [`Sockets`] could not be opened: the step, and what the system said.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub struct Error {
    /// What was being done.
    pub step: Step,
    /// What the system said.
    pub source: io::Error,
}

/// A step of [`Sockets::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Step {
    /// The [`Settings`] or the queues cannot be.
    #[error("these AF_XDP settings cannot be")]
    Settings,
    /// Memory for the UMEM.
    #[error("making memory for frames")]
    Memory,
    /// A socket: `PermissionDenied` without `CAP_NET_RAW`, `EAFNOSUPPORT` if the kernel has no AF_XDP.
    #[error("opening an AF_XDP socket")]
    Socket,
    /// Registering the UMEM: `ENOBUFS` if it is more than `RLIMIT_MEMLOCK`.
    #[error("registering memory for frames")]
    Umem,
    /// Making and mapping the rings.
    #[error("making the rings of an AF_XDP socket")]
    Rings,
    /// Binding: `InvalidInput` if there is no such queue, `ResourceBusy` if another socket has it, `Unsupported` if the
    /// driver cannot do zero-copy, `NetworkDown` or `ENODEV` without the interface.
    #[error("binding an AF_XDP socket to queue {queue}")]
    Bind {
        /// The queue.
        queue: u32,
    },
    /// Waiting for several descriptors at once.
    #[error("making an epoll descriptor")]
    Readiness,
}

/// Bytes of the longest frame that may arrive: an IP packet of 64 KiB with an Ethernet header and two VLAN tags.
pub const FRAME_BYTES_MAX: usize = 65_535 + 14 + 8;

/// Frames of [`Class::BestEffort`] that one call hands over at most: a quarter of a batch.
pub const BEST_EFFORT_MAX: usize = 16;

/// How many frames of [`Class::BestEffort`] a call hands over at most beside so many of the other class: a quarter as many, so that a flood
/// takes a fifth of the loop's time from connections that have something to say, whether that is much or little; and always one.
fn best_effort_share(priority: usize) -> usize {
    match priority {
        0 => BEST_EFFORT_MAX,
        _ => (priority / 4).clamp(1, BEST_EFFORT_MAX),
    }
}

/// Entries of the largest rings: with more, the UMEM of a few queues takes gigabytes.
const DEPTH_MAX: u32 = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_a_fifth_beside_connections_and_a_quarter_of_a_batch_without() {
        assert_eq!(best_effort_share(0), BEST_EFFORT_MAX);
        for priority in 1..10_000 {
            let share = best_effort_share(priority);
            assert!((1..=BEST_EFFORT_MAX).contains(&share), "{priority}: {share}");
            assert!(priority < 4 || share * 4 <= priority, "{priority}: {share}");
        }
        assert_eq!(best_effort_share(64), BEST_EFFORT_MAX);
    }
}
