//! What the kernel knows of one TCP connection (`getsockopt(2)`, `TCP_INFO`).
//!
//! Its segment counters are the proof of "one response, one write": the data segments that left equal the
//! responses sent.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Segments of one TCP connection since it was set up. Linux counts those with data since 4.6; before, they are zero.
///
/// ```
/// use std::io::Write;
/// use std::net::{TcpListener, TcpStream};
/// use anywire_sys::tcp_info::TcpInfo;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut sender = TcpStream::connect(listener.local_addr()?)?;
/// sender.write_all(b"one write")?;
/// assert_eq!(TcpInfo::of(&sender)?.data_segments_out, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpInfo {
    /// Segments with data that arrived.
    pub data_segments_in: u32,
    /// Segments with data that left, retransmitted ones included.
    ///
    /// Counted in units of the largest segment, even where the network card does the splitting: a write larger than that
    /// is several segments. On the loopback the largest is mostly 64 KiB less the headers.
    pub data_segments_out: u32,
    /// Segments retransmitted over the whole connection.
    pub retransmits: u32,
}

impl TcpInfo {
    /// Asks the kernel about a connected TCP socket.
    ///
    /// # Errors
    ///
    /// `Unsupported` (`EOPNOTSUPP`) if the descriptor is a socket of another kind; else what `getsockopt(2)` said.
    #[allow(unsafe_code)]
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut raw = [0; RAW_BYTES];
        let mut length = RAW_BYTES as libc::socklen_t;
        // SAFETY: the borrowed descriptor stays open for the call; the kernel writes at most `length` bytes to `raw`,
        // which is that large, and keeps no pointer.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                raw.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let at = |offset: usize| {
            let bytes = raw[offset..].first_chunk().expect("the offsets below lie within the bytes");
            u32::from_ne_bytes(*bytes)
        };
        Ok(Self {
            data_segments_in: at(DATA_SEGS_IN),
            data_segments_out: at(DATA_SEGS_OUT),
            retransmits: at(TOTAL_RETRANS),
        })
    }
}

// Offsets of `struct tcp_info` in `linux/tcp.h`, which never change: the kernel only adds fields at the end. The struct of
// the `libc` crate ends before the segments.
const TOTAL_RETRANS: usize = 100;
const DATA_SEGS_IN: usize = 152;
const DATA_SEGS_OUT: usize = 156;
/// Up to the last of them.
const RAW_BYTES: usize = 160;
