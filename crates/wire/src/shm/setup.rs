//! The set-up: the two messages that go over the socket before the rings are used.
//!
//! | offset | hello, from the dialling end | answer, from the listening end |
//! | --- | --- | --- |
//! | 0 | `anyw-shm` | `anyw-shm` |
//! | 8 | version, u32 | version, u32 |
//! | 12 | features, u32 (none so far) | 0, or the reason of a refusal, u32 |
//! | 16 | bytes of each ring, u64 | |
//!
//! Numbers are in the order of the machine, which both ends share. The descriptor of the memory comes with the answer. The
//! listening end makes it, because it must take no descriptor from strangers: closing one can block its loop for as long as
//! they like.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anywire_sys::descriptors;
use anywire_sys::shm::{self, Ends, RING_MIN_BYTES};
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};

use super::error::ShmError;

/// The dialling end's part: asks for memory.
pub(super) fn send_hello(socket: impl AsFd, ring_bytes: usize) -> io::Result<()> {
    // A new socket has room for it.
    let sent = send(socket, &hello(VERSION, ring_bytes as u64), SEND_FLAGS)?;
    if sent == HELLO_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The listening end's part: receives a hello, checks it, and answers with memory.
///
/// # Errors
/// [`ShmError`] if it is refused, `WouldBlock` if it has not come yet, and what the system said if it gives no memory.
pub(super) fn receive_hello(socket: impl AsFd, ring_max_bytes: usize) -> io::Result<Ends> {
    let mut bytes = [0; HELLO_BYTES];
    let (read, _) = recv(&socket, &mut bytes, RecvFlags::DONTWAIT).or_else(left)?;
    if read == 0 {
        return Err(ShmError::Left.into());
    }
    let made = check(&bytes[..read], ring_max_bytes).map_err(io::Error::from).and_then(shm::create);
    let code = made.as_ref().map_or_else(code_of, |_| ACCEPTED);
    let sent = send_answer(socket, code, made.as_ref().ok().map(|(_, memory)| memory.as_fd()));
    let (ends, _) = made?;
    sent.map(|()| ends)
}

/// The dialling end again: whether its wish was granted, and the memory.
///
/// # Errors
/// [`ShmError`] if not, `WouldBlock` if the answer has not come yet.
pub(super) fn receive_answer(socket: impl AsFd, ring_bytes: usize) -> io::Result<Ends> {
    let (bytes, mut memory) = receive(socket.as_fd())?;
    // No other one is to come.
    descriptors::refuse_passed(socket);
    if bytes.len() != ANSWER_BYTES || bytes[..8] != MAGIC {
        return Err(ShmError::NotShm.into());
    }
    let (theirs, code) = (number(&bytes[8..]), number(&bytes[12..]));
    if theirs != VERSION {
        return Err(ShmError::Version { theirs, ours: VERSION }.into());
    }
    if code != ACCEPTED {
        return Err(ShmError::Refused { code }.into());
    }
    let found = memory.len();
    let memory = memory.pop().filter(|_| found == 1).ok_or(ShmError::Descriptors { found })?;
    Ok(shm::open(memory.as_fd(), ring_bytes).map_err(ShmError::from)?)
}

fn send_answer(socket: impl AsFd, code: u32, memory: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let descriptors: Vec<_> = memory.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let has_room = control.push(SendAncillaryMessage::ScmRights(&descriptors));
        debug_assert!(has_room);
    }
    let answer = answer(VERSION, code);
    match sendmsg(socket, &[IoSlice::new(&answer)], &mut control, SEND_FLAGS) {
        Ok(ANSWER_BYTES) => Ok(()),
        // Nothing was sent before, so there is room. No "would block" either: that would mean that no hello has come.
        Ok(_) | Err(Errno::AGAIN) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) => Err(error.into()),
    }
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = [0; ANSWER_BYTES];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let read = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(message) => message.bytes,
        Err(error) => left(error)?.0,
    };
    // The kernel has closed the descriptors that had no room. Unused ones are closed here.
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    if read == 0 {
        return Err(ShmError::Left.into());
    }
    Ok((bytes[..read].to_vec(), descriptors))
}

/// A reset of the socket means the same as its end.
fn left(error: Errno) -> io::Result<(usize, usize)> {
    match error {
        Errno::CONNRESET => Ok((0, 0)),
        error => Err(error.into()),
    }
}

/// The size of the rings.
fn check(hello: &[u8], ring_max_bytes: usize) -> Result<usize, ShmError> {
    if hello.len() != HELLO_BYTES || hello[..8] != MAGIC {
        return Err(ShmError::NotShm);
    }
    let (theirs, features) = (number(&hello[8..]), number(&hello[12..]));
    if theirs != VERSION {
        return Err(ShmError::Version { theirs, ours: VERSION });
    }
    if features != 0 {
        return Err(ShmError::NotShm);
    }
    let asked = u64::from(number(&hello[16..])) | u64::from(number(&hello[20..])) << 32;
    let ring_bytes = usize::try_from(asked).unwrap_or(usize::MAX);
    if !ring_bytes.is_power_of_two() || !(RING_MIN_BYTES..=ring_max_bytes).contains(&ring_bytes) {
        return Err(ShmError::RingSize { asked, max: ring_max_bytes as u64 });
    }
    Ok(ring_bytes)
}

fn hello(version: u32, ring_bytes: u64) -> [u8; HELLO_BYTES] {
    let mut hello = [0; HELLO_BYTES];
    hello[..16].copy_from_slice(&answer(version, 0));
    hello[16..20].copy_from_slice(&(ring_bytes as u32).to_ne_bytes());
    hello[20..].copy_from_slice(&((ring_bytes >> 32) as u32).to_ne_bytes());
    hello
}

fn answer(version: u32, code: u32) -> [u8; ANSWER_BYTES] {
    let mut answer = [0; ANSWER_BYTES];
    answer[..8].copy_from_slice(&MAGIC);
    answer[8..12].copy_from_slice(&version.to_ne_bytes());
    answer[12..].copy_from_slice(&code.to_ne_bytes());
    answer
}

/// The number that these bytes begin with.
fn number(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// What the dialling end is told, which [`ShmError::Refused`] puts into words.
fn code_of(error: &io::Error) -> u32 {
    match ShmError::of(error) {
        Some(ShmError::Version { .. }) => 2,
        Some(ShmError::RingSize { .. }) => 3,
        Some(_) => 1,
        // The system gives no memory or no descriptor.
        None => 4,
    }
}

const MAGIC: [u8; 8] = *b"anyw-shm";
const VERSION: u32 = 2;
const ACCEPTED: u32 = 0;
const HELLO_BYTES: usize = 24;
const ANSWER_BYTES: usize = 16;
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
