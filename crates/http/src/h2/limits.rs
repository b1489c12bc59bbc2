//! How much an HTTP/2 connection accepts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::frame::WINDOW_MAX;
use super::settings::{DEFAULT_WINDOW_BYTES, FRAME_BYTES_MIN};
use crate::HeadLimits;

/// Limits of an HTTP/2 connection, but for those of heads, which all versions have. Each abuse that is known of the protocol meets one of them.
///
/// Reaching one that concerns a stream ends the stream; the others end the connection with `ENHANCE_YOUR_CALM`. A duration of
/// `Duration::MAX` never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams that the peer may have open at once. Default 256: more than a browser opens, and what one loop answers in a
    /// turn. Further ones are refused with `REFUSED_STREAM`, which lets the peer send them again.
    pub streams: usize,
    /// How much a peer may send of one body before its reader has taken something, 1 at least. Default 65,535 bytes, as the RFC
    /// begins with, so that no setting is sent.
    pub stream_window_bytes: u32,
    /// How much a peer may send of all bodies together before their readers have taken something. Default 16 MiB, which is the
    /// window of each of the 256 streams: so an unread body never holds up another one. With less, a peer can make this end hold
    /// less, and the last bodies wait until others are read.
    pub connection_window_bytes: u32,
    /// `CONTINUATION` frames of one header block, but never fewer than a head of the limit's size may need. Default 8: by default
    /// such a head fits one frame (CVE-2024-27316).
    pub continuations: usize,
    /// Streams that end too early, so many at once and so many a second: the peer resets them, or breaks a rule on them. Default
    /// 200 and 50, because a browser cancels all requests of a page when its user leaves (CVE-2023-44487, CVE-2025-8671).
    pub resets: Rate,
    /// Frames that move nothing, so many at once and so many a second. Default 1,000 and 100 (CVE-2019-9512, -9514, -9515,
    /// -9518). These are `PING`, `SETTINGS`, `GOAWAY`, `PRIORITY`, `WINDOW_UPDATE`, empty `DATA`, unknown frames, and a client's `HEADERS`
    /// for a stream that is gone, or above `streams` before it can know that. Bodies that we send allow the peer more: one frame for each 512 bytes, and three for each
    /// piece that no window cut short. Each stream allows four more. The peer may use them at once or later.
    pub idle_frames: Rate,
    /// How long the peer may take to acknowledge our settings. Default 10 s.
    pub settings_deadline: Duration,
    /// After this time without a byte from the peer a `PING` asks whether it is there. Default `None`: never.
    pub ping_interval: Option<Duration>,
    /// How long the peer may be silent after that `PING`. Its acknowledgement may take longer, behind other bytes. Default 10 s.
    pub ping_deadline: Duration,
    /// Whether requests may be extended CONNECTs, as WebSocket needs (RFC 8441). Default no: a browser that may use them opens its
    /// WebSockets so, and handlers that know only HTTP/1's handshake would refuse them.
    pub extended_connect: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 256,
            stream_window_bytes: DEFAULT_WINDOW_BYTES,
            connection_window_bytes: 16 << 20,
            continuations: 8,
            resets: Rate { burst: 200, per_second: 50 },
            idle_frames: Rate { burst: 1000, per_second: 100 },
            settings_deadline: Duration::from_secs(10),
            ping_interval: None,
            ping_deadline: Duration::from_secs(10),
            extended_connect: false,
        }
    }
}

impl Limits {
    /// What a stream begins with. Without a window no body could ever come.
    #[inline]
    pub(super) fn stream_window(&self) -> u32 {
        self.stream_window_bytes.clamp(1, WINDOW_MAX)
    }

    /// What the connection begins with: no less than the RFC gives it.
    pub(super) fn connection_window(&self) -> u32 {
        self.connection_window_bytes.clamp(DEFAULT_WINDOW_BYTES, WINDOW_MAX)
    }
}

/// All limits of an [`Engine`](super::Engine).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineLimits {
    /// Limits of each head. `bytes` is announced as `SETTINGS_MAX_HEADER_LIST_SIZE`. A request above it is answered 431.
    pub head: HeadLimits,
    /// What only HTTP/2 has.
    pub connection: Limits,
}

impl EngineLimits {
    /// `CONTINUATION` frames of a block, which is no longer than what it counts for the limit of heads, which the peer is told.
    pub(super) fn continuations_max(&self) -> usize {
        let head_bytes = self.head.bytes.max(self.head.trailer_bytes);
        self.connection.continuations.max(head_bytes / FRAME_BYTES_MIN)
    }
}

/// These limits, and the defaults for heads.
impl From<Limits> for EngineLimits {
    fn from(connection: Limits) -> Self {
        Self { connection, ..Self::default() }
    }
}

/// These limits of heads, and the defaults for the rest.
impl From<HeadLimits> for EngineLimits {
    fn from(head: HeadLimits) -> Self {
        Self { head, ..Self::default() }
    }
}

impl From<Limits> for Arc<EngineLimits> {
    fn from(connection: Limits) -> Self {
        Self::new(connection.into())
    }
}

impl From<HeadLimits> for Arc<EngineLimits> {
    fn from(head: HeadLimits) -> Self {
        Self::new(head.into())
    }
}

/// So many at once, and so many a second on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many at once.
    pub burst: u32,
    /// So many more each second.
    pub per_second: u32,
}

/// What is left of a [`Rate`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Below 0 it is what useful work has earned for later.
    spent: i64,
    /// Since when something is spent.
    since: Option<Instant>,
}

impl Budget {
    pub(super) const FULL: Self = Self { spent: 0, since: None };

    /// Spends one. `false` if nothing is left.
    #[inline]
    pub(super) fn spend(&mut self, rate: Rate, now: Instant) -> bool {
        let burst = i64::from(rate.burst);
        if self.spent >= burst {
            self.refill(rate, now);
        } else if self.spent <= 0 {
            self.since = Some(now);
        }
        self.spent += 1;
        self.spent <= burst
    }

    /// Gives what useful work has earned, to be spent now or later: a peer may open the windows for many bodies in one go, long
    /// after they were sent, once they are read.
    #[inline]
    pub(super) fn earn(&mut self, count: u32) {
        self.spent = (self.spent - i64::from(count)).max(-EARNED_MAX);
    }

    /// Counts the time that has passed. Called only when the burst is used up, so that spending needs no arithmetic.
    #[cold]
    fn refill(&mut self, rate: Rate, now: Instant) {
        let since = self.since.unwrap_or(now);
        let passed = now.saturating_duration_since(since).as_millis();
        let earned = i64::try_from(passed * u128::from(rate.per_second) / 1000).unwrap_or(i64::MAX);
        if earned > 0 {
            self.since = Some(now);
            // Time does not earn more than the burst.
            self.spent = self.spent.saturating_sub(earned).max(0);
        }
    }
}

/// What may be earned ahead: as much as for 512 MiB of bodies.
const EARNED_MAX: i64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only differences count")]
    fn a_budget_is_a_burst_and_a_rate() {
        let rate = Rate { burst: 10, per_second: 2 };
        let begin = Instant::now();
        let mut budget = Budget::FULL;
        assert_eq!((0..20).filter(|_| budget.spend(rate, begin)).count(), 10);
        budget.spent = 10;
        let later = begin + Duration::from_secs(3);
        assert_eq!((0..20).take_while(|_| budget.spend(rate, later)).count(), 6);
        budget.spent = 10;
        budget.earn(4);
        assert_eq!((0..20).take_while(|_| budget.spend(rate, later)).count(), 4);
        // What is earned ahead lasts. Time alone gives no more than the burst.
        let mut budget = Budget::FULL;
        budget.earn(7);
        assert_eq!((0..40).take_while(|_| budget.spend(rate, later)).count(), 17);
        let much_later = later + Duration::from_secs(3600);
        assert_eq!((0..40).take_while(|_| budget.spend(rate, much_later)).count(), 10);
        budget.earn(u32::MAX);
        assert_eq!(budget.spent, -EARNED_MAX);
    }
}
