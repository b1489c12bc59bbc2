//! Writes the frames that pass through a device to a file that Wireshark, tshark and tcpdump open.
//!
//! [`Capture`] is a wrapper around a device, for its whole life. [`Interface::capture`](crate::stream::Interface::capture) begins one
//! while an interface runs, with a [`Filter`], and ends it when nobody reads any more; its format is [`pcapng`].
//!
//! The format of the wrapper is the classic one (pcap): a header, then each frame behind the time of its passing, in microseconds. Frames
//! of the owner are written before the device takes them, so the file has them even if the device drops them. Traffic
//! comes first: a writer that fails, or a file that has reached its limit, ends the capture and nothing else.

mod filter;
pub mod pcapng;
mod recorder;

use std::io;
use std::net::SocketAddr;
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anywire_tcp::{Frames, Instant};

pub use self::filter::{Filter, FilterError};
pub(crate) use self::recorder::Recorder;
pub use self::recorder::{Recording, Sink, SinkError};
use crate::device::{Capabilities, Device, DeviceCounters, LinkEvent, Readiness};

/// How much of the traffic to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes to keep of each frame. Default 65,535, so all of them on any usual device.
    pub frame_bytes: u32,
    /// Bytes of the file; the first frame that would go beyond ends the capture. Default 1 GiB.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_bytes: 65_535, file_bytes: 1 << 30 }
    }
}

/// A device whose traffic is written down, both ways.
///
/// ```
/// use anywire_stack::capture::{Capture, Limits};
/// use anywire_stack::device::Device;
/// use anywire_stack::pair::{Endpoint, Settings};
/// use anywire_tcp::{Frames, Instant};
///
/// let [port, _other] = Endpoint::pair(Settings::default());
/// let mut port = Capture::new(port, Vec::new(), Limits::default());
/// let mut frames = Frames::new();
/// assert!(frames.push(&[0; 60]));
/// port.transmit(Instant::default(), &mut frames);
///
/// let (_port, file) = port.into_parts();
/// assert_eq!(file.len(), 24 + 16 + 60);
/// ```
#[derive(Debug)]
pub struct Capture<D, W> {
    device: D,
    writer: W,
    limits: Limits,
    /// When the clock of the device's owner began, since 1970.
    start: Duration,
    /// The records of one batch, so that they are one write.
    records: Vec<u8>,
    /// How many frames of the owner's next batch were recorded before: the device had no room for them.
    recorded: usize,
    counters: CaptureCounters,
    stopped: Option<Stopped>,
}

/// What a capture holds so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureCounters {
    /// Frames written.
    pub frames_written: u64,
    /// Bytes of the file.
    pub bytes_written: u64,
    /// Frames that passed after the capture had ended.
    pub frames_missed: u64,
}

/// Why a capture has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// The file has reached [`Limits::file_bytes`].
    Limit,
    /// The writer failed. The last frames in the file may be cut off.
    Failed(io::ErrorKind),
}

impl<D: Device, W: io::Write> Capture<D, W> {
    /// Starts a capture into `writer` with the file's header. A batch is one write, so a file needs no
    /// buffer.
    pub fn new(device: D, writer: W, limits: Limits) -> Self {
        let mut capture = Self {
            device,
            writer,
            limits,
            start: Duration::ZERO,
            records: Vec::new(),
            recorded: 0,
            counters: CaptureCounters::default(),
            stopped: None,
        };
        capture.note([MAGIC_OF_MICROSECONDS, VERSION, 0, 0, limits.frame_bytes, LINKTYPE_ETHERNET]);
        capture.write_records(0);
        capture
    }

    /// Says when the clock of the device's owner began: [`Instant`] counts from there. Without it, frames are
    /// dated from 1970 on.
    #[must_use]
    pub fn starting_at(mut self, start: SystemTime) -> Self {
        self.start = start.duration_since(UNIX_EPOCH).unwrap_or_default();
        self
    }

    /// What the file holds.
    pub const fn capture_counters(&self) -> CaptureCounters {
        self.counters
    }

    /// Why the capture has ended, if it has.
    pub const fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The device below.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Ends the capture. The writer is flushed; should that fail, it says so itself when it is used again.
    pub fn into_parts(mut self) -> (D, W) {
        let _ = self.writer.flush();
        (self.device, self.writer)
    }

    /// Writes down the frames of a batch from number `first` on.
    fn record(&mut self, now: Instant, frames: &Frames, first: usize) {
        let (time, mut count) = (self.start + Duration::from_micros(now.as_micros()), 0);
        if self.stopped.is_none() {
            for frame in frames.iter().skip(first) {
                let kept = frame.len().min(self.limits.frame_bytes as usize);
                let so_far = self.counters.bytes_written + self.records.len() as u64;
                if so_far + (RECORD_HEADER_BYTES + kept) as u64 > self.limits.file_bytes {
                    self.stopped = Some(Stopped::Limit);
                    break;
                }
                // The format's seconds end in 2106.
                let (seconds, micros) = (time.as_secs() as u32, time.subsec_micros());
                self.note([seconds, micros, kept as u32, frame.len() as u32]);
                self.records.extend_from_slice(&frame[..kept]);
                count += 1;
            }
            self.write_records(count);
        }
        self.counters.frames_missed += frames.len().saturating_sub(first) as u64 - count;
    }

    /// Writes fields of the format behind the records, lowest byte first.
    fn note<const N: usize>(&mut self, fields: [u32; N]) {
        self.records.extend(fields.into_iter().flat_map(u32::to_le_bytes));
    }

    fn write_records(&mut self, frames: u64) {
        match self.writer.write_all(&self.records) {
            Ok(()) => {
                self.counters.frames_written += frames;
                self.counters.bytes_written += self.records.len() as u64;
            }
            Err(error) => {
                self.counters.frames_missed += frames;
                self.stopped = Some(Stopped::Failed(error.kind()));
            }
        }
        self.records.clear();
    }
}

impl<D: Device, W: io::Write> Device for Capture<D, W> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        let count = self.device.receive(now, frames);
        if count > 0 {
            self.record(now, frames, 0);
        }
        count
    }

    fn room(&self) -> usize {
        self.device.room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        if frames.len() > self.recorded {
            self.record(now, frames, self.recorded);
        }
        let count = self.device.transmit(now, frames);
        self.recorded = frames.len();
        count
    }

    fn batch(&self) -> Frames {
        self.device.batch()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.device.next_deadline()
    }

    fn is_behind(&self) -> bool {
        self.device.is_behind()
    }

    fn readiness(&self) -> Readiness<'_> {
        self.device.readiness()
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        self.device.before_sleep(owner)
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        self.device.link_event()
    }

    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.device.reaches(local, remote)
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}

const MAGIC_OF_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// 2.4.
const VERSION: u32 = 2 | 4 << 16;
const LINKTYPE_ETHERNET: u32 = 1;
const RECORD_HEADER_BYTES: usize = 16;
