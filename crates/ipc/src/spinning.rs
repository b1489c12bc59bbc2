//! The ways that spin without a loop: the rings of shared memory, and a line of the cache.

use std::hint::spin_loop;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anywire_sys::shm::{self, Ends, Found};

use crate::blocking::End;

/// Two ends of rings in shared memory.
pub(crate) fn rings() -> io::Result<[Box<dyn End>; 2]> {
    let (here, memory) = shm::create(RING_BYTES)?;
    let there = shm::open(memory.as_fd(), RING_BYTES).map_err(io::Error::other)?;
    Ok([Box::new(Ring(here)), Box::new(Ring(there))])
}

struct Ring(Ends);

impl End for Ring {
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            if self.0.writer.is_reader_gone() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match self.0.writer.write(&[IoSlice::new(message)]).map_err(io::Error::other)? {
                0 => spin_loop(),
                written => message = &message[written..],
            }
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
        let mut read = 0;
        while read < message.len() {
            match self.0.reader.read(&mut message[read..]).map_err(io::Error::other)? {
                Found::Bytes(more) => read += more,
                Found::Nothing => spin_loop(),
                Found::End | Found::Reset => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.0.writer.end();
        self.0.reader.leave();
    }
}

/// Two ends that pass a number to and fro in one line of the cache.
pub(crate) fn line() -> [Box<dyn End>; 2] {
    let line = Arc::new(Line::default());
    [Box::new(LineEnd { line: Arc::clone(&line), next: 0 }), Box::new(LineEnd { line, next: 1 })]
}

#[derive(Default)]
struct Line {
    turn: OwnLine<AtomicU64>,
    /// An end has left. Not a number of `turn`, which the other end may be about to store.
    is_over: OwnLine<AtomicBool>,
}

/// Two lines for itself: the processor fetches them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct OwnLine<T>(T);

struct LineEnd {
    line: Arc<Line>,
    /// This end's turn comes with this number, which is even for the end that begins.
    next: u64,
}

impl End for LineEnd {
    fn send(&mut self, _: &[u8]) -> io::Result<()> {
        self.line.turn.0.store(self.next + 1, Ordering::Release);
        self.next += 2;
        Ok(())
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<bool> {
        while self.line.turn.0.load(Ordering::Acquire) != self.next {
            if self.line.is_over.0.load(Ordering::Relaxed) {
                return Ok(false);
            }
            spin_loop();
        }
        Ok(true)
    }
}

impl Drop for LineEnd {
    fn drop(&mut self) {
        self.line.is_over.0.store(true, Ordering::Relaxed);
    }
}

/// As a connection has them.
const RING_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_end_that_has_left_is_not_waited_for() {
        for ends in [line(), rings().expect("memory")] {
            let [mut here, there] = ends;
            drop(there);
            let (tell, told) = mpsc::channel();
            // The rings say so at once, and the line at the answer that does not come.
            thread::spawn(move || {
                tell.send(here.send(&[7]).is_err() || !here.receive(&mut [0]).unwrap_or(true))
            });
            assert!(told.recv_timeout(Duration::from_secs(60)).expect("it is not waited for"));
        }
    }
}
