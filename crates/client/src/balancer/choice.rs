//! Which of several addresses is next.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

use super::health::{FULL, Health};
use crate::balancer::balance::Rule;

/// What is chosen from.
pub(super) trait Choosable {
    /// 0 is the first one.
    fn priority(&self) -> usize;
    fn health(&self) -> &Health;
    /// Calls in flight and waiting.
    fn load(&self) -> usize;
}

/// Chooses by a rule, among the healthy ones of the first priority that has any.
#[derive(Debug)]
pub(super) struct Chooser {
    rule: Rule,
    turn: Cell<usize>,
    random: Cell<u64>,
}

impl Chooser {
    pub(super) fn new(rule: Rule) -> Self {
        // Loops that begin at one time are not to choose alike.
        let seed = RandomState::new().hash_one(rule as u8);
        Self { rule, turn: Cell::new(seed as usize), random: Cell::new(seed | 1) }
    }

    /// An address, or none if there is none. If all are out, any of them may be chosen.
    pub(super) fn choose<'a, C: Choosable>(&self, all: &'a [C], now: Instant) -> Option<&'a C> {
        let candidates = Self::candidates(all, now);
        let count = candidates.clone().count();
        let nth = |at: usize| candidates.clone().nth(at);
        match (count, self.rule) {
            (0, _) => None,
            (1, _) => nth(0),
            (_, Rule::RoundRobin) => {
                // An address that comes back slowly is passed over now and then, but not for ever.
                let next = |_| {
                    let turn = self.turn.get();
                    self.turn.set(turn.wrapping_add(1));
                    nth(turn % count)
                };
                let takes = |one: &&C| {
                    let weight = one.health().weight(now);
                    weight == FULL || self.below(FULL as usize) < weight as usize
                };
                (0..count).filter_map(next).find(takes).or_else(|| next(0))
            }
            (_, Rule::LeastOfTwo) => {
                let first = self.below(count);
                let second = (first + 1 + self.below(count - 1)) % count;
                let (first, second) = (nth(first)?, nth(second)?);
                // Calls in flight for each part of the weight. This one counts, too: so one that is slow has its part.
                let burden = |one: &C| (one.load() as u64 + 1) * u64::from(FULL);
                let weight = |one: &C| u64::from(one.health().weight(now));
                let is_lighter = burden(second) * weight(first) < burden(first) * weight(second);
                Some(if is_lighter { second } else { first })
            }
        }
    }

    /// What is chosen from: the healthy ones of the first priority that has any, or all if all are out.
    pub(super) fn candidates<C: Choosable>(all: &[C], now: Instant) -> impl Iterator<Item = &C> + Clone {
        let is_healthy = move |one: &C| !one.health().is_out(now);
        let first = all.iter().filter(|one| is_healthy(one)).map(C::priority).min();
        all.iter().filter(move |one| first.is_none_or(|first| one.priority() == first && is_healthy(one)))
    }

    /// A random number below `bound` (xorshift64).
    fn below(&self, bound: usize) -> usize {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        (random >> 16) as usize % bound
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anywire_loops::clock;

    use super::*;
    use crate::balancer::balance::HealthOptions;

    struct One {
        name: usize,
        priority: usize,
        health: Health,
        load: usize,
    }

    impl Choosable for One {
        fn priority(&self) -> usize {
            self.priority
        }
        fn health(&self) -> &Health {
            &self.health
        }
        fn load(&self) -> usize {
            self.load
        }
    }

    fn those(loads: &[usize]) -> Vec<One> {
        let options = HealthOptions {
            eject_after: 1,
            eject_for: Duration::from_secs(5),
            slow_start: Duration::from_secs(10),
            statuses: crate::balancer::balance::Statuses::default(),
        };
        let one = |(name, &load)| One { name, priority: 0, health: Health::new(options), load };
        loads.iter().enumerate().map(one).collect()
    }

    /// How often each of them is chosen.
    fn chosen(chooser: &Chooser, all: &[One], times: usize, now: Instant) -> Vec<usize> {
        let mut counts = vec![0; all.len()];
        for _ in 0..times {
            counts[chooser.choose(all, now).expect("there is one").name] += 1;
        }
        counts
    }

    #[test]
    fn one_after_the_other() {
        let (all, now) = (those(&[0, 9, 3]), clock::precise());
        assert_eq!(chosen(&Chooser::new(Rule::RoundRobin), &all, 30, now), [10, 10, 10]);
    }

    #[test]
    fn the_busier_one_of_two_is_not_chosen() {
        let (chooser, now) = (Chooser::new(Rule::LeastOfTwo), clock::precise());
        assert_eq!(chosen(&chooser, &those(&[5, 4]), 20, now), [0, 20]);
        let counts = chosen(&chooser, &those(&[1, 1, 7]), 100, now);
        assert!(counts[2] == 0 && counts[0] > 0 && counts[1] > 0, "{counts:?}");
    }

    #[test]
    fn one_that_is_out_is_not_chosen_unless_all_are() {
        let now = clock::precise();
        for rule in [Rule::RoundRobin, Rule::LeastOfTwo] {
            let (chooser, all) = (Chooser::new(rule), those(&[0, 0]));
            all[0].health.failed(now);
            assert_eq!(chosen(&chooser, &all, 10, now), [0, 10]);
            all[1].health.failed(now);
            assert!(chooser.choose(&all, now).is_some());
        }
        assert!(Chooser::new(Rule::RoundRobin).choose::<One>(&[], now).is_none());
    }

    #[test]
    fn the_second_priority_is_for_when_the_first_is_out() {
        let now = clock::precise();
        let (chooser, mut all) = (Chooser::new(Rule::RoundRobin), those(&[9, 9, 0]));
        all[2].priority = 1;
        assert_eq!(chosen(&chooser, &all, 10, now), [5, 5, 0]);
        all[0].health.failed(now);
        assert_eq!(chosen(&chooser, &all, 10, now), [0, 10, 0]);
        all[1].health.failed(now);
        assert_eq!(chosen(&chooser, &all, 10, now), [0, 0, 10]);
    }

    #[test]
    fn one_that_comes_back_gets_few_calls_at_first() {
        let now = clock::precise();
        for rule in [Rule::RoundRobin, Rule::LeastOfTwo] {
            let (chooser, all) = (Chooser::new(rule), those(&[1, 1]));
            all[0].health.failed(now);
            let counts = chosen(&chooser, &all, 200, now + Duration::from_secs(5));
            assert!(counts[0] < 60, "{rule:?}: {counts:?}");
        }
    }
}
