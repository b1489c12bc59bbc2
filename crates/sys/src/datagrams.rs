//! What the kernel offers to datagram sockets beyond sending and receiving: steering, refusing, and counted drops.
//!
//! Each function is one socket option. Sockets that are bound to one port with `SO_REUSEPORT` form a group, numbered in the
//! order in which they were bound. A small program of classic BPF chooses the socket for each datagram; the kernel checks
//! the program before it takes it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use anywire_advice::Message;

/// How the kernel chooses a socket of a group for each datagram that arrives.
///
/// ```
/// use anywire_sys::datagrams::Steering;
///
/// // A protocol whose bytes 0 to 3 are a connection id: all datagrams of a connection meet one socket.
/// let by_connection = Steering::Payload { offset: 0, width: 4 };
/// assert_ne!(by_connection, Steering::Flow);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steering {
    /// By the hash of both addresses and ports, the kernel's default: one flow, one socket. Few flows may be spread unevenly.
    #[default]
    Flow,
    /// By the core on which the kernel handles the datagram: socket `core % sockets`. For loops pinned to the cores on which
    /// the network card's queues interrupt.
    Cpu,
    /// By bytes of the payload, read as a big-endian number: socket `number % sockets`. For protocols with connection
    /// ids. A datagram that is too short goes by its flow.
    Payload {
        /// Where the number begins, in bytes from the start of the payload.
        offset: u16,
        /// How many bytes it has: 1, 2 or 4.
        width: u8,
    },
}

impl Steering {
    /// Makes a group of so many sockets choose so. `socket` is any of the group; the program is the whole group's.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a width other than 1, 2 or 4; else what `setsockopt(2)` said: the socket has no `SO_REUSEPORT`, or
    /// the kernel is older than 4.5.
    pub fn attach(self, socket: impl AsFd, sockets: u32) -> io::Result<()> {
        match self {
            Self::Flow => Ok(()),
            Self::Cpu => {
                let core = SKF_AD_OFF.wrapping_add(SKF_AD_CPU);
                attach(&socket, libc::SO_ATTACH_REUSEPORT_CBPF, &mut by(LOAD_WORD, core, sockets))
            }
            Self::Payload { offset, width } => {
                let load = match width {
                    1 => LOAD_BYTE,
                    2 => LOAD_HALF,
                    4 => LOAD_WORD,
                    _ => {
                        let what = Message::new("cannot steer by a number of this width")
                            .with_help("take one of 1, 2 or 4 bytes");
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
                    }
                };
                let end = u32::from(offset) + u32::from(width);
                let [number, modulo, answer] = by(load, offset.into(), sockets);
                let mut program = [
                    step(LOAD_LENGTH, 0),
                    libc::sock_filter { jf: 3, ..step(JUMP_IF_AT_LEAST, end) },
                    number,
                    modulo,
                    answer,
                    // No socket has this number, so the kernel falls back to the hash.
                    step(RETURN, u32::MAX),
                ];
                attach(&socket, libc::SO_ATTACH_REUSEPORT_CBPF, &mut program)
            }
        }
    }
}

/// Socket `value % sockets`, where the value is loaded by `load` from `place`.
fn by(load: u16, place: u32, sockets: u32) -> [libc::sock_filter; 3] {
    // The kernel refuses a division by zero.
    [step(load, place), step(MODULO, sockets.max(1)), step(RETURN_A, 0)]
}

/// Drops each datagram that arrives from now on. Datagrams that arrived before can still be read, so a service can answer
/// them and come to an end. The dropped ones count among the socket's [`drops`].
///
/// # Errors
///
/// The error of `setsockopt(2)`. No cause is known on an open socket.
pub fn refuse_from_now_on(socket: impl AsFd) -> io::Result<()> {
    attach(&socket, libc::SO_ATTACH_FILTER, &mut [step(RETURN, 0)])
}

/// Ends [`refuse_from_now_on`].
///
/// # Errors
///
/// What `setsockopt(2)` said: `NotFound` if the socket refuses nothing.
pub fn hear_again(socket: impl AsFd) -> io::Result<()> {
    // The value is of no interest.
    switch_off(&socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER)
}

#[allow(unsafe_code)]
pub(crate) fn attach(
    socket: &impl AsFd,
    option: libc::c_int,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let length = u16::try_from(program.len()).expect("programs here have a few steps");
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the borrowed descriptor stays open for the call; `program` is a `sock_fprog` whose pointer and length describe
    // the caller's slice, which lives through the call. The kernel copies it, and checks that it is harmless.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Datagrams that this socket has dropped since it was opened, mostly because its receive buffer was full. Wraps around at
/// 2^32.
///
/// It is the counter that `SO_RXQ_OVFL` attaches to each datagram and `/proc/net/udp` shows as `drops`. Asking for it here
/// (`SO_MEMINFO`, Linux 4.12) costs nothing on the way of a datagram.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// assert_eq!(anywire_sys::datagrams::drops(&socket)?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What `getsockopt(2)` said: the descriptor is no socket, or the kernel is older.
#[allow(unsafe_code)]
pub fn drops(socket: impl AsFd) -> io::Result<u32> {
    let mut figures = [0_u32; MEMINFO_FIGURES];
    let mut length = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the borrowed descriptor stays open for the call; the kernel writes at most `length` bytes to `figures`, which
    // is that large, and keeps no pointer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(figures[MEMINFO_DROPS])
}

/// Switches off two features that a service without a connection does not need. One is a time stamp on each datagram
/// (`SO_TIMESTAMPNS`). The other reports errors of one peer in the next call, which may be for another peer (`IP_RECVERR`).
/// Options that a socket of this family does not have are left out.
pub fn without_extras(socket: impl AsFd) {
    let _ = switch_off(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
    let _ = switch_off(&socket, libc::IPPROTO_IP, libc::IP_RECVERR);
    let _ = switch_off(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
}

/// Has the address that a datagram was sent to left out (`IP_PKTINFO`): on a socket that is bound to one address it is known.
pub fn without_local_ip(socket: impl AsFd) {
    let _ = switch_off(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO);
    let _ = switch_off(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO);
}

/// Has each datagram given alone, instead of several of one flow at once (`UDP_GRO`).
pub fn without_coalescing(socket: impl AsFd) {
    let _ = switch_off(&socket, libc::SOL_UDP, libc::UDP_GRO);
}

#[allow(unsafe_code)]
fn switch_off(socket: &impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the borrowed descriptor stays open for the call; the kernel reads one int from `off` and keeps no pointer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn step(code: u16, value: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k: value }
}

// Classic BPF, as in `linux/bpf_common.h` and `linux/filter.h`. The accumulator is called A.
/// A = the word at a place of the payload.
const LOAD_WORD: u16 = 0x20;
pub(crate) const LOAD_HALF: u16 = 0x28;
pub(crate) const LOAD_BYTE: u16 = 0x30;
/// A = length of the payload.
const LOAD_LENGTH: u16 = 0x80;
const MODULO: u16 = 0x94;
const JUMP_IF_AT_LEAST: u16 = 0x35;
pub(crate) const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;
/// Places from here on are no bytes of the payload but facts about the datagram.
const SKF_AD_OFF: u32 = -0x1000_i32 as u32;
const SKF_AD_CPU: u32 = 36;
/// `SK_MEMINFO_VARS` and `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
const MEMINFO_FIGURES: usize = 9;
const MEMINFO_DROPS: usize = 8;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        sender.connect(receiver.local_addr().expect("bound")).expect("UDP needs no answer");
        receiver.set_nonblocking(true).expect("a socket");
        (sender, receiver)
    }

    #[test]
    fn a_socket_that_refuses_gives_what_has_arrived() {
        let (sender, receiver) = pair();
        sender.send(b"before").expect("over loopback");
        refuse_from_now_on(&receiver).expect("an open socket");
        sender.send(b"after").expect("over loopback");
        let mut buffer = [0; 16];
        assert_eq!(receiver.recv(&mut buffer).expect("it has arrived"), 6);
        assert_eq!(receiver.recv(&mut buffer).expect_err("it was refused").kind(), io::ErrorKind::WouldBlock);
        assert_eq!(drops(&receiver).expect("a socket"), 1);
        hear_again(&receiver).expect("it refused");
        sender.send(b"again").expect("over loopback");
        assert_eq!(receiver.recv(&mut buffer).expect("it has arrived"), 5);
        assert_eq!(hear_again(&receiver).expect_err("it refuses nothing").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_width_that_no_load_has_is_refused() {
        let (_, receiver) = pair();
        let refused = Steering::Payload { offset: 0, width: 3 }.attach(&receiver, 2);
        assert_eq!(refused.expect_err("no such load").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_file_has_no_drops() {
        assert!(drops(std::fs::File::open("/dev/null").expect("it is everywhere")).is_err());
    }
}
