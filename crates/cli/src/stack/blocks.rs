//! The blocks of a pcapng file as they come in: counted, cut after so many packets, and turned into classic pcap.

/// Reads blocks out of pieces that are cut anywhere.
#[derive(Default)]
pub(super) struct Blocks {
    /// What has come and is not a whole block yet.
    rest: Vec<u8>,
}

/// A block, whole.
pub(super) enum Block<'b> {
    Packet(Packet<'b>),
    /// Frames that the service has dropped so far, of one of its interfaces.
    Dropped {
        interface: u32,
        frames: u64,
    },
    Other,
}

/// A frame with what a classic file says of it.
pub(super) struct Packet<'b> {
    micros: u64,
    /// Bytes that it had.
    length: u32,
    bytes: &'b [u8],
}

impl Blocks {
    /// Takes a piece of the file.
    pub(super) fn take(&mut self, piece: &[u8]) {
        self.rest.extend_from_slice(piece);
    }

    /// The next whole block: its bytes, and what it says. An error if this is no pcapng of this machine's byte order.
    pub(super) fn next(&mut self, with: impl FnOnce(&[u8], Block<'_>)) -> Result<bool, &'static str> {
        let Some(length) = word(&self.rest, 4).map(|length| length as usize) else { return Ok(false) };
        if length < BLOCK_LEAST || length % 4 != 0 || length > BLOCK_MOST {
            return Err("a block of a wrong length");
        }
        if self.rest.len() < length {
            return Ok(false);
        }
        let block = &self.rest[..length];
        with(block, read(block).ok_or("a block that ends too early")?);
        self.rest.drain(..length);
        Ok(true)
    }
}

fn read(block: &[u8]) -> Option<Block<'_>> {
    Some(match word(block, 0)? {
        PACKET => {
            let micros = u64::from(word(block, 12)?) << 32 | u64::from(word(block, 16)?);
            let kept = word(block, 20)? as usize;
            Block::Packet(Packet {
                micros,
                length: word(block, 24)?,
                bytes: block.get(28..28_usize.checked_add(kept)?)?,
            })
        }
        STATISTICS => {
            let halves = [word(block, 24)?, word(block, 28)?].map(u32::to_ne_bytes).concat();
            let frames = u64::from_ne_bytes(halves.try_into().ok()?);
            Block::Dropped { interface: word(block, 8)?, frames }
        }
        _ => Block::Other,
    })
}

impl Packet<'_> {
    /// As a record of a classic file.
    pub(super) fn classic(&self) -> Vec<u8> {
        // The format's seconds end in 2106.
        let (seconds, micros) = ((self.micros / 1_000_000) as u32, (self.micros % 1_000_000) as u32);
        let head = [seconds, micros, self.bytes.len() as u32, self.length];
        let mut record = head.map(u32::to_ne_bytes).concat();
        record.extend_from_slice(self.bytes);
        record
    }
}

/// The head of a classic file.
pub(super) fn classic_head(frame_bytes: u32) -> Vec<u8> {
    [MAGIC_OF_MICROSECONDS, u32::from_ne_bytes(VERSION), 0, 0, frame_bytes, ETHERNET]
        .map(u32::to_ne_bytes)
        .concat()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

const PACKET: u32 = 6;
const STATISTICS: u32 = 5;
/// Its type, its length twice.
const BLOCK_LEAST: usize = 12;
/// More than any frame.
const BLOCK_MOST: usize = 1 << 20;
const MAGIC_OF_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// 2.4, each half in the byte order of the machine.
const VERSION: [u8; 4] = {
    let ([a, b], [c, d]) = (2_u16.to_ne_bytes(), 4_u16.to_ne_bytes());
    [a, b, c, d]
};
const ETHERNET: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use anywire::stack::capture::pcapng;

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        pcapng::section_header(&mut file);
        pcapng::interface(&mut file, "tap0", 100);
        pcapng::statistics(&mut file, 0, 7, 42);
        let packet = [6_u32, 44, 0, 1, 500_000, 5, 90].map(u32::to_ne_bytes).concat();
        file.extend(packet);
        file.extend([1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0]);
        file.extend(44_u32.to_ne_bytes());
        file
    }

    #[test]
    fn blocks_are_whole_however_they_are_cut() {
        for cut in [1, 7, 4096] {
            let (mut blocks, mut seen, mut bytes) = (Blocks::default(), Vec::new(), Vec::new());
            let mut see = |whole: &[u8], block: Block<'_>| {
                bytes.extend_from_slice(whole);
                seen.push(match block {
                    Block::Packet(packet) => format!("{:?}", packet.classic()),
                    Block::Dropped { interface, frames } => format!("{interface} has dropped {frames}"),
                    Block::Other => "other".to_owned(),
                });
            };
            for piece in file().chunks(cut) {
                blocks.take(piece);
                while blocks.next(&mut see).expect("it is right") {}
            }
            let head = [4295_u32, 467_296, 5, 90].map(u32::to_ne_bytes).concat();
            let record = [head, vec![1, 2, 3, 4, 5]].concat();
            assert_eq!(seen, ["other", "other", "0 has dropped 42", &format!("{record:?}")]);
            assert_eq!(bytes, file());
        }
    }

    #[test]
    fn what_is_no_pcapng_is_refused() {
        for wrong in [&[0; 8][..], &[1, 0, 0, 0, 13, 0, 0, 0], &[1, 0, 0, 0, 255, 255, 255, 255]] {
            let mut blocks = Blocks::default();
            blocks.take(wrong);
            assert!(blocks.next(|_, _| ()).is_err(), "{wrong:?}");
        }
        let mut blocks = Blocks::default();
        blocks.take(&[6_u32, 12, 12].map(u32::to_ne_bytes).concat());
        assert!(blocks.next(|_, _| ()).is_err());
    }
}
