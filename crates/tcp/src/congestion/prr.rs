//! Proportional rate reduction (RFC 9937): how much each acknowledgement of a recovery lets out.
//!
//! Halving the window at once would stop sending for half a round trip. Instead data leaves in proportion to delivered
//! data, down to `ssthresh`. Once less than that is in flight, as many bytes leave as arrive (PRR-CRB). Each
//! acknowledgement that shows progress of the repair adds one segment (PRR-SSRB). Without progress more segments would only
//! be lost as well. 12 bytes in the extension of a connection that recovers; the caller computes the pipe (RFC 6675 4).

/// The counts of one recovery, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prr {
    /// `RecoverFS`: bytes in flight at the start of the recovery, and bytes that the ACK at its start delivered.
    recover_fs: u32,
    /// `prr_delivered`: newly acknowledged or selectively acknowledged since.
    delivered: u32,
    /// `prr_out`: sent since, first or again.
    out: u32,
}

/// What an acknowledgement within a recovery says, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// `DeliveredData`: newly acknowledged and newly selectively acknowledged; without SACK one segment for a
    /// duplicate.
    pub(crate) delivered: u32,
    /// The flight after this acknowledgement (RFC 6675 4).
    pub(crate) pipe: u32,
    /// The goal, as `Window::on_loss` set it.
    pub(crate) ssthresh: u32,
    /// What a segment may carry now.
    pub(crate) eff_mss: u16,
    /// `SafeACK`: SND.UNA moved on, and nothing more was found lost.
    pub(crate) is_safe: bool,
}

impl Prr {
    /// Of no recovery.
    pub(crate) const NEW: Self = Self { recover_fs: 0, delivered: 0, out: 0 };

    /// Begins a recovery with `flight` bytes in flight: SND.NXT - SND.UNA before the ACK that begins it, minus the bytes
    /// selectively acknowledged by then.
    pub(crate) const fn new(flight: u32) -> Self {
        Self { recover_fs: flight, ..Self::NEW }
    }

    /// An acknowledgement arrived, or the recovery begins without one; gives the window to go on with, `pipe + sndcnt`
    /// (RFC 9937 6.2).
    pub(crate) fn on_ack(&mut self, progress: Progress) -> u32 {
        let Progress { delivered, pipe, ssthresh, eff_mss, is_safe } = progress;
        let mss = u32::from(eff_mss);
        self.delivered = self.delivered.saturating_add(delivered);
        let sndcnt = if pipe > ssthresh {
            let due = u64::from(self.delivered) * u64::from(ssthresh);
            let due = due.div_ceil(u64::from(self.recover_fs.max(1)));
            due.saturating_sub(u64::from(self.out)).min(u64::from(u32::MAX)) as u32
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered);
            let limit = if is_safe { limit.saturating_add(mss) } else { limit };
            limit.min(ssthresh - pipe)
        };
        // The fast retransmit does not ask the window (RFC 5681 3.2 step 3).
        let sndcnt = if self.out == 0 { sndcnt.max(mss) } else { sndcnt };
        pipe.saturating_add(sndcnt)
    }

    /// So many bytes of data left, for the first time or again.
    pub(crate) const fn on_sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }
}

const _: () = assert!(size_of::<Prr>() <= 16);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MSS: u32 = 1000;

    /// Simulates a recovery of `flight` segments, the first `lost` of them lost, with unlimited data to send. Gives the
    /// flight after each ACK.
    fn recover(flight: u32, lost: u32, ssthresh: u32, is_safe: bool) -> Vec<u32> {
        let mut prr = Prr::new(flight * MSS);
        let mut pipe = (flight - lost) * MSS;
        let mut pipes = Vec::new();
        for _ in lost..flight {
            pipe -= MSS;
            let eff_mss = MSS as u16;
            let progress = Progress { delivered: MSS, pipe, ssthresh: ssthresh * MSS, eff_mss, is_safe };
            let cwnd = prr.on_ack(progress);
            while pipe + MSS <= cwnd {
                pipe += MSS;
                prr.on_sent(MSS);
            }
            pipes.push(pipe / MSS);
        }
        pipes
    }

    #[test]
    fn one_loss_of_twenty_is_spread_over_the_round_trip() {
        // RFC 9937 7: about one segment out for two in, so the flight sinks evenly to ssthresh.
        let pipes = recover(20, 1, 10, false);
        assert!(pipes.windows(2).all(|pair| pair[1] <= pair[0] && pair[0] - pair[1] <= 1), "{pipes:?}");
        assert_eq!(pipes.last(), Some(&10));
    }

    #[test]
    fn a_burst_of_losses_grows_again_once_the_repair_goes_well() {
        // RFC 9937 7: 15 of 20 lost leave a flight far below ssthresh; slow start from there, or as much out as in.
        assert_eq!(recover(20, 15, 10, true), [6, 7, 8, 9, 10]);
        assert_eq!(recover(20, 15, 10, false), [5, 5, 5, 5, 5]);
        assert_eq!(recover(20, 9, 10, true).last(), Some(&10));
    }

    proptest! {
        #[test]
        fn the_proportional_part_is_that_of_the_rfc(
            acks in prop::collection::vec((0_u32..100_000, any::<u32>(), 0_u32..100_000), 1..50),
            flight in 1_u32..1 << 30,
            ssthresh in 1_u32..1 << 30,
            eff_mss: u16,
            is_safe: bool,
        ) {
            let mut prr = Prr::new(flight);
            let (mut delivered, mut out) = (0_u128, 0_u128);
            for (bytes, pipe, sent) in acks {
                let cwnd = prr.on_ack(Progress { delivered: bytes, pipe, ssthresh, eff_mss, is_safe });
                delivered += u128::from(bytes);
                let sndcnt = if pipe > ssthresh {
                    (delivered * u128::from(ssthresh)).div_ceil(u128::from(flight)).saturating_sub(out)
                } else {
                    let more = if is_safe { u128::from(eff_mss) } else { 0 };
                    let limit = delivered.saturating_sub(out).max(u128::from(bytes)) + more;
                    limit.min(u128::from(ssthresh - pipe))
                };
                let sndcnt = if out == 0 { sndcnt.max(u128::from(eff_mss)) } else { sndcnt };
                prop_assert_eq!(u128::from(cwnd), (u128::from(pipe) + sndcnt).min(u128::from(u32::MAX)));
                prr.on_sent(sent);
                out += u128::from(sent);
            }
        }

        #[test]
        fn the_flight_sinks_to_ssthresh(flight in 4_u32..300, lost in 1_u32..100, is_safe: bool) {
            let lost = lost.min(flight / 4);
            let ssthresh = flight * 7 / 10;
            let pipes = recover(flight, lost, ssthresh, is_safe);
            prop_assert!(pipes.iter().all(|&pipe| pipe <= flight));
            let last = pipes[pipes.len() - 1];
            prop_assert!(last.abs_diff(ssthresh) <= 1 || last < ssthresh, "{last} for {ssthresh}");
        }

        #[test]
        fn no_input_overflows(
            calls in prop::collection::vec(any::<(u32, u32, u32, u16, u32, bool)>(), 1..40),
            flight: u32,
        ) {
            let mut prr = Prr::new(flight);
            for (delivered, pipe, ssthresh, eff_mss, sent, is_safe) in calls {
                let cwnd = prr.on_ack(Progress { delivered, pipe, ssthresh, eff_mss, is_safe });
                prop_assert!(cwnd >= pipe);
                prr.on_sent(sent);
            }
        }
    }
}
