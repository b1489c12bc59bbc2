//! The timers of an idle connection: a deadline that its user sets, and keep-alive (RFC 9293 3.8.4).
//!
//! It lies beside the TCBs: 16 bytes a connection, and nothing until a user asks for either. Moving a deadline moves no
//! entry of the wheel: the present entry looks here when it fires.

use std::io;
use std::time::Duration;

use anywire_sys::arena::Arena;

use crate::engine::ConnIndex;
use crate::time::Tick;

/// When the peer of an idle connection is asked whether it still lives (RFC 9293 3.8.4), and when it is taken for dead.
///
/// Times are stored in whole seconds, rounded up: from 1 to 65,535.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// How long nothing came before the first probe. By default at least two hours (MUST-28).
    pub idle: Duration,
    /// The time between two probes, and after the last one.
    pub interval: Duration,
    /// So many probes in a row without an answer end the connection by [`End::TimedOut`](crate::End::TimedOut); at least one.
    pub probes: u8,
}

/// The deadline and the keep-alive of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(16))]
pub(crate) struct IdleTimer {
    /// With `deadline_high`: the millisecond of the caller's clock in which the user wants to be told. A [`Tick`] tells only
    /// 24 days apart.
    deadline_low: u32,
    /// When the last of `probes` left: they count until the peer is heard of. So what arrives need not be noted here.
    probed_at: Tick,
    /// Zero: no keep-alive.
    idle_seconds: u16,
    interval_seconds: u16,
    /// Counts from [`DEADLINE`] on; below it are [`NO_DEADLINE`] and [`EXPIRED`].
    deadline_high: u16,
    probes_max: u8,
    probes: u8,
}

/// There is no deadline.
const NO_DEADLINE: u16 = 0;
/// The deadline has passed, and the user was not told yet.
const EXPIRED: u16 = 1;
/// There is one.
const DEADLINE: u16 = 2;

/// The farthest deadline, in milliseconds: 8900 years.
const DEADLINE_MAX: u64 = (1 << 48) - 1 - ((DEADLINE as u64) << 32);

const _: () = assert!(size_of::<IdleTimer>() == 16);

impl IdleTimer {
    pub(crate) const NONE: Self = Self {
        deadline_low: 0,
        probed_at: Tick(0),
        idle_seconds: 0,
        interval_seconds: 0,
        deadline_high: NO_DEADLINE,
        probes_max: 0,
        probes: 0,
    };

    /// The millisecond in which the user wants to be told, if it does.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        let high = self.deadline_high.checked_sub(DEADLINE)?;
        Some(u64::from(high) << 32 | u64::from(self.deadline_low))
    }

    /// Sets the deadline to a millisecond; it has not expired then.
    #[inline]
    pub(crate) fn set_deadline(&mut self, millis: u64) {
        let millis = millis.min(DEADLINE_MAX);
        self.deadline_low = millis as u32;
        self.deadline_high = DEADLINE + (millis >> 32) as u16;
    }

    /// Takes the deadline away, expired or not.
    #[inline]
    pub(crate) fn clear_deadline(&mut self) {
        self.deadline_high = NO_DEADLINE;
    }

    /// The deadline has passed.
    pub(crate) fn expire(&mut self) {
        self.deadline_high = EXPIRED;
    }

    /// Whether the deadline has passed, and the user was not told yet.
    #[inline]
    pub(crate) fn has_expired(&self) -> bool {
        self.deadline_high == EXPIRED
    }

    pub(crate) fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        let seconds = |duration: Duration| {
            let rounded_up = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
            rounded_up.clamp(1, u16::MAX.into()) as u16
        };
        self.probes = 0;
        self.idle_seconds = keep_alive.map_or(0, |keep_alive| seconds(keep_alive.idle));
        self.interval_seconds = keep_alive.map_or(0, |keep_alive| seconds(keep_alive.interval));
        self.probes_max = keep_alive.map_or(0, |keep_alive| keep_alive.probes.max(1));
    }

    /// When the next probe is due, or the peer is given up, if nothing comes.
    #[inline]
    pub(crate) fn probe_at(&self, heard_at: Tick) -> Option<Tick> {
        let (since, seconds) = match self.probes_since(heard_at) {
            0 => (heard_at, self.idle_seconds),
            _ => (self.probed_at, self.interval_seconds),
        };
        (self.idle_seconds != 0).then(|| since.after(u32::from(seconds) * 1000))
    }

    /// When to look whether a probe is due, or the peer is to be given up. If the peer answers a probe, the next one is due after
    /// the idle time, which may be shorter than the interval.
    #[inline]
    pub(crate) fn look_at(&self, heard_at: Tick, now: Tick) -> Option<Tick> {
        let (probe, if_heard_now) =
            (self.probe_at(heard_at)?, now.after(u32::from(self.idle_seconds) * 1000));
        Some(if if_heard_now.is_before(probe) { if_heard_now } else { probe })
    }

    /// Whether as many probes as are allowed have had no answer.
    pub(crate) fn is_given_up(&self, heard_at: Tick) -> bool {
        self.probes_since(heard_at) >= self.probes_max
    }

    /// A probe leaves.
    pub(crate) fn note_probe(&mut self, heard_at: Tick, now: Tick) {
        self.probes = self.probes_since(heard_at) + 1;
        self.probed_at = now;
    }

    /// Probes since the peer was heard of.
    fn probes_since(&self, heard_at: Tick) -> u8 {
        if heard_at.is_before(self.probed_at) { self.probes } else { 0 }
    }

    /// If the peer was heard of since, it is not asked any more when it was probed.
    pub(crate) fn forget_answered_probes(&mut self, heard_at: Tick) {
        self.probes = self.probes_since(heard_at);
    }

    /// Whether it can be forgotten.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self { deadline_low: self.deadline_low, probed_at: self.probed_at, ..Self::NONE }
    }
}

/// The timers of all connections, by their places.
pub(crate) struct IdleTimers {
    places: Arena<IdleTimer>,
    /// A connection has had a deadline: such timers are written with each message.
    pub(crate) have_deadlines: bool,
}

impl IdleTimers {
    pub(crate) fn new(connections: usize) -> io::Result<Self> {
        Ok(Self { places: Arena::reserve(connections.max(1), IdleTimer::NONE)?, have_deadlines: false })
    }

    #[inline]
    pub(crate) fn get(&self, index: ConnIndex) -> IdleTimer {
        self.places.get(index.0 as usize).copied().unwrap_or(IdleTimer::NONE)
    }

    /// That of a connection, whose place is below the limit.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: ConnIndex) -> &mut IdleTimer {
        if self.places.len() <= index.0 as usize {
            self.places.grow_to(index.0 as usize + 1);
        }
        &mut self.places[index.0 as usize]
    }

    /// Asks for the cache line of one whose deadline may be about to move. Keep-alive alone leaves the timers of busy connections
    /// unread.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: ConnIndex) {
        if self.have_deadlines {
            self.places.prefetch(index.0 as usize);
        }
    }

    /// Bytes of memory taken from the system.
    pub(crate) fn bytes(&self) -> usize {
        self.places.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_count_until_the_peer_is_heard_of() {
        let mut timer = IdleTimer::NONE;
        let (idle, interval) = (Duration::from_millis(9500), Duration::from_secs(2));
        timer.set_keep_alive(Some(KeepAlive { idle, interval, probes: 2 }));
        let heard = Tick(u32::MAX - 5);
        assert_eq!(timer.probe_at(heard), Some(heard.after(10_000)), "rounded up");
        timer.note_probe(heard, heard.after(10_000));
        assert_eq!(timer.probe_at(heard), Some(heard.after(12_000)));
        timer.note_probe(heard, heard.after(12_500));
        assert_eq!(timer.probe_at(heard), Some(heard.after(14_500)), "the last one was late");
        assert!(timer.is_given_up(heard));
        for again in [heard.after(12_500), heard.after(13_000)] {
            assert!(!timer.is_given_up(again));
            assert_eq!(timer.probe_at(again), Some(again.after(10_000)));
        }
        timer.set_keep_alive(None);
        assert!(timer.is_none() && timer.probe_at(heard).is_none());
    }

    #[test]
    fn there_is_a_probe_at_least() {
        let mut timer = IdleTimer::NONE;
        let second = Duration::from_secs(1);
        timer.set_keep_alive(Some(KeepAlive { idle: second, interval: second, probes: 0 }));
        assert!(!timer.is_given_up(Tick(7)));
        timer.note_probe(Tick(7), Tick(1007));
        assert!(timer.is_given_up(Tick(7)));
    }

    #[test]
    fn a_deadline_is_as_far_away_as_one_likes() {
        let mut timer = IdleTimer::NONE;
        for millis in [0, 1, u32::MAX.into(), 1 << 32, 365 * 86_400_000, DEADLINE_MAX] {
            timer.set_deadline(millis);
            assert_eq!((timer.deadline(), timer.has_expired()), (Some(millis), false));
            timer.expire();
            assert!(timer.has_expired() && timer.deadline().is_none() && !timer.is_none());
            timer.clear_deadline();
            assert!(!timer.has_expired() && timer.deadline().is_none() && timer.is_none());
        }
        timer.set_deadline(u64::MAX);
        assert_eq!(timer.deadline(), Some(DEADLINE_MAX));
    }

    /// 194 days in all, and never more than 18 hours to wait for.
    #[test]
    fn the_longest_times_are_waited_for_one_by_one() {
        let mut timer = IdleTimer::NONE;
        let longest = Duration::MAX;
        timer.set_keep_alive(Some(KeepAlive { idle: longest, interval: longest, probes: u8::MAX }));
        let mut heard = Tick(0);
        for _ in 0..255 {
            assert!(!timer.is_given_up(heard));
            let at = timer.probe_at(heard).unwrap();
            timer.note_probe(heard, at);
            assert_eq!(timer.probe_at(heard), Some(at.after(65_535_000)));
            heard.keep_near(at, 1 << 29);
        }
        assert!(timer.is_given_up(heard));
    }
}
