//! Stored times stay comparable, however long nothing happens.
//!
//! A [`Tick`] has 32 bits, and two of them can be compared while they are less than 24 days apart. Three rules keep them
//! closer:
//!
//! - Nothing is due more than [`FARTHEST_MILLIS`] ahead, which is 12 days.
//! - Each TCB is looked at once in 18 hours. A time in it that is older than [`OLD_MILLIS`] becomes that old, because
//!   nothing asks for more. A minute's share of all TCBs is looked at in a row, so no call takes long.
//! - If nobody calls the engine for longer than 12 days, its clock moves on by 12 days. So all that was to happen is due, and
//!   what is past stays past. Then all TCBs are looked at.
//!
//! An idle engine asks for no call because of this: the next call makes up for it.

use crate::engine::input::synchronized::{OUTDATED, age};
use crate::engine::{ConnIndex, Engine};
use crate::extension::Extension;
use crate::tcb::{Flags, State, Tcb};
use crate::time::{FARTHEST_MILLIS, Instant, Tick};

/// Which TCBs are looked at next, and when.
#[derive(Clone, Copy, Default)]
pub(crate) struct Aging {
    at: Instant,
    next: u32,
    /// By how much the clock of ticks is behind the caller's.
    skew: u32,
}

impl Aging {
    /// The tick in which a moment lies, which is now or near.
    #[inline]
    pub(crate) const fn tick_of(&self, at: Instant) -> Tick {
        Tick((at.millis() as u32).wrapping_sub(self.skew))
    }
}

impl Engine {
    /// Takes the time as the caller gives it: mostly several times the same. It does not go back.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Instant) {
        if now <= self.now {
            return;
        }
        if now >= self.aging.at {
            return self.let_time_pass(now);
        }
        self.now = now;
        self.tick = self.aging.tick_of(now);
    }

    /// The first tick at which a moment has passed, as far ahead as ticks can be told apart, and not before the present.
    #[inline]
    pub(crate) fn first_tick(&self, at: Instant) -> Tick {
        let farthest =
            Instant::from_micros(self.now.as_micros().saturating_add(FARTHEST_MILLIS as u64 * 1000));
        let at = at.clamp(self.now, farthest);
        self.aging.tick_of(Instant::from_micros(at.as_micros().saturating_add(999)))
    }

    /// The tick of a millisecond of the caller's clock: the present one if it has begun, and as far ahead as ticks can be told apart.
    #[inline]
    pub(crate) fn tick_of_milli(&self, millis: u64) -> Tick {
        let ahead = millis.saturating_sub(self.now.millis()).min(FARTHEST_MILLIS.into());
        self.tick.after(ahead as u32)
    }

    /// A minute has passed, or much more.
    #[cold]
    #[inline(never)]
    fn let_time_pass(&mut self, now: Instant) {
        let passed = now.millis() - self.now.millis();
        let lost = passed.saturating_sub(u64::from(FARTHEST_MILLIS));
        self.aging.skew = self.aging.skew.wrapping_add(lost as u32);
        (self.now, self.tick) = (now, self.aging.tick_of(now));
        let parts = if lost > 0 { PARTS } else { (now.millis() - self.aging.at.millis()) / PART_MILLIS + 1 };
        self.aging.at = Instant::from_micros(now.as_micros().saturating_add(PART_MILLIS * 1000));
        self.look_at_parts(parts, lost);
        self.forget_answers();
        // They hold for the tick in which they were noted.
        self.reclaim.forget();
        self.probes_put_off = (self.tick, 0);
        if self.wheel.is_behind(self.tick, LATE_MILLIS) {
            // The clock has jumped. Connections that ended meanwhile must not get segments that come now.
            self.settle();
            self.run_timers();
        }
    }

    /// Looks at so many parts of all TCBs; the clock has skipped `lost` ticks.
    fn look_at_parts(&mut self, parts: u64, lost: u64) {
        let places = self.tcbs.places();
        let share = u64::from(places.div_ceil(PARTS as u32));
        for _ in 0..parts.saturating_mul(share).min(places.into()) {
            // There may be more places than at the last look, never fewer.
            let index = self.aging.next % places;
            self.aging.next = index + 1;
            self.age_tcb(ConnIndex(index), lost);
        }
    }

    fn age_tcb(&mut self, index: ConnIndex, lost: u64) {
        let now = self.tick;
        let tcb = &mut self.tcbs[index];
        if tcb.state == State::Closed {
            return;
        }
        tcb.grow_older(now, lost);
        if tcb.has(Flags::IDLE_TIMER) && !tcb.times_its_end() {
            let mut heard_at = now;
            // While it opens, the time is that of the first SYN without an answer, and its own timer asks for it.
            if tcb.state.is_synchronized() && !tcb.is_stalled() {
                heard_at = tcb.heard_at();
                heard_at.keep_near(now, OLD_MILLIS);
                tcb.set_heard_at(heard_at);
            }
            self.idle_timers.get_mut(index).forget_answered_probes(heard_at);
        }
        if let Some(extension) = self.extensions_mut(self.tcbs[index].extension) {
            extension.grow_older(now);
        }
    }
}

impl Tcb {
    /// The times that no timer waits for become no older than they need to be.
    fn grow_older(&mut self, now: Tick, lost: u64) {
        if let Some(at) = self.mark_of_idleness_mut() {
            at.keep_near(now, OLD_MILLIS);
        }
        self.window.grow_older(now, OLD_MILLIS);
        let lost = (lost >> 24).min(OUTDATED.into()) as u8;
        let old = age(now).wrapping_sub(self.ts_recent_age).saturating_add(lost).min(OUTDATED);
        self.ts_recent_age = age(now).wrapping_sub(old);
    }
}

impl Extension {
    fn grow_older(&mut self, now: Tick) {
        if self.told_nothing.0 != now {
            self.told_nothing.1 = 0;
        }
        if let Some(at) = &mut self.resent_at {
            at.keep_near(now, OLD_MILLIS);
        }
        if let Some(prior) = &mut self.prior {
            prior.grow_older(now, OLD_MILLIS);
        }
    }
}

/// Past is past: beyond six days it does not matter for how long.
const OLD_MILLIS: u32 = FARTHEST_MILLIS / 2;

/// The TCBs are looked at in so many parts, one after the other.
const PARTS: u64 = 1024;

/// The time between two parts.
const PART_MILLIS: u64 = 1 << 16;

/// If [`advance`](Engine::advance) was not called for so long, 17 minutes, it is made up for. It is half of what microseconds of
/// 32 bits tell apart: what is in flight for longer has met its timer.
const LATE_MILLIS: u32 = 1 << 20;

// What was looked at is at most this old when it is looked at again: it can still be compared.
const _: () =
    assert!(OLD_MILLIS as u64 + PARTS * PART_MILLIS + 2 * PART_MILLIS + (FARTHEST_MILLIS as u64) < 1 << 31);
const _: () = assert!((OUTDATED as u64) + ((PARTS * PART_MILLIS + (FARTHEST_MILLIS as u64)) >> 24) + 2 < 256);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectOptions, Limits, Mac, Route, Settings, Via};

    /// An engine that opens so many connections, and never hears of them again.
    fn engine(connections: u16) -> Engine {
        let mut settings = Settings::new([1, 2, 3, 4]);
        settings.open_timeout = std::time::Duration::MAX;
        let mut engine = Engine::new(settings, Limits::default()).unwrap();
        engine.add_address("10.0.0.1".parse().unwrap()).unwrap();
        let network = "10.0.0.0/8".parse().unwrap();
        engine.set_mac(Mac::new([2, 0, 0, 0, 0, 1]));
        engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).unwrap();
        engine.add_neighbour("10.0.0.2".parse().unwrap(), Mac::new([2, 0, 0, 0, 0, 2])).unwrap();
        for port in 1..=connections {
            let remote = std::net::SocketAddr::new("10.0.0.2".parse().unwrap(), port);
            engine.connect(remote, ConnectOptions::default()).unwrap();
        }
        engine
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1000)
    }

    /// All TCBs that have been looked at since the last time, by a mark that a look takes away.
    fn looked_at(engine: &mut Engine) -> usize {
        let now = engine.tick;
        let mut count = 0;
        for index in engine.tcbs.all() {
            let tcb = &mut engine.tcbs[index];
            if tcb.state != State::Closed {
                count += usize::from(age(now).wrapping_sub(tcb.ts_recent_age) == OUTDATED);
                tcb.ts_recent_age = age(now).wrapping_sub(OUTDATED + 1);
            }
        }
        count
    }

    #[test]
    fn a_minute_costs_a_small_part_of_all_tcbs_and_18_hours_all_of_them() {
        let mut engine = engine(5000);
        engine.set_now(at(1));
        looked_at(&mut engine);
        let share = engine.tcbs.places() as usize / 1024 + 1;
        let mut sum = 0;
        for part in 1..=PARTS + 1 {
            engine.set_now(at(part * PART_MILLIS));
            let count = looked_at(&mut engine);
            assert!(count <= share, "{count} TCBs in minute {part}");
            sum += count;
        }
        assert!(sum >= 5000, "{sum} of 5000");
        // One call for two hours, and for weeks.
        engine.set_now(at((PARTS + 101) * PART_MILLIS));
        assert!(looked_at(&mut engine) <= 100 * share);
        engine.set_now(at(1 << 31));
        assert_eq!(looked_at(&mut engine), 5000);
    }

    #[test]
    fn what_holds_for_one_tick_does_not_hold_when_it_returns() {
        for steps in [1, 50] {
            let mut engine = engine(1);
            let place = engine.extension_of(ConnIndex(0)).unwrap();
            engine.set_now(at(1_000_000));
            let before = engine.tick;
            engine.extensions[place].told_nothing = (before, 9);
            engine.probes_put_off = (before, 9);
            (engine.reclaim.at, engine.reclaim.out_of_order_at) = (Some(before), Some(before));
            for step in 1..=steps {
                engine.set_now(at(1_000_000 + (step << 32) / steps));
            }
            engine.tick = before;
            assert_eq!(engine.extensions[place].told_nothing.1, 0);
            assert_eq!(engine.probes_put_off.1, 0);
            assert_eq!((engine.reclaim.at, engine.reclaim.out_of_order_at), (None, None));
        }
    }

    #[test]
    fn time_does_not_go_back_and_may_go_on_for_ever() {
        let mut engine = engine(1);
        let mut last = engine.tick;
        for micros in [5_000_000, 1, 0, 1 << 40, 1 << 50, 7, u64::MAX - 1, u64::MAX] {
            engine.set_now(Instant::from_micros(micros));
            assert!(last.is_due(engine.tick), "{micros}");
            assert!(engine.now.as_micros() >= micros);
            let soon = engine.first_tick(Instant::from_micros(u64::MAX));
            assert!(engine.tick.is_due(soon));
            last = engine.tick;
        }
    }
}
