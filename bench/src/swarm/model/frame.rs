//! Frames of the model: Ethernet, IPv4, TCP with the timestamp option, written and read field by field.
//!
//! Just what a connection in its steady state needs: no other option, no fragment, no IP option. Checksums are those
//! of RFC 1071, over all that IPv4 and TCP ask for.

/// Bytes before the payload: 14 of Ethernet, 20 of IPv4, 20 of TCP, 12 of the timestamps between two NOPs.
pub const HEADERS_BYTES: usize = 66;
/// The largest payload, so that a segment with its notes fits into 256 bytes.
pub const PAYLOAD_BYTES_MAX: usize = 240;
/// What a receiver must know besides data: it acknowledges.
pub const ACK: u8 = 0x10;
/// Data that should be given to the application at once.
pub const PSH: u8 = 0x08;

/// Room for one frame; whole cache lines, so that a batch lies close together.
#[derive(Clone)]
#[repr(align(64))]
pub struct Frame {
    bytes: [u8; 320],
    length: u16,
}

/// What one segment says. Addresses and ports as its sender sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub source_address: u32,
    pub destination_address: u32,
    pub source_port: u16,
    pub destination_port: u16,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: u8,
    pub window: u16,
    pub timestamp: u32,
    pub timestamp_echo: u32,
    pub payload_bytes: u16,
}

impl Frame {
    /// One that holds nothing yet.
    pub const EMPTY: Self = Self { bytes: [0; 320], length: 0 };

    /// Writes the headers and copies the payload behind them (`segment.payload_bytes` is taken from there).
    #[inline(always)]
    pub fn write(&mut self, ethernet: &[u8; 14], segment: &Segment, payload: &[u8], checksum: bool) {
        let length = HEADERS_BYTES + payload.len();
        self.length = length as u16;
        self.bytes[HEADERS_BYTES..length].copy_from_slice(payload);
        let headers =
            self.bytes.first_chunk_mut::<HEADERS_BYTES>().expect("a frame is longer than its headers");
        let mut put = Put { headers, at: 0 };
        put.bytes(ethernet);
        put.bytes(&[0x45, 0]);
        put.bytes(&((length - 14) as u16).to_be_bytes());
        put.bytes(&[0, 0, 0x40, 0]); // identification 0, not to be fragmented (RFC 6864)
        put.bytes(&[64, 6, 0, 0]); // hops, TCP, checksum
        put.bytes(&segment.source_address.to_be_bytes());
        put.bytes(&segment.destination_address.to_be_bytes());
        put.bytes(&segment.source_port.to_be_bytes());
        put.bytes(&segment.destination_port.to_be_bytes());
        put.bytes(&segment.sequence.to_be_bytes());
        put.bytes(&segment.acknowledgment.to_be_bytes());
        put.bytes(&[8 << 4, segment.flags]);
        put.bytes(&segment.window.to_be_bytes());
        put.bytes(&[0, 0, 0, 0]); // checksum, urgent pointer
        put.bytes(&TIMESTAMPS);
        put.bytes(&segment.timestamp.to_be_bytes());
        put.bytes(&segment.timestamp_echo.to_be_bytes());
        if checksum {
            // From the fields, not from the bytes: those were written in small pieces just now, and to read them in
            // large ones would wait for all of them.
            let two_addresses = u64::from(segment.source_address) + u64::from(segment.destination_address);
            let of_ip = !fold(0x4500 + (length - 14) as u64 + 0x4000 + 0x4006 + two_addresses);
            self.bytes[24..26].copy_from_slice(&of_ip.to_be_bytes());
            let fields = two_addresses
                + 6
                + (length - 34) as u64
                + u64::from(segment.source_port)
                + u64::from(segment.destination_port)
                + u64::from(segment.sequence)
                + u64::from(segment.acknowledgment)
                + 0x8000
                + u64::from(segment.flags)
                + u64::from(segment.window)
                + u64::from(u32::from_be_bytes(TIMESTAMPS))
                + u64::from(segment.timestamp)
                + u64::from(segment.timestamp_echo);
            let of_tcp = !fold(fields + u64::from(u16::from_be(fold(sum(payload)))));
            self.bytes[50..52].copy_from_slice(&of_tcp.to_be_bytes());
        }
    }

    /// Reads the headers; `None` if anything is not as a receiver may take it.
    #[inline(always)]
    pub fn read(&self, checksum: bool) -> Option<Segment> {
        let length = usize::from(self.length);
        let frame = self.bytes.get(..length)?;
        let headers = frame.first_chunk::<HEADERS_BYTES>()?;
        let two = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
        let four =
            |at: usize| u32::from_be_bytes([headers[at], headers[at + 1], headers[at + 2], headers[at + 3]]);
        let total = usize::from(two(16));
        let known = two(12) == 0x0800
            && headers[14] == 0x45
            && two(20) & 0x3fff == 0
            && headers[23] == 6
            && headers[46] == 8 << 4
            && headers[54..58] == TIMESTAMPS;
        if !known || total + 14 > length || total + 14 < HEADERS_BYTES {
            return None;
        }
        if checksum && (fold(sum(&headers[14..34])) != 0xffff || fold(self.tcp_sum(total + 14)) != 0xffff) {
            return None;
        }
        Some(Segment {
            source_address: four(26),
            destination_address: four(30),
            source_port: two(34),
            destination_port: two(36),
            sequence: four(38),
            acknowledgment: four(42),
            flags: headers[47],
            window: two(48),
            timestamp: four(58),
            timestamp_echo: four(62),
            payload_bytes: (total + 14 - HEADERS_BYTES) as u16,
        })
    }

    /// The payload, of the length that [`Frame::read`] told.
    #[inline(always)]
    pub fn payload(&self, bytes: u16) -> &[u8] {
        &self.bytes[HEADERS_BYTES..HEADERS_BYTES + usize::from(bytes)]
    }

    /// The sum over pseudo header, TCP header and payload.
    #[inline(always)]
    fn tcp_sum(&self, length: usize) -> u64 {
        let pseudo = u64::from(((length - 34) as u16).to_be()) + u64::from(6_u16.to_be());
        // The addresses stand right before the TCP header, so they are summed in one go with it.
        sum(&self.bytes[26..length]) + pseudo
    }
}

/// Kind 8, ten bytes long, with two NOPs before it (RFC 7323, appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

struct Put<'a> {
    headers: &'a mut [u8; HEADERS_BYTES],
    at: usize,
}

impl Put<'_> {
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.headers[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

/// The ones' complement sum of 16-bit words in the machine's own order (RFC 1071, 2 B), not yet folded.
#[inline(always)]
fn sum(bytes: &[u8]) -> u64 {
    // One number of 256 bits and its carries: the quickest way with what every x86-64 has.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let ([mut a, mut b, mut c, mut d], mut carries) = ([0_u64; 4], 0);
    for block in blocks {
        let word =
            |at: usize| u64::from_ne_bytes(*block[at * 8..].first_chunk().expect("four words a block"));
        let mut carry = false;
        (a, carry) = a.carrying_add(word(0), carry);
        (b, carry) = b.carrying_add(word(1), carry);
        (c, carry) = c.carrying_add(word(2), carry);
        (d, carry) = d.carrying_add(word(3), carry);
        carries += u64::from(carry);
    }
    let halves = |word: u64| (word & 0xffff_ffff) + (word >> 32);
    let (words, rest) = rest.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|&word| halves(u64::from_ne_bytes(word))).sum::<u64>();
    halves(a) + halves(b) + halves(c) + halves(d) + carries + words
}

#[inline(always)]
fn fold(mut sum: u64) -> u16 {
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Segment = Segment {
        source_address: 0x0a00_0001,
        destination_address: 0x0a01_0203,
        source_port: 1025,
        destination_port: 80,
        sequence: 0xffff_fff0,
        acknowledgment: 77,
        flags: ACK | PSH,
        window: 0xfedc,
        timestamp: 123_456_789,
        timestamp_echo: 987_654_321,
        payload_bytes: 0,
    };

    #[test]
    fn what_is_written_is_read() {
        for bytes in [0, 1, 2, 3, 63, 200, PAYLOAD_BYTES_MAX] {
            let payload: Vec<u8> = (0..bytes).map(|index| index as u8 ^ 0x5a).collect();
            let mut frame = Frame::EMPTY;
            frame.write(
                &[7; 12].iter().copied().chain([8, 0]).collect::<Vec<_>>().try_into().unwrap(),
                &SEGMENT,
                &payload,
                true,
            );
            let expected = Segment { payload_bytes: bytes as u16, ..SEGMENT };
            assert_eq!(frame.read(true), Some(expected));
            assert_eq!(frame.payload(bytes as u16), payload);
        }
    }

    #[test]
    fn a_changed_bit_is_refused() {
        let mut frame = Frame::EMPTY;
        frame.write(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], &SEGMENT, &[0xa5; 33], true);
        for bit in 14 * 8..(HEADERS_BYTES + 33) * 8 {
            let mut changed = frame.clone();
            changed.bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(changed.read(true), None, "bit {bit}");
        }
    }

    #[test]
    fn sums_are_those_of_the_rfc() {
        // RFC 1071, section 3: 0001 f203 f4f5 f6f7 sum up to ddf2.
        let sum = fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]));
        assert_eq!(sum.to_ne_bytes(), [0xdd, 0xf2]);
    }
}
