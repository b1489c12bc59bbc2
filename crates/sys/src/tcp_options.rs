//! Options of TCP sockets that no other crate sets.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Lets so many connections with data in their first segment be under way, on a socket that is to listen (TCP Fast Open, RFC 7413).
///
/// # Errors
///
/// The error of `setsockopt(2)`: the socket is none of TCP.
pub fn accept_fast_open(socket: impl AsFd, pending: u32) -> io::Result<()> {
    let pending = libc::c_int::try_from(pending).unwrap_or(libc::c_int::MAX);
    set(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, pending)
}

/// Has `connect(2)` wait for the first write, whose data leaves with the first segment if the peer has given a cookie before.
///
/// # Errors
///
/// The error of `setsockopt(2)`: the socket is none of TCP.
pub fn connect_fast_open(socket: impl AsFd) -> io::Result<()> {
    set(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// Has `bind(2)` to port 0 leave the choice of the port to `connect(2)`, which knows the peer: then one port serves connections to several.
///
/// # Errors
///
/// The error of `setsockopt(2)`: the socket is none of IP.
pub fn choose_port_late(socket: impl AsFd) -> io::Result<()> {
    // IPv6 sockets have it at this level, too.
    set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Sends the acknowledgement that waits for data to go with, and sends the next ones at once for a while (`TCP_QUICKACK`). It does not
/// last: the kernel goes back to delaying them when the connection looks like questions and answers.
///
/// # Errors
///
/// The error of `setsockopt(2)`: the socket is none of TCP.
pub fn acknowledge_at_once(socket: impl AsFd) -> io::Result<()> {
    set(&socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1)
}

#[allow(unsafe_code)]
fn set(socket: &impl AsFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the borrowed descriptor stays open for the call; `value` is the integer that these options take, lives through the call, and
    // is copied by the kernel.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_socket_of_the_right_kind_takes_them() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            accept_fast_open(&socket, 16).expect("the system has it");
            choose_port_late(&socket).expect("the system has it");
            acknowledge_at_once(&socket).expect("the system has it");
        }
        let other = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        assert!(accept_fast_open(&other, 16).is_err() && connect_fast_open(&other).is_err());
        assert!(acknowledge_at_once(&other).is_err());
        let other = UnixDatagram::unbound().expect("a socket");
        assert!(choose_port_late(&other).is_err());
    }
}
