//! How the peer acknowledges, in a byte: duplicate ACKs in a row, and for how long it delays.

/// Duplicate ACKs in a row, up to three, in the low two bits; only without SACK. In the others for how long the peer has
/// delayed an ACK at most: 0 if it is not known yet, else one more than the number of [`DELAY_STEP_MILLIS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PeerAcks(u8);

impl PeerAcks {
    pub(crate) const fn duplicates(self) -> u8 {
        self.0 & DUPLICATES
    }

    /// Sets the count of duplicate ACKs. All counts from three up are equal.
    pub(crate) const fn set_duplicates(&mut self, count: u8) {
        let count = if count > DUPLICATES { DUPLICATES } else { count };
        self.0 = self.0 & !DUPLICATES | count;
    }

    /// Notes the ACK of a lone segment that came this much later than the smoothed round trip (RFC 9293 3.8.6.3).
    #[inline(always)]
    pub(crate) fn measure_delay(&mut self, excess_micros: u32) {
        if self.code() == 0 || excess_micros > self.delay_millis() * 1000 {
            self.note_delay(excess_micros.div_ceil(1000));
        }
    }

    #[inline(never)]
    fn note_delay(&mut self, millis: u32) {
        let steps = millis.min(DELAY_MAX_MILLIS).div_ceil(DELAY_STEP_MILLIS) as u8;
        self.0 = self.duplicates() | (steps + 1).max(self.code()) << DELAY_SHIFT;
    }

    /// A timeout was spurious, and the peer's delay of the ACK is unknown. The first time assumes the delay of most peers,
    /// the next time the longest delay allowed (RFC 9293 MUST-40).
    pub(crate) fn assume_longer_delay(&mut self) {
        let is_within = self.delay_millis() < ASSUMED_DELAY_MILLIS;
        self.note_delay(if is_within { ASSUMED_DELAY_MILLIS } else { DELAY_MAX_MILLIS });
    }

    /// For how long the peer delays an ACK, as far as is known.
    #[inline(always)]
    pub(crate) const fn delay_millis(self) -> u32 {
        match self.code() {
            0 => ASSUMED_DELAY_MILLIS,
            code => (code as u32 - 1) * DELAY_STEP_MILLIS,
        }
    }

    const fn code(self) -> u8 {
        self.0 >> DELAY_SHIFT
    }
}

/// The bits of the count.
const DUPLICATES: u8 = 3;
const DELAY_SHIFT: u32 = 2;

/// The unit of a stored delay, and its maximum: an ACK is delayed by less than half a second (RFC 9293 MUST-40).
const DELAY_STEP_MILLIS: u32 = 9;
const DELAY_MAX_MILLIS: u32 = 56 * DELAY_STEP_MILLIS;

/// The delay assumed for a peer before a measurement: the longest that common systems use.
const ASSUMED_DELAY_MILLIS: u32 = 200;

const _: () = assert!(DELAY_MAX_MILLIS / DELAY_STEP_MILLIS < 63);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_kept_to_a_step_and_the_count_beside_it() {
        for delay in 0..=500 {
            let mut acks = PeerAcks::default();
            acks.set_duplicates(2);
            acks.measure_delay(delay * 1000);
            assert!((0..DELAY_STEP_MILLIS).contains(&(acks.delay_millis() - delay)), "{delay}: {acks:?}");
            let known = acks;
            acks.measure_delay(0);
            assert_eq!(acks, known, "the longest counts");
            assert_eq!(acks.duplicates(), 2);
            acks.set_duplicates(200);
            assert_eq!((acks.duplicates(), acks.delay_millis()), (3, known.delay_millis()));
        }
    }

    #[test]
    fn a_spurious_timeout_raises_it_to_what_most_do_and_then_to_the_most() {
        let mut acks = PeerAcks::default();
        assert_eq!(acks.delay_millis(), 200, "until it is known");
        acks.measure_delay(0);
        assert_eq!(acks.delay_millis(), 0);
        acks.assume_longer_delay();
        assert_eq!(acks.delay_millis(), 207);
        acks.assume_longer_delay();
        assert_eq!(acks.delay_millis(), 504);
    }
}
