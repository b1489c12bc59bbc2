//! How many bytes that were written to a socket are still on their way (`SIOCOUTQ`).
//!
//! A write succeeds once the kernel has the bytes, which says nothing of the peer: megabytes may wait in the kernel for
//! a peer that reads nothing. Two looks at this queue tell a slow peer from one that takes nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes that were written, and that the peer's system has not acknowledged (TCP) or its process not read (Unix
/// sockets). For Unix sockets the kernel counts its own overhead too, so only changes of the number mean something.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use anywire_sys::send_queue;
///
/// let (mut here, mut there) = UnixStream::pair()?;
/// here.write_all(b"on its way")?;
/// assert!(send_queue::unsent_bytes(&here)? > 0);
/// there.read_exact(&mut [0; 10])?;
/// assert_eq!(send_queue::unsent_bytes(&here)?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What `ioctl(2)` said: the descriptor is no socket, or one that listens.
#[allow(unsafe_code)]
pub fn unsent_bytes(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the borrowed descriptor stays open for the call; SIOCOUTQ, which is TIOCOUTQ by another name, writes one
    // int to `bytes`, and the kernel keeps no pointer.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_peer_that_does_not_read_leaves_bytes_in_the_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let _receiver = listener.accept().expect("connected");
        assert_eq!(unsent_bytes(&sender).expect("a socket"), 0);
        sender.set_nonblocking(true).expect("a socket");
        while sender.write(&[0; 64 * 1024]).is_ok() {}
        assert!(unsent_bytes(&sender).expect("a socket") > 0);
    }

    #[test]
    fn a_file_is_refused() {
        let file = File::open("/dev/null").expect("it is everywhere");
        assert!(unsent_bytes(&file).is_err());
    }
}
