//! What each datagram of a load says of itself: run, flow, number, times and a checksum.
//!
//! | bytes | what | |
//! | --- | --- | --- |
//! | 0-3 | `AWU1` | tells it from other datagrams |
//! | 4-7 | flow | at a fixed place, so that a service can steer by it ([`FLOW_OFFSET`]) |
//! | 8-15 | run | chosen by chance for each run: answers to an earlier one are not counted |
//! | 16-23 | number | of this datagram in its flow, from 0 |
//! | 24-31 | intended time | nanoseconds from the start of the run: when it should have been sent |
//! | 32-39 | send time | the same clock: when it was handed to the system |
//! | 40-43 | checksum | CRC-32 of all other bytes |
//! | 44- | payload | a pattern that follows from the number |
//!
//! Numbers are big-endian.

use std::time::Duration;

/// The head of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flow: u32,
    pub(crate) run: u64,
    pub(crate) number: u64,
    pub(crate) intended: Duration,
    pub(crate) sent: Duration,
}

/// Why a datagram is none of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alien {
    /// It is too short, begins otherwise or belongs to another run.
    Foreign,
    /// It begins like one of ours, and its checksum or length is wrong.
    Corrupt,
}

impl Header {
    /// Writes a whole datagram of so many bytes, at least [`HEADER_BYTES`], over what is in `datagram`.
    pub(crate) fn write(&self, bytes: usize, datagram: &mut Vec<u8>) {
        datagram.clear();
        datagram.extend_from_slice(MAGIC);
        datagram.extend_from_slice(&self.flow.to_be_bytes());
        datagram.extend_from_slice(&self.run.to_be_bytes());
        datagram.extend_from_slice(&self.number.to_be_bytes());
        datagram.extend_from_slice(&nanoseconds(self.intended).to_be_bytes());
        datagram.extend_from_slice(&nanoseconds(self.sent).to_be_bytes());
        datagram.extend_from_slice(&[0; 4]);
        datagram.resize(bytes.max(HEADER_BYTES), self.number as u8);
        let sum = checksum(datagram).to_be_bytes();
        datagram[CHECKSUM..HEADER_BYTES].copy_from_slice(&sum);
    }

    /// Reads and checks a datagram that should have this many bytes.
    pub(crate) fn read(datagram: &[u8], run: u64, bytes: usize) -> Result<Self, Alien> {
        if !datagram.starts_with(MAGIC) {
            return Err(Alien::Foreign);
        }
        let header = datagram.first_chunk::<HEADER_BYTES>().ok_or(Alien::Corrupt)?;
        let word =
            |at: usize| u32::from_be_bytes(*header[at..].first_chunk().expect("it is within the header"));
        let long =
            |at: usize| u64::from_be_bytes(*header[at..].first_chunk().expect("it is within the header"));
        if word(CHECKSUM) != checksum(datagram) {
            return Err(Alien::Corrupt);
        }
        if long(RUN) != run {
            return Err(Alien::Foreign);
        }
        if datagram.len() != bytes {
            return Err(Alien::Corrupt);
        }
        Ok(Self {
            flow: word(FLOW_OFFSET.into()),
            run,
            number: long(NUMBER),
            intended: Duration::from_nanos(long(INTENDED)),
            sent: Duration::from_nanos(long(SENT)),
        })
    }
}

/// Over all but its own place.
fn checksum(datagram: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&datagram[..CHECKSUM]);
    hasher.update(&datagram[HEADER_BYTES..]);
    hasher.finalize()
}

/// A run of 500 years is beyond any limit of a plan.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Bytes of the header: the shortest datagram of a load.
pub const HEADER_BYTES: usize = 44;
/// Where the number of the flow stands, in 4 bytes: for services that steer by it.
pub const FLOW_OFFSET: u16 = 4;

const MAGIC: &[u8; 4] = b"AWU1";
const RUN: usize = 8;
const NUMBER: usize = 16;
const INTENDED: usize = 24;
const SENT: usize = 32;
const CHECKSUM: usize = 40;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn headers()(flow: u32, run: u64, number: u64, intended: u64, sent: u64) -> Header {
            let (intended, sent) = (Duration::from_nanos(intended), Duration::from_nanos(sent));
            Header { flow, run, number, intended, sent }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(header in headers(), bytes in 0_usize..3000) {
            let mut datagram = vec![1, 2, 3];
            header.write(bytes, &mut datagram);
            prop_assert_eq!(datagram.len(), bytes.max(HEADER_BYTES));
            prop_assert_eq!(Header::read(&datagram, header.run, datagram.len()), Ok(header));
            // Another run may have had datagrams of another length.
            for length in [datagram.len(), datagram.len() + 1] {
                prop_assert_eq!(Header::read(&datagram, header.run ^ 1, length), Err(Alien::Foreign));
            }
            prop_assert_eq!(Header::read(&datagram, header.run, datagram.len() + 1), Err(Alien::Corrupt));
        }

        #[test]
        fn a_changed_bit_is_found(header in headers(), bytes in HEADER_BYTES..300, bit: prop::sample::Index) {
            let mut datagram = Vec::new();
            header.write(bytes, &mut datagram);
            let bit = bit.index(datagram.len() * 8);
            datagram[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::read(&datagram, header.run, datagram.len()).is_err());
        }

        #[test]
        fn a_length_that_was_changed_is_found(header in headers(), cut in 1_usize..200) {
            let mut datagram = Vec::new();
            header.write(200, &mut datagram);
            datagram.truncate(200 - cut);
            prop_assert!(Header::read(&datagram, header.run, 200).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(datagram: Vec<u8>, run: u64) {
            let _ = Header::read(&datagram, run, datagram.len());
            let _ = Header::read(&[MAGIC, &datagram[..]].concat(), run, datagram.len() + 4);
        }
    }
}
