//! How long a busy connection, or a stream, has waited, and for what: of every protocol. Knows no clock: time is a parameter.
//!
//! Several waits run side by side: a handler works while its peer is slow to take earlier responses. Each has its own
//! stopwatch, so progress in one never renews another.

mod pace;

use std::time::{Duration, Instant};

use self::pace::{Allowance, Pace};
use crate::counters::Live;
use crate::limits::Limits;

/// What a connection waits for between two polls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// The rest of a head.
    pub(crate) head: bool,
    /// The handler, to begin its response.
    pub(crate) handler: bool,
    /// The peer, to send more of a body that is being read.
    pub(crate) body: bool,
    /// The peer, to take a response.
    pub(crate) write: bool,
    /// A response, or more of one, for a peer that has ended its direction.
    pub(crate) half_closed: bool,
}

impl Waits {
    pub(crate) const HEAD: Self =
        Self { head: true, handler: false, body: false, write: false, half_closed: false };
}

/// A deadline that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    Head,
    Handler,
    /// The peer sent nothing of a body.
    BodySilent,
    /// The peer sent a body slower than the least rate.
    BodySlow,
    /// The peer took nothing of a response.
    WriteSilent,
    /// The peer took a response slower than the least rate.
    WriteSlow,
    HalfClosed,
}

impl Expired {
    /// Counts it. Responses in place of a handler's, or for a head, are counted where they are made.
    #[cold]
    pub(crate) fn count(self, counters: &Live) {
        match self {
            Self::Head | Self::Handler => return,
            Self::BodySilent => &counters.body_timeouts,
            Self::BodySlow => &counters.slow_bodies,
            Self::WriteSilent => &counters.write_timeouts,
            Self::WriteSlow => &counters.slow_readers,
            Self::HalfClosed => &counters.half_close_timeouts,
        }
        .increment();
    }
}

/// The stopwatches of one connection while it is busy.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    waits: Waits,
    /// A wait has begun since the last reset.
    used: bool,
    /// The time up to which the stopwatches have counted; `None` before the first wait.
    counted: Option<Instant>,
    head: Duration,
    handler: Duration,
    half_closed: Duration,
    body: Pace,
    write: Pace,
    /// Time since the wire was last asked how much of the output the peer has taken.
    since_look: Duration,
    /// The bytes still on their way at that moment.
    unsent: Option<u64>,
}

impl Timers {
    /// Counts the time until `now` for everything that is waited for.
    pub(crate) fn count(&mut self, now: Instant) {
        let Some(before) = self.counted else { return };
        self.counted = Some(now);
        let passed = now.saturating_duration_since(before);
        let Waits { head, handler, body, write, half_closed } = self.waits;
        let stopwatches = [
            (head, &mut self.head),
            (handler, &mut self.handler),
            (half_closed, &mut self.half_closed),
            (write, &mut self.since_look),
        ];
        for (runs, stopwatch) in stopwatches {
            if runs {
                *stopwatch = stopwatch.saturating_add(passed);
            }
        }
        if body {
            self.body.waited(passed);
        }
        if write {
            self.write.waited(passed);
        }
    }

    /// Whether the peer is to send more of a body.
    pub(crate) fn waits_for_body(&self) -> bool {
        self.waits.body
    }

    /// Whether the peer is to take a response.
    pub(crate) fn waits_for_write(&self) -> bool {
        self.waits.write
    }

    /// Sets what the connection waits for from `now` on. Returns the time until the first deadline, if there is one.
    ///
    /// The poll that ends now counts as the handler's time, because the handler may have run for all of it.
    pub(crate) fn wait(&mut self, waits: Waits, now: Instant, limits: &Limits) -> Option<Duration> {
        if let Some(poll_began) = self.counted.replace(now)
            && (waits.handler || waits.body)
        {
            self.handler = self.handler.saturating_add(now.saturating_duration_since(poll_began));
        }
        (self.waits, self.used) = (waits, true);
        if !waits.write {
            self.since_look = Duration::ZERO;
        }
        let deadlines = [
            (waits.write, look_interval(limits).saturating_sub(self.since_look)),
            (waits.write, self.write.left(limits.write_timeout)),
            (waits.head, limits.head_timeout.saturating_sub(self.head)),
            (waits.handler, limits.handler_timeout.saturating_sub(self.handler)),
            (waits.body, self.body.left(limits.body_timeout)),
            (waits.half_closed, limits.half_close_timeout.saturating_sub(self.half_closed)),
        ];
        deadlines.into_iter().filter_map(|(waits, left)| waits.then_some(left)).min()
    }

    /// The first deadline that has passed, the gravest before the others.
    pub(crate) fn expired(&self, limits: &Limits) -> Option<Expired> {
        let waits = self.waits;
        if waits.write && self.write.left(limits.write_timeout).is_zero() {
            let silent = self.write.is_silent(limits.write_timeout);
            return Some(if silent { Expired::WriteSilent } else { Expired::WriteSlow });
        }
        if waits.head && self.head >= limits.head_timeout {
            return Some(Expired::Head);
        }
        if waits.body && self.body.left(limits.body_timeout).is_zero() {
            let silent = self.body.is_silent(limits.body_timeout);
            return Some(if silent { Expired::BodySilent } else { Expired::BodySlow });
        }
        if waits.handler && self.handler >= limits.handler_timeout {
            return Some(Expired::Handler);
        }
        (waits.half_closed && self.half_closed >= limits.half_close_timeout).then_some(Expired::HalfClosed)
    }

    /// Asks `unsent` how much of the written bytes is still on its way, if it is time to.
    pub(crate) fn look(&mut self, unsent: impl FnOnce() -> Option<u64>, limits: &Limits) {
        if self.is_look_due(limits) {
            self.looked(unsent(), limits);
        }
    }

    fn is_look_due(&self, limits: &Limits) -> bool {
        self.waits.write
            && (self.since_look >= look_interval(limits) || self.write.left(limits.write_timeout).is_zero())
    }

    /// Records the wire's report: so many of the written bytes are still on their way, if it knows.
    pub(crate) fn looked(&mut self, unsent: Option<u64>, limits: &Limits) {
        self.since_look = Duration::ZERO;
        let before = std::mem::replace(&mut self.unsent, unsent);
        let taken = before.zip(unsent).map_or(0, |(before, unsent)| before.saturating_sub(unsent));
        self.write_moved(taken, limits);
    }

    /// A head is complete: its request's time begins.
    #[inline]
    pub(crate) fn begin_request(&mut self) {
        // Most requests are answered before anything is waited for.
        if self.used {
            (self.head, self.handler, self.half_closed) = Default::default();
            self.body = Pace::default();
            // The handler does not answer for the time before its request was complete.
            self.counted = None;
        }
    }

    /// The connection is idle: the next one that is busy begins anew.
    #[inline]
    pub(crate) fn reset(&mut self) {
        if self.used {
            *self = Self::default();
        }
    }

    /// What was waited for is over, and the time of a peer that has ended its direction begins anew.
    pub(crate) fn begin_half_closed(&mut self) {
        self.half_closed = Duration::ZERO;
    }

    /// Records that the wire took so many bytes of the output.
    // Out of line: most responses leave before anything is waited for.
    #[inline(never)]
    pub(crate) fn wrote(&mut self, bytes: usize, limits: &Limits) {
        if bytes > 0 {
            self.begin_half_closed();
            self.write_moved(bytes as u64, limits);
        }
    }

    /// Records that the peer took so many bytes of others that share its window.
    pub(crate) fn shared(&mut self, bytes: u64, limits: &Limits) {
        self.write_moved(bytes, limits);
    }

    fn write_moved(&mut self, bytes: u64, limits: &Limits) {
        // The rate counts no sooner than silence does, because the wire reports progress in steps. A receiver opens its
        // window again only once there is room for a segment, which on loopback is 64 KiB.
        self.write.moved(
            bytes,
            &Allowance {
                silence: limits.write_timeout,
                grace: limits.write_timeout,
                min_bytes_per_second: limits.min_bytes_per_second,
            },
        );
    }

    /// Records bytes of a body that came before the handler read: with the head, or while the handler was at work.
    pub(crate) fn received_early(&mut self, bytes: usize, limits: &Limits) {
        self.used = true;
        self.body.moved_early(bytes as u64, &Allowance::of_body(limits));
    }

    /// Records that the peer sent so many bytes of a body.
    pub(crate) fn received(&mut self, bytes: usize, limits: &Limits) {
        self.body.moved(bytes as u64, &Allowance::of_body(limits));
    }

    /// Whether a wait has begun since the last reset.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }
}

/// The time between two looks at what the peer has taken: several fit into the deadline, as the first one has nothing to
/// compare with.
fn look_interval(limits: &Limits) -> Duration {
    limits.write_timeout / 6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timers with the default limits, and a clock that is moved by hand.
    struct Scene {
        timers: Timers,
        limits: Limits,
        now: Instant,
        waits: Waits,
    }

    impl Scene {
        fn waiting(waits: Waits) -> Self {
            let mut scene =
                Self { timers: Timers::default(), limits: Limits::default(), now: Instant::now(), waits };
            scene.wait();
            scene
        }

        fn wait(&mut self) -> Option<Duration> {
            self.timers.wait(self.waits, self.now, &self.limits)
        }

        /// Polls once after so many seconds. The poll itself takes no time.
        fn after(&mut self, seconds: u64, happens: impl FnOnce(&mut Timers, &Limits)) -> Option<Expired> {
            self.now += Duration::from_secs(seconds);
            self.timers.count(self.now);
            let expired = self.timers.expired(&self.limits);
            happens(&mut self.timers, &self.limits);
            self.wait();
            expired
        }

        /// The second at which something expires if the same happens every `step` seconds.
        fn expires(&mut self, step: u64, happens: impl Fn(&mut Timers, &Limits)) -> Option<(u64, Expired)> {
            let turns = (1..=100_000 / step).map(|turn| turn * step);
            turns.into_iter().find_map(|at| Some((at, self.after(step, &happens)?)))
        }
    }

    fn nothing(_: &mut Timers, _: &Limits) {}

    fn sends(bytes: usize) -> impl Fn(&mut Timers, &Limits) {
        move |timers, limits| timers.received(bytes, limits)
    }

    fn takes(bytes: usize) -> impl Fn(&mut Timers, &Limits) {
        move |timers, limits| timers.wrote(bytes, limits)
    }

    const HANDLER: Waits = Waits { handler: true, head: false, ..Waits::HEAD };
    const BODY: Waits = Waits { body: true, head: false, ..Waits::HEAD };
    const WRITE: Waits = Waits { write: true, head: false, ..Waits::HEAD };

    #[test]
    fn each_wait_has_its_own_deadline() {
        let half_closed = Waits { half_closed: true, ..HANDLER };
        let cases = [
            (Waits::HEAD, 10, Expired::Head),
            (HANDLER, 60, Expired::Handler),
            (BODY, 10, Expired::BodySilent),
            (WRITE, 30, Expired::WriteSilent),
            (half_closed, 10, Expired::HalfClosed),
        ];
        for (waits, seconds, what) in cases {
            assert_eq!(Scene::waiting(waits).expires(1, nothing), Some((seconds, what)), "{waits:?}");
        }
        assert_eq!(Scene::waiting(Waits::default()).expires(1000, nothing), None);
    }

    #[test]
    fn a_drip_ends_by_the_least_rate() {
        assert_eq!(Scene::waiting(BODY).expires(1, sends(1)), Some((7, Expired::BodySlow)));
        assert_eq!(Scene::waiting(BODY).expires(9, sends(1)), Some((18, Expired::BodySlow)));
        assert_eq!(
            Scene::waiting(BODY).expires(1, sends(1023)).map(|(_, what)| what),
            Some(Expired::BodySlow)
        );
        assert_eq!(Scene::waiting(WRITE).expires(1, takes(1)), Some((32, Expired::WriteSlow)));
    }

    #[test]
    fn a_decent_rate_lives() {
        assert_eq!(Scene::waiting(BODY).expires(1, sends(1024)), None);
        assert_eq!(Scene::waiting(BODY).expires(9, sends(10 * 1024)), None);
        assert_eq!(Scene::waiting(WRITE).expires(29, takes(64 * 1024)), None);
    }

    #[test]
    fn bytes_that_came_early_count_with_the_others() {
        // 16 KiB every eight seconds: most of the first came with the head.
        let mut scene = Scene::waiting(BODY);
        scene.timers.received_early(16_000, &scene.limits);
        assert_eq!(scene.after(0, sends(384)), None);
        assert_eq!(scene.after(8, sends(384)), None);
        // And of the second while the handler was at work.
        scene.timers.received_early(16_000, &scene.limits);
        assert_eq!(scene.after(8, sends(384)), None);
        let mut scene = Scene::waiting(BODY);
        scene.timers.received_early(1 << 20, &scene.limits);
        assert_eq!(scene.expires(1, nothing), Some((10, Expired::BodySilent)));
    }

    #[test]
    fn bytes_of_long_ago_do_not_pay_for_a_drip() {
        let mut scene = Scene::waiting(BODY);
        assert_eq!(scene.after(1, sends(1 << 30)), None);
        assert_eq!(scene.expires(9, sends(1)), Some((18, Expired::BodySlow)));
    }

    #[test]
    fn progress_in_one_thing_renews_no_other() {
        let both = Waits { write: true, ..HANDLER };
        assert_eq!(Scene::waiting(both).expires(1, takes(4096)), Some((60, Expired::Handler)));
        let both = Waits { write: true, ..BODY };
        assert_eq!(Scene::waiting(both).expires(1, sends(4096)), Some((30, Expired::WriteSilent)));
        assert_eq!(Scene::waiting(both).expires(1, takes(4096)), Some((10, Expired::BodySilent)));
    }

    #[test]
    fn a_handler_s_time_pauses_while_it_waits_for_the_peer() {
        let mut scene = Scene::waiting(HANDLER);
        assert_eq!(scene.after(59, nothing), None);
        scene.waits = BODY;
        scene.wait();
        for _ in 0..1000 {
            assert_eq!(scene.after(1, sends(4096)), None);
        }
        scene.waits = HANDLER;
        scene.wait();
        assert_eq!(scene.after(1, nothing), Some(Expired::Handler));
    }

    #[test]
    fn a_handler_s_work_counts_though_it_waits_for_the_peer_in_between() {
        let mut scene = Scene::waiting(BODY);
        for _ in 0..59 {
            assert_eq!(scene.after(1, sends(4096)), None);
            // This poll lasts a second.
            scene.now += Duration::from_secs(1);
            scene.wait();
        }
        scene.waits = HANDLER;
        scene.wait();
        assert_eq!(scene.after(1, nothing), Some(Expired::Handler));
    }

    #[test]
    fn each_request_begins_anew() {
        let mut scene = Scene::waiting(Waits { half_closed: true, ..HANDLER });
        assert_eq!(scene.after(9, nothing), None);
        // This poll lasts 55 seconds before it begins the next request.
        scene.now += Duration::from_secs(55);
        scene.timers.begin_request();
        scene.wait();
        assert_eq!(scene.after(9, nothing), None);
        scene.waits = HANDLER;
        scene.wait();
        assert_eq!(scene.expires(1, nothing), Some((51, Expired::Handler)));

        let mut scene = Scene::waiting(BODY);
        assert_eq!(scene.after(9, sends(1)), None);
        assert_eq!(scene.after(4, nothing), None);
        scene.timers.begin_request();
        scene.wait();
        assert_eq!(scene.expires(1, nothing), Some((10, Expired::BodySilent)));
    }

    #[test]
    fn a_session_that_goes_on_to_the_next_connection_begins_anew() {
        let (deadline, expired) = Scene::waiting(WRITE).expires(1, nothing).expect("it ends");
        let mut scene = Scene::waiting(WRITE);
        assert_eq!(scene.after(deadline - 1, |timers, _| timers.reset()), None);
        assert_eq!(scene.expires(1, nothing), Some((deadline, expired)));
    }

    #[test]
    fn the_first_look_is_a_grace_after_the_wait_began() {
        let mut scene = Scene::waiting(WRITE);
        scene.after(4, takes(4096));
        scene.waits = HANDLER;
        scene.wait();
        scene.waits = WRITE;
        assert_eq!(scene.wait(), Some(scene.limits.min_rate_grace));
    }

    #[test]
    fn what_the_peer_takes_from_the_wire_is_progress() {
        let mut scene = Scene::waiting(WRITE);
        let mut unsent = 4_000_000;
        let mut look = |scene: &mut Scene, taken: u64| {
            scene.after(5, |timers, limits| {
                assert!(timers.is_look_due(limits));
                unsent -= taken;
                timers.looked(Some(unsent), limits);
            })
        };
        for _ in 0..100 {
            assert_eq!(look(&mut scene, 20 * 1024), None);
        }
        let silent = (1..100).find_map(|turn| Some((turn * 5, look(&mut scene, 0)?)));
        assert_eq!(silent, Some((30, Expired::WriteSilent)));
    }

    /// A peer that takes 20 KiB a second. Its system says so in steps of so many seconds' worth.
    fn takes_in_steps(scene: &mut Scene, step: u64, look: u64) -> Option<(u64, Expired)> {
        let (before, mut taken) = (1 << 40, 0);
        (1..1000).map(|turn| turn * look).find_map(|at| {
            let expired = scene.after(look, |timers, limits| {
                if timers.is_look_due(limits) {
                    taken = at / step * step * 20 * 1024;
                    timers.looked(Some(before - taken), limits);
                }
            });
            // As the connection does it: the wire is asked before anything is taken for expired.
            expired.and(scene.timers.expired(&scene.limits)).map(|expired| (at, expired))
        })
    }

    #[test]
    fn a_peer_whose_system_tells_in_steps_lives() {
        let mut scene = Scene::waiting(WRITE);
        // The last bytes for which the system had room.
        scene.after(1, takes(3000));
        assert_eq!(takes_in_steps(&mut scene, 13, 1), None);
    }

    #[test]
    fn a_deadline_for_writing_below_the_grace_spares_who_takes() {
        let limits = Limits { write_timeout: Duration::from_secs(3), ..Limits::default() };
        let mut scene = Scene { limits, ..Scene::waiting(WRITE) };
        assert_eq!(scene.wait(), Some(Duration::from_millis(500)));
        assert_eq!(takes_in_steps(&mut scene, 1, 1), None);
        assert_eq!(scene.expires(1, nothing).map(|(_, what)| what), Some(Expired::WriteSilent));
    }

    #[test]
    fn a_wire_that_knows_nothing_is_asked_no_more_often() {
        let mut scene = Scene::waiting(WRITE);
        assert_eq!(scene.after(5, |timers, limits| timers.looked(None, limits)), None);
        assert_eq!(scene.wait(), Some(scene.limits.min_rate_grace));
        assert_eq!(
            scene.expires(5, |timers, limits| timers.looked(None, limits)),
            Some((25, Expired::WriteSilent))
        );
    }

    #[test]
    fn the_next_deadline_is_the_first() {
        let mut scene = Scene::waiting(Waits { write: true, half_closed: true, ..HANDLER });
        assert_eq!(scene.wait(), Some(Duration::from_secs(5)), "a look at what the peer has taken");
        scene.after(4, nothing);
        assert_eq!(scene.wait(), Some(Duration::from_secs(1)));
        scene.waits.write = false;
        assert_eq!(scene.wait(), Some(Duration::from_secs(6)), "the peer that half-closed");
        scene.waits = Waits::default();
        assert_eq!(scene.wait(), None);
    }
}
