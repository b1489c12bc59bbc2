//! A connection on any rung that reads and writes by itself: one read, one write, and how far its answers have gone.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::answers::Answers;
use crate::request_counter::RequestCounter;

/// How far a connection is. It keeps no byte that arrives, so all connections of a thread share one buffer.
#[derive(Default)]
pub(crate) struct Connection {
    requests: RequestCounter,
    /// Bytes of answers that the peer has asked for and not been sent. Ends at the end of a response, always.
    owed: usize,
}

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// More requests.
    Requests,
    /// Room for answers, which the peer does not take.
    Room,
    /// Nothing: it is over.
    Nothing,
}

impl Connection {
    /// One read and one write, as far as both go without waiting; on a blocking socket, to their end.
    #[inline]
    pub(crate) fn turn(&mut self, socket: &OwnedFd, input: &mut [u8], answers: &Answers) -> Wants {
        if self.owed == 0 {
            let count = match recv(socket, &mut *input, RecvFlags::empty()) {
                Ok((count, _)) => count,
                Err(Errno::AGAIN | Errno::INTR) => return Wants::Requests,
                Err(_) => return Wants::Nothing,
            };
            let Some(requests) = self.requests.count(&input[..count]).filter(|_| count > 0) else {
                return Wants::Nothing;
            };
            self.owed = requests * answers.one().len();
        }
        while self.owed > 0 {
            match send(socket, &answers.all()[answers.part(self.owed)], SendFlags::NOSIGNAL) {
                Ok(count) => self.owed -= count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Wants::Room,
                Err(_) => return Wants::Nothing,
            }
        }
        Wants::Requests
    }

    /// What it waits for, unless a turn has ended it.
    pub(crate) fn wants(&self) -> Wants {
        if self.owed > 0 { Wants::Room } else { Wants::Requests }
    }
}

/// Large enough that a deep pipeline arrives in one read, small enough to stay in the core's second cache.
pub(crate) const READ_BYTES: usize = 64 << 10;
