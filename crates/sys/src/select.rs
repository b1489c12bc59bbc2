//! `select(2)`, with its limit of 1024 descriptors as a typed error.
//!
//! The call takes three arrays of bits, one bit a descriptor, of a size that C libraries fixed at 1024. Writing the bit of
//! descriptor 1024 is the classic memory error of programs that use it; [`Set::insert`] refuses instead.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use anywire_advice::Advice;

/// A set of descriptors with numbers below [`Set::SIZE`].
#[derive(Clone, PartialEq, Eq)]
pub struct Set {
    words: [u64; Self::SIZE / 64],
    /// One more than the highest number that was ever put in: the kernel looks at each bit below it.
    end: RawFd,
}

impl Set {
    /// How many numbers there are: FD_SETSIZE of Linux's C libraries.
    pub const SIZE: usize = 1024;

    /// An empty set.
    pub fn new() -> Self {
        Self { words: [0; Self::SIZE / 64], end: 0 }
    }

    /// Adds a descriptor.
    ///
    /// # Errors
    ///
    /// [`BeyondSet`] if its number is 1024 or more; the set is as before.
    pub fn insert(&mut self, descriptor: impl AsFd) -> Result<(), BeyondSet> {
        let number = descriptor.as_fd().as_raw_fd();
        let word = self.words.get_mut(number as usize / 64).ok_or(BeyondSet { number })?;
        *word |= 1 << (number as usize % 64);
        self.end = self.end.max(number + 1);
        Ok(())
    }

    /// Whether it is in the set.
    pub fn contains(&self, descriptor: impl AsFd) -> bool {
        let number = descriptor.as_fd().as_raw_fd() as usize;
        self.words.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

impl Default for Set {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_in = |number: &usize| self.words[number / 64] & (1 << (number % 64)) != 0;
        f.debug_set().entries((0..Self::SIZE).filter(is_in)).finish()
    }
}

/// A descriptor that `select(2)` cannot watch: its number is 1024 or more. The caller's: hold fewer descriptors, or use poll
/// or epoll, which have no such limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "select cannot watch descriptor {number}: its sets hold the numbers 0 to 1023 (FD_SETSIZE){help}",
    help = Advice("use poll or epoll, which have no such limit")
)]
pub struct BeyondSet {
    /// The number of the descriptor.
    pub number: RawFd,
}

/// Waits until a descriptor of `readable` can be read from, or one of `writable` written to; the sets then hold only the ready
/// ones, whose number is returned. At the timeout (`None`: never) both are empty.
///
/// ```
/// use std::io::Write;
/// use anywire_sys::select::{Set, select};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"x")?;
/// let mut readable = Set::new();
/// readable.insert(&reader)?;
/// assert_eq!(select(&mut readable, &mut Set::new(), None)?, 1);
/// assert!(readable.contains(&reader));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// What `select(2)` said: `Interrupted` by a signal, EBADF for a descriptor that was closed.
#[allow(unsafe_code)]
pub fn select(readable: &mut Set, writable: &mut Set, timeout: Option<Duration>) -> io::Result<usize> {
    let mut time = timeout.map(|timeout| libc::timeval {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: timeout.subsec_micros().into(),
    });
    let time = time.as_mut().map_or(std::ptr::null_mut(), |time| &raw mut *time);
    // SAFETY: a set is 1024 bits like `fd_set`, in the same order on little-endian machines and on machines with words of
    // 64 bits. `end` is at most 1024, so the kernel reads and writes within them. All live through the call.
    let count = unsafe {
        libc::select(
            readable.end.max(writable.end),
            readable.words.as_mut_ptr().cast(),
            writable.words.as_mut_ptr().cast(),
            std::ptr::null_mut(),
            time,
        )
    };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

const _: () = assert!(size_of::<[u64; Set::SIZE / 64]>() == size_of::<libc::fd_set>());

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_the_ready_are_left() {
        let (quiet, _quiet_writer) = io::pipe().expect("a pipe");
        let (ready, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"x").expect("there is room");
        let mut readable = Set::new();
        readable.insert(&quiet).expect("a low number");
        readable.insert(&ready).expect("a low number");
        let mut writable = Set::new();
        writable.insert(&writer).expect("a low number");
        assert_eq!(select(&mut readable, &mut writable, None).expect("both are open"), 2);
        assert!(readable.contains(&ready) && !readable.contains(&quiet) && writable.contains(&writer));
    }

    #[test]
    fn at_the_timeout_nothing_is_left() {
        let (quiet, _writer) = io::pipe().expect("a pipe");
        let mut readable = Set::new();
        readable.insert(&quiet).expect("a low number");
        let timeout = Some(Duration::from_millis(1));
        assert_eq!(select(&mut readable, &mut Set::new(), timeout).expect("it is open"), 0);
        assert_eq!(format!("{readable:?}"), "{}");
    }

    #[test]
    fn a_number_beyond_the_set_is_refused() {
        crate::descriptors::raise_limit().expect("it may be raised");
        let file = std::fs::File::open("/dev/null").expect("every Linux has it");
        let high = crate::descriptors::move_up(file.into());
        assert!(high.as_raw_fd() >= 1024, "the hard limit is too low for this test");
        let mut set = Set::new();
        assert_eq!(set.insert(&high), Err(BeyondSet { number: high.as_raw_fd() }));
        assert!(!set.contains(&high) && set == Set::new());
    }
}
