//! UMEM: the memory of frames, in chunks of one size, and a ledger of who holds each chunk.

use std::io;
use std::ptr;
use std::slice;

use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};

use crate::arena::Mapping;

/// The chunks, and who holds each: nobody, or the kernel to receive or to send.
///
/// A chunk is lent to the kernel only if nobody holds it. It comes back only by a descriptor of the ring that it went to. So
/// each is in one place at a time, whatever the kernel writes.
pub(super) struct Umem {
    memory: Mapping,
    chunk_bytes: u32,
    holders: Box<[Holder]>,
    /// The chunks that nobody holds.
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Nobody,
    /// The kernel, through the fill ring of the queue at this place.
    Receiving(u16),
    /// The kernel, through the transmit ring.
    Sending,
}

impl Umem {
    /// So many chunks; both numbers are above 0.
    pub(super) fn of(chunks: u32, chunk_bytes: u32) -> io::Result<Self> {
        let memory = Mapping::of(chunks as usize * chunk_bytes as usize)?;
        let holders = vec![Holder::Nobody; chunks as usize].into_boxed_slice();
        Ok(Self { memory, chunk_bytes, holders, free: (0..chunks).rev().collect() })
    }

    /// What the kernel is told of it.
    pub(super) fn registration(&self) -> XdpUmemReg {
        XdpUmemReg {
            addr: self.memory.start.as_ptr().expose_provenance() as u64,
            len: self.holders.len() as u64 * u64::from(self.chunk_bytes),
            chunk_size: self.chunk_bytes,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        }
    }

    /// Chunks that nobody holds.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Lends a chunk for the fill ring of a queue. Returns its address within the UMEM.
    #[inline]
    pub(super) fn lend_to_receive(&mut self, queue: u16) -> Option<u64> {
        let chunk = self.free.pop()?;
        self.holders[chunk as usize] = Holder::Receiving(queue);
        Some(u64::from(chunk) * u64::from(self.chunk_bytes))
    }

    /// Copies a frame into a chunk, and lends it for the transmit ring. Returns its address. `None` if no chunk is free, or if
    /// the frame is longer than one.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn lend_to_send(&mut self, frame: &[u8]) -> Option<u64> {
        if frame.len() > self.chunk_bytes as usize {
            return None;
        }
        let chunk = self.free.pop()?;
        self.holders[chunk as usize] = Holder::Sending;
        let address = chunk as usize * self.chunk_bytes as usize;
        // SAFETY: there are as many chunks in the mapping as in the ledger, and the frame is no longer than a chunk. Nobody
        // held this one, so neither the kernel nor a borrow of ours reaches it now.
        unsafe {
            ptr::copy_nonoverlapping(frame.as_ptr(), self.memory.start.add(address).as_ptr(), frame.len());
        }
        Some(address as u64)
    }

    /// Takes back a chunk that a queue has received into. Returns its bytes, until the next chunk is lent. `None` if the
    /// descriptor is wrong: the chunk is not there, was not lent to this queue, or is shorter.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn received(&mut self, queue: u16, address: u64, length: u32) -> Option<&[u8]> {
        let chunk = self.take_back(address, Holder::Receiving(queue))?;
        let offset = address % u64::from(self.chunk_bytes);
        if offset + u64::from(length) > u64::from(self.chunk_bytes) {
            return None;
        }
        let start = chunk * self.chunk_bytes as usize + offset as usize;
        // SAFETY: the range is within the chunk, and the chunk within the mapping, all of which was zeroes at first. The
        // kernel has given the chunk back, and it is lent again only through `&mut self`, after this borrow.
        Some(unsafe { slice::from_raw_parts(self.memory.start.add(start).as_ptr(), length as usize) })
    }

    /// Takes back a chunk that was sent. False if it was not on its way.
    #[inline]
    pub(super) fn sent(&mut self, address: u64) -> bool {
        self.take_back(address, Holder::Sending).is_some()
    }

    #[inline]
    fn take_back(&mut self, address: u64, from: Holder) -> Option<usize> {
        let chunk = usize::try_from(address / u64::from(self.chunk_bytes)).ok()?;
        let holder = self.holders.get_mut(chunk).filter(|holder| **holder == from)?;
        *holder = Holder::Nobody;
        self.free.push(chunk as u32);
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_in_one_place_at_a_time() {
        let mut umem = Umem::of(2, 2048).expect("4 KiB");
        let received = umem.lend_to_receive(0).expect("both are free");
        let sending = umem.lend_to_send(b"hello").expect("one is free");
        assert_ne!(received, sending);
        assert_eq!((umem.lend_to_receive(0), umem.lend_to_send(b"a"), umem.free()), (None, None, 0));
        assert!(!umem.sent(received), "it was lent to receive");
        assert_eq!(umem.received(0, sending, 5), None, "it was lent to send");
        assert_eq!(umem.received(1, received, 5), None, "it was lent to another queue");
        assert_eq!(umem.received(0, received + 256, 5), Some(&[0; 5][..]));
        assert_eq!(umem.received(0, received + 256, 5), None, "it has come back already");
        assert!(umem.sent(sending));
        assert!(!umem.sent(sending), "it has come back already");
        assert_eq!(umem.free(), 2);
    }

    #[test]
    fn bytes_outside_a_chunk_are_never_given() {
        for (address, length) in
            [(0, 2049), (1, 2048), (2047, 2), (0, u32::MAX), (4096, 1), (u64::MAX, 1), (1 << 40, 0)]
        {
            let mut umem = Umem::of(2, 2048).expect("4 KiB");
            while umem.lend_to_receive(0).is_some() {}
            assert_eq!(umem.received(0, address, length), None, "{address} {length}");
        }
        let mut umem = Umem::of(1, 2048).expect("2 KiB");
        assert_eq!(umem.lend_to_send(&[0; 2049]), None);
        assert_eq!(umem.free(), 1);
        let address = umem.lend_to_send(&[7; 2048]).expect("exactly a chunk");
        assert!(umem.sent(address) && umem.lend_to_receive(3) == Some(address));
        assert_eq!(umem.received(3, address, 2048), Some(&[7; 2048][..]), "memory is used again");
    }
}
