//! The forms of a load's result for other programs: `--intervals`, `--csv` and `--prometheus`, beside `--json` and `--html`.

use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anywire::load::{IntervalFigures, Outcome, export, report, text};
use clap::Args;

use crate::failure::Failure;
use crate::output::{self, Results};

/// Where the result of a load goes beside the table.
#[derive(Debug, Args)]
pub(crate) struct Exports {
    #[command(flatten)]
    results: Results,
    /// Write the figures of each interval as a line of JSON to a file, or to stdout (-), while the load goes on
    #[arg(long, value_name = "FILE")]
    intervals: Option<PathBuf>,
    /// The length of an interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Write the result as a row of CSV with headings
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the result as metrics of Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
}

impl Exports {
    /// Looks before the load whether all of it can be written, each to a place of its own.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        output::check_places(&self.places())
    }

    /// All options and what they name.
    fn places(&self) -> Vec<(&'static str, &Path)> {
        let own =
            [("--intervals", &self.intervals), ("--csv", &self.csv), ("--prometheus", &self.prometheus)];
        let own = own.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
        self.results.places().into_iter().chain(own).collect()
    }

    /// How long an interval is.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// The file of intervals, opened now.
    pub(crate) fn intervals(&self) -> Result<Lines, Failure> {
        let Some(path) = self.intervals.as_deref() else { return Ok(Lines { to: None, failed: None }) };
        let name = path.display().to_string();
        let writer: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(output::stdout()?)
        } else {
            let file = File::create(path).map_err(|cause| output::unwritten(&name, &cause))?;
            Box::new(LineWriter::new(file))
        };
        Ok(Lines { to: Some(Place { name, writer }), failed: None })
    }

    /// Prints the table, unless stdout gets something else, and writes what was asked for. If one of them cannot be written, the
    /// others are.
    pub(crate) fn write(&self, outcome: &Outcome) -> Result<(), Failure> {
        let is_taken = self.places().iter().any(|(_, path)| *path == Path::new("-"));
        let table = if is_taken { Ok(()) } else { output::print_text(&outcome.to_string()) };
        let files = self.results.write_files(outcome, report::outcome);
        let csv = write(self.csv.as_deref(), || export::csv(outcome));
        let prometheus = write(self.prometheus.as_deref(), || export::prometheus(outcome));
        table.and(files).and(csv).and(prometheus)
    }
}

/// Writes a text, if a place for it was given.
fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| output::write(path, &text()))
}

/// A file of lines that is written while a load goes on. What fails is told at the end, behind the result.
pub(crate) struct Lines {
    to: Option<Place>,
    failed: Option<Failure>,
}

/// An open file under its name.
struct Place {
    name: String,
    writer: Box<dyn Write + Send>,
}

impl Lines {
    /// Writes a line. After a failure nothing more is written.
    pub(crate) fn write(&mut self, interval: &IntervalFigures) {
        let Some(place) = &mut self.to else { return };
        if let Err(cause) = line(&mut place.writer, interval) {
            self.failed = Some(output::unwritten(&place.name, &cause));
            self.to = None;
        }
    }

    /// Why not all was written.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.failed.map_or(Ok(()), Err)
    }
}

fn line(to: &mut impl Write, interval: &IntervalFigures) -> io::Result<()> {
    writeln!(to, "{}", interval.to_json())?;
    to.flush()
}

/// The length of an interval: the loops publish every 0.1 s.
fn interval(text: &str) -> Result<Duration, String> {
    let time = text::positive_duration(text)?;
    if time < SHORTEST {
        return Err("it is shorter than 100ms, which is how often the loops are looked at".to_owned());
    }
    Ok(time)
}

const SHORTEST: Duration = Duration::from_millis(100);
