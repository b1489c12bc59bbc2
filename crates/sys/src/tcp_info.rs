//! What the kernel knows of one TCP connection (`getsockopt(2)`, `TCP_INFO`).
//!
//! Its segment counters are the proof of "one response, one write": the data segments that left equal the
//! responses sent.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What Linux knows of one TCP connection since it was set up. It counts segments with data since 4.6; before, they are zero.
/// Fields that an older kernel does not have are `None`.
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
    /// The largest segment that is sent, in bytes, without headers and options. It follows the path and the peer's window.
    pub segment_bytes_out: u32,
    /// The largest segment that the peer was asked to send, in bytes, without headers.
    pub segment_bytes_in: u32,
    /// What both ends agreed on when they connected.
    pub options: AgreedOptions,
    /// The smoothed round trip.
    pub round_trip: Duration,
    /// How much the round trip varies.
    pub round_trip_variance: Duration,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// Bytes that arrived in order (Linux 4.1).
    pub bytes_in: Option<u64>,
    /// The latest rate at which the peer acknowledged, in bytes a second (Linux 4.9).
    pub delivery_rate: Option<u64>,
    /// How long there was something to send, or to be acknowledged (Linux 4.10).
    pub busy: Option<Duration>,
    /// The part of that during which the peer's receive window stopped the sending (Linux 4.10).
    pub window_limited: Option<Duration>,
    /// The part of that during which the own send buffer was full (Linux 4.10).
    pub send_buffer_limited: Option<Duration>,
    /// Segments that arrived out of order: one before them was lost, or overtaken (Linux 5.4).
    pub out_of_order_in: Option<u32>,
    /// The receive window that the peer announced last, in bytes (Linux 5.4).
    pub peer_window_bytes: Option<u32>,
}

/// What both ends of a connection agreed on when they connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgreedOptions {
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// The shift of the windows that the peer announces, and of those that this end does (RFC 7323). None without window scaling.
    pub window_scales: Option<(u8, u8)>,
}

impl AgreedOptions {
    const fn read(bits: u8, scales: u8) -> Self {
        let scaled = bits & OPTION_WINDOW_SCALE != 0;
        Self {
            timestamps: bits & OPTION_TIMESTAMPS != 0,
            sack: bits & OPTION_SACK != 0,
            ecn: bits & OPTION_ECN != 0,
            window_scales: if scaled { Some((scales & 15, scales >> 4)) } else { None },
        }
    }
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
        // The length that the kernel has written; what is behind it stays zero.
        Ok(Self::read(&raw[..raw.len().min(length as usize)]))
    }

    /// Reads the struct, as far as the kernel has it.
    fn read(raw: &[u8]) -> Self {
        let u32_at = |offset| raw.get(offset..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        let u64_at = |offset| raw.get(offset..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        let count = |offset| u32_at(offset).unwrap_or(0);
        let micros_at = |offset| u64_at(offset).map(Duration::from_micros);
        Self {
            data_segments_in: count(DATA_SEGS_IN),
            data_segments_out: count(DATA_SEGS_OUT),
            retransmits: count(TOTAL_RETRANS),
            segment_bytes_out: count(SND_MSS),
            segment_bytes_in: count(ADVMSS),
            options: AgreedOptions::read(
                raw.get(OPTIONS).copied().unwrap_or(0),
                raw.get(WINDOW_SCALES).copied().unwrap_or(0),
            ),
            round_trip: Duration::from_micros(count(RTT).into()),
            round_trip_variance: Duration::from_micros(count(RTTVAR).into()),
            congestion_window: count(SND_CWND),
            bytes_in: u64_at(BYTES_RECEIVED),
            delivery_rate: u64_at(DELIVERY_RATE),
            busy: micros_at(BUSY_TIME),
            window_limited: micros_at(RWND_LIMITED),
            send_buffer_limited: micros_at(SNDBUF_LIMITED),
            out_of_order_in: u32_at(RCV_OOOPACK),
            peer_window_bytes: u32_at(SND_WND),
        }
    }
}

/// Bytes that have arrived on a socket and were not read yet (`FIONREAD`).
///
/// # Errors
///
/// What `ioctl(2)` said.
pub fn unread_bytes(socket: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(socket)?)
}

// Offsets of `struct tcp_info` in `linux/tcp.h`, which never change: the kernel only adds fields at the end. The struct of
// the `libc` crate ends before the segments.
const OPTIONS: usize = 5;
const WINDOW_SCALES: usize = 6;
const SND_MSS: usize = 16;
const RTT: usize = 68;
const RTTVAR: usize = 72;
const SND_CWND: usize = 80;
const ADVMSS: usize = 84;
const TOTAL_RETRANS: usize = 100;
const BYTES_RECEIVED: usize = 128;
const DATA_SEGS_IN: usize = 152;
const DATA_SEGS_OUT: usize = 156;
const DELIVERY_RATE: usize = 160;
const BUSY_TIME: usize = 168;
const RWND_LIMITED: usize = 176;
const SNDBUF_LIMITED: usize = 184;
const RCV_OOOPACK: usize = 224;
const SND_WND: usize = 228;
// Bits of the options.
const OPTION_TIMESTAMPS: u8 = 1;
const OPTION_SACK: u8 = 2;
const OPTION_WINDOW_SCALE: u8 = 4;
const OPTION_ECN: u8 = 8;
/// Up to the last of them.
const RAW_BYTES: usize = 232;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_an_older_kernel_lacks_is_unknown() {
        let old = TcpInfo::read(&[1; DELIVERY_RATE]);
        assert_eq!((old.data_segments_out, old.bytes_in), (0x0101_0101, Some(0x0101_0101_0101_0101)));
        assert_eq!((old.delivery_rate, old.peer_window_bytes), (None, None));
        assert_eq!(TcpInfo::read(&[]), TcpInfo::default());
    }

    #[test]
    fn the_options_of_the_loopback_are_those_of_the_kernel() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let caller = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let options = TcpInfo::of(&caller).expect("it is TCP").options;
        let is_on = |name: &str| {
            let value = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
            value.is_ok_and(|value| value.trim() != "0")
        };
        assert_eq!((options.timestamps, options.sack), (is_on("tcp_timestamps"), is_on("tcp_sack")));
        assert_eq!(options.window_scales.is_some(), is_on("tcp_window_scaling"));
    }

    proptest! {
        /// However much of it a kernel has, and whatever is in it: what is there is read, and the rest is unknown.
        #[test]
        fn any_struct_is_read(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            let info = TcpInfo::read(&raw);
            let whole = TcpInfo::read(&[&raw[..], &[0; 300]].concat());
            prop_assert_eq!(info.data_segments_in, if raw.len() >= 156 { whole.data_segments_in } else { 0 });
            for (is_known, bytes) in [
                (info.bytes_in.is_some(), BYTES_RECEIVED + 8),
                (info.delivery_rate.is_some(), DELIVERY_RATE + 8),
                (info.busy.is_some(), BUSY_TIME + 8),
                (info.window_limited.is_some(), RWND_LIMITED + 8),
                (info.send_buffer_limited.is_some(), SNDBUF_LIMITED + 8),
                (info.out_of_order_in.is_some(), RCV_OOOPACK + 4),
                (info.peer_window_bytes.is_some(), SND_WND + 4),
            ] {
                prop_assert_eq!(is_known, raw.len() >= bytes);
            }
        }
    }
}
