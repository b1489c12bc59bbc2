//! What stands in front of each frame: the header of virtio's network device.

/// What is left to do with a frame (virtio 1.2, 5.1.6 and 5.1.6.2, `struct virtio_net_hdr`). The default is a whole frame.
///
/// ```
/// use anywire_sys::tap::{Header, Segmentation};
///
/// // A super-frame of segments of 1448 bytes: 66 bytes of headers, the checksum of TCP to be finished.
/// let header = Header {
///     needs_checksum: true,
///     segmentation: Some(Segmentation::Ipv4),
///     header_bytes: 66,
///     segment_bytes: 1448,
///     checksum_start: 34,
///     checksum_offset: 16,
///     ..Header::default()
/// };
/// assert_eq!(Header::of(&header.to_bytes()), header);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The checksum is to be made over all from [`checksum_start`](Self::checksum_start) on. Its field holds the sum of the pseudo
    /// header.
    pub needs_checksum: bool,
    /// The checksum was found to be right.
    pub is_verified: bool,
    /// The frame is to be cut into segments of TCP.
    pub segmentation: Option<Segmentation>,
    /// The first segment is to have CWR of ECN, if any has (RFC 3168).
    pub has_congestion_mark: bool,
    /// How long the headers are, Ethernet's included. A hint, which the kernel does not rely on.
    pub header_bytes: u16,
    /// Bytes of payload in each segment but the last.
    pub segment_bytes: u16,
    /// Where the header with the checksum begins in the frame.
    pub checksum_start: u16,
    /// Where the checksum stands in that header: 16 for TCP, 6 for UDP.
    pub checksum_offset: u16,
}

/// Over which version of IP a frame is to be cut into segments of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Header {
    /// Bytes of it.
    pub const BYTES: usize = 10;

    /// One from its bytes. Flags that nobody asked the kernel for are passed over.
    pub fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let &[flags, kind, b, c, d, e, f, g, h, i] = bytes;
        // In the byte order of the machine, as for a device of the old kind.
        let two = |low, high| u16::from_ne_bytes([low, high]);
        Self {
            needs_checksum: flags & NEEDS_CHECKSUM != 0,
            is_verified: flags & VERIFIED != 0,
            segmentation: match kind & !CONGESTION_MARK {
                TCP_V4 => Some(Segmentation::Ipv4),
                TCP_V6 => Some(Segmentation::Ipv6),
                _ => None,
            },
            has_congestion_mark: kind & CONGESTION_MARK != 0,
            header_bytes: two(b, c),
            segment_bytes: two(d, e),
            checksum_start: two(f, g),
            checksum_offset: two(h, i),
        }
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let flags = if self.needs_checksum { NEEDS_CHECKSUM } else { 0 }
            | if self.is_verified { VERIFIED } else { 0 };
        let kind = match self.segmentation {
            None => 0,
            Some(Segmentation::Ipv4) => TCP_V4,
            Some(Segmentation::Ipv6) => TCP_V6,
        };
        let mark = if self.has_congestion_mark { CONGESTION_MARK } else { 0 };
        let fields = [self.header_bytes, self.segment_bytes, self.checksum_start, self.checksum_offset];
        let [[b, c], [d, e], [f, g], [h, i]] = fields.map(u16::to_ne_bytes);
        [flags, kind | mark, b, c, d, e, f, g, h, i]
    }
}

const NEEDS_CHECKSUM: u8 = 1;
const VERIFIED: u8 = 2;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const CONGESTION_MARK: u8 = 0x80;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_header_that_stays_the_same(bytes: [u8; Header::BYTES]) {
            let header = Header::of(&bytes);
            prop_assert_eq!(Header::of(&header.to_bytes()), header);
        }
    }
}
