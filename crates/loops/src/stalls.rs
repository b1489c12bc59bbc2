//! Loops that a task blocks: one thread of the process looks at all of them, and says so while it lasts.
//!
//! A loop cannot tell that it is blocked, and nothing that runs on it can. So a thread looks every [`LOOK_EVERY`] at the
//! number of each loop's turn, which the runtime counts anyway. The thread starts with the first loop and ends with the last.
//! It wakes no loop, and rests while all of them sleep; then the first that wakes up wakes the thread.
//!
//! What it has seen is exact to two looks: a shorter turn than that may go unseen.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::contained::contain;
use crate::shared::Shared;
use crate::work::Label;

/// Which turn a loop is in: between two sleeps, or between two looks at its sockets. The next one differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// How often the loop has fallen asleep or woken up: odd while it sleeps.
    pub(crate) sleeps: u64,
    /// The time that all turns before this one took.
    pub(crate) before: Duration,
}

impl Turn {
    fn is_asleep(self) -> bool {
        self.sleeps % 2 == 1
    }
}

/// What was seen of a loop.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// The turn that was seen last, and since when.
    turn: Option<(Turn, Instant)>,
    /// Turns that lasted too long.
    pub(crate) stalls: u64,
    pub(crate) longest_stall: Duration,
    /// The turn was counted.
    is_counted: bool,
    warned: Option<Instant>,
}

/// What a look at a loop has found.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// It has slept since the look before.
    Sleeps,
    /// It runs, or has run.
    Runs,
    /// It has been in one turn for so long, which is worth a warning.
    Stalls(Duration),
}

impl Watched {
    /// Looks at a loop that is in this turn. One that lasts for `limit` is a stall.
    fn look(&mut self, now: Instant, turn: Turn, limit: Duration) -> Seen {
        let Some((_, since)) = self.turn.filter(|(seen, _)| *seen == turn) else {
            self.turn = Some((turn, now));
            self.is_counted = false;
            return Seen::Runs;
        };
        if turn.is_asleep() {
            return Seen::Sleeps;
        }
        let lasts = now.saturating_duration_since(since);
        if lasts < limit {
            return Seen::Runs;
        }
        self.longest_stall = self.longest_stall.max(lasts);
        if !std::mem::replace(&mut self.is_counted, true) {
            self.stalls += 1;
        }
        if self.warned.is_some_and(|warned| now.saturating_duration_since(warned) < WARN_EVERY) {
            return Seen::Runs;
        }
        self.warned = Some(now);
        Seen::Stalls(lasts)
    }

    /// How long the loop has been in this turn, as far as that was seen. Nothing if it sleeps.
    pub(crate) fn lasts(&self, now: Instant, turn: Turn) -> Duration {
        let seen = self.turn.filter(|(seen, _)| *seen == turn && !turn.is_asleep());
        seen.map_or(Duration::ZERO, |(_, since)| now.saturating_duration_since(since))
    }
}

/// Watches a loop from now on. Called by its thread.
pub(crate) fn begin(shared: &Arc<Shared>) {
    let mut watch = lock();
    watch.loops.push(Arc::clone(shared));
    if watch.has_thread {
        drop(watch);
        return wake();
    }
    let started = thread::Builder::new().name("loops-watch".to_owned()).spawn(look_at_all);
    watch.has_thread = started.is_ok();
    drop(watch);
    if let Err(error) = started {
        tracing::warn!(%error, "no thread watches the loops: the system gave none; a blocked loop goes unseen");
    }
}

/// Watches a loop no more. Called by its thread.
pub(crate) fn end(shared: &Arc<Shared>) {
    lock().loops.retain(|one| !Arc::ptr_eq(one, shared));
    wake();
}

/// Called by a loop that has slept.
#[inline]
pub(crate) fn woken() {
    if RESTS.load(Relaxed) {
        wake();
    }
}

#[cold]
fn wake() {
    // Under the lock: the thread is before its look at the flag, or asleep.
    let _watch = lock();
    RESTS.store(false, Relaxed);
    CHANGED.notify_one();
}

/// The thread.
fn look_at_all() {
    let mut quiet_looks = 0;
    while let Some(all_sleep) = look_at_each() {
        if !all_sleep {
            quiet_looks = 0;
            RESTS.store(false, Relaxed);
        }
        quiet_looks += 1;
        match quiet_looks {
            ..QUIET_LOOKS => drop(CHANGED.wait_timeout(lock(), LOOK_EVERY)),
            QUIET_LOOKS => {
                // One more look behind it: a loop that wakes up at this very moment may not have seen it.
                RESTS.store(true, Relaxed);
                fence(SeqCst);
            }
            _ => {
                // If a loop sees it too late nevertheless, the rest ends soon.
                drop(CHANGED.wait_timeout_while(lock(), REST_MAX, |_| RESTS.load(Relaxed)));
                RESTS.store(false, Relaxed);
                quiet_looks = QUIET_LOOKS - 1;
            }
        }
    }
}

/// Looks once. Whether all loops have slept since the look before; nothing if there are no loops, and no thread any more.
fn look_at_each() -> Option<bool> {
    let loops = {
        let mut watch = lock();
        if watch.loops.is_empty() {
            watch.has_thread = false;
            return None;
        }
        watch.loops.clone()
    };
    let now = Instant::now();
    let mut all_sleep = true;
    for one in loops {
        let seen = one.look(now);
        all_sleep &= seen == Seen::Sleeps;
        if let Seen::Stalls(lasts) = seen {
            warn(&one, one.work.label(), lasts);
        }
    }
    Some(all_sleep)
}

fn warn(one: &Shared, label: Label, lasts: Duration) {
    let (loop_id, blocked_ms) = (one.id, lasts.as_millis() as u64);
    // The subscriber is code of a user.
    let _ = contain("a subscriber", || match label.name() {
        Some(route) => tracing::warn!(
            %loop_id,
            %route,
            blocked_ms,
            "a handler blocks its loop, and all other connections of the loop wait; \
             let spawn_blocking do what blocks or computes for long"
        ),
        None => tracing::warn!(
            %loop_id,
            blocked_ms,
            "a task blocks its loop, and all other tasks of the loop wait; \
             let spawn_blocking do what blocks or computes for long"
        ),
    });
}

impl Shared {
    fn look(&self, now: Instant) -> Seen {
        let mut watched = self.watched();
        match self.turn() {
            Some(turn) => watched.look(now, turn, self.stall_after),
            None => Seen::Sleeps,
        }
    }
}

/// The loops of the process that are watched.
struct Watch {
    loops: Vec<Arc<Shared>>,
    has_thread: bool,
}

fn lock() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { loops: Vec::new(), has_thread: false });
/// Ends the wait of the thread.
static CHANGED: Condvar = Condvar::new();
/// The thread waits until a loop wakes up.
static RESTS: AtomicBool = AtomicBool::new(false);

/// The time between two looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(25);
/// The least time between two warnings of one loop.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Looks in a row at sleeping loops before the thread rests.
const QUIET_LOOKS: u32 = 8;
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    /// A loop, and looks at it every 25 ms.
    struct Scene {
        watched: Watched,
        now: Instant,
        turn: Turn,
    }

    impl Scene {
        fn new() -> Self {
            let turn = Turn { sleeps: 1, before: Duration::ZERO };
            Self { watched: Watched::default(), now: Instant::now(), turn }
        }

        fn look(&mut self) -> Seen {
            self.now += LOOK_EVERY;
            self.watched.look(self.now, self.turn, LIMIT)
        }

        /// So many looks within one turn, and what they find.
        fn turn(&mut self, looks: u32) -> Vec<Seen> {
            self.turn.sleeps += 1;
            let seen = (0..looks).map(|_| self.look()).collect();
            self.turn.sleeps += 1;
            self.turn.before += LOOK_EVERY * looks;
            seen
        }
    }

    #[test]
    fn a_stall_is_warned_of_while_it_lasts_and_once_a_minute() {
        let mut scene = Scene::new();
        let seen = scene.turn(100);
        let first = seen.iter().position(|seen| matches!(seen, Seen::Stalls(_)));
        assert_eq!(
            (first, &seen[4]),
            (Some(4), &Seen::Stalls(LIMIT)),
            "not at once, and not when it is over"
        );
        assert!(seen[5..].iter().all(|seen| *seen == Seen::Runs), "only once");
        let warnings = |seen: Vec<Seen>| seen.iter().filter(|seen| matches!(seen, Seen::Stalls(_))).count();
        assert_eq!(warnings(scene.turn(100)), 0, "within the minute another one is not warned of");
        assert_eq!(warnings(scene.turn(60 * 40)), 1);
        assert_eq!((scene.watched.stalls, scene.watched.longest_stall), (3, LOOK_EVERY * (60 * 40 - 1)));
    }

    #[test]
    fn many_short_turns_are_no_stall() {
        let mut scene = Scene::new();
        for _ in 0..1000 {
            assert!(scene.turn(4).iter().all(|seen| *seen == Seen::Runs));
        }
        // A loop that never sleeps has turns, too.
        scene.turn.sleeps = 0;
        for _ in 0..1000 {
            scene.turn.before += LOOK_EVERY;
            assert_eq!(scene.look(), Seen::Runs);
        }
        assert_eq!((scene.watched.stalls, scene.watched.longest_stall), (0, Duration::ZERO));
    }

    #[test]
    fn a_loop_that_sleeps_for_long_is_no_stall() {
        let mut scene = Scene::new();
        assert_eq!(scene.look(), Seen::Runs, "it is new");
        for _ in 0..1000 {
            assert_eq!(scene.look(), Seen::Sleeps);
        }
        assert_eq!(scene.watched.lasts(scene.now, scene.turn), Duration::ZERO);
    }

    #[test]
    fn a_turn_under_way_counts_as_far_as_it_was_seen() {
        let mut scene = Scene::new();
        scene.turn.sleeps += 1;
        scene.look();
        scene.look();
        assert_eq!(scene.watched.lasts(scene.now, scene.turn), LOOK_EVERY);
        let next = Turn { before: LOOK_EVERY, ..scene.turn };
        assert_eq!(scene.watched.lasts(scene.now, next), Duration::ZERO, "it is another one");
    }
}
