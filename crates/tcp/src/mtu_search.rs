//! The search for the longest segment that a path takes, where what is too long vanishes without a word (RFC 4821, RFC 8899).
//!
//! All sizes are bytes of payload. The largest is tried first: most often a path was only down for a while. Then the range is
//! halved with each probe.

use anywire_packet::Seq;

/// The search of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MtuSearch {
    /// Passes, or is as short as it gets.
    low: u16,
    /// What is longer does not pass, or is not wanted.
    high: u16,
    /// A probe as long as `high` was lost, or `high` follows from one.
    has_failed: bool,
    /// The first number of the probe that is under way, and its size; 0 without one.
    probe_seq: Seq,
    probe_size: u16,
}

impl MtuSearch {
    /// Between a size in use and one that is wanted.
    pub(crate) const fn new(low: u16, high: u16) -> Self {
        Self { low, high, has_failed: false, probe_seq: Seq(0), probe_size: 0 }
    }

    /// The size of the next probe; none while one is under way.
    pub(crate) const fn next(&self) -> Option<u16> {
        match self.probe_size {
            0 if self.has_failed => Some(self.low + (self.high - self.low).div_ceil(2)),
            0 => Some(self.high),
            _ => None,
        }
    }

    /// The longest size that was wanted when it began, or is left.
    pub(crate) const fn high(&self) -> u16 {
        self.high
    }

    /// Whether longer segments than those in use were found not to pass.
    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// A probe leaves.
    pub(crate) const fn on_sent(&mut self, seq: Seq, size: u16) {
        (self.probe_seq, self.probe_size) = (seq, size);
    }

    /// Everything before `una` has arrived. Gives the size that is to be used from now on, if a probe has passed.
    pub(crate) fn on_ack(&mut self, una: Seq) -> Option<u16> {
        let size = self.probe_size;
        if size == 0 || una.lt(self.probe_seq + u32::from(size)) {
            return None;
        }
        self.probe_size = 0;
        self.low = size;
        Some(size)
    }

    /// Whether the segment of this number, which was lost, is the probe.
    pub(crate) fn is_probe(&self, seq: Seq) -> Option<u16> {
        Some(self.probe_size).filter(|size| *size != 0 && self.probe_seq == seq)
    }

    /// The probe was lost, alone: the path does not take it.
    pub(crate) const fn on_lost(&mut self) {
        if self.probe_size != 0 {
            self.high = self.probe_size - 1;
            self.has_failed = true;
            self.probe_size = 0;
        }
    }

    /// The probe was lost with others, which says nothing of its size: it is sent again later.
    pub(crate) const fn on_loss_of_all(&mut self) {
        self.probe_size = 0;
    }

    /// Whether more probes would gain next to nothing.
    pub(crate) const fn is_over(&self) -> bool {
        self.high - self.low < WORTH_BYTES
    }
}

/// A range narrower than this is not searched: a hundredth of a segment (RFC 4821 7.6).
const WORTH_BYTES: u16 = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches where the path takes so much. Gives what is used in the end, and how many probes that took.
    fn search(low: u16, high: u16, takes: u16) -> (u16, u32) {
        let (mut search, mut used, mut seq, mut probes) = (MtuSearch::new(low, high), low, Seq(7), 0);
        while !search.is_over() {
            let size = search.next().expect("none is under way");
            assert!(size > used && size <= high);
            search.on_sent(seq, size);
            assert_eq!((search.next(), search.is_probe(seq)), (None, Some(size)));
            probes += 1;
            if size <= takes {
                assert_eq!(search.on_ack(seq + u32::from(size) - 1), None);
                seq += u32::from(size);
                used = search.on_ack(seq).expect("it has passed");
            } else {
                search.on_lost();
            }
        }
        (used, probes)
    }

    #[test]
    fn a_path_that_was_only_down_takes_one_probe() {
        assert_eq!(search(1148, 1448, 1448), (1448, 1));
        assert_eq!(search(500, 1448, 1448), (1448, 1));
    }

    #[test]
    fn a_probe_lost_with_others_is_sent_again() {
        let mut search = MtuSearch::new(1148, 1448);
        search.on_sent(Seq(0), 1448);
        search.on_loss_of_all();
        assert_eq!((search.next(), search.has_failed()), (Some(1448), false));
    }

    proptest! {
        #[test]
        fn what_the_path_takes_is_found(low in 500u16..1400, width in 0u16..1500, part in 0.0..1.0) {
            let takes = low + (f64::from(width) * part) as u16;
            let (used, probes) = search(low, low + width, takes);
            prop_assert!(used <= takes && takes - used < WORTH_BYTES, "{used} of {takes}");
            prop_assert!(probes <= 9, "{probes}");
        }
    }
}
