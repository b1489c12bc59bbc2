//! `anywire diff OLD NEW`: two stored results against each other.

use std::path::PathBuf;

use anywire::advice::Message;
use anywire::load::diff::{DiffPair, diff};
use anywire::load::report;
use clap::Args;

use crate::contrast::{self, Judging};
use crate::failure::{Code, Failure};
use crate::output::Results;

/// Compare two stored results, and say whether the new one is slower
///
/// Results of 'load --rounds', 'ab' and 'compare' that --json has written. Their rounds are tested by ranks (Mann-Whitney),
/// servers of the same name with each other. Results without rounds are compared without a verdict. What differs in
/// machine and plan is listed, and different plans are refused.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    /// The old result, or - for stdin
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The new result, on which the verdict is
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Compare results of different plans too
    #[arg(long)]
    force: bool,
    /// Seed of the resamples
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    #[command(flatten)]
    judging: Judging,
    #[command(flatten)]
    results: Results,
}

impl Diff {
    /// Compares, prints the result, and judges it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let noise = self.judging.noise()?;
        let (old, new) = (contrast::stored(&self.old)?, contrast::stored(&self.new)?);
        self.results.check()?;
        let outcome = diff(&old, &new, &noise, self.seed, self.force).map_err(|error| {
            let tried = format_args!("comparing {} with {}: {error}", self.new.display(), self.old.display());
            Failure::of_message(Code::Usage, Message::read(tried))
        })?;
        self.results.write(&outcome, report::diff)?;
        self.judging.refuse(outcome.pairs.iter().find_map(DiffPair::why_no_verdict))?;
        let found = self.judging.regressions(|limit| outcome.regressions(limit));
        let told = found.iter().map(|(pair, metric)| match outcome.pairs.len() {
            1 => contrast::told(metric),
            _ => format!("{} {}", pair.name, contrast::told(metric)),
        });
        self.judging.judge(&told.collect::<Vec<_>>())
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire load localhost:8080 --rounds 10 --json old.json
  anywire diff old.json new.json
  anywire diff old.json new.json --html diff.html --fail-on-regression 5%
  anywire diff old.json new.json --noise trial.json
  anywire compare --json new.json; anywire diff old.json new.json

The results are of different times, so what the machine did between them counts as a difference. If both servers can run
at the same time, 'anywire ab' is the better judge.

Exit codes: 0 compared; 1 --fail-on-regression, and requests failed; 2 bad arguments, results of different kinds or plans, or of a later version; 3 the new one is
slower by more than --fail-on-regression; 23 result not written; 26 a result not read: not there, cut off, no JSON.";
