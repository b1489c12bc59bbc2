//! TCP options: what a peer said, and what we say (RFC 9293 3.2, RFC 7323, RFC 2018).
//!
//! Reading takes any bytes. An unknown option is skipped (MUST-6), and an end of the list or padding may be anywhere
//! (MUST-5). An impossible length ends the reading: the options before it count, and the fault is named (MUST-7). Writing
//! pads with no-operations in front, as Linux does, because a peer's fast path looks for that layout. It writes at most 40
//! bytes.

use super::syn;
use crate::seq::Seq;

/// Options of a segment that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Maximum segment size, in bytes.
    pub mss: Option<u16>,
    /// Shift of the peer's windows, as sent: above 14 counts as 14 (RFC 7323 2.3), which is the reader's to
    /// apply.
    pub window_scale: Option<u8>,
    /// SACK may be used.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Left and right edges of blocks, in the peer's order. [`Self::sack`] gives the ones present.
    pub(crate) blocks: [(Seq, Seq); SACK_MAX],
    pub(crate) block_count: u8,
    /// The kind of the last option with a length that cannot be.
    pub fault: Option<u8>,
}

impl Options {
    /// The options in `bytes`.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut options = Self::default();
        let mut rest = bytes;
        // What nearly every segment has at its front.
        if let [1, 1, TIMESTAMPS, 10, a, b, c, d, e, f, g, h, tail @ ..] = rest {
            options.timestamps =
                Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
            rest = tail;
        }
        loop {
            match rest {
                [] | [END, ..] => return options,
                [NO_OPERATION, tail @ ..] => rest = tail,
                [kind, len, ..] if *len >= 2 && usize::from(*len) <= rest.len() => {
                    let (option, tail) = rest.split_at(usize::from(*len));
                    options.take(*kind, &option[2..]);
                    rest = tail;
                }
                [kind, ..] => {
                    options.fault = Some(*kind);
                    return options;
                }
            }
        }
    }

    /// Left and right edges of SACK blocks, in the peer's order.
    pub fn sack(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.block_count)]
    }

    const fn offer(&self) -> Offer {
        let Self { mss, window_scale, sack_permitted, timestamps, .. } = *self;
        Offer { mss, window_scale, sack_permitted, timestamps }
    }

    /// Whether there is nothing but the timestamps, and no fault.
    pub fn are_timestamps_at_most(&self) -> bool {
        *self == Self { timestamps: self.timestamps, ..Self::default() }
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (SACK, blocks) if !blocks.is_empty() && blocks.len() % 8 == 0 => {
                self.block_count = 0;
                for (block, bytes) in self.blocks.iter_mut().zip(blocks.as_chunks::<8>().0) {
                    let &[a, b, c, d, e, f, g, h] = bytes;
                    *block = (Seq(u32::from_be_bytes([a, b, c, d])), Seq(u32::from_be_bytes([e, f, g, h])));
                    self.block_count += 1;
                }
            }
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
            }
            // A length that this kind cannot have, but that leads to the next option: the option is as good
            // as unknown.
            (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => self.fault = Some(kind),
            _ => {}
        }
    }
}

/// The offer of a SYN: few enough fields to stay in registers. The full set of options would go through memory, and a read
/// of bytes just written in smaller pieces stalls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Maximum segment size, in bytes.
    pub mss: Option<u16>,
    /// Shift of the windows of whoever sends this.
    pub window_scale: Option<u8>,
    /// SACK may be used.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
}

impl Offer {
    /// What the options in `bytes` offer.
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Self {
        syn::offer(bytes).unwrap_or_else(|| Options::parse(bytes).offer())
    }
}

/// Options of a segment that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OptionsOut<'a> {
    /// Maximum segment size, in bytes.
    pub mss: Option<u16>,
    /// Shift of the windows of whoever sends this.
    pub window_scale: Option<u8>,
    /// SACK may be used.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Blocks, the most recent first (RFC 2018 4); as many are sent as the room allows, three beside
    /// timestamps.
    pub sack: &'a [(Seq, Seq)],
}

impl OptionsOut<'_> {
    /// No option at all.
    pub const NONE: Self =
        Self { mss: None, window_scale: None, sack_permitted: false, timestamps: None, sack: &[] };

    /// The timestamps, or that there are none, if there is nothing else.
    #[inline]
    pub const fn at_most_timestamps(&self) -> Option<Option<(u32, u32)>> {
        match *self {
            Self { mss: None, window_scale: None, sack_permitted: false, timestamps, sack: [] } => {
                Some(timestamps)
            }
            _ => None,
        }
    }

    /// Bytes that [`Self::write`] gives: a multiple of four, at most 40.
    pub(crate) fn len(&self) -> usize {
        let fixed = self.fixed_len();
        match self.blocks_that_fit(fixed) {
            0 => fixed,
            blocks => fixed + 4 + 8 * blocks,
        }
    }

    /// Writes them to the front of `out` and says how many bytes they are.
    pub fn write(&self, out: &mut [u8]) -> usize {
        let mut list = List { out, len: 0 };
        if let Some(mss) = self.mss {
            list.push(u32::from_be_bytes([MSS, 4, 0, 0]) | u32::from(mss));
        }
        match (self.sack_permitted, self.timestamps) {
            (true, Some(_)) => list.push(u32::from_be_bytes([SACK_PERMITTED, 2, TIMESTAMPS, 10])),
            (true, None) => list.push(u32::from_be_bytes([NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2])),
            (false, Some(_)) => list.push(TIMESTAMPS_ALONE),
            (false, None) => {}
        }
        if let Some((value, echo)) = self.timestamps {
            list.push(value);
            list.push(echo);
        }
        if let Some(shift) = self.window_scale {
            list.push(u32::from_be_bytes([NO_OPERATION, WINDOW_SCALE, 3, shift]));
        }
        let blocks = self.blocks_that_fit(list.len);
        if blocks > 0 {
            list.push(u32::from_be_bytes([NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * blocks as u8]));
            for (left, right) in &self.sack[..blocks] {
                list.push(left.0);
                list.push(right.0);
            }
        }
        list.len
    }

    fn fixed_len(&self) -> usize {
        let head = if self.timestamps.is_some() { 12 } else { 4 * usize::from(self.sack_permitted) };
        head + 4 * usize::from(self.mss.is_some()) + 4 * usize::from(self.window_scale.is_some())
    }

    fn blocks_that_fit(&self, before: usize) -> usize {
        self.sack.len().min((OPTIONS_MAX - before).saturating_sub(4) / 8)
    }
}

/// Options as they are written, four bytes after four.
struct List<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl List<'_> {
    fn push(&mut self, four: u32) {
        self.out[self.len..self.len + 4].copy_from_slice(&four.to_be_bytes());
        self.len += 4;
    }
}

/// Bytes of options that a header has room for.
pub const OPTIONS_MAX: usize = 40;

/// SACK blocks that these bytes have room for.
pub const SACK_MAX: usize = 4;

/// The first four of the twelve bytes of the timestamp option alone: two no-operations, kind, length.
pub const TIMESTAMPS_ALONE: u32 = u32::from_be_bytes([NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10]);

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_read_and_write_the_same_syn(mss: u16, shift: u8, timestamps: (u32, u32), damage in 0usize..40) {
            let offered = OptionsOut {
                mss: Some(mss),
                window_scale: Some(shift),
                sack_permitted: true,
                timestamps: Some(timestamps),
                ..OptionsOut::NONE
            };
            let mut bytes = [0; OPTIONS_MAX];
            let len = offered.write(&mut bytes);
            prop_assert!(syn::offer(&bytes[..len]).is_some());
            if let Some(byte) = bytes[..len].get_mut(damage) {
                *byte ^= 1;
            }
            if let Some(read) = syn::offer(&bytes[..len]) {
                let options = Options::parse(&bytes[..len]);
                prop_assert_eq!(read, options.offer());
                prop_assert_eq!((options.sack().len(), options.fault), (0, None));
            }
        }
    }

    #[test]
    fn end_and_padding_may_stand_anywhere() {
        let options = Options::parse(&[1, 2, 4, 5, 180, 1, 1, 3, 3, 7, 0, 4, 2]);
        assert_eq!(options, Options { mss: Some(1460), window_scale: Some(7), ..Options::default() });
    }

    #[test]
    fn unknown_options_are_passed_over() {
        let options = Options::parse(&[253, 4, 9, 9, 4, 2, 34, 2, 28, 4, 0x80, 5]);
        let wanted = Options { sack_permitted: true, ..Options::default() };
        assert_eq!(options, wanted);
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_reading_and_is_named() {
        for (bytes, kind) in [
            (&[4, 2, 2, 0, 1, 1][..], 2),
            (&[4, 2, 77, 1, 3, 3, 9], 77),
            (&[4, 2, 8, 10, 0], 8),
            (&[4, 2, 3], 3),
        ] {
            let options = Options::parse(bytes);
            assert_eq!(options.fault, Some(kind));
            assert!(
                options.sack_permitted && options.window_scale.is_none() && !options.are_timestamps_at_most()
            );
        }
    }

    #[test]
    fn a_wrong_length_of_a_known_kind_costs_that_option_alone() {
        let options = Options::parse(&[2, 3, 5, 3, 3, 7, 5, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((options.mss, options.window_scale, options.sack()), (None, Some(7), &[][..]));
        assert_eq!(options.fault, Some(SACK));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let options = Options::parse(&bytes);
            prop_assert!(options.sack().len() <= SACK_MAX);
        }

        #[test]
        fn what_is_written_is_read(
            mss: Option<u16>,
            window_scale: Option<u8>,
            sack_permitted: bool,
            timestamps: Option<(u32, u32)>,
            blocks in prop::collection::vec(any::<(u32, u32)>(), 0..6),
        ) {
            let sack: Vec<_> = blocks.into_iter().map(|(left, right)| (Seq(left), Seq(right))).collect();
            let out = OptionsOut { mss, window_scale, sack_permitted, timestamps, sack: &sack };
            let mut bytes = [0xaa; OPTIONS_MAX];
            let len = out.write(&mut bytes);
            prop_assert_eq!(len, out.len());
            prop_assert_eq!(len % 4, 0);
            let read = Options::parse(&bytes[..len]);
            prop_assert_eq!((read.mss, read.window_scale), (mss, window_scale));
            prop_assert_eq!((read.sack_permitted, read.timestamps), (sack_permitted, timestamps));
            prop_assert_eq!(read.fault, None);
            prop_assert_eq!(read.sack(), &sack[..read.sack().len()]);
            prop_assert!(read.sack().len() == sack.len() || OPTIONS_MAX - len < 8);
        }
    }
}
