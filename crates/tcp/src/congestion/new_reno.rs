//! NewReno: one segment a round trip, half the flight on a loss (RFC 5681 3.1, RFC 6582).

use super::window::{Acked, WINDOW_BYTES_MAX, Window};

/// Congestion avoidance: a segment for each window's worth of acknowledged bytes, the way that RFC 5681 3.1
/// recommends. The count makes it exact for any window, where a division for each ACK would end below one
/// byte.
pub(super) fn avoid(window: &mut Window, acked: Acked) {
    let cwnd = window.cwnd;
    let counted = window.w_est.saturating_add(acked.bytes);
    if counted < cwnd {
        window.w_est = counted;
        return;
    }
    // Not more than a segment a round trip, whatever an ACK claims to cover.
    window.w_est = (counted - cwnd).min(cwnd - 1);
    window.cwnd = cwnd.saturating_add(u32::from(acked.eff_mss)).min(WINDOW_BYTES_MAX);
}

/// Half of the flight (RFC 5681 equation 4). The caller enforces the lower bound.
pub(super) const fn reduce(window: &mut Window, flight: u32) -> u32 {
    window.w_est = 0;
    flight / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use anywire_packet::Seq;

    proptest! {
        /// RFC 5681 3.1: each segment of growth takes a window's worth of acknowledged bytes, no less and no
        /// more.
        #[test]
        fn a_window_of_acked_bytes_adds_one_segment(
            (segments, smaller) in (64_u32..500_000, 0_u32..17),
            mss in 88_u16..2000,
            ack_bytes in 1_u32..3000,
        ) {
            let (segments, size) = ((segments >> smaller).max(4), u32::from(mss));
            let start = segments * size;
            let ack_bytes = ack_bytes.min(3 * size).max(start / 5000);
            let mut window = Window { cwnd: start, ssthresh: start, ..Window::new(Seq(0), mss) };
            let (mut acked, mut spent) = (0_u64, 0_u64);
            for _ in 0..20_000 {
                let before = window.cwnd;
                avoid(&mut window, Acked { bytes: ack_bytes, eff_mss: mss, ..Acked::default() });
                acked += u64::from(ack_bytes);
                if window.cwnd != before {
                    prop_assert_eq!(window.cwnd, before + size);
                    spent += u64::from(before);
                }
                prop_assert!(spent <= acked && acked < spent + u64::from(window.cwnd));
            }
            prop_assert!(window.cwnd > start);
        }
    }
}
