//! What the kernel knows of one TCP connection (`getsockopt(2)`, `TCP_INFO`).
//!
//! The segment counters are the proof of "one response, one write": the data segments that left equal the
//! responses sent.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Counters and estimates of one TCP connection since it was set up.
///
/// A field that the running kernel does not know yet is zero: the segment counters came with Linux 4.6, `bytes_sent`
/// with 4.19.
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
    /// Counted in units of `send_mss`, even where the network card does the splitting: a write larger than that is
    /// several segments. On the loopback `send_mss` is mostly 64 KiB less the headers.
    pub data_segments_out: u32,
    /// Segments that arrived, pure acknowledgements included.
    pub segments_in: u32,
    /// Segments that left, pure acknowledgements included.
    pub segments_out: u32,
    /// Segments retransmitted over the whole connection.
    pub retransmits: u32,
    /// Bytes of data that arrived in order.
    pub bytes_received: u64,
    /// Bytes of data that left, retransmitted ones included.
    pub bytes_sent: u64,
    /// Bytes of data that the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// Bytes of data that wait in the kernel and were never sent.
    pub unsent_bytes: u32,
    /// Segments sent and not yet acknowledged.
    pub unacknowledged_segments: u32,
    /// Smoothed round-trip time (RFC 6298, SRTT).
    pub rtt: Duration,
    /// Variation of the round-trip time (RFC 6298, RTTVAR).
    pub rtt_variation: Duration,
    /// Smallest round-trip time of the last minutes; zero before the first sample.
    pub rtt_min: Duration,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Largest segment that we send, in bytes of data.
    pub send_mss: u32,
}

impl TcpInfo {
    /// Asks the kernel about a connected TCP socket.
    ///
    /// # Errors
    ///
    /// `Unsupported` (`EOPNOTSUPP`) if the descriptor is a socket of another kind; else what `getsockopt(2)` said.
    #[allow(unsafe_code)]
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut raw = MaybeUninit::<RawTcpInfo>::zeroed();
        let mut length = size_of::<RawTcpInfo>() as libc::socklen_t;
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
        // SAFETY: all bytes were zeroed first, and any bytes are a valid `RawTcpInfo` (integers only), so whatever
        // part an older kernel left alone is zero.
        Ok(unsafe { raw.assume_init() }.into())
    }
}

impl From<RawTcpInfo> for TcpInfo {
    fn from(raw: RawTcpInfo) -> Self {
        Self {
            data_segments_in: raw.data_segs_in,
            data_segments_out: raw.data_segs_out,
            segments_in: raw.segs_in,
            segments_out: raw.segs_out,
            retransmits: raw.total_retrans,
            bytes_received: raw.bytes_received,
            bytes_sent: raw.bytes_sent,
            bytes_acknowledged: raw.bytes_acked,
            unsent_bytes: raw.notsent_bytes,
            unacknowledged_segments: raw.unacked,
            rtt: Duration::from_micros(raw.rtt.into()),
            rtt_variation: Duration::from_micros(raw.rttvar.into()),
            // The kernel says "no sample yet" by the largest number.
            rtt_min: if raw.min_rtt == u32::MAX {
                Duration::ZERO
            } else {
                Duration::from_micros(raw.min_rtt.into())
            },
            congestion_window: raw.snd_cwnd,
            send_mss: raw.snd_mss,
        }
    }
}

/// `struct tcp_info` of `linux/tcp.h` up to `bytes_retrans`. The `libc` crate ends earlier.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawTcpInfo {
    _state_to_flags: [u8; 8],
    _rto: u32,
    _ato: u32,
    snd_mss: u32,
    _rcv_mss: u32,
    unacked: u32,
    _sacked: u32,
    _lost: u32,
    _retrans: u32,
    _fackets: u32,
    _last: [u32; 4],
    _pmtu: u32,
    _rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    _snd_ssthresh: u32,
    snd_cwnd: u32,
    _advmss: u32,
    _reordering: u32,
    _rcv_rtt: u32,
    _rcv_space: u32,
    total_retrans: u32,
    _pacing_rate: u64,
    _max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    _delivery_rate: u64,
    _busy_time: u64,
    _rwnd_limited: u64,
    _sndbuf_limited: u64,
    _delivered: u32,
    _delivered_ce: u32,
    bytes_sent: u64,
    _bytes_retrans: u64,
}

// The offsets are the kernel's promise to programs; a slip here would read the wrong counters in silence.
const _: () = {
    assert!(std::mem::offset_of!(RawTcpInfo, rtt) == 68);
    assert!(std::mem::offset_of!(RawTcpInfo, total_retrans) == 100);
    assert!(std::mem::offset_of!(RawTcpInfo, bytes_acked) == 120);
    assert!(std::mem::offset_of!(RawTcpInfo, data_segs_in) == 152);
    assert!(std::mem::offset_of!(RawTcpInfo, bytes_sent) == 200);
};
