//! Whether a run by a schedule says something of the server, or only of the generator.

use std::time::Duration;

use crate::engine::{LoopResult, OpenResult};
use crate::histogram::LatencySummary;
use crate::text::{digits, time};

/// What the verdict is made of.
pub(crate) struct Facts<'f> {
    /// The share of the requests due that left in time.
    pub(crate) rate_ratio: Option<f64>,
    /// How late requests left that had a connection with room.
    pub(crate) own_lag: Option<&'f LatencySummary>,
    /// The latency to trust; `None` also if the rate changes.
    pub(crate) latency: Option<&'f LatencySummary>,
    /// The share of its time in which each loop had something to do, without its spinning.
    pub(crate) busy: &'f [Option<f64>],
    /// Whether requests were left while each connection was busy: not this end was too slow then.
    pub(crate) is_behind_connections: bool,
}

impl Facts<'_> {
    /// Why this end was too slow; empty if it was not.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(ratio) = self.rate_ratio
            && ratio < RATIO_MIN
            && !self.is_behind_connections
        {
            reasons.push(format!("only {} % of the requests left in time", digits(ratio * 100.0)));
        }
        if let Some(lag) = self.own_lag.filter(|lag| lag.count >= LAG_COUNT_MIN) {
            let share =
                self.latency.map(|latency| lag.p99 / latency.p99).filter(|_| lag.p99 > LAG_US_IGNORED);
            if lag.p99 > LAG_US_MAX {
                reasons.push(format!("one request in a hundred left {} late or more", time(lag.p99)));
            } else if let Some(share) = share.filter(|share| *share > LAG_SHARE_MAX) {
                let percent = digits(share * 100.0);
                reasons.push(format!("the lag's p99 of {} is {percent} % of the latency's", time(lag.p99)));
            }
        }
        let busiest = self.busy.iter().flatten().copied().reduce(f64::max);
        if let Some(busy) = busiest.filter(|busy| *busy > BUSY_MAX) {
            reasons.push(format!("a loop had work for {} % of the time", digits(busy * 100.0)));
        }
        reasons
    }
}

/// The share of its time in which a loop had something to do, without its spinning.
pub(crate) fn busy(result: &LoopResult) -> Option<f64> {
    let spun = result.open.as_ref().map_or(Duration::ZERO, |open| open.pacing.spun);
    let cpu = result.cpu.filter(|_| !result.measured.is_zero())?;
    Some(cpu.total().saturating_sub(spun).as_secs_f64() / result.measured.as_secs_f64())
}

/// Whether requests were left on a loop none of whose connections had room.
pub(crate) fn is_behind_connections(open: &OpenResult) -> bool {
    open.is_busy && open.intended.iter().sum::<u64>() > open.sent_in_time
}

/// What limits a run whose requests waited while each connection was busy.
pub(crate) const CONNECTIONS: &str = "connections";
/// Fewer requests than these in time were another load.
pub(crate) const RATIO_MIN: f64 = 0.99;
/// A lag above a millisecond is one of this end's, whatever the server does.
const LAG_US_MAX: f64 = 1000.0;
/// The lag may be this share of the latency.
const LAG_SHARE_MAX: f64 = 0.1;
/// A lag below this is what waking up a thread takes, which the server's latency has in it too.
const LAG_US_IGNORED: f64 = 50.0;
/// Fewer requests have no p99: it is the latest of them, and a single late wake-up is no limit of this end.
const LAG_COUNT_MIN: u64 = 100;
/// A loop above this share of a core was perhaps the bottleneck itself.
pub(crate) const BUSY_MAX: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latency;

    /// So many of each.
    fn summary(values: &[(u64, u64)]) -> LatencySummary {
        let mut latency = Latency::new();
        values.iter().for_each(|&(us, count)| latency.record_many(Duration::from_micros(us), count));
        latency.summary().expect("some were recorded")
    }

    fn reasons(
        ratio: f64,
        lag_us: u64,
        latency_us: u64,
        busy: f64,
        is_behind_connections: bool,
    ) -> Vec<String> {
        let (lag, latency) = (summary(&[(lag_us, 1000)]), summary(&[(latency_us, 1000)]));
        let facts = Facts {
            rate_ratio: Some(ratio),
            own_lag: Some(&lag),
            latency: Some(&latency),
            busy: &[None, Some(busy)],
            is_behind_connections,
        };
        facts.reasons()
    }

    #[test]
    fn each_reason_is_told_alone() {
        assert_eq!(reasons(1.0, 40, 100, 0.9, false), Vec::<String>::new());
        for (found, word) in [
            (reasons(0.98, 1, 100, 0.5, false), "98.0 % of the requests"),
            (reasons(1.0, 1500, 100_000, 0.5, false), "left 1.50 ms late"),
            (reasons(1.0, 90, 600, 0.5, false), "15.0 % of the latency"),
            (reasons(1.0, 1, 100, 0.97, false), "97.0 % of the time"),
        ] {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(word), "{found:?}");
        }
        assert_eq!(reasons(0.5, 5000, 6000, 0.99, false).len(), 3);
    }

    #[test]
    fn one_late_request_is_no_limit() {
        let reasons = |lag: &[(u64, u64)]| {
            let (lag, latency) = (summary(lag), summary(&[(300, lag.iter().map(|(_, count)| count).sum())]));
            let facts = Facts {
                rate_ratio: Some(1.0),
                own_lag: Some(&lag),
                latency: Some(&latency),
                busy: &[],
                is_behind_connections: false,
            };
            facts.reasons()
        };
        // A lag that is a large share of the latency, and one that is too long whatever the latency.
        for late in [58, 5000] {
            for lag in
                [&[(late, 1)][..], &[(10, 2), (late, 1)], &[(10, 98), (late, 1)], &[(10, 99), (late, 1)]]
            {
                assert_eq!(reasons(lag), Vec::<String>::new(), "{lag:?}");
            }
            assert_eq!(reasons(&[(10, 98), (late, 2)]).len(), 1, "two of a hundred, {late} us late");
        }
    }

    #[test]
    fn a_slow_server_is_not_the_fault_of_this_end() {
        assert_eq!(reasons(0.5, 10, 1_000_000, 0.5, true), Vec::<String>::new());
    }

    #[test]
    fn what_is_unknown_is_no_reason() {
        let facts = Facts {
            rate_ratio: None,
            own_lag: None,
            latency: None,
            busy: &[None],
            is_behind_connections: false,
        };
        assert_eq!(facts.reasons(), Vec::<String>::new());
    }
}
