//! Datagrams to several peers in one system call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

/// Sends up to [`SEND_EACH_MAX`] datagrams, in order and each to its own peer, and returns how many the system took
/// (`sendmmsg(2)`). What is beyond that number is left to the next call.
///
/// It saves the way into the kernel and back for each datagram but the first, some hundredths of what an answer costs. A
/// datagram that the system refuses ends the batch before it. The next call begins with it and says what is wrong.
///
/// ```
/// use std::net::UdpSocket;
/// use anywire_sys::send_each::send_each;
///
/// let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// let sender = UdpSocket::bind("127.0.0.1:0")?;
/// let datagrams = [(one.local_addr()?, &b"first"[..]), (other.local_addr()?, &b"second"[..])];
/// assert_eq!(send_each(&sender, datagrams)?, 2);
/// let mut data = [0; 16];
/// assert_eq!(other.recv(&mut data)?, 6);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What the system said of the first datagram; then none was sent. `WouldBlock` if a non-blocking socket has no room.
#[allow(unsafe_code)]
pub fn send_each<'a>(
    socket: impl AsFd,
    datagrams: impl IntoIterator<Item = (SocketAddr, &'a [u8])>,
) -> io::Result<usize> {
    let mut names = [Name { v4: NO_V4 }; SEND_EACH_MAX];
    let mut parts = [NO_PART; SEND_EACH_MAX];
    let mut headers = [NO_HEADER; SEND_EACH_MAX];
    let mut count = 0;
    let places = names.iter_mut().zip(&mut parts).zip(&mut headers);
    for (((name, part), header), (peer, data)) in places.zip(datagrams) {
        let name_bytes = name.set(peer);
        // The kernel only reads what a message to send points to.
        *part = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
        header.msg_hdr.msg_name = (&raw mut *name).cast();
        header.msg_hdr.msg_namelen = name_bytes;
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    let sent = rustix::io::retry_on_intr(|| {
        // SAFETY: the borrowed descriptor stays open for the call. The first `count` headers each point to an address of the
        // length they say and to one part, which points to bytes borrowed for `'a`; names, parts and headers are arrays that
        // live through the call and are not moved since. The kernel keeps no pointer.
        let sent = unsafe {
            libc::sendmmsg(socket.as_fd().as_raw_fd(), headers.as_mut_ptr(), count as libc::c_uint, 0)
        };
        usize::try_from(sent).map_err(|_| last_error())
    })?;
    Ok(sent)
}

/// The most datagrams of one call; as many messages as one call takes in.
pub const SEND_EACH_MAX: usize = 32;

/// An address as the kernel reads it.
#[derive(Clone, Copy)]
pub(crate) union Name {
    pub(crate) v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// Returns its length.
    pub(crate) fn set(&mut self, peer: SocketAddr) -> libc::socklen_t {
        match peer {
            SocketAddr::V4(peer) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: peer.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(peer.ip().octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(peer) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: peer.port().to_be(),
                    sin6_flowinfo: peer.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: peer.ip().octets() },
                    sin6_scope_id: peer.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }
}

pub(crate) fn last_error() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::INVAL)
}

pub(crate) const NO_V4: libc::sockaddr_in =
    libc::sockaddr_in { sin_family: 0, sin_port: 0, sin_addr: libc::in_addr { s_addr: 0 }, sin_zero: [0; 8] };
const NO_PART: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
const NO_HEADER: libc::mmsghdr = libc::mmsghdr {
    msg_hdr: libc::msghdr {
        msg_name: std::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: std::ptr::null_mut(),
        msg_iovlen: 0,
        msg_control: std::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    },
    msg_len: 0,
};

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn each_peer_gets_its_own_over_either_family() {
        for host in ["127.0.0.1", "::1"] {
            let sender = UdpSocket::bind((host, 0)).expect("a free port");
            let peers: Vec<_> =
                (0..SEND_EACH_MAX + 1).map(|_| UdpSocket::bind((host, 0)).expect("a free port")).collect();
            let data: Vec<_> = (0..peers.len()).map(|number| vec![number as u8; number]).collect();
            let datagrams = peers.iter().map(|peer| peer.local_addr().expect("it is bound")).zip(&data);
            let sent = send_each(&sender, datagrams.map(|(to, data)| (to, &data[..])));
            assert_eq!(sent.expect("over loopback"), SEND_EACH_MAX, "the last one is for the next call");
            for (peer, data) in peers.iter().zip(&data).take(SEND_EACH_MAX) {
                let mut got = [0; 64];
                let length = peer.recv(&mut got).expect("a datagram");
                assert_eq!(&got[..length], data);
            }
        }
    }

    #[test]
    fn one_that_is_refused_ends_the_batch_before_it() {
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let peer = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let to = peer.local_addr().expect("it is bound");
        let too_large = vec![0; 65_536];
        let sent = send_each(&sender, [(to, &b"small"[..]), (to, &too_large), (to, b"after")]);
        assert_eq!(sent.expect("the first one leaves"), 1);
        let refused =
            send_each(&sender, [(to, &too_large[..]), (to, b"after")]).expect_err("it is too large");
        assert_eq!(refused.raw_os_error(), Some(libc::EMSGSIZE));
    }

    #[test]
    fn nothing_is_sent_for_nothing() {
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        assert_eq!(send_each(&sender, []).expect("no datagram fails"), 0);
    }
}
