//! A dialling end of `shm:` made by hand, which can break the rules.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anywire_wire::Address;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// What the dialling end says first.
#[derive(Clone, Copy)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) features: u32,
    pub(crate) ring_bytes: u64,
}

/// A good one.
pub(crate) const HELLO: Hello =
    Hello { magic: *b"anyw-shm", version: 2, features: 0, ring_bytes: RING_BYTES };

pub(crate) const RING_BYTES: u64 = 4096;
/// A page and two rings.
pub(crate) const MEMORY_BYTES: u64 = 4096 + 2 * RING_BYTES;

impl Hello {
    pub(crate) fn bytes(self) -> Vec<u8> {
        let numbers = [self.version.to_ne_bytes(), self.features.to_ne_bytes()].concat();
        [&self.magic[..], &numbers, &self.ring_bytes.to_ne_bytes()].concat()
    }
}

/// Memory of this size.
pub(crate) fn memory(bytes: u64, is_sealed: bool) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = File::from(memfd_create("raw", flags).expect("descriptors are left"));
    memory.set_len(bytes).expect("it can grow");
    if is_sealed {
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("it has none");
    }
    memory
}

pub(crate) fn connect(address: &Address) -> UnixStream {
    let socket = UnixStream::connect(address.location()).expect("somebody listens there");
    // Far beyond what any test needs: only a hang gets there.
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("it is open");
    socket
}

/// Sends a message with descriptors.
pub(crate) fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[&File]) {
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(bytes.len()));
}

/// The code of the answer, 0 for yes; `None` if the socket ends instead.
pub(crate) fn answer(mut socket: &UnixStream) -> Option<u32> {
    let mut answer = [0; 16];
    socket.read_exact(&mut answer).ok()?;
    assert_eq!(answer[..8], HELLO.magic);
    Some(u32::from_ne_bytes(answer[12..].try_into().expect("four bytes")))
}

/// A connection whose set-up is done, and its memory.
pub(crate) fn set_up(address: &Address) -> (UnixStream, File) {
    let socket = connect(address);
    send(&socket, &HELLO.bytes(), &[]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut answer, mut control) = ([0; 16], RecvAncillaryBuffer::new(&mut space));
    recvmsg(&socket, &mut [IoSliceMut::new(&mut answer)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .expect("an answer");
    let mut memory: Vec<File> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            memory.extend(descriptors.map(File::from));
        }
    }
    assert_eq!((answer[12..].to_vec(), memory.len()), (vec![0; 4], 1));
    (socket, memory.remove(0))
}

/// Says how far this end has written, or how it has ended.
pub(crate) fn set_written(memory: &File, written: u64) {
    memory.write_all_at(&written.to_ne_bytes(), 512).expect("it is memory");
}

/// Says how far this end has read.
pub(crate) fn set_read(memory: &File, read: u64) {
    memory.write_all_at(&read.to_ne_bytes(), 128).expect("it is memory");
}

/// How many descriptors this process has open, and how many shared rings it has mapped.
pub(crate) fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("Linux has it").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    (
        descriptors,
        maps.lines().filter(|line| line.contains("memfd:raw") || line.contains("memfd:anywire-shm")).count(),
    )
}

/// Sends bytes, unless the peer has closed the socket.
pub(crate) fn send_if_open(socket: &UnixStream, bytes: &[u8]) {
    let _ = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL);
}
