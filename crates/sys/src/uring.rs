//! io_uring for a server of one thread that answers from prebuilt bytes.
//!
//! Requests to the kernel and their completions travel through two rings in shared memory, and one system call
//! (`io_uring_enter`) hands over a whole batch of either. [`Uring`] offers the part that such a server needs. One request
//! accepts all connections of a listener (multishot). One receives everything that ever arrives on a connection, each time
//! into a buffer that the kernel picks from a pool (provided buffers). Sends read from an output that never changes. The
//! ring is set up with SINGLE_ISSUER and DEFER_TASKRUN: completions are worked off in `io_uring_enter` and nowhere else.
//!
//! All memory that the kernel may write to belongs to the [`Uring`], which outlives its requests: dropping it cancels them
//! and waits for their ends. Limits: [`BUFFERS`] buffers of [`BUFFER_BYTES`] bytes.

// The kernel is given addresses here; each block says why they stay valid.
#![allow(unsafe_code)]

mod buffers;

use std::fs;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use anywire_advice::Advice;
use io_uring::{IoUring, cqueue, opcode, squeue, types};

use self::buffers::Buffers;
pub use self::buffers::{BUFFER_BYTES, BUFFERS};

/// A ring, its buffers and its output; it stays on the thread that made it.
pub struct Uring {
    requests: Requests,
    buffers: ManuallyDrop<Buffers>,
    /// Completions that were taken from the ring and are being worked off.
    taken: Vec<cqueue::Entry>,
}

impl Uring {
    /// Sets up a ring. `output` is what [`Requests::send`] sends from.
    ///
    /// # Errors
    ///
    /// See [`UringError`]: many systems have or allow no io_uring.
    pub fn new(output: Box<[u8]>) -> Result<Self, UringError> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)
            .map_err(UringError::from_setup)?;
        let buffers = Buffers::new();
        buffers.register(&ring).map_err(UringError::from_setup)?;
        let requests = Requests { ring, output: ManuallyDrop::new(output), under_way: 0 };
        Ok(Self { requests, buffers: ManuallyDrop::new(buffers), taken: Vec::new() })
    }

    /// The queue of requests. They reach the kernel at the next [`Uring::wait`].
    pub fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// Hands all new requests to the kernel, and waits until one is done, or for the timeout (`None`: for ever), in one
    /// system call. [`Uring::work_off`] then gives the completions.
    ///
    /// # Errors
    ///
    /// What `io_uring_enter(2)` said. A signal and the timeout are no errors.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let submitter = self.requests.ring.submitter();
        let entered = match timeout {
            None => submitter.submit_and_wait(1),
            Some(timeout) => {
                let timeout = types::Timespec::from(timeout);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&timeout))
            }
        };
        match entered {
            Err(error) if !is_pause(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Gives `handle` all that is done, in the order in which it was done. `handle` may make new requests.
    pub fn work_off(&mut self, mut handle: impl FnMut(&mut Requests, Done<'_>)) {
        self.taken.extend(self.requests.ring.completion());
        for entry in self.taken.drain(..) {
            let more = cqueue::more(entry.flags());
            self.requests.under_way -= usize::from(!more);
            let token = entry.user_data() as u32;
            let buffer = cqueue::buffer_select(entry.flags());
            let count =
                usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
            match entry.user_data() >> 32 {
                ACCEPT => handle(&mut self.requests, Done::Accepted { socket: socket(&entry), more }),
                RECEIVE => {
                    // Only the end of the stream comes without a buffer.
                    let bytes = count.map(|count| buffer.map_or(&[][..], |id| self.buffers.bytes(id, count)));
                    handle(&mut self.requests, Done::Received { token, bytes, more });
                }
                SEND => handle(&mut self.requests, Done::Sent { token, count }),
                WATCH => handle(&mut self.requests, Done::Readable { token }),
                _ => {}
            }
            if let Some(id) = buffer {
                self.buffers.give_back(id);
            }
        }
    }

    /// Cancels all requests, and waits until each has ended. Memory is not touched after that.
    fn cancel_all(&mut self) -> io::Result<()> {
        self.requests.push(CANCEL, 0, opcode::AsyncCancel2::new(types::CancelBuilder::any()).build());
        while self.requests.under_way > 0 {
            self.wait(Some(CANCEL_WITHIN))?;
            let before = self.requests.under_way;
            self.work_off(|_, done| drop(done));
            if self.requests.under_way == before {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Memory that the kernel may still write to is never freed: it leaks.
        if self.cancel_all().is_ok() && Buffers::unregister(&self.requests.ring).is_ok() {
            // SAFETY: no request is in progress, so the kernel knows neither the buffers nor the output. Both are unused
            // after this.
            unsafe {
                ManuallyDrop::drop(&mut self.buffers);
                ManuallyDrop::drop(&mut self.requests.output);
            }
        }
    }
}

/// The queue of requests to the kernel. Each carries a token of the caller's, which its completion brings back.
pub struct Requests {
    ring: IoUring,
    output: ManuallyDrop<Box<[u8]>>,
    /// Requests whose last completion has not been taken.
    under_way: usize,
}

impl Requests {
    /// Accepts every connection of this listener, until a [`Done::Accepted`] says that there will be no more.
    pub fn accept(&mut self, listener: impl AsFd) {
        let accept = opcode::AcceptMulti::new(descriptor(&listener)).flags(libc::SOCK_CLOEXEC);
        self.push(ACCEPT, 0, accept.build());
    }

    /// Receives all that arrives on this socket, until a [`Done::Received`] says that there will be no more.
    pub fn receive(&mut self, socket: impl AsFd, token: u32) {
        self.push(RECEIVE, token, opcode::RecvMulti::new(descriptor(&socket), buffers::GROUP).build());
    }

    /// Sends this part of the output; [`Done::Sent`] says how much of it. A part beyond the output's end is cut there.
    pub fn send(&mut self, socket: impl AsFd, token: u32, part: Range<usize>) {
        let end = part.end.min(self.output.len());
        let bytes = &self.output[part.start.min(end)..end];
        // The kernel counts in 32 bits: longer data makes a short send.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let send = opcode::Send::new(descriptor(&socket), bytes.as_ptr(), length).flags(libc::MSG_NOSIGNAL);
        self.push(SEND, token, send.build());
    }

    /// Says once when this descriptor can be read from: [`Done::Readable`].
    pub fn watch(&mut self, readable: impl AsFd, token: u32) {
        self.push(WATCH, token, opcode::PollAdd::new(descriptor(&readable), libc::POLLIN as u32).build());
    }

    fn push(&mut self, kind: u64, token: u32, entry: squeue::Entry) {
        let entry = entry.user_data(kind << 32 | u64::from(token));
        self.under_way += 1;
        // SAFETY: the only addresses in our entries are in the output, which is freed only when nothing is under way.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            // The queue is full. An error here is one of the moment; then it is tried again.
            let _ = self.ring.submit();
        }
    }
}

/// A completion.
#[derive(Debug)]
pub enum Done<'a> {
    /// A connection was accepted, or accepting failed. Without `more`, ask again for further ones.
    Accepted {
        /// Its socket.
        socket: io::Result<OwnedFd>,
        /// Whether further ones will come.
        more: bool,
    },
    /// Something arrived; nothing at all is the end of the stream. ENOBUFS says that all buffers were in use at that moment.
    Received {
        /// The token of the request.
        token: u32,
        /// The bytes, in a buffer that goes back to the kernel afterwards.
        bytes: io::Result<&'a [u8]>,
        /// Whether the request goes on. Without it, ask again for what arrives later.
        more: bool,
    },
    /// A send has ended.
    Sent {
        /// The token of the request.
        token: u32,
        /// How many bytes have left; perhaps fewer than asked.
        count: io::Result<usize>,
    },
    /// A watched descriptor can be read from, or its watch failed.
    Readable {
        /// The token of the request.
        token: u32,
    },
}

/// Why there is no io_uring here. Always the system's doing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UringError {
    /// The system forbids it (`EPERM`, `EACCES`): by its sysctl, or by a seccomp profile, as Docker and containerd do by default.
    #[error("cannot use io_uring: the system forbids it{}", Advice(match .disabled {
        Some(1 | 2) => "as root: sysctl kernel.io_uring_disabled=0",
        _ => "mostly a seccomp profile of the container does: allow io_uring_setup, io_uring_enter and \
              io_uring_register in it, or run outside",
    }))]
    Forbidden {
        /// The value of `/proc/sys/kernel/io_uring_disabled`; `None` if that cannot be read.
        disabled: Option<u8>,
    },
    /// There is no such system call (`ENOSYS`).
    #[error(
        "cannot use io_uring: this kernel has none, or a sandbox hides it{help}",
        help = Advice("Linux 6.1 or newer is needed, outside the sandbox")
    )]
    Missing,
    /// The kernel lacks a required feature (`EINVAL`): SINGLE_ISSUER with DEFER_TASKRUN, or rings of buffers.
    #[error(
        "cannot use io_uring: this kernel's is too old{help}",
        help = Advice("Linux 6.1 or newer is needed")
    )]
    TooOld,
    /// It failed for another reason, such as a lack of descriptors or memory.
    #[error("cannot use io_uring: setting it up failed")]
    System(#[source] io::Error),
}

impl UringError {
    fn from_setup(source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden { disabled: disabled() },
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::EINVAL) => Self::TooOld,
            _ => Self::System(source),
        }
    }
}

fn disabled() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

fn socket(entry: &cqueue::Entry) -> io::Result<OwnedFd> {
    if entry.result() < 0 {
        return Err(io::Error::from_raw_os_error(-entry.result()));
    }
    // SAFETY: the kernel has just given us this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(entry.result()) })
}

fn descriptor(of: &impl AsFd) -> types::Fd {
    types::Fd(of.as_fd().as_raw_fd())
}

/// A signal came, the time is up, or completions wait to be taken first.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN))
}

/// Requests between two waits; a fuller queue costs a call more.
const SUBMISSIONS: u32 = 1024;
/// A multishot request may complete many times between two waits.
const COMPLETIONS: u32 = 8192;
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

const ACCEPT: u64 = 1;
const RECEIVE: u64 = 2;
const SEND: u64 = 3;
const WATCH: u64 = 4;
const CANCEL: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_the_kernel_has_its_variant() {
        let from = |code| UringError::from_setup(io::Error::from_raw_os_error(code));
        assert!(matches!(from(libc::EPERM), UringError::Forbidden { .. }));
        assert!(matches!(from(libc::ENOSYS), UringError::Missing));
        assert!(matches!(from(libc::EINVAL), UringError::TooOld));
        assert!(matches!(from(libc::EMFILE), UringError::System(_)));
        let text = |disabled| UringError::Forbidden { disabled }.to_string();
        assert!(text(Some(2)).contains("sysctl") && text(Some(0)).contains("seccomp"));
    }
}
