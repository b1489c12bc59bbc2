//! What is due is counted and shed without going through all of it: a loop that does so for seconds takes no answer meanwhile.

use anywire_loops::clock::precise;
use proptest::prelude::*;

use super::*;
use crate::plan::Amount;
use crate::schedule::{Gaps, RATE_MAX};

mod reuse;

const HOUR: Duration = Duration::from_secs(3600);
const MILLISECOND: Duration = Duration::from_millis(1);

fn paced(schedule: Schedule, time: Duration, deadline: Option<Duration>) -> (Paced, Instant) {
    let amount = Amount::Duration(time);
    let plan = Plan { schedule: Some(schedule), amount, deadline, ..Plan::new("http://h/") };
    let paced = Paced::of(&plan, Part::whole()).expect("it has a schedule");
    let begin = precise();
    paced.begin_measuring(begin, u64::MAX);
    (paced, begin)
}

#[test]
fn an_hour_at_the_highest_rate_is_shed_at_once() {
    for gaps in [Gaps::Even, Gaps::Jitter] {
        let schedule = Schedule { gaps, ..Schedule::constant(RATE_MAX) };
        let (paced, begin) = paced(schedule, 2 * HOUR, Some(MILLISECOND));
        let now = begin + HOUR;
        let Taken { due, shed, .. } = paced.take(&Rc::default(), now);
        let stale = (RATE_MAX * (HOUR - MILLISECOND).as_secs_f64()) as u64;
        assert!(shed.abs_diff(stale) <= 1, "{shed} of {stale}");
        let intended = due.expect("the last millisecond is not stale").intended;
        assert!(now - intended <= MILLISECOND && now - intended >= MILLISECOND / 2, "{:?}", now - intended);
    }
}

#[test]
fn arrivals_that_were_taken_are_not_drawn_anew_at_the_end() {
    let second = Duration::from_secs(1);
    let schedule = Schedule { gaps: Gaps::Poisson, ..Schedule::constant(100_000.0) };
    let (paced, begin) = paced(schedule, second, None);
    let slot = Rc::default();
    let mut taken = 0;
    while paced.take(&slot, begin + second).due.is_some() {
        taken += 1;
    }
    // To draw them a hundred thousand times would take this test an hour.
    for _ in 0..100_000 {
        assert_eq!((paced.intended(begin + second), paced.untaken(begin + second)), (vec![taken], vec![]));
    }
}

proptest! {
    #[test]
    fn all_that_is_due_is_taken_shed_or_left(
        (poisson, rate, steps) in (any::<bool>(), 1.0_f64..5000.0, 2_u32..5),
        deadline_ms in prop::option::of(0_u64..300),
        looks in prop::collection::vec(0_u64..1_000_000_000, 1..40),
    ) {
        let gaps = if poisson { Gaps::Poisson } else { Gaps::Jitter };
        let shape = Shape::Steps { from: rate, to: rate / 2.0, count: steps };
        let second = Duration::from_secs(1);
        let schedule = Schedule { gaps, ..Schedule::of(shape) };
        let (paced, begin) = paced(schedule, second, deadline_ms.map(Duration::from_millis));
        let (slot, mut looks) = (Rc::default(), looks);
        looks.sort_unstable();
        let (mut taken, mut now) = (0, begin);
        for look in looks {
            now = begin + Duration::from_nanos(look);
            // A connection that waits takes only what it was promised.
            paced.promise(now);
            let Taken { due, shed, .. } = paced.take(&slot, now);
            taken += shed + u64::from(due.is_some());
            if let (Some(due), Some(deadline)) = (due, deadline_ms) {
                prop_assert!(now - due.intended <= Duration::from_millis(deadline));
            }
        }
        let left = paced.untaken(now).iter().map(|(_, count)| count).sum::<u64>();
        let pacer = Pacer::new(&schedule, second, Part::whole());
        let each = paced.intended(now);
        prop_assert_eq!(each.len(), steps as usize);
        prop_assert_eq!(each.iter().sum::<u64>(), pacer.due(now - begin));
        prop_assert_eq!(taken + left, pacer.due(now - begin));
    }
}
