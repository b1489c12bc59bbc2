//! How much is answered: ICMP echo, datagrams for a port that nobody has (RFC 1122 3.2.2, RFC 4443 2.4 f), and questions of neighbours.

use anywire_packet::icmp::emit_echo_reply;
use anywire_tcp::Instant;

/// Tokens that come by time, each for one answer.
#[derive(Debug)]
pub(super) struct TokenBucket {
    left: u32,
    per_second: u32,
    burst: u32,
    /// When the tokens were counted last: the fraction of one is still in it.
    counted: Instant,
}

impl TokenBucket {
    pub(super) const fn new(per_second: u32, burst: u32) -> Self {
        Self { left: burst, per_second, burst, counted: Instant::from_micros(0) }
    }

    /// Takes one, if there is one left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let passed = u64::try_from(now.since(self.counted).as_micros()).unwrap_or(u64::MAX);
        let more = passed.saturating_mul(self.per_second.into()) / MICROS;
        if more > 0 {
            let total = u64::from(self.left).saturating_add(more);
            let is_full = total >= u64::from(self.burst);
            self.left = if is_full { self.burst } else { total as u32 };
            let used = more.saturating_mul(MICROS) / u64::from(self.per_second.max(1));
            self.counted = if is_full {
                now
            } else {
                Instant::from_micros(self.counted.as_micros().saturating_add(used))
            };
        }
        let has_one = self.left > 0;
        self.left -= u32::from(has_one);
        has_one
    }
}

/// The answer to a frame with an echo request. None if it is not one.
pub(super) fn echo_reply(request: &[u8]) -> Option<Vec<u8>> {
    let mut reply = vec![0; request.len()];
    let len = emit_echo_reply(&mut reply, request);
    reply.truncate(len);
    (len > 0).then_some(reply)
}

const MICROS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_so_many_a_second() {
        let mut tokens = TokenBucket::new(100, 10);
        let start = 5_000_000_u64;
        let mut at = |micros: u64| tokens.take(Instant::from_micros(start + micros));
        assert_eq!((0..50).filter(|_| at(0)).count(), 10);
        // However the time is cut.
        let within_a_second = (0..3000).filter(|step| at(step * 333)).count();
        assert!((99..=100).contains(&within_a_second), "{within_a_second}");
        assert_eq!((0..50).filter(|_| at(60_000_000)).count(), 10, "no more than the burst after a pause");
    }

    #[test]
    fn none_at_all_if_that_is_the_limit() {
        let mut tokens = TokenBucket::new(0, 0);
        assert!((0..10).all(|second| !tokens.take(Instant::from_micros(second * MICROS))));
    }
}
