//! Captures of the frames of this process's devices, at run time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anywire_advice::Message;
use anywire_stack::capture::{Filter, Recording, Sink, SinkError, pcapng};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use super::inspect::{PATIENCE, host, loops};

/// What to capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureOptions {
    /// The device, as addresses name it. Default: all that this process has.
    pub device: Option<String>,
    /// Which frames. Default: all.
    pub filter: Option<Filter>,
    /// Bytes of each frame. Default: 262,144, which is all of any frame.
    pub frame_bytes: u32,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self { device: None, filter: None, frame_bytes: 262_144 }
    }
}

/// A capture that runs until it is dropped: a pcapng file, piece by piece.
///
/// If its reader is slow, 8 MiB wait for it; what passes meanwhile is dropped and counted, and the file says so.
#[derive(Debug)]
pub struct Capture {
    header: Option<Vec<u8>>,
    pieces: UnboundedReceiver<Vec<u8>>,
    shared: Arc<Shared>,
    /// What the file has said of the frames dropped, by interface.
    told: Vec<u64>,
}

impl Capture {
    /// Begins on all loops that have such a device now; on one that is held up once it is free. Waits for them, but no longer than two
    /// seconds. To be awaited on a runtime of tokio with a timer, such as a loop.
    ///
    /// # Errors
    /// `NotFound` if this process has no such device; `QuotaExceeded` if eight captures run already.
    pub async fn start(options: CaptureOptions) -> io::Result<Self> {
        let meant = loops(options.device.as_deref());
        if meant.is_empty() {
            let what = options.device.as_deref().unwrap_or("a device of its own");
            let message = Message::new(format!("this process has not opened {what}"));
            let mut open: Vec<_> = loops(None).into_iter().map(|one| one.device.to_string()).collect();
            open.dedup();
            let help = format!("it has {}", open.join(", "));
            let message = if open.is_empty() { message } else { message.with_help(help) };
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let running = RUNNING.fetch_add(1, Ordering::Relaxed);
        let (sender, pieces) = unbounded_channel();
        let dropped = meant.iter().map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared { waiting_bytes: AtomicUsize::new(0), dropped });
        let told = vec![0; meant.len()];
        // From here on its end is counted.
        let mut capture = Self { header: None, pieces, shared, told };
        if running >= CAPTURES_MAX {
            let message = Message::new(format!("{CAPTURES_MAX} captures of this process run already"));
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, message.with_help("end one of them")));
        }
        let (mut header, mut all) = (Vec::new(), Vec::new());
        pcapng::section_header(&mut header);
        for (interface, one) in (0..).zip(meant) {
            let name = format!("{} loop {}", one.device, one.on.id().index());
            pcapng::interface(&mut header, &name, options.frame_bytes);
            let recording =
                Recording { filter: options.filter.clone(), frame_bytes: options.frame_bytes, interface };
            let queue = Queue { sender: sender.clone(), shared: Arc::clone(&capture.shared), interface };
            all.push(one.on.spawn(move || async move {
                if let Some(host) = host(&one.device) {
                    host.interface().capture(recording, queue);
                }
            }));
        }
        let deadline = Instant::now() + PATIENCE;
        for started in all {
            // If the loop has ended meanwhile, there is nothing to capture.
            let _ = timeout_at(deadline, started).await;
        }
        capture.header = Some(header);
        Ok(capture)
    }

    /// The next piece of the file; none once all of its loops have ended.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(header) = self.header.take() {
            return Some(header);
        }
        let piece = match self.pieces.try_recv() {
            Ok(piece) => piece,
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => match self.statistics() {
                Some(statistics) => return Some(statistics),
                None => self.pieces.recv().await?,
            },
        };
        self.shared.waiting_bytes.fetch_sub(piece.len(), Ordering::Relaxed);
        Some(piece)
    }

    /// Frames that were dropped, because what had passed before was not read in time.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.iter().map(|dropped| dropped.load(Ordering::Relaxed)).sum()
    }

    /// What was dropped since the file said so last, as blocks of the file.
    fn statistics(&mut self) -> Option<Vec<u8>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut blocks = Vec::new();
        for ((interface, dropped), told) in (0..).zip(&self.shared.dropped).zip(&mut self.told) {
            let dropped = dropped.load(Ordering::Relaxed);
            if dropped != *told {
                *told = dropped;
                pcapng::statistics(&mut blocks, interface, now.as_micros() as u64, dropped);
            }
        }
        (!blocks.is_empty()).then_some(blocks)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the loops and the reader share.
#[derive(Debug)]
struct Shared {
    waiting_bytes: AtomicUsize,
    /// By interface.
    dropped: Vec<AtomicU64>,
}

/// What one loop fills.
struct Queue {
    sender: UnboundedSender<Vec<u8>>,
    shared: Arc<Shared>,
    interface: u32,
}

impl Sink for Queue {
    fn put(&mut self, blocks: Vec<u8>, frames: u64) -> Result<(), SinkError> {
        let (bytes, waiting) = (blocks.len(), &self.shared.waiting_bytes);
        if waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.dropped[self.interface as usize].fetch_add(frames, Ordering::Relaxed);
            return if self.is_closed() { Err(SinkError::Closed) } else { Err(SinkError::Full) };
        }
        self.sender.send(blocks).map_err(|_| SinkError::Closed)
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Captures of a process at a time. Each costs its loops a look at every frame.
const CAPTURES_MAX: usize = 8;

/// Bytes of a capture that wait for its reader.
const WAITING_BYTES_MAX: usize = 8 << 20;
