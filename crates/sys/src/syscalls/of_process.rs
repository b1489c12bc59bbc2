//! The system calls of another process, each by its name.

use std::collections::BTreeMap;
use std::io;

use super::{CallsByName, CounterError};

/// Counts the system calls of several threads together, by name: those of a server that is watched.
///
/// Each thread has some twenty counters, and threads that these start later count as well.
#[derive(Debug)]
pub struct CallsOfThreads {
    threads: Vec<CallsByName>,
}

impl CallsOfThreads {
    /// Prepares the counters, disabled. A thread that has ended meanwhile is left out.
    ///
    /// # Errors
    ///
    /// See [`CounterError`]; [`CounterError::NoSuchThread`] only if all of them have ended.
    pub fn new(tids: impl IntoIterator<Item = i32>) -> Result<Self, CounterError> {
        let mut threads = Vec::new();
        let mut ended = None;
        for tid in tids {
            match CallsByName::for_thread(tid) {
                Ok(counter) => threads.push(counter),
                Err(error @ CounterError::NoSuchThread { .. }) => ended = Some(error),
                Err(error) => return Err(error),
            }
        }
        match ended {
            Some(error) if threads.is_empty() => Err(error),
            _ => Ok(Self { threads }),
        }
    }

    /// Starts counting from zero.
    ///
    /// # Errors
    ///
    /// The error of the kernel. No cause is known on open counters.
    pub fn enable(&mut self) -> io::Result<()> {
        self.threads.iter_mut().try_for_each(CallsByName::enable)
    }

    /// Stops counting.
    ///
    /// # Errors
    ///
    /// As [`CallsOfThreads::enable`].
    pub fn disable(&self) -> io::Result<()> {
        self.threads.iter().try_for_each(CallsByName::disable)
    }

    /// The calls of all threads since it was enabled, by name; calls that were never made are left out.
    ///
    /// # Errors
    ///
    /// As [`CallsOfThreads::enable`].
    pub fn read(&self) -> io::Result<BTreeMap<&'static str, u64>> {
        let mut calls = BTreeMap::new();
        for thread in &self.threads {
            for (name, count) in thread.read()? {
                *calls.entry(name).or_default() += count;
            }
        }
        Ok(calls)
    }
}
