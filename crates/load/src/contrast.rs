//! Two sides against each other, metric by metric, from their rounds: what `ab` and `diff` end in.
//!
//! [`Contrast::of`] puts the rounds of both sides through the tests of [`statistics`](crate::statistics). What counts as a
//! difference, and as a regression, is decided here for both commands.

mod metric;
mod noise;
mod table;

use serde::{Deserialize, Serialize};

pub use metric::{METRICS, Metric, metric};
pub use noise::Noise;

use crate::rounds::Round;
use crate::statistics::{ALPHA, Judgement, Sample, Verdict, judge, median};
use crate::text::digits;

/// What the rounds of two sides show. The first side is a, the second one b; verdicts are on b.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// The verdict on all metrics but the client's own; `null` if there is none, or if some are better and others worse.
    pub verdict: Option<Verdict>,
    /// Why there is none.
    pub why_not: Option<String>,
    /// Whether each round had both sides close to each other, so that only their ratio counts.
    pub paired: bool,
    /// How likely it may be that any difference is called where there is none.
    pub alpha: f64,
    /// Where the noise limits come from.
    pub noise_from: String,
    /// The seed of the resamples.
    pub seed: u32,
    /// Each metric that either side has.
    pub metrics: Vec<MetricContrast>,
}

/// Both sides in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricContrast {
    /// Its name, as in a round.
    pub name: String,
    /// The median of a; `null` if it is unknown.
    pub a: Option<f64>,
    /// The median of b; `null` if it is unknown.
    pub b: Option<f64>,
    /// What the test says.
    #[serde(flatten)]
    pub judgement: Judgement,
}

impl Contrast {
    /// Judges the rounds of both sides. If they are `paired`, those of one number were measured next to each other.
    pub fn of(a: &[Round], b: &[Round], paired: bool, noise: &Noise, seed: u32) -> Self {
        let known: Vec<(&Metric, Sample)> = METRICS
            .iter()
            .filter(|metric| [a, b].iter().any(|side| side.iter().any(|round| metric.of(round).is_some())))
            .map(|metric| (metric, sample(metric, a, b, paired, noise)))
            .collect();
        let samples: Vec<Sample> = known.iter().map(|(_, sample)| sample.clone()).collect();
        let metrics: Vec<MetricContrast> = known
            .iter()
            .zip(judge(&samples, seed))
            .map(|((metric, _), judgement)| MetricContrast {
                name: metric.name.to_owned(),
                a: median(&values(metric, a)),
                b: median(&values(metric, b)),
                judgement,
            })
            .collect();
        let (verdict, why_not) = overall(&metrics);
        Self { verdict, why_not, paired, alpha: ALPHA, noise_from: noise.from.clone(), seed, metrics }
    }

    /// The same without any verdict, because of this.
    pub fn without_verdict(mut self, why_not: &str) -> Self {
        self.verdict = None;
        self.why_not = Some(why_not.to_owned());
        for metric in &mut self.metrics {
            metric.judgement.verdict = None;
            metric.judgement.why_not = Some(why_not.to_owned());
        }
        self
    }

    /// The metrics, but for the client's own, in which b is shown to be worse by more than `limit`: 0.05 is 5 %.
    pub fn regressions(&self, limit: f64) -> Vec<&MetricContrast> {
        let is_regression =
            |one: &&MetricContrast| one.is_of_server() && one.worse_by().is_some_and(|worse| worse > limit);
        self.metrics.iter().filter(is_regression).collect()
    }
}

impl MetricContrast {
    /// Whether it says something about the server. The client's own cost does not: a faster server may make it wake more often.
    pub fn is_of_server(&self) -> bool {
        metric(&self.name).is_none_or(|metric| metric.is_of_server)
    }

    /// By how much b is shown to be worse: 0.05 is 5 %. `None` if that is not shown.
    pub fn worse_by(&self) -> Option<f64> {
        let shown = self.judgement.verdict == Some(Verdict::Slower);
        self.judgement.ratio.filter(|_| shown).map(|ratio| (ratio.ratio - 1.0).abs())
    }
}

fn values(metric: &Metric, rounds: &[Round]) -> Vec<f64> {
    rounds.iter().filter_map(|round| metric.of(round)).collect()
}

fn sample(metric: &Metric, a: &[Round], b: &[Round], paired: bool, noise: &Noise) -> Sample {
    let sample = if paired {
        let in_b = |round: usize| b.iter().find(|other| other.round == round);
        let pairs: Vec<(f64, f64)> =
            a.iter().filter_map(|of_a| Some((metric.of(of_a)?, metric.of(in_b(of_a.round)?)?))).collect();
        Sample::of_pairs(&pairs)
    } else {
        Sample::of(&values(metric, a), &values(metric, b))
    };
    Sample { better: metric.better, noise: noise.of(metric.name), ..sample }
}

fn overall(metrics: &[MetricContrast]) -> (Option<Verdict>, Option<String>) {
    let of_server = || metrics.iter().filter(|one| one.is_of_server());
    let titles = |verdict: Verdict| -> Vec<&str> {
        of_server().filter(|one| one.judgement.verdict == Some(verdict)).map(MetricContrast::title).collect()
    };
    let (faster, slower) = (titles(Verdict::Faster), titles(Verdict::Slower));
    match (faster.is_empty(), slower.is_empty()) {
        (false, false) => {
            (None, Some(format!("faster in {}, slower in {}", faster.join(", "), slower.join(", "))))
        }
        (false, true) => (Some(Verdict::Faster), None),
        (true, false) => (Some(Verdict::Slower), None),
        (true, true) if of_server().any(|one| one.judgement.verdict.is_some()) => {
            (Some(Verdict::NoDifferenceShown), None)
        }
        (true, true) => {
            let first = of_server().find_map(|one| one.judgement.why_not.clone());
            (None, Some(first.unwrap_or_else(|| "there is no round of both sides".to_owned())))
        }
    }
}

/// Why requests that failed leave no verdict on a side, which is named so: a server that fails quickly looks fast.
pub(crate) fn why_errors_forbid(name: &str, errors: u64, answered: u64) -> Option<String> {
    let share = errors as f64 / errors.max(answered).max(1) as f64;
    (share > ERROR_SHARE_MAX)
        .then(|| format!("{} % of the requests to {name} were errors", digits(share * 100.0)))
}

/// More errors than these among the requests, and the figures are not those of a server that works.
const ERROR_SHARE_MAX: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Figures;

    /// Rounds with these rates, latencies and costs of the client; the machine is another one in each round.
    fn rounds(count: usize, rate: f64, p99_us: f64, client: f64) -> Vec<Round> {
        let round = |round: usize| {
            let jitter = 1.0 + 0.001 * (round * 7 % 5) as f64;
            let figures = Figures {
                requests_per_second: Some(rate * jitter),
                p99_us: Some(p99_us * jitter),
                client_cpu_us_per_request: Some(client * jitter),
                ..Figures::default()
            };
            Round { round, figures, ..Round::default() }
        };
        (1..=count).map(round).collect()
    }

    fn contrast(b: &[Round]) -> Contrast {
        Contrast::of(&rounds(10, 1000.0, 50.0, 4.0), b, true, &Noise::default(), 1)
    }

    #[test]
    fn the_whole_is_faster_slower_mixed_or_alike() {
        for (rate, p99_us, verdict, mixed) in [
            (1000.0, 50.0, Some(Verdict::NoDifferenceShown), false),
            (1100.0, 50.0, Some(Verdict::Faster), false),
            (900.0, 50.0, Some(Verdict::Slower), false),
            (1000.0, 60.0, Some(Verdict::Slower), false),
            (1100.0, 60.0, None, true),
        ] {
            let found = contrast(&rounds(10, rate, p99_us, 4.0));
            assert_eq!(found.verdict, verdict, "{found:?}");
            assert_eq!(found.why_not.as_deref() == Some("faster in requests/s, slower in p99"), mixed);
        }
    }

    #[test]
    fn the_cost_of_the_client_is_told_and_decides_nothing() {
        let found = contrast(&rounds(10, 1000.0, 50.0, 8.0));
        assert_eq!(found.verdict, Some(Verdict::NoDifferenceShown));
        let client = found.metrics.iter().find(|one| !one.is_of_server()).expect("it is there");
        assert_eq!(client.judgement.verdict, Some(Verdict::Slower));
        assert!(found.regressions(0.05).is_empty());
    }

    #[test]
    fn a_regression_is_shown_and_beyond_its_limit() {
        let found = contrast(&rounds(10, 930.0, 52.5, 4.0));
        let names = |limit| found.regressions(limit).iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names(0.03), ["requests_per_second", "p99_us"]);
        assert_eq!(names(0.06), ["requests_per_second"]);
        assert!(names(0.08).is_empty());
        assert!(contrast(&rounds(10, 1100.0, 40.0, 4.0)).regressions(0.0).is_empty());
    }

    #[test]
    fn what_one_side_lacks_is_named_and_not_judged() {
        let mut b = rounds(10, 1000.0, 50.0, 4.0);
        b.iter_mut().for_each(|round| round.figures.p99_us = None);
        let found = contrast(&b);
        let p99 = found.metrics.iter().find(|one| one.name == "p99_us").expect("side a has it");
        assert_eq!((p99.a.is_some(), p99.b, p99.judgement.verdict), (true, None, None));
        assert!(found.metrics.iter().all(|one| one.name != "server_cpu_us_per_request"), "nobody has it");
    }

    #[test]
    fn no_rounds_have_no_verdict() {
        let found = Contrast::of(&[], &[], false, &Noise::default(), 1);
        assert!(found.verdict.is_none() && found.why_not.is_some() && found.metrics.is_empty());
        let few =
            Contrast::of(&rounds(3, 1.0, 1.0, 1.0), &rounds(3, 2.0, 1.0, 1.0), true, &Noise::default(), 1);
        assert_eq!(few.verdict, None);
        assert!(few.why_not.is_some_and(|why| why.starts_with("3 + 3 rounds can show nothing")));
    }

    /// Rounds of the same number belong together, whatever is missing.
    #[test]
    fn pairs_are_found_by_their_number() {
        let (mut a, mut b) = (rounds(12, 1000.0, 50.0, 4.0), rounds(12, 1000.0, 50.0, 4.0));
        for (index, round) in a.iter_mut().chain(&mut b).enumerate() {
            // Each round has another machine, so that a shift by one would show differences.
            let machine = 1.5_f64.powi((index % 12) as i32);
            round.figures.requests_per_second = round.figures.requests_per_second.map(|rate| rate * machine);
        }
        a.remove(2);
        b.remove(7);
        let found = Contrast::of(&a, &b, true, &Noise::default(), 1);
        let ratio = found.metrics[0].judgement.ratio.expect("both have it");
        assert!((ratio.low - 1.0).abs() < 1e-9 && (ratio.high - 1.0).abs() < 1e-9, "{ratio:?}");
    }
}
