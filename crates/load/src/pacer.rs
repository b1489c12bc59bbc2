//! When each request of a schedule is due: time in, numbers out. It reads no clock and sends nothing.
//!
//! The time of a request follows from its number, and not from when the one before it left. So a late request delays no other,
//! and nothing adds up over a run of hours. Times are whole nanoseconds from the begin.
//!
//! A schedule is shared by loops, and by machines, without a word between them: the requests of all are numbered in turn, like cards
//! that are dealt, and each [`Pacer`] has the numbers of its own connections. Even gaps stay even, and no two of them are
//! due at the same time. Poisson's arrivals are drawn by each pacer for itself, because the sum of such processes is one too.

use std::cell::Cell;
use std::time::Duration;

use crate::schedule::{Gaps, Schedule, Stretch};

/// One part of a schedule: which requests are due when.
///
/// ```
/// use std::time::Duration;
/// use anywire_load::{Pacer, Part, Schedule};
///
/// let pacer = Pacer::new(&Schedule::constant(1000.0), Duration::from_secs(1), Part::whole());
/// assert_eq!(pacer.intended(3), Duration::from_millis(3));
/// // Those with the numbers 0 to 3.
/// assert_eq!(pacer.due(Duration::from_millis(3)), 4);
/// ```
#[derive(Debug, Clone)]
pub struct Pacer {
    stretches: Box<[Stretch]>,
    gaps: Gaps,
    /// Of this part alone.
    seed: u64,
    part: Part,
    /// Where the last question about Poisson's arrivals ended: the next one is mostly a little later.
    last: Cell<Arrival>,
}

/// Which requests of a schedule belong to a pacer: of each `of` in a row, those at these places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    places: Box<[u32]>,
    of: u32,
}

/// One request of a part: its number there, and when it is due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// Its number in the part, from 0 up.
    pub number: u64,
    /// When it is due, from the begin.
    pub at: Duration,
    /// For Poisson: the sum of the gaps up to it, in units of their mean.
    sum: f64,
}

impl Part {
    /// All requests.
    pub fn whole() -> Self {
        Self { places: Box::default(), of: 0 }
    }

    /// Of `of` connections those of one loop, or machine: `first`, and then each `step`th.
    pub fn every(step: usize, first: usize, of: usize) -> Self {
        Self::at((first..of).step_by(step.max(1)), of)
    }

    /// Those at these places of `of`, which rise.
    pub fn at(places: impl Iterator<Item = usize>, of: usize) -> Self {
        let of = u32::try_from(of).unwrap_or(u32::MAX);
        let places = places.map_while(|place| u32::try_from(place).ok()).filter(|place| *place < of);
        Self { places: places.collect(), of }
    }

    fn is_whole(&self) -> bool {
        self.of == 0
    }

    /// Whether it has no request at all.
    pub fn is_empty(&self) -> bool {
        !self.is_whole() && self.places.is_empty()
    }

    /// The number in the schedule of one of this part. Beyond the largest number there is none that is due.
    fn in_schedule(&self, number: u64) -> u64 {
        if self.is_whole() {
            return number;
        }
        let own = self.places.len() as u64;
        let (Some(round), Some(place)) = (number.checked_div(own), number.checked_rem(own)) else {
            return u64::MAX;
        };
        round.saturating_mul(u64::from(self.of)).saturating_add(u64::from(self.places[place as usize]))
    }

    /// How many of the first `count` requests of the schedule are in this part.
    pub fn among(&self, count: u64) -> u64 {
        if self.is_whole() {
            return count;
        }
        let (rounds, rest) = (count / u64::from(self.of), count % u64::from(self.of));
        let within = self.places.partition_point(|place| u64::from(*place) < rest) as u64;
        // At most `count`, because there are at most `of` places.
        rounds * self.places.len() as u64 + within
    }

    /// Its share of the rate.
    fn share(&self) -> f64 {
        if self.is_whole() { 1.0 } else { self.places.len() as f64 / f64::from(self.of) }
    }
}

impl Pacer {
    /// A time that no run reaches: ten years. An `Instant` can be that much later without a panic.
    pub const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

    /// Of a schedule whose measured part takes so long.
    pub fn new(schedule: &Schedule, time: Duration, part: Part) -> Self {
        let seed = mixed(schedule.seed ^ mixed(u64::from(part.places.first().copied().unwrap_or_default())));
        let mut pacer = Self {
            stretches: schedule.shape.stretches(time).into(),
            gaps: schedule.gaps,
            // Jitter is drawn by the number in the schedule, so that parts and whole agree.
            seed: if schedule.gaps == Gaps::Poisson { seed } else { schedule.seed },
            part,
            last: Cell::new(Arrival { number: 0, at: Duration::MAX, sum: 0.0 }),
        };
        pacer.last = Cell::new(pacer.first());
        pacer
    }

    /// How many requests are due at `now` or before; none is at [`Pacer::NEVER`].
    pub fn due(&self, now: Duration) -> u64 {
        if self.part.is_empty() {
            return 0;
        }
        let now = now.min(Self::NEVER - Duration::from_nanos(1));
        if self.gaps == Gaps::Poisson {
            let mut one = self.nearest(|last| last.at <= now);
            while one.at <= now {
                one = self.after(&one);
            }
            self.last.set(one);
            return one.number;
        }
        let seconds = now.as_secs_f64();
        let stretch = self.stretches.partition_point(|one| one.begins <= seconds).saturating_sub(1);
        // In floating point, so that it may be one off: the times themselves decide.
        let guess = self.part.among(self.stretches[stretch].due(seconds) as u64);
        first_without(guess, |number| self.closed(number) <= now)
    }

    /// The first of `one` and those after it that is due later than `now`. With Poisson's gaps it costs as much as going through all
    /// between, with others a few looks.
    pub(crate) fn first_after(&self, now: Duration, one: &Arrival) -> Arrival {
        if self.gaps != Gaps::Poisson {
            let number = self.due(now).max(one.number);
            return Arrival { number, at: self.closed(number), sum: one.sum };
        }
        let mut one = *one;
        while one.at <= now && one.at < Self::NEVER {
            one = self.after(&one);
        }
        one
    }

    /// Whether each time follows from its number alone.
    pub(crate) fn is_closed(&self) -> bool {
        self.gaps != Gaps::Poisson
    }

    /// When a request is due, by its number. A time that no clock reaches is [`Pacer::NEVER`].
    pub fn intended(&self, number: u64) -> Duration {
        if self.gaps != Gaps::Poisson {
            return self.closed(number);
        }
        let mut one = self.nearest(|last| last.number <= number);
        while one.number < number && one.at < Self::NEVER {
            one = self.after(&one);
        }
        self.last.set(one);
        one.at
    }

    /// The first request.
    pub fn first(&self) -> Arrival {
        self.after_sum(0, 0.0)
    }

    /// The one after another. The cheapest way to go through them in order.
    pub fn after(&self, one: &Arrival) -> Arrival {
        self.after_sum(one.number.saturating_add(1), one.sum)
    }

    /// The one that is so many behind another.
    pub(crate) fn skip(&self, one: &Arrival, count: u64) -> Arrival {
        if self.is_closed() {
            let number = one.number.saturating_add(count);
            return Arrival { number, at: self.closed(number), sum: one.sum };
        }
        (0..count).fold(*one, |one, _| self.after(&one))
    }

    /// Of these requests of the schedule, those of this part.
    pub fn among(&self, count: u64) -> u64 {
        self.part.among(count)
    }

    fn after_sum(&self, number: u64, sum: f64) -> Arrival {
        if self.gaps != Gaps::Poisson {
            return Arrival { number, at: self.closed(number), sum };
        }
        if self.part.is_empty() {
            return Arrival { number, at: Self::NEVER, sum };
        }
        // From above 0 to 1, so that the logarithm is finite.
        let sum = sum - (1.0 - self.random(number)).ln();
        Arrival { number, at: self.when(sum / self.part.share()), sum }
    }

    /// The time of one that depends on its number alone.
    fn closed(&self, number: u64) -> Duration {
        let in_schedule = self.part.in_schedule(number);
        if in_schedule == u64::MAX {
            return Self::NEVER;
        }
        let within = if self.gaps == Gaps::Jitter { self.random(in_schedule) } else { 0.0 };
        self.when(in_schedule as f64 + within)
    }

    /// When so many requests of the whole schedule are due.
    fn when(&self, due: f64) -> Duration {
        let stretch = self.stretches.partition_point(|one| one.before <= due).saturating_sub(1);
        let nanoseconds = self.stretches[stretch].when(due) * 1e9;
        // The cast goes to the nearest number that there is.
        Duration::from_nanos(nanoseconds as u64).min(Self::NEVER)
    }

    /// From 0 up to, not including, 1; always the same for a number.
    fn random(&self, number: u64) -> f64 {
        (mixed(self.seed ^ mixed(number)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Where to begin to look, which must not lie behind what is looked for.
    fn nearest(&self, is_before: impl Fn(&Arrival) -> bool) -> Arrival {
        let last = self.last.get();
        if is_before(&last) { last } else { self.first() }
    }
}

/// The first number for which something is not so that is so for all below it, and for none above; most likely near `guess`.
fn first_without(guess: u64, is_so: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high, mut step) = (guess, guess, 1_u64);
    while low > 0 && !is_so(low - 1) {
        (high, low, step) = (low - 1, low.saturating_sub(step), step.saturating_mul(2));
    }
    if low == guess {
        step = 1;
        while high < u64::MAX && is_so(high) {
            (low, high, step) = (high + 1, high.saturating_add(step), step.saturating_mul(2));
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_so(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Spreads a number over all bits: one step of SplitMix64.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
