//! Work that comes without a wake-up, so that a loop has to look for it itself.
//!
//! Bytes in shared memory, or frames in the ring of a device, raise no event that tokio could wait for. While a loop is awake
//! that is an advantage: whoever brings them makes no system call. So a loop does three things for each [`Source`]:
//! - **Before it sleeps** it has the source announce that, so that the next work comes with a wake-up.
//! - **If the source asks for it**, it does not sleep at once but looks for work for a while. It does so in a task of its own,
//!   so that other tasks, and each 61 polls timers and sockets, have their turns.
//! - **If it has so much to do that it never sleeps**, it looks every millisecond, for as long as somebody waits.
//!
//! Each question for a look holds for that look alone, so a source that asks for a long one leaves later ones their short ones. How
//! long a look is adapts itself: the time is halved if it passes in vain, down to a sixteenth of what was asked for, and grows
//! again when work comes that a longer look would have found.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::hint::spin_loop;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep_until};

use crate::contained::contain;
use crate::context::Local;

/// Where work comes from that raises no event. All calls are made on the loop.
pub trait Source {
    /// Looks for work, and wakes the tasks that wait for it. Returns whether there was some. Called very often, so it costs a
    /// few loads.
    fn look(&self) -> bool;

    /// The loop is about to sleep: whoever brings work from now on has to wake it, by something that tokio waits for.
    ///
    /// Announces that first, and then looks once more. Without this look, work that came just before the announcement would
    /// wait until something else wakes the loop.
    fn prepare_to_sleep(&self);
}

/// Adds a source to the present loop, for as long as the returned value lives.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::task::Waker;
/// use std::time::Duration;
///
/// /// Has work at the tenth look.
/// #[derive(Default)]
/// struct Tenth { looks: Cell<u32>, waiting: Cell<Option<Waker>> }
///
/// impl anywire_loops::Source for Tenth {
///     fn look(&self) -> bool {
///         self.looks.set(self.looks.get() + 1);
///         let task = self.waiting.take().filter(|_| self.looks.get() >= 10);
///         task.map(Waker::wake).is_some()
///     }
///     fn prepare_to_sleep(&self) {}
/// }
///
/// let loops = anywire_loops::Loops::start(1)?;
/// loops.get(0).spawn(|| async {
///     let source = Rc::new(Tenth::default());
///     let added = anywire_loops::add_source(source.clone());
///     std::future::poll_fn(|cx| {
///         if source.looks.get() >= 10 {
///             return std::task::Poll::Ready(());
///         }
///         source.waiting.set(Some(cx.waker().clone()));
///         added.spin(Duration::from_secs(1));
///         std::task::Poll::Pending
///     }).await;
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If the caller does not run on a loop.
#[track_caller]
pub fn add_source(source: Rc<dyn Source>) -> AddedSource {
    Local::with(|local| {
        let sources = local.sources();
        let id = sources.next_id.replace(sources.next_id.get() + 1);
        sources.list.borrow_mut().push((id, source));
        AddedSource { id, local: Rc::downgrade(local) }
    })
}

/// A source that is looked at by its loop. Dropping this removes it.
#[must_use = "the source is removed when this is dropped"]
pub struct AddedSource {
    id: u64,
    local: Weak<Local>,
}

impl AddedSource {
    /// Somebody waits for work: the loop looks for it for about so long before it sleeps, and less if that was in vain before. With a time
    /// of zero it sleeps at once. Either way it looks now and then if it never sleeps. Costs a few writes to memory if the loop looks already.
    #[inline]
    pub fn spin(&self, longest: Duration) {
        if let Some(local) = self.local.upgrade() {
            local.sources().spin(&local, longest);
        }
    }
}

impl Drop for AddedSource {
    fn drop(&mut self) {
        let Some(local) = self.local.upgrade() else { return };
        let mut list = local.sources().list.borrow_mut();
        let place = list.binary_search_by_key(&self.id, |(id, _)| *id);
        let removed = place.map(|place| list.remove(place));
        // Its destructor may come back here.
        drop(list);
        drop(removed);
    }
}

impl fmt::Debug for AddedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddedSource").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The sources of one loop.
#[derive(Default)]
pub(crate) struct Sources {
    /// By their numbers, which grow.
    list: RefCell<Vec<(u64, Rc<dyn Source>)>>,
    next_id: Cell<u64>,
    spinner: Spinner,
    lookout: Lookout,
}

/// The state of the task that looks for work while the loop has too much to do to sleep.
#[derive(Default)]
struct Lookout {
    /// Somebody waits, and the loop has not slept since.
    is_wanted: Cell<bool>,
    /// There is a task.
    exists: Cell<bool>,
    rests: Cell<bool>,
    /// Wakes the task when it rests.
    waker: RefCell<Option<Waker>>,
}

/// The state of the task that looks for work.
#[derive(Default)]
struct Spinner {
    state: Cell<State>,
    /// Wakes the task when it rests.
    waker: RefCell<Option<Waker>>,
    /// The longest look that was asked for since the task looked at the clock.
    asked: Cell<Duration>,
    /// The length that was asked for last.
    length: Cell<Duration>,
    /// A look is so often the half of what was asked for.
    halvings: Cell<u32>,
    /// Work was found since the task looked at the clock.
    has_found: Cell<bool>,
    /// When it began to look in vain.
    since: Cell<Option<Instant>>,
    /// Until when it looks in vain.
    until: Cell<Option<Instant>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// There is no task yet.
    #[default]
    New,
    /// The task waits to be woken.
    Rests,
    Spins,
}

impl Sources {
    /// Called right before the loop sleeps.
    pub(crate) fn prepare_to_sleep(&self) {
        self.lookout.is_wanted.set(false);
        self.each(|source| {
            source.prepare_to_sleep();
            false
        });
    }

    #[inline]
    fn spin(&self, local: &Rc<Local>, longest: Duration) {
        let spinner = &self.spinner;
        spinner.asked.set(spinner.asked.get().max(longest));
        if spinner.state.get() != State::Spins && !longest.is_zero() {
            self.start(local, longest);
        }
        if !self.lookout.is_wanted.replace(true) {
            self.start_lookout(local);
        }
    }

    #[cold]
    fn start(&self, local: &Rc<Local>, longest: Duration) {
        let spinner = &self.spinner;
        if spinner.state.replace(State::Spins) == State::New {
            let local = Rc::downgrade(local);
            // Past the loop's own spawn, which counts tasks: the loop does not wait for it when it ends.
            drop(tokio::task::spawn_local(poll_fn(move |cx| match local.upgrade() {
                Some(local) => local.sources().poll_spinner(&local, cx),
                None => Poll::Ready(()),
            })));
        } else if let Some(waker) = spinner.waker.take() {
            spinner.began_anew(longest, Instant::now());
            waker.wake();
        }
    }

    #[cold]
    fn start_lookout(&self, local: &Rc<Local>) {
        if !self.lookout.exists.replace(true) {
            let (local, mut pause) = (Rc::downgrade(local), None);
            // As the task that spins.
            drop(tokio::task::spawn_local(poll_fn(move |cx| match local.upgrade() {
                Some(local) => local.sources().poll_lookout(&mut pause, cx),
                None => Poll::Ready(()),
            })));
        } else if let Some(waker) = self.lookout.waker.take() {
            waker.wake();
        }
    }

    /// Looks after each pause, until the loop has slept. An idle loop is woken once by that: setting the timer back would cost more.
    fn poll_lookout(&self, pause: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
        let next = || tokio::time::Instant::now() + LOOKOUT_EVERY;
        let pause = pause.get_or_insert_with(|| Box::pin(sleep_until(next())));
        if self.lookout.rests.replace(false) {
            pause.as_mut().reset(next());
        }
        loop {
            ready!(pause.as_mut().poll(cx));
            if !self.lookout.is_wanted.get() {
                self.lookout.rests.set(true);
                *self.lookout.waker.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            self.each(|source| source.look());
            pause.as_mut().reset(next());
        }
    }

    /// One turn: a few looks. Then other tasks have theirs.
    fn poll_spinner(&self, local: &Local, cx: &Context<'_>) -> Poll<()> {
        let spinner = &self.spinner;
        for _ in 0..LOOKS_A_TURN {
            if self.each(|source| source.look()) {
                spinner.has_found.set(true);
                break;
            }
            if local.shared().inbox.is_pending() {
                break;
            }
            spin_loop();
        }
        // As after each poll of a task. The loop stays awake, so hand-overs need no wake-up.
        local.after_poll();
        if !spinner.goes_on(Instant::now()) {
            local.shared().counts.spins_in_vain.add(1);
            *spinner.waker.borrow_mut() = Some(cx.waker().clone());
            spinner.state.set(State::Rests);
            return Poll::Pending;
        }
        local.shared().counts.spins.add(1);
        // Straight back into the loop's queue. A deferred wake-up would cost a look at the sockets each time.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Asks all sources in turn, and says whether one says so: one that always does hides no other. A panic of one is counted and logged.
    fn each(&self, mut ask: impl FnMut(&dyn Source) -> bool) -> bool {
        let (mut place, mut from, mut any) = (0, 0, false);
        loop {
            // Not under the borrow: asking may run code of users, which may add or remove sources.
            let next = {
                let list = self.list.borrow();
                place = place_of(from, place, list.len(), |at| list[at].0);
                list.get(place).cloned()
            };
            let Some((id, source)) = next else { return any };
            any |= contain("a source", || ask(&*source)) == Ok(true);
            (place, from) = (place + 1, id + 1);
        }
    }
}

/// The place of the first source with this number or a later one. It was at `place` before some were removed, which shifts the places of all
/// behind them: a source that is left out sleeps on. So a round over all sources costs a step for each of them and for each that was removed.
fn place_of(from: u64, place: usize, sources: usize, number_at: impl Fn(usize) -> u64) -> usize {
    let mut place = place.min(sources);
    while place > 0 && number_at(place - 1) >= from {
        place -= 1;
    }
    place
}

impl Spinner {
    /// Whether it looks on.
    fn goes_on(&self, now: Instant) -> bool {
        let asked = self.asked.take();
        if self.has_found.replace(false) || !asked.is_zero() {
            if !asked.is_zero() {
                self.length.set(asked);
            }
            // Somebody else's longer look may go on.
            let look = self.length.get() / (1 << self.halvings.get());
            self.until.set(self.until.get().max(Some(now + look.min(LOOK_MAX))));
            self.since.set(Some(now));
            return true;
        }
        if self.until.get().is_some_and(|until| now < until) {
            return true;
        }
        self.halvings.set((self.halvings.get() + 1).min(HALVINGS_MAX));
        false
    }

    /// A look is asked for after it had given up.
    fn began_anew(&self, asked: Duration, now: Instant) {
        if self.since.get().is_some_and(|since| now.duration_since(since) < asked) {
            self.halvings.set(self.halvings.get().saturating_sub(2));
        }
    }
}

/// Between two looks of a loop that never sleeps.
const LOOKOUT_EVERY: Duration = Duration::from_millis(1);
/// Fewer than a microsecond's worth, so that other tasks hardly wait.
const LOOKS_A_TURN: usize = 16;
/// The least that it looks is a sixteenth of what was asked for.
const HALVINGS_MAX: u32 = 4;
/// A day: longer looks are cut to it, so that adding them to the present time cannot overflow.
const LOOK_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a spinner looks in vain that is asked for a look of this length now, in microseconds.
    fn look(spinner: &Spinner, now: &mut Instant, length_us: u64) -> u128 {
        let asked = Duration::from_micros(length_us);
        spinner.began_anew(asked, *now);
        spinner.asked.set(asked);
        let began = *now;
        while spinner.goes_on(*now) {
            *now += Duration::from_micros(1);
        }
        (*now - began).as_micros()
    }

    #[test]
    fn a_round_over_many_sources_takes_a_step_for_each() {
        const SOURCES: u64 = 10_000;
        let (mut numbers, steps) = ((0..SOURCES).collect::<Vec<_>>(), Cell::new(0_u64));
        let (mut place, mut from, mut asked) = (0, 0, 0);
        loop {
            place = place_of(from, place, numbers.len(), |at| {
                steps.set(steps.get() + 1);
                numbers[at]
            });
            let Some(&number) = numbers.get(place) else { break };
            assert_eq!(number, from, "none is left out");
            asked += 1;
            (place, from) = (place + 1, number + 1);
            // Each tenth removes itself and, if it is there, the one before.
            if number % 10 == 9 {
                numbers.retain(|&other| other + 1 != number && other != number);
            }
        }
        assert_eq!(asked, SOURCES);
        assert!(steps.get() <= 2 * SOURCES, "{} steps", steps.get());
    }

    #[test]
    fn a_look_in_vain_is_half_as_long_the_next_time_and_one_that_is_missed_longer() {
        let (spinner, mut now) = (Spinner::default(), Instant::now());
        let mut rest = |spinner: &Spinner, rest_us, length_us| {
            now += Duration::from_micros(rest_us);
            look(spinner, &mut now, length_us)
        };
        let in_vain = [160, 80, 40, 20, 10, 10];
        assert_eq!(in_vain.map(|_| rest(&spinner, 1000, 160)), in_vain);
        // Work came 100 us after it had begun to look: not after the first 10, but within what was asked for.
        assert_eq!([90, 90, 10].map(|after| rest(&spinner, after, 160)), [40, 80, 160]);
    }

    #[test]
    fn a_long_look_leaves_later_ones_short() {
        let (spinner, mut now) = (Spinner::default(), Instant::now());
        let in_vain = [20, 10, 5, 3, 2].map(|_| {
            now += Duration::from_secs(1);
            look(&spinner, &mut now, 20)
        });
        now += Duration::from_secs(1);
        assert_eq!(look(&spinner, &mut now, 160_000), 10_000);
        for _ in 0..3 {
            now += Duration::from_secs(1);
            assert_eq!(look(&spinner, &mut now, 20), in_vain[4]);
        }
    }

    #[test]
    fn an_endless_look_goes_on() {
        let (spinner, began) = (Spinner::default(), Instant::now());
        spinner.asked.set(Duration::MAX);
        assert!(spinner.goes_on(began) && spinner.goes_on(began + Duration::from_secs(3600)));
    }

    #[test]
    fn a_short_look_does_not_end_a_long_one() {
        let (spinner, began) = (Spinner::default(), Instant::now());
        let at = |us| began + Duration::from_micros(us);
        spinner.asked.set(Duration::from_micros(1000));
        assert!(spinner.goes_on(began));
        spinner.asked.set(Duration::from_micros(20));
        assert!(spinner.goes_on(at(500)) && spinner.goes_on(at(999)) && !spinner.goes_on(at(1000)));
    }

    #[test]
    fn work_that_is_found_prolongs_the_look_by_what_was_asked_for_last() {
        let (spinner, began) = (Spinner::default(), Instant::now());
        let at = |us| began + Duration::from_micros(us);
        spinner.asked.set(Duration::from_micros(20));
        assert!(spinner.goes_on(began));
        spinner.has_found.set(true);
        assert!(spinner.goes_on(at(19)) && spinner.goes_on(at(38)) && !spinner.goes_on(at(39)));
    }
}
