//! Deadlines on a clock that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Wake;
use std::time::SystemTime;

use proptest::prelude::*;

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A registry, and the time. The timer of the runtime comes at whole milliseconds, and may be late.
struct World {
    registry: Rc<Registry>,
    start: Instant,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let start = Instant::now();
        let world = Self { registry: Rc::new(Registry::new(start)), start, now: start };
        assert!(world.registry.start(world.reading()));
        world
    }

    fn reading(&self) -> Reading {
        Reading { instant: self.now, unix_time: SystemTime::UNIX_EPOCH }
    }

    fn deadline(&self) -> Deadline {
        Deadline::on(Rc::clone(&self.registry))
    }

    /// When the runtime's timer comes.
    fn next(&self) -> Instant {
        let next = self.registry.next_look().saturating_duration_since(self.start);
        self.now.max(self.start + MS(next.as_nanos().div_ceil(1_000_000) as u64))
    }

    /// Looks once, so late. Whether there are more looks.
    fn look(&mut self, late: Duration) -> bool {
        self.now = self.next() + late;
        self.registry.look(self.reading())
    }

    /// Looks until nothing is due before the next tick but the tick itself.
    fn tick(&mut self) -> bool {
        let tick = self.registry.now();
        loop {
            if !self.look(Duration::ZERO) {
                return false;
            }
            if self.registry.now() > tick {
                return true;
            }
        }
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn take(&self) -> usize {
        self.0.swap(0, Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn poll(deadline: &Deadline, wakes: &Arc<Wakes>) -> Poll<()> {
    deadline.poll_expired(&mut Context::from_waker(&Arc::clone(wakes).into()))
}

/// How a deadline is set.
#[derive(Clone, Copy, Debug)]
enum Way {
    Ticks,
    From,
    At,
}

impl Way {
    fn set(self, deadline: &Deadline, now: Instant, after: Duration) {
        match self {
            Self::Ticks => deadline.set(after),
            Self::From => deadline.set_from(now, after),
            Self::At => deadline.set_at(now + after),
        }
    }
}

/// Looks again and again, each time late by `lateness`, and sets a deadline before look number `set_before`, at a share of
/// the time since the look before. Returns how much later than asked its task was woken and found it expired.
fn expires_late_by(
    lateness: &[Duration],
    set_before: usize,
    set_at_share: f64,
    way: Way,
    after: Duration,
) -> Duration {
    let mut world = World::new();
    let (deadline, wakes) = (world.deadline(), Arc::<Wakes>::default());
    let mut set_at = None;
    for number in 0.. {
        let late = lateness[number % lateness.len()];
        if number == set_before {
            // The setter knows the time, and the registry does not.
            let now = world.now + (world.next() + late - world.now).mul_f64(set_at_share);
            way.set(&deadline, now, after);
            if poll(&deadline, &wakes).is_ready() {
                assert!(after.is_zero(), "early: at once");
                return Duration::ZERO;
            }
            set_at = Some(now);
            world.now = now;
        }
        world.look(late);
        if let Some(set_at) = set_at
            && wakes.take() > 0
            && poll(&deadline, &wakes).is_ready()
        {
            let waited = world.now - set_at;
            return waited.checked_sub(after).unwrap_or_else(|| panic!("early: {waited:?}"));
        }
        assert!(number < 1_000_000, "it never expires");
    }
    unreachable!("the looks never end")
}

proptest! {
    #[test]
    fn never_early_however_late_the_looks_are(
        lateness in prop::collection::vec(prop_oneof![3 => 0..5u64, 1 => 0..700u64].prop_map(MS), 1..20),
        set_before in 0..40usize,
        set_at_share in 0.0..=1.0,
        by_ticks in any::<bool>(),
        after_ms in 0..3000u64,
    ) {
        match by_ticks {
            true => expires_late_by(&lateness, set_before, set_at_share, Way::Ticks, BY_TICKS_FROM + MS(after_ms)),
            false => expires_late_by(&lateness, set_before, set_at_share, Way::From, MS(after_ms)),
        };
    }

    #[test]
    fn late_by_a_millisecond_and_a_hundredth_where_the_loop_is_not_blocked(
        set_before in 0..40usize,
        set_at_share in 0.0..=1.0,
        way in prop_oneof![Just(Way::From), Just(Way::At)],
        after_us in prop_oneof![0..3_000u64, 0..300_000u64, 0..120_000_000u64],
    ) {
        let after = Duration::from_micros(after_us);
        let late = expires_late_by(&[Duration::ZERO], set_before, set_at_share, way, after);
        prop_assert!(late <= MS(1) + after / 100, "{after:?} is late by {late:?}");
    }
}

proptest! {
    /// The time in the registry is that of the long one, and later than that by a part of its length.
    #[test]
    fn a_short_one_is_in_time_though_a_long_one_was_about_to_expire(
        long_ms in 0..4_000_000u64,
        before_us in 0..2_000_000u64,
        way in prop_oneof![Just(Way::From), Just(Way::At)],
        after_us in prop_oneof![0..3_000u64, 0..300_000u64, 0..30_000_000u64],
    ) {
        let (mut world, wakes) = (World::new(), Arc::<Wakes>::default());
        let deadline = world.deadline();
        let (long, after) = (MS(long_ms), Duration::from_micros(after_us));
        way.set(&deadline, world.now, long);
        prop_assume!(poll(&deadline, &wakes).is_pending());
        // The time goes by at once.
        let set_at = world.start + long.saturating_sub(Duration::from_micros(before_us));
        world.now = set_at;
        world.registry.look(world.reading());
        wakes.take();
        way.set(&deadline, world.now, after);
        let mut is_expired = poll(&deadline, &wakes).is_ready();
        while !is_expired {
            world.look(Duration::ZERO);
            is_expired = wakes.take() > 0 && poll(&deadline, &wakes).is_ready();
        }
        let late = (world.now - set_at).checked_sub(after);
        prop_assert!(late.is_some_and(|late| late <= MS(1) + after / 100), "{after:?} is late by {late:?}");
    }
}

#[test]
fn each_length_is_kept_to_in_each_way() {
    const LENGTHS_MS: [u64; 12] = [0, 1, 2, 10, 99, 100, 150, 999, 1000, 10_000, 30_000, 60_000];
    for after in LENGTHS_MS.map(MS) {
        for way in [Way::From, Way::At, Way::Ticks] {
            if matches!(way, Way::Ticks) && after < BY_TICKS_FROM {
                continue;
            }
            for (set_before, share) in [(0, 0.0), (0, 0.5), (1, 0.999), (3, 1.0)] {
                let late = expires_late_by(&[Duration::ZERO], set_before, share, way, after);
                assert!(late <= MS(1) + after / 100, "{after:?} by {way:?} is late by {late:?}");
            }
        }
    }
}

#[test]
fn one_that_moves_to_a_later_time_is_a_write_to_memory() {
    let mut world = World::new();
    let (deadline, wakes) = (world.deadline(), Arc::<Wakes>::default());
    deadline.set_from(world.now, MS(50));
    assert!(poll(&deadline, &wakes).is_pending());
    let next = world.next();
    for ms in 1..50 {
        deadline.set_from(world.now + MS(ms), MS(50));
        assert_eq!(world.next(), next, "nothing is armed anew");
    }
    world.look(Duration::ZERO);
    assert_eq!(world.now - world.start, MS(50));
    assert!(wakes.take() == 1 && poll(&deadline, &wakes).is_pending(), "woken once for nothing");
    world.look(Duration::ZERO);
    assert_eq!(world.now - world.start, MS(99));
    assert!(wakes.take() == 1 && poll(&deadline, &wakes).is_ready());
}

#[test]
fn only_the_task_that_polled_last_is_woken_and_once() {
    let (mut world, first, last) = (World::new(), Arc::default(), Arc::default());
    let deadline = world.deadline();
    deadline.set(BY_TICKS_FROM);
    for wakes in [&first, &last, &last] {
        assert!(poll(&deadline, wakes).is_pending());
    }
    let ticks = (1..).find(|_| world.tick() && deadline.is_expired());
    assert_eq!(ticks, Some(302), "300 for its length, and two since the present tick may be nearly over");
    assert_eq!((first.take(), last.take()), (0, 1));
    world.tick();
    assert_eq!((first.take(), last.take()), (0, 0));
    // Once expired it stays so, however often it is polled.
    assert!(poll(&deadline, &first).is_ready() && poll(&deadline, &first).is_ready());
}

#[test]
fn the_looks_end_with_the_last_deadline_and_begin_anew() {
    let mut world = World::new();
    let (one, two) = (world.deadline(), world.deadline());
    assert!(!world.registry.start(world.reading()));
    one.set_from(world.now, MS(350));
    assert!(world.tick() && world.registry.reading().is_some());
    drop(one);
    assert!(world.tick());
    drop(two);
    assert!(!world.tick() && world.registry.reading().is_none());
    assert!(world.registry.start(world.reading()));
    let deadline = world.deadline();
    deadline.set_from(world.now, MS(3));
    world.look(Duration::ZERO);
    assert!(deadline.is_expired());
}

#[test]
fn endless_durations_never_expire() {
    let mut world = World::new();
    let deadline = world.deadline();
    let endless = [Duration::MAX, Duration::from_secs(u64::from(u32::MAX)), Duration::from_secs(1 << 40)];
    for endless in endless {
        deadline.set(endless);
        assert!((0..10).all(|_| world.tick() && !deadline.is_expired()));
        deadline.set_from(world.now, endless);
        assert!((0..10).all(|_| world.tick() && !deadline.is_expired()));
    }
    deadline.set_from(world.now, MS(1));
    world.look(Duration::ZERO);
    assert!(deadline.is_expired(), "one that was endless can be set to a time that comes");
}

#[test]
fn what_is_stale_takes_bounded_memory() {
    let mut world = World::new();
    let kept = world.deadline();
    for round in 0..10_000u64 {
        // Each is earlier than the one before, so each is written.
        kept.set_from(world.now, MS(20_000 - round));
        let gone = world.deadline();
        gone.set_from(world.now, MS(10));
    }
    assert!(world.registry.queued() < 100, "{}", world.registry.queued());
    world.look(Duration::ZERO);
    assert!(!kept.is_expired());
}

#[derive(Clone, Debug)]
enum Step {
    Insert,
    Remove(usize),
    Set(usize, Way, u64),
    Clear(usize),
    Look(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let way = prop_oneof![Just(Way::Ticks), Just(Way::From), Just(Way::At)];
    let step = prop_oneof![
        1 => Just(Step::Insert),
        1 => (0..8usize).prop_map(Step::Remove),
        4 => (0..8usize, way, 0..500u64).prop_map(|(at, way, ms)| Step::Set(at, way, ms)),
        1 => (0..8usize).prop_map(Step::Clear),
        6 => (0..3u64).prop_map(Step::Look),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Compared with a plain list of deadlines: each waiter is woken at the first look at which its deadline is due, or
    /// within 1 % of its length, and told that it has expired. Any other wake-up is for a time to which the deadline was set
    /// before it was moved or cleared.
    #[test]
    fn wakes_those_that_are_due(steps in steps()) {
        let mut world = World::new();
        let _keeps_the_looks = world.deadline();
        let mut model: Vec<Waiting> = Vec::new();
        for step in steps {
            match step {
                Step::Insert if model.len() < 8 => model.push(Waiting::on(&world)),
                Step::Remove(at) if at < model.len() => drop(model.remove(at)),
                Step::Set(at, way, ms) if at < model.len() => {
                    let after = if matches!(way, Way::Ticks) { BY_TICKS_FROM + MS(ms) } else { MS(ms) };
                    model[at].set(way, world.now, after);
                }
                Step::Clear(at) if at < model.len() => {
                    model[at].deadline.clear();
                    model[at].due = None;
                }
                Step::Look(late_ms) => {
                    world.look(MS(late_ms));
                    for waiting in &mut model {
                        waiting.is_looked_at(world.now)?;
                    }
                }
                _ => {}
            }
        }
    }
}

/// A deadline that a task polled when it was made, and again whenever it was woken too early.
struct Waiting {
    deadline: Deadline,
    wakes: Arc<Wakes>,
    /// When it is to expire, and by when at the latest.
    due: Option<(Instant, Instant)>,
    is_told: bool,
}

impl Waiting {
    fn on(world: &World) -> Self {
        let waiting = Self { deadline: world.deadline(), wakes: Arc::default(), due: None, is_told: false };
        assert!(poll(&waiting.deadline, &waiting.wakes).is_pending());
        waiting
    }

    fn set(&mut self, way: Way, now: Instant, after: Duration) {
        way.set(&self.deadline, now, after);
        // Looks of this test are up to 2 ms late. So are ticks, and the time that the registry knows is as old.
        self.due = Some((now + after, now + after + after / 100 + MS(3)));
        self.is_told = false;
    }

    fn is_looked_at(&mut self, now: Instant) -> Result<(), TestCaseError> {
        let is_woken = self.wakes.take() > 0;
        let is_expired = self.deadline.is_expired();
        prop_assert!(!is_expired || self.due.is_some_and(|(earliest, _)| earliest <= now), "early");
        self.is_told |= is_woken && is_expired;
        let is_late = self.due.is_some_and(|(_, latest)| latest < now);
        prop_assert!(self.is_told || !is_late, "nobody was told in time");
        if is_woken && !is_expired {
            prop_assert!(poll(&self.deadline, &self.wakes).is_pending());
        }
        Ok(())
    }
}
