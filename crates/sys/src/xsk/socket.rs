//! One AF_XDP socket: how it is made, bound to a queue, and woken.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets, xdp_options, xdp_statistics,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpOptionsFlags, XdpUmemReg,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::ring::{Consumer, Memory, Producer};
use super::{CopyMode, Error, Statistics, Step};

/// The socket of one receive queue.
pub(super) struct Socket {
    descriptor: OwnedFd,
    /// The queue of the interface.
    pub(super) queue: u32,
}

/// The rings of a socket.
pub(super) struct Rings {
    /// Not if another socket of the queue has it.
    pub(super) fill: Option<Producer<u64>>,
    pub(super) receive: Consumer<XdpDesc>,
    /// The transmit and the completion ring. Only the socket that has the UMEM sends.
    pub(super) sending: Option<(Producer<XdpDesc>, Consumer<u64>)>,
}

/// What a socket is there for.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// It registers the UMEM, sends, and is the first one of its queue.
    Owner(XdpUmemReg),
    /// It is the first one of another queue, and shares the UMEM.
    OtherQueue,
    /// It is another one of a queue, and shares the fill ring of the first.
    SameQueue,
}

impl Socket {
    /// A socket with its rings, not yet bound. Each ring has `depth` entries, the fill ring `chunks`.
    pub(super) fn new(queue: u32, depth: u32, chunks: u32, role: Role) -> Result<(Self, Rings), Error> {
        let at = |step: Step| move |errno: Errno| Error { step, source: errno.into() };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let descriptor =
            socket_with(AddressFamily::XDP, SocketType::RAW, flags, None).map_err(at(Step::Socket))?;
        let (sends, fills) = (matches!(role, Role::Owner(_)), !matches!(role, Role::SameQueue));
        if let Role::Owner(umem) = role {
            set_xdp_umem_reg(&descriptor, umem).map_err(at(Step::Umem))?;
        }
        let make = || -> Result<(), Errno> {
            set_xdp_rx_ring_size(&descriptor, depth)?;
            if fills {
                set_xdp_umem_fill_ring_size(&descriptor, chunks)?;
                // Each queue has to have a completion ring.
                set_xdp_umem_completion_ring_size(&descriptor, if sends { depth } else { 1 })?;
            }
            if sends { set_xdp_tx_ring_size(&descriptor, depth) } else { Ok(()) }
        };
        make().map_err(at(Step::Rings))?;
        let rings = map(&descriptor, depth, fills.then_some(chunks), sends)
            .map_err(|source| Error { step: Step::Rings, source })?;
        if sends {
            send_in_batches(&descriptor, depth);
        }
        Ok((Self { descriptor, queue }, rings))
    }

    /// Binds the socket that has the UMEM. In any mode zero-copy is tried first.
    pub(super) fn bind(&self, interface: u32, mode: CopyMode) -> Result<(), Error> {
        let wakeup = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let (zero_copy, copy) =
            (wakeup | SocketAddrXdpFlags::XDP_ZEROCOPY, wakeup | SocketAddrXdpFlags::XDP_COPY);
        // A frame over several chunks: what generic receive offload has joined. Zero-copy drivers mostly refuse it.
        let in_parts = copy | SocketAddrXdpFlags::XDP_USE_SG;
        let attempts: &[_] = match mode {
            CopyMode::Any => &[zero_copy, in_parts, copy],
            CopyMode::Copy => &[in_parts, copy],
            CopyMode::ZeroCopy => &[zero_copy],
        };
        let mut refusal = Errno::INVAL;
        for &flags in attempts {
            match bind(&self.descriptor, &SocketAddrXdp::new(flags, interface, self.queue)) {
                Ok(()) => return Ok(()),
                // What another flag might change: a driver without zero-copy, a kernel before 6.6.
                Err(errno @ (Errno::OPNOTSUPP | Errno::INVAL)) => refusal = errno,
                Err(errno) => return Err(self.not_bound(errno)),
            }
        }
        Err(self.not_bound(refusal))
    }

    /// Binds a socket that shares the UMEM, and all of its flags, with the socket that has it.
    pub(super) fn bind_shared(&self, interface: u32, first: &Self) -> Result<(), Error> {
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, self.queue);
        let shared = SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first.as_fd() };
        bind(&self.descriptor, &shared).map_err(|errno| self.not_bound(errno))
    }

    fn not_bound(&self, errno: Errno) -> Error {
        Error { step: Step::Bind { queue: self.queue }, source: errno.into() }
    }

    /// Whether the driver reads and writes the UMEM itself.
    pub(super) fn is_zero_copy(&self) -> bool {
        xdp_options(&self.descriptor)
            .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Has the kernel look at the transmit ring.
    pub(super) fn wake_to_send(&self) -> Result<(), Errno> {
        send(&self.descriptor, &[], SendFlags::DONTWAIT).map(drop)
    }

    /// Has the driver look at the fill ring.
    pub(super) fn wake_to_receive(&self) -> Result<(), Errno> {
        recv(&self.descriptor, &mut [0_u8; 0], RecvFlags::DONTWAIT).map(drop)
    }

    /// What the kernel has counted on this socket.
    pub(super) fn statistics(&self) -> io::Result<Statistics> {
        let counted = xdp_statistics(&self.descriptor)?;
        Ok(Statistics {
            no_chunk: counted.rx_fill_ring_empty_descs.unwrap_or(0),
            dropped: counted.rx_dropped,
            receive_ring_full: counted.rx_ring_full.unwrap_or(0),
            invalid: counted.rx_invalid_descs + counted.tx_invalid_descs,
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn map(socket: &OwnedFd, depth: u32, chunks: Option<u32>, sends: bool) -> io::Result<Rings> {
    let offsets = xdp_mmap_offsets(socket)?;
    let receive = Memory::of::<XdpDesc>(socket, XDP_PGOFF_RX_RING, &offsets.rx, depth)?;
    let fill = match chunks {
        Some(chunks) => {
            let memory = Memory::of::<u64>(socket, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, chunks)?;
            Some(Producer::new(memory, offsets.fr, chunks)?)
        }
        None => None,
    };
    let sending = if sends {
        let transmit = Memory::of::<XdpDesc>(socket, XDP_PGOFF_TX_RING, &offsets.tx, depth)?;
        let completion = Memory::of::<u64>(socket, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, depth)?;
        Some((Producer::new(transmit, offsets.tx, depth)?, Consumer::new(completion, offsets.cr, depth)?))
    } else {
        None
    };
    Ok(Rings { fill, receive: Consumer::new(receive, offsets.rx, depth)?, sending })
}

/// In copy mode one call sends 32 frames by default. Kernels before 6.17 know no other number, so a refusal is ignored.
#[allow(unsafe_code)]
fn send_in_batches(socket: &OwnedFd, frames: u32) {
    // SAFETY: the borrowed descriptor stays open for the call, which reads a number of the length that it is told.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            XDP_MAX_TX_SKB_BUDGET,
            (&raw const frames).cast(),
            size_of::<u32>() as libc::socklen_t,
        );
    }
}

const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
