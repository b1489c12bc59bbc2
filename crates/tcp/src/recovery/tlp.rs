//! TLP: a probe at the tail of a flight, so that a loss there is found by an ACK and not by the timer
//! (RFC 8985 7).
//!
//! The engine arms the probe timeout of [`pto_micros`] with each sent data segment and each ACK. It needs SACK for that, no
//! recovery may run and no segment may be selectively acknowledged (7.2). When it fires and [`Tlp::may_probe`] agrees, the
//! probe is a new segment, if there is one and the peer's window has room for it. Otherwise the probe repeats the last one
//! sent. The congestion window does not limit it (7.3). Probe or not, the retransmission timer is armed then. On entering a
//! recovery the state goes back to [`Tlp::NONE`]: from there losses are found without it.

use anywire_packet::Seq;

/// What TLP remembers of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Tlp {
    /// `TLP.end_seq`: SND.NXT after the probe; counts while there is one.
    end_seq: Seq,
    /// The probe that is out.
    probe: Option<Probe>,
    /// A round trip was measured since the last probe.
    measured: bool,
}

/// What a probe carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Data that was never sent.
    NewData,
    /// The last segment, once more.
    Retransmission,
}

/// An ACK, as far as it concerns a probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeAck {
    /// SEG.ACK.
    pub(crate) ack: Seq,
    /// The right edge of its D-SACK, if it carries one.
    pub(crate) dsack_end: Option<Seq>,
    /// It is a duplicate ACK without any SACK option.
    pub(crate) bare_duplicate: bool,
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeEnd {
    /// There is none, or its fate is still open.
    Open,
    /// It arrived, and nothing was lost but perhaps an ACK.
    Spare,
    /// It took the place of a lost segment: congestion control has to react as to any loss (7.4.2).
    Repaired,
}

impl Tlp {
    /// No probe is out.
    pub(crate) const NONE: Self = Self { end_seq: Seq(0), probe: None, measured: true };

    /// Whether a probe may leave now: one at a time, and a measurement between two (RFC 8985 7.3).
    pub(crate) const fn may_probe(&self) -> bool {
        self.probe.is_none() && self.measured
    }

    /// A probe left; `nxt` is SND.NXT after it.
    pub(crate) const fn on_probe_sent(&mut self, probe: Probe, nxt: Seq) {
        *self = Self { end_seq: nxt, probe: Some(probe), measured: false };
    }

    /// A round trip was measured.
    pub(crate) const fn on_rtt_sample(&mut self) {
        self.measured = true;
    }

    /// `TLP_process_ack` of RFC 8985 7.4.2. Losses other than the one that the probe repaired are RACK's to
    /// find.
    pub(crate) fn on_ack(&mut self, ack: ProbeAck) -> ProbeEnd {
        let Some(probe) = self.probe else { return ProbeEnd::Open };
        if ack.ack.lt(self.end_seq) {
            return ProbeEnd::Open;
        }
        let end = match probe {
            Probe::NewData => ProbeEnd::Spare,
            // Both arrived: the receiver says that it had the original.
            Probe::Retransmission if ack.dsack_end == Some(self.end_seq) => ProbeEnd::Spare,
            // Later data is acknowledged without such a sign.
            Probe::Retransmission if ack.ack.gt(self.end_seq) => ProbeEnd::Repaired,
            // Likewise both, of a receiver that sends no D-SACK.
            Probe::Retransmission if ack.bare_duplicate => ProbeEnd::Spare,
            // The ACK may be for the original or for the probe: the next one tells.
            Probe::Retransmission => return ProbeEnd::Open,
        };
        self.probe = None;
        end
    }
}

/// `TLP_calc_PTO` of RFC 8985 7.2: how long to wait for an ACK before probing, never beyond the
/// retransmission timer. `srtt_micros` is 0 if there was no measurement; `max_ack_delay_micros` is how long
/// the peer may hold the ACK of a lone segment.
pub(crate) fn pto_micros(
    srtt_micros: u32,
    flight_segments: u32,
    max_ack_delay_micros: u32,
    rto_left_micros: u32,
) -> u32 {
    let pto = if srtt_micros == 0 {
        INITIAL_MICROS
    } else {
        let lone = if flight_segments == 1 { max_ack_delay_micros } else { 0 };
        srtt_micros.saturating_mul(2).saturating_add(lone)
    };
    pto.min(rto_left_micros)
}

/// Without a measurement.
const INITIAL_MICROS: u32 = 1_000_000;

const _: () = assert!(size_of::<Tlp>() == 8);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const END: Seq = Seq(u32::MAX - 1);

    fn after_probe(probe: Probe) -> Tlp {
        let mut tlp = Tlp::NONE;
        tlp.on_probe_sent(probe, END);
        tlp
    }

    fn ack(ahead: u32) -> ProbeAck {
        ProbeAck { ack: END + ahead, dsack_end: None, bare_duplicate: false }
    }

    #[test]
    fn one_probe_at_a_time_and_a_measurement_between_two() {
        let mut tlp = Tlp::NONE;
        assert!(tlp.may_probe());
        tlp.on_probe_sent(Probe::NewData, END);
        tlp.on_rtt_sample();
        assert!(!tlp.may_probe(), "one is out");
        tlp = after_probe(Probe::NewData);
        assert_eq!(tlp.on_ack(ack(0)), ProbeEnd::Spare);
        assert!(!tlp.may_probe(), "nothing was measured since");
        tlp.on_rtt_sample();
        assert!(tlp.may_probe());
    }

    #[test]
    fn what_an_ack_says_of_a_probe() {
        let dsack = ProbeAck { dsack_end: Some(END), ..ack(0) };
        let other_dsack = ProbeAck { dsack_end: Some(END - 1), ..ack(9) };
        let bare = ProbeAck { bare_duplicate: true, ..ack(0) };
        let before = ProbeAck { ack: END - 1, ..ack(0) };
        for (probe, ack, end) in [
            (Probe::NewData, before, ProbeEnd::Open),
            (Probe::NewData, ack(0), ProbeEnd::Spare),
            (Probe::NewData, ack(9), ProbeEnd::Spare),
            (Probe::Retransmission, before, ProbeEnd::Open),
            (Probe::Retransmission, ack(0), ProbeEnd::Open),
            (Probe::Retransmission, dsack, ProbeEnd::Spare),
            (Probe::Retransmission, other_dsack, ProbeEnd::Repaired),
            (Probe::Retransmission, bare, ProbeEnd::Spare),
            (Probe::Retransmission, ack(9), ProbeEnd::Repaired),
        ] {
            let mut tlp = after_probe(probe);
            assert_eq!(tlp.on_ack(ack), end, "{probe:?} {ack:?}");
            assert_eq!(
                tlp.on_ack(bare) == ProbeEnd::Open,
                end != ProbeEnd::Open,
                "{probe:?} {ack:?}: told once"
            );
        }
    }

    #[test]
    fn without_a_probe_no_ack_means_anything() {
        let mut tlp = Tlp::NONE;
        assert_eq!(tlp.on_ack(ack(9)), ProbeEnd::Open);
    }

    proptest! {
        #[test]
        fn the_timeout_is_two_round_trips_and_never_beyond_the_retransmission_timer(
            srtt: u32, flight in 0_u32..100, delay: u32, rto_left: u32,
        ) {
            let pto = pto_micros(srtt, flight, delay, rto_left);
            prop_assert!(pto <= rto_left);
            let lone = if flight == 1 { u64::from(delay) } else { 0 };
            let exact = if srtt == 0 { 1_000_000 } else { 2 * u64::from(srtt) + lone };
            prop_assert_eq!(u64::from(pto), exact.min(rto_left.into()));
        }
    }
}
