//! The limit of this machine for datagrams: an echo server in the style of C, to compare real ones with.
//!
//! One thread, one socket on the loopback, `recvmmsg(2)` that waits for the first datagram and takes up to 32, and
//! `sendmmsg(2)` that returns them from the same memory. There is no event loop, no offload and no look at a byte. The cost of a
//! real server beyond this loop is the server's own; the rest is the kernel's.
//!
//! Limits: a datagram of at most 2 KiB; a longer one is cut.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cpu;

/// The raw echo loop, running on a thread of its own until dropped.
///
/// ```
/// use std::net::UdpSocket;
/// use anywire_sys::udp_limit::UdpLimit;
///
/// let limit = UdpLimit::start(None, 1 << 20)?;
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// socket.send_to(b"echo", limit.address())?;
/// let mut answer = [0; 16];
/// assert_eq!(socket.recv(&mut answer)?, 4);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UdpLimit {
    address: SocketAddr,
    thread_id: i32,
    shared: Arc<Shared>,
    /// `None` once joined.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    echoed: AtomicU64,
    is_stopped: AtomicBool,
}

impl UdpLimit {
    /// Starts the loop on a free port of 127.0.0.1, pinned to `core` if one is given, with a receive buffer of so many bytes
    /// as far as the system allows.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the core is not ours to use; else what the system said to the socket or the thread.
    pub fn start(core: Option<usize>, receive_buffer_bytes: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, receive_buffer_bytes)?;
        // How long the end of the loop may take.
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared::default());
        let of_loop = Arc::clone(&shared);
        let (started, start) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("udp-limit".into()).spawn(move || {
            let pinned = core.map_or(Ok(()), cpu::pin_current_thread);
            let go_on = pinned.is_ok();
            let told = started.send(pinned.map(|()| cpu::thread_id()));
            if go_on && told.is_ok() {
                Echo::new(socket).run(&of_loop);
            }
        })?;
        let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let thread_id = start.recv().map_err(ended)??;
        Ok(Self { address, thread_id, shared, thread: Some(thread) })
    }

    /// Where it receives: 127.0.0.1 and the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The kernel's number of its thread, for [`cpu::thread_run_time`].
    pub fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// Datagrams returned so far.
    pub fn echoed(&self) -> u64 {
        self.shared.echoed.load(Ordering::Relaxed)
    }
}

impl Drop for UdpLimit {
    /// Stops the loop and waits for its thread.
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The memory of the loop. The headers point into the other three fields, which never move or grow.
struct Echo {
    socket: UdpSocket,
    _buffers: Vec<[u8; DATAGRAM_BYTES_MAX]>,
    _names: Vec<libc::sockaddr_in>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Echo {
    fn new(socket: UdpSocket) -> Self {
        let mut buffers = vec![[0; DATAGRAM_BYTES_MAX]; BATCH];
        let empty = libc::sockaddr_in {
            sin_family: 0,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: 0 },
            sin_zero: [0; 8],
        };
        let mut names = vec![empty; BATCH];
        let part = |buffer: &mut [u8; DATAGRAM_BYTES_MAX]| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: DATAGRAM_BYTES_MAX,
        };
        let mut parts: Vec<_> = buffers.iter_mut().map(part).collect();
        let header = |(name, part): (&mut libc::sockaddr_in, &mut libc::iovec)| libc::mmsghdr {
            msg_hdr: libc::msghdr {
                msg_name: (&raw mut *name).cast(),
                msg_namelen: NAME_BYTES,
                msg_iov: part,
                msg_iovlen: 1,
                msg_control: std::ptr::null_mut(),
                msg_controllen: 0,
                msg_flags: 0,
            },
            msg_len: 0,
        };
        let headers = names.iter_mut().zip(&mut parts).map(header).collect();
        Self { socket, _buffers: buffers, _names: names, parts, headers }
    }

    fn run(mut self, shared: &Shared) {
        while !shared.is_stopped.load(Ordering::Relaxed) {
            let received = match self.receive() {
                Ok(received) => received,
                Err(error) if is_pause(&error) => continue,
                Err(_) => return,
            };
            let echoed = self.send(received);
            shared.echoed.fetch_add(echoed as u64, Ordering::Relaxed);
        }
    }

    #[allow(unsafe_code)]
    fn receive(&mut self) -> io::Result<usize> {
        for (header, part) in self.headers.iter_mut().zip(&mut self.parts) {
            part.iov_len = DATAGRAM_BYTES_MAX;
            header.msg_hdr.msg_namelen = NAME_BYTES;
        }
        // SAFETY: the headers are `BATCH` valid ones: each points to one address, and to one part that points to a buffer of
        // the length it says. All of them live in `self`, in vectors that never grow. The kernel keeps no pointer.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the first so many datagrams, and gives how many of them left.
    #[allow(unsafe_code)]
    fn send(&mut self, received: usize) -> usize {
        for (header, part) in self.headers.iter().zip(&mut self.parts).take(received) {
            part.iov_len = header.msg_len as usize;
        }
        let mut sent = 0;
        while sent < received {
            let left = &mut self.headers[sent..received];
            // SAFETY: as above; the kernel reads from the buffers the bytes that it wrote there itself.
            let more = unsafe {
                libc::sendmmsg(self.socket.as_raw_fd(), left.as_mut_ptr(), left.len() as libc::c_uint, 0)
            };
            match usize::try_from(more) {
                Ok(more) => sent += more,
                // The first one left cannot be sent; the others may.
                Err(_) => return sent,
            }
        }
        sent
    }
}

/// Whether the wait was over, or a peer that is gone was heard of.
fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}

const BATCH: usize = 32;
const DATAGRAM_BYTES_MAX: usize = 2048;
const NAME_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_datagram_comes_back_to_its_sender() {
        let limit = UdpLimit::start(None, 1 << 20).expect("a socket and a thread");
        let sockets: Vec<_> =
            (0..100).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
        for (number, socket) in sockets.iter().enumerate() {
            socket.send_to(&vec![number as u8; number], limit.address()).expect("over loopback");
        }
        for (number, socket) in sockets.iter().enumerate() {
            let mut answer = [0; 256];
            let length = socket.recv(&mut answer).expect("an echo");
            assert_eq!(&answer[..length], vec![number as u8; number]);
        }
        assert!(limit.thread_id() > 0);
    }

    #[test]
    fn an_impossible_core_is_refused() {
        let refused = UdpLimit::start(Some(usize::MAX), 1 << 16).expect_err("no such core");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
