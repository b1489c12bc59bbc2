//! The four ways to tell a thread that there is a job.

use std::fmt;
use std::hint;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::thread::futex;
use serde::Serialize;

use super::queue::Queue;

/// A way to tell a thread that there is a job for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A byte into a pipe for each job, and a `read` for each.
    Pipe,
    /// A futex, woken for each job.
    Futex,
    /// A futex, woken only if the taker said that it sleeps.
    FutexIfAsleep,
    /// Nothing: the taker spins.
    Spin,
}

impl Way {
    /// All, from the most calls to none.
    pub const ALL: [Self; 4] = [Self::Pipe, Self::Futex, Self::FutexIfAsleep, Self::Spin];

    /// What the kernel does for it, in a paragraph.
    pub fn story(self) -> &'static str {
        match self {
            Self::Pipe => {
                "The giver writes a byte for each job, the taker reads one. Two system calls a hand-over, whether the taker \
                 sleeps or not; if it does, the write wakes it."
            }
            Self::Futex => {
                "The giver makes a futex call for each job: the kernel looks in a hash table for a sleeper, mostly finds none, \
                 and the call was in vain. The taker sleeps only when the queue is empty."
            }
            Self::FutexIfAsleep => {
                "Before it sleeps, the taker says so in memory and looks at the queue once more. The giver reads that word and \
                 makes a call only if somebody sleeps. With one job in flight that is each time; with many, hardly ever. The \
                 two fences make sure that one of both sees the other."
            }
            Self::Spin => {
                "The taker looks at the queue without end. No system call, and the shortest time there is: that of a line of \
                 the cache from core to core. Both cores are full, also when there is nothing to do."
            }
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pipe => "pipe",
            Self::Futex => "futex",
            Self::FutexIfAsleep => "futex if asleep",
            Self::Spin => "spin",
        })
    }
}

/// One direction: a queue, and a way to tell.
pub(super) struct Lane {
    queue: Queue,
    teller: Teller,
}

enum Teller {
    Pipe {
        reader: PipeReader,
        writer: PipeWriter,
    },
    /// Counts jobs: a taker sleeps only while the count is what it was before it looked.
    Futex {
        jobs: AtomicU32,
    },
    FutexIfAsleep {
        asleep: AtomicU32,
    },
    Spin,
}

impl Lane {
    /// A lane for at most so many jobs at a time.
    pub(super) fn new(way: Way, jobs: usize) -> io::Result<Self> {
        let teller = match way {
            Way::Pipe => {
                let (reader, writer) = io::pipe()?;
                Teller::Pipe { reader, writer }
            }
            Way::Futex => Teller::Futex { jobs: AtomicU32::new(0) },
            Way::FutexIfAsleep => Teller::FutexIfAsleep { asleep: AtomicU32::new(AWAKE) },
            Way::Spin => Teller::Spin,
        };
        Ok(Self { queue: Queue::new(jobs), teller })
    }

    /// Hands a job over; called by one thread alone.
    #[inline]
    pub(super) fn give(&self, job: u64) -> io::Result<()> {
        self.queue.push(job);
        match &self.teller {
            // A pipe has room for 65,536 bytes, far more than there are jobs.
            Teller::Pipe { writer, .. } => (&*writer).write_all(&[0])?,
            Teller::Futex { jobs } => {
                jobs.fetch_add(1, Ordering::Release);
                futex::wake(jobs, futex::Flags::PRIVATE, 1)?;
            }
            Teller::FutexIfAsleep { asleep } => {
                // Against the fence of the taker: either we see that it sleeps, or it sees our job.
                fence(Ordering::SeqCst);
                if asleep.load(Ordering::Relaxed) == ASLEEP {
                    asleep.store(AWAKE, Ordering::Relaxed);
                    futex::wake(asleep, futex::Flags::PRIVATE, 1)?;
                }
            }
            Teller::Spin => {}
        }
        Ok(())
    }

    /// Waits for the next job; called by one thread alone.
    #[inline]
    pub(super) fn take(&self) -> io::Result<u64> {
        if let Teller::Pipe { reader, .. } = &self.teller {
            (&*reader).read_exact(&mut [0])?;
        }
        loop {
            let jobs = match &self.teller {
                Teller::Futex { jobs } => jobs.load(Ordering::Acquire),
                _ => 0,
            };
            if let Some(job) = self.queue.pop() {
                return Ok(job);
            }
            match &self.teller {
                // The byte came after the job.
                Teller::Pipe { .. } | Teller::Spin => hint::spin_loop(),
                Teller::Futex { jobs: word } => sleep_while(word, jobs)?,
                Teller::FutexIfAsleep { asleep } => {
                    asleep.store(ASLEEP, Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    if let Some(job) = self.queue.pop() {
                        asleep.store(AWAKE, Ordering::Relaxed);
                        return Ok(job);
                    }
                    sleep_while(asleep, ASLEEP)?;
                    asleep.store(AWAKE, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Sleeps until woken, unless the word has changed already. May also return for no reason.
fn sleep_while(word: &AtomicU32, value: u32) -> io::Result<()> {
    use rustix::io::Errno;
    match futex::wait(word, futex::Flags::PRIVATE, value, None) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_hands_over_every_job() {
        for way in Way::ALL {
            for in_flight in [1, 2, 7] {
                let [forth, back] = [(), ()].map(|()| Lane::new(way, 8).expect("a pipe can be had"));
                std::thread::scope(|scope| {
                    let taker = scope.spawn(|| (0..300).try_for_each(|_| back.give(forth.take()? + 1)));
                    for round in 0..300 / in_flight * in_flight {
                        forth.give(round).expect("it can be told");
                        if round % in_flight == in_flight - 1 {
                            (0..in_flight).for_each(|_| _ = back.take().expect("it can be told"));
                        }
                    }
                    (0..300 % in_flight).for_each(|job| forth.give(job).expect("it can be told"));
                    taker.join().expect("it does not panic").expect("it can be told");
                });
            }
        }
    }
}
