//! What holds of every schedule, at every rate and time.

use proptest::prelude::*;

use super::*;
use crate::schedule::{RATE_MAX, RATE_MIN, Shape};

fn rate() -> impl Strategy<Value = f64> {
    // Each magnitude as often as another.
    prop_oneof![(-3.0_f64..8.0).prop_map(|power| 10.0_f64.powf(power)), Just(RATE_MIN), Just(RATE_MAX)]
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        rate().prop_map(|per_second| Shape::Constant { per_second }),
        (rate(), rate()).prop_map(|(from, to)| Shape::Ramp { from, to }),
        (rate(), rate(), 2_u32..100).prop_map(|(from, to, count)| Shape::Steps { from, to, count }),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let gaps = prop_oneof![Just(Gaps::Even), Just(Gaps::Jitter), Just(Gaps::Poisson)];
    (shape(), gaps, any::<u64>()).prop_map(|(shape, gaps, seed)| Schedule { shape, gaps, seed })
}

fn without_poisson() -> impl Strategy<Value = Schedule> {
    schedule().prop_map(|schedule| match schedule.gaps {
        Gaps::Poisson => Schedule { gaps: Gaps::Even, ..schedule },
        _ => schedule,
    })
}

fn time() -> impl Strategy<Value = Duration> {
    (0_u64..86_400_000_000_000).prop_map(Duration::from_nanos)
}

fn part() -> impl Strategy<Value = Part> {
    (1_usize..5, 0_usize..5, 1_usize..20).prop_map(|(step, first, of)| Part::every(step, first % of, of))
}

const NANOSECOND: Duration = Duration::from_nanos(1);

proptest! {
    #[test]
    fn due_and_intended_agree(schedule in schedule(), time in time(), part in part(), number in 0_u64..3000) {
        let pacer = Pacer::new(&schedule, time, part);
        let at = pacer.intended(number);
        prop_assume!(at < Pacer::NEVER);
        prop_assert!(pacer.due(at) > number);
        if at > Duration::ZERO {
            prop_assert!(pacer.due(at - NANOSECOND) <= number);
        }
        // Asked in another order, the answers are the same.
        let again = Pacer::new(&schedule, time, pacer.part);
        again.intended(number + 100);
        prop_assert_eq!(again.intended(number), at);
    }

    #[test]
    fn far_numbers_agree_too(schedule in without_poisson(), time in time(), part in part(), number in any::<u64>()) {
        let pacer = Pacer::new(&schedule, time, part);
        let at = pacer.intended(number);
        prop_assert!(at <= Pacer::NEVER && pacer.intended(number.saturating_add(1)) >= at);
        // As far as a double tells two numbers apart.
        if at < Pacer::NEVER && pacer.part.in_schedule(number) < 1 << 50 {
            prop_assert!(pacer.due(at) > number);
            prop_assert!(at.is_zero() || pacer.due(at - NANOSECOND) <= number);
        }
    }

    #[test]
    fn arrivals_go_on_in_order(schedule in schedule(), time in time(), part in part()) {
        let pacer = Pacer::new(&schedule, time, part);
        let mut one = pacer.first();
        for number in 0..300 {
            prop_assert_eq!((one.number, one.at), (number, pacer.intended(number)));
            let next = pacer.after(&one);
            prop_assert!(next.at >= one.at);
            one = next;
        }
    }

    #[test]
    fn the_parts_are_the_whole(schedule in without_poisson(), time in time(), loops in 1_usize..6, of in 1_usize..30) {
        let whole = Pacer::new(&schedule, time, Part::whole());
        let parts: Vec<Pacer> =
            (0..loops).map(|first| Pacer::new(&schedule, time, Part::every(loops, first, of))).collect();
        for number in [0, 1, 7, 100, 1 << 40] {
            let now = whole.intended(number);
            prop_assert_eq!(parts.iter().map(|part| part.due(now)).sum::<u64>(), whole.due(now));
            prop_assert_eq!(parts.iter().map(|part| part.among(number)).sum::<u64>(), number);
        }
        let mut all: Vec<Duration> =
            parts.iter().flat_map(|part| (0..part.among(200)).map(|number| part.intended(number))).collect();
        all.sort();
        prop_assert_eq!(all, (0..200).map(|number| whole.intended(number)).collect::<Vec<_>>());
    }

    #[test]
    fn no_time_and_no_number_is_too_large(schedule in without_poisson(), part in part(), number in any::<u64>()) {
        for time in [Duration::ZERO, NANOSECOND, Duration::MAX] {
            let pacer = Pacer::new(&schedule, time, part.clone());
            for now in [Duration::ZERO, NANOSECOND, Duration::from_secs(u32::MAX.into())] {
                let due = pacer.due(now);
                prop_assert!(due == 0 || pacer.intended(due - 1) <= now);
            }
            prop_assert!(pacer.intended(number) <= Pacer::NEVER);
            prop_assert!(pacer.intended(u64::MAX) <= Pacer::NEVER);
        }
    }
}

#[test]
fn even_gaps_never_fire_together() {
    let pacers = [0, 1, 2].map(|first| {
        Pacer::new(&Schedule::constant(3000.0), Duration::from_secs(1), Part::every(3, first, 7))
    });
    let mut times: Vec<Duration> =
        pacers.iter().flat_map(|pacer| (0..100).map(|number| pacer.intended(number))).collect();
    times.sort();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_ramp_and_steps_have_their_area() {
    let second = Duration::from_secs(1);
    for (shape, half, whole) in [
        (Shape::Constant { per_second: 1000.0 }, 501, 1001),
        (Shape::Ramp { from: 500.0, to: 1500.0 }, 376, 1001),
        (Shape::Steps { from: 500.0, to: 1500.0, count: 2 }, 251, 1001),
    ] {
        let pacer = Pacer::new(&Schedule::of(shape), second, Part::whole());
        assert_eq!((pacer.due(second / 2), pacer.due(second)), (half, whole), "{shape:?}");
    }
}

#[test]
fn a_rate_does_not_drift() {
    // After a day at a rate whose gap is no whole number of nanoseconds.
    let pacer = Pacer::new(&Schedule::constant(300_000.0), Duration::from_secs(1), Part::whole());
    assert_eq!(pacer.intended(300_000 * 86_400), Duration::from_secs(86_400));
}

#[test]
fn poisson_keeps_its_rate_and_its_spread() {
    let schedule = Schedule { gaps: Gaps::Poisson, seed: 7, ..Schedule::constant(1000.0) };
    let second = Duration::from_secs(1);
    // Parts of different sizes, each for itself.
    let parts = [Part::at([0, 2, 3].into_iter(), 4), Part::at([1].into_iter(), 4)];
    let (mut times, mut shares) = (Vec::new(), Vec::new());
    for part in parts {
        let pacer = Pacer::new(&schedule, second, part);
        let due = pacer.due(second * 100);
        shares.push(due);
        times.extend((0..due).map(|number| pacer.intended(number)));
    }
    // Four standard deviations: 100,000 +- 1265, by a seed that is fixed.
    assert!((98_735..101_265).contains(&times.len()), "{}", times.len());
    assert!((74_000..76_000).contains(&shares[0]), "{shares:?}");
    times.sort();
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1000.0).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // An exponential distribution has the standard deviation of its mean.
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{mean} and {variance}");
    let other = Pacer::new(&Schedule { seed: 8, ..schedule }, second, Part::whole());
    let again = Pacer::new(&Schedule { seed: 8, ..schedule }, second, Part::whole());
    assert_eq!(other.intended(1000), again.intended(1000));
    assert_ne!(other.intended(1000), Pacer::new(&schedule, second, Part::whole()).intended(1000));
}

#[test]
fn a_part_without_connections_has_nothing() {
    for gaps in [Gaps::Even, Gaps::Jitter, Gaps::Poisson] {
        let schedule = Schedule { gaps, ..Schedule::constant(1000.0) };
        let pacer = Pacer::new(&schedule, Duration::from_secs(1), Part::every(4, 3, 2));
        assert_eq!(
            (pacer.due(Duration::from_secs(100)), pacer.intended(0), pacer.first().at),
            (0, Pacer::NEVER, Pacer::NEVER)
        );
    }
}
