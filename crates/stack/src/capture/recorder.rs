//! What records the frames of an interface while it runs.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anywire_tcp::{Frames, Instant};

use super::filter::Filter;
use super::pcapng::{self, Packet};

/// Where records go: blocks of a pcapng file, those of one batch at a time.
///
/// It is called by the loop of the interface, so it must not block: a reader that is slow costs records.
pub trait Sink {
    /// Takes the blocks of so many frames.
    ///
    /// # Errors
    /// Why it did not.
    fn put(&mut self, blocks: Vec<u8>, frames: u64) -> Result<(), SinkError>;

    /// Whether its reader has gone, as far as it knows before the next [`put`](Self::put): then its interface may forget it, though no
    /// frame passes. Default: no.
    fn is_closed(&self) -> bool {
        false
    }
}

/// Why a [`Sink`] took nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkError {
    /// There is no room for now. The frames are dropped, and the capture goes on.
    Full,
    /// Nobody reads any more. The capture ends.
    Closed,
}

/// What a recorder keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Which frames. Default: all.
    pub filter: Option<Filter>,
    /// Bytes of each frame. Default: 262,144, as of tcpdump: all of any frame.
    pub frame_bytes: u32,
    /// The number of the interface in the file: that of its [block](pcapng::interface).
    pub interface: u32,
}

impl Default for Recording {
    fn default() -> Self {
        Self { filter: None, frame_bytes: 262_144, interface: 0 }
    }
}

/// Records the frames of one interface.
pub(crate) struct Recorder {
    recording: Recording,
    /// When the clock of the interface began, since 1970.
    start: Duration,
    sink: Box<dyn Sink>,
    /// Grows to the records of the largest batch, then stays.
    size_hint: usize,
}

impl Recorder {
    /// One that begins at `now` on the clock of its interface.
    pub(crate) fn new(now: Instant, recording: Recording, sink: impl Sink + 'static) -> Self {
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = today.saturating_sub(Duration::from_micros(now.as_micros()));
        Self { recording, start, sink: Box::new(sink), size_hint: 0 }
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }

    /// Records a batch, and says whether anybody still reads.
    pub(crate) fn record(&mut self, now: Instant, frames: &Frames, is_inbound: bool) -> bool {
        let Recording { filter, frame_bytes, interface } = &self.recording;
        let micros = (self.start + Duration::from_micros(now.as_micros())).as_micros() as u64;
        let (mut blocks, mut count) = (Vec::with_capacity(self.size_hint), 0);
        for frame in frames.iter() {
            if filter.as_ref().is_some_and(|filter| !filter.matches(frame)) {
                continue;
            }
            let bytes = &frame[..frame.len().min(*frame_bytes as usize)];
            let packet = Packet { interface: *interface, micros, is_inbound, bytes, length: frame.len() };
            pcapng::packet(&mut blocks, &packet);
            count += 1;
        }
        self.size_hint = self.size_hint.max(blocks.len());
        count == 0 || self.sink.put(blocks, count) != Err(SinkError::Closed)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("recording", &self.recording).finish_non_exhaustive()
    }
}
