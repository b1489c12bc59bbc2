//! Hears what neighbours on a link say to the kernel or to all: a copy of each, which the kernel gets as before.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};

use super::NetworkInterface;
use crate::datagrams::{LOAD_BYTE, LOAD_HALF, RETURN, attach, step};

/// Frames of ARP, and advertisements of neighbour discovery (RFC 4861 4.4), that an interface gives to the kernel: a packet socket with
/// a filter. What an XDP program takes or drops is not among them, nor is what the kernel sends itself or what has a VLAN tag.
///
/// The kernel queues frames up to the socket's receive buffer, and drops the rest.
#[derive(Debug)]
pub struct NeighbourMessages {
    socket: OwnedFd,
}

impl NeighbourMessages {
    /// Hears those of an interface of this thread's network namespace, from now on.
    ///
    /// # Errors
    ///
    /// What `socket(2)`, `setsockopt(2)` or `bind(2)` said: this process has no `CAP_NET_RAW`, or the kernel has no packet sockets.
    pub fn new(interface: &NetworkInterface) -> io::Result<Self> {
        // Without a protocol it hears nothing until it is bound.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        attach(&socket, libc::SO_ATTACH_FILTER, &mut filter())?;
        // Known since Linux 4.20. It spares the kernel a copy of each frame that it sends.
        ignore_outgoing(&socket)?;
        bind(&socket, interface.index)?;
        Ok(Self { socket })
    }

    /// Writes the next frame to the begin of a buffer, and says how much of the buffer it fills: none if nobody has said anything. What is
    /// longer than the buffer is cut.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((filled, _)) => return Some(filled),
                // The interface has gone down. When it is up again, so is the socket.
                Err(Errno::INTR | Errno::NETDOWN) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for NeighbourMessages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Lets ARP and neighbour advertisements pass, without a VLAN tag: the kernel takes a tag out of the frame and notes it beside.
fn filter() -> [libc::sock_filter; 11] {
    const ETHERNET: u32 = 14;
    const IPV6: u32 = 40;
    const VLAN_TAG: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
    // Goes so many steps further, by whether A is the number.
    let equals = |number, jt, jf| libc::sock_filter { jt, jf, ..step(JUMP_IF_EQUAL, number) };
    [
        step(LOAD_BYTE, VLAN_TAG),
        equals(0, 0, 8),
        step(LOAD_HALF, ETHERNET - 2),
        equals(0x0806, 5, 0),
        equals(0x86dd, 0, 5),
        // ICMPv6, not behind extension headers, as RFC 4861 7.1.2 has it for what would count.
        step(LOAD_BYTE, ETHERNET + 6),
        equals(58, 0, 3),
        step(LOAD_BYTE, ETHERNET + IPV6),
        equals(136, 0, 1),
        step(RETURN, u32::MAX),
        step(RETURN, 0),
    ]
}

fn ignore_outgoing(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the borrowed descriptor stays open for the call; the kernel reads one int and keeps no pointer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_IGNORE_OUTGOING,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the borrowed descriptor stays open for the call, which reads an address of the length that it is told.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Classic BPF, as in `linux/bpf_common.h`.
const JUMP_IF_EQUAL: u16 = 0x15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
