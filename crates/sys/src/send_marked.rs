//! A datagram with what its sender says beside it: where it leaves from, its ECN mark, and how long its parts are.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use crate::send_each::{NO_V4, Name, last_error};

/// What one system call sends to one peer.
#[derive(Clone, Copy, Debug)]
pub struct Marked<'a> {
    /// The peer.
    pub to: SocketAddr,
    /// The bytes.
    pub data: &'a [u8],
    /// The address of this machine that it leaves from (`None`: the system chooses).
    pub from: Option<IpAddr>,
    /// Its two ECN bits (RFC 3168); 0 is no mark.
    pub ecn: u8,
    /// The system makes datagrams of this length of the bytes, and the last one may be shorter (GSO; `None`: they are one).
    pub segment: Option<u16>,
}

/// Sends a datagram, or several of one length to one peer, with control messages (`sendmsg(2)`).
///
/// It remembers nothing. Whether a mark, a source or segments are refused depends on the way to each peer, so a refusal says
/// nothing of others. The caller decides what to try instead.
///
/// ```
/// use std::net::UdpSocket;
/// use anywire_sys::send_marked::{Marked, send_marked};
///
/// let (peer, sender) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("0.0.0.0:0")?);
/// let from = Some([127, 7, 7, 7].into());
/// send_marked(&sender, Marked { to: peer.local_addr()?, data: b"hello", from, ecn: 1, segment: None })?;
/// let (length, sender) = peer.recv_from(&mut [0; 16])?;
/// assert_eq!((length, sender.ip()), (5, [127, 7, 7, 7].into()));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What the system said, mostly: `WouldBlock` if a non-blocking socket has no room, `EMSGSIZE` if a datagram is larger than
/// the way takes, `EINVAL` or `ENETUNREACH` if nothing can leave from that address, `EINVAL` or `EIO` if the device does not
/// take segments. None of the datagrams was sent then.
#[allow(unsafe_code)]
pub fn send_marked(socket: impl AsFd, marked: Marked<'_>) -> io::Result<()> {
    let Marked { to, data, from, ecn, segment } = marked;
    let mut name = Name { v4: NO_V4 };
    let name_bytes = name.set(to);
    // The kernel only reads what a message to send points to.
    let mut part = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let mut control = Control::new();
    if ecn != 0 {
        let mark = libc::c_int::from(ecn);
        // An IPv6 socket sends to a mapped address by IPv4.
        if to.ip().to_canonical().is_ipv4() {
            control.push(libc::IPPROTO_IP, libc::IP_TOS, mark);
        } else {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, mark);
        }
    }
    if let Some(segment) = segment {
        control.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment);
    }
    match from {
        Some(IpAddr::V4(from)) => {
            let source = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
            let nowhere = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: nowhere };
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some(IpAddr::V6(from)) => {
            let source = libc::in6_addr { s6_addr: from.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        None => {}
    }
    let header = libc::msghdr {
        msg_name: (&raw mut name).cast(),
        msg_namelen: name_bytes,
        msg_iov: &raw mut part,
        msg_iovlen: 1,
        msg_control: (&raw mut control.words).cast(),
        msg_controllen: control.filled as _,
        msg_flags: 0,
    };
    rustix::io::retry_on_intr(|| {
        // SAFETY: the borrowed descriptor stays open for the call. The header points to an address of the length that it says, to
        // one part, which points to bytes borrowed for the call, and to `control`, of which `filled` bytes are written. All of
        // them live through the call and are not moved since. The kernel keeps no pointer.
        let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const header, 0) };
        if sent < 0 { Err(last_error()) } else { Ok(()) }
    })?;
    Ok(())
}

/// Control messages, one behind the other as `cmsg(3)` has them.
struct Control {
    /// In words, so that each header is aligned.
    words: [MaybeUninit<u64>; CONTROL_WORDS],
    filled: usize,
}

impl Control {
    fn new() -> Self {
        Self { words: [MaybeUninit::uninit(); CONTROL_WORDS], filled: 0 }
    }

    #[allow(unsafe_code)]
    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        let bytes = size_of::<T>() as libc::c_uint;
        // SAFETY: both only calculate.
        let (length, space) = unsafe { (libc::CMSG_LEN(bytes), libc::CMSG_SPACE(bytes) as usize) };
        assert!(
            self.filled + space <= CONTROL_WORDS * size_of::<u64>(),
            "there is room for one of each kind"
        );
        // SAFETY: by the assertion, `space` bytes from `filled` on are within the array. They hold the header and behind it
        // `CMSG_DATA`, which is `T` and its padding. `filled` is a sum of `CMSG_SPACE`s, so the header is aligned; the value
        // need not be. All of the space is written, the padding as zeros, because the kernel copies it.
        unsafe {
            let header = self.words.as_mut_ptr().cast::<u8>().add(self.filled);
            header.write_bytes(0, space);
            let header = header.cast::<libc::cmsghdr>();
            (*header).cmsg_len = length as _;
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        self.filled += space;
    }
}

/// Room for a mark, a length and an address of IPv6.
const CONTROL_WORDS: usize = 12;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn pair(host: &str) -> (UdpSocket, UdpSocket, SocketAddr) {
        let peer = UdpSocket::bind((host, 0)).expect("a free port");
        let to = peer.local_addr().expect("it is bound");
        let sender = UdpSocket::bind((if to.is_ipv4() { "0.0.0.0" } else { "::" }, 0)).expect("a free port");
        (sender, peer, to)
    }

    #[test]
    fn a_datagram_with_everything_leaves_in_parts_over_either_family() {
        for host in ["127.0.0.1", "::1"] {
            let (sender, peer, to) = pair(host);
            let marked = Marked { to, data: &[7; 25], from: Some(to.ip()), ecn: 3, segment: Some(10) };
            send_marked(&sender, marked).expect("over loopback");
            let mut data = [0; 64];
            for length in [10, 10, 5] {
                let (came, from) = peer.recv_from(&mut data).expect("a datagram");
                assert_eq!((came, from.ip()), (length, to.ip()), "{host}");
            }
        }
    }

    #[test]
    fn an_ipv6_socket_sends_to_a_mapped_address() {
        let (_, peer, to) = pair("127.0.0.1");
        let sender = UdpSocket::bind("[::]:0").expect("a free port");
        let SocketAddr::V4(v4) = to else { unreachable!("it is bound to IPv4") };
        let mapped = SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port());
        for from in
            [IpAddr::from([127, 7, 7, 7]), std::net::Ipv4Addr::new(127, 7, 7, 7).to_ipv6_mapped().into()]
        {
            let marked = Marked { to: mapped, data: b"mapped", from: Some(from), ecn: 2, segment: None };
            send_marked(&sender, marked).expect("over loopback");
            let (length, sender) = peer.recv_from(&mut [0; 16]).expect("a datagram");
            assert_eq!((length, sender.ip()), (6, [127, 7, 7, 7].into()));
        }
    }

    #[test]
    fn a_refusal_is_what_the_system_said() {
        let (sender, _peer, to) = pair("127.0.0.1");
        let refused = |from, data: &[u8]| {
            let marked = Marked { to, data, from, ecn: 1, segment: None };
            send_marked(&sender, marked).expect_err("it is refused").raw_os_error()
        };
        assert_eq!(refused(None, &[0; 65_536]), Some(libc::EMSGSIZE));
        assert_eq!(refused(Some([192, 0, 2, 1].into()), b"a"), Some(libc::ENETUNREACH));
    }
}
