//! `anywire lab ipc`: what messages between two ends on this machine cost.

use anywire::load::Stop;
use anywire::load::text::counted;
use anywire_ipc::{Error, Outcome, Plan};
use clap::Args;

use crate::failure::{Code, Failure};
use crate::output::Results;
use crate::progress::Progress;
use crate::signals::Signals;

/// Measure what a message costs within this machine: TCP, Unix sockets, pipes, shared memory
///
/// Both ends are threads of this process, on a core each. Latencies are those of the whole round trip. Ways that spin keep
/// both cores busy, so they are measured with --spin alone.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ipc {
    #[command(flatten)]
    plan: Plan,
    #[command(flatten)]
    results: Results,
}

impl Ipc {
    /// Measures it, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.results.check()?;
        let rows = self.plan.rows().count() as u64;
        let (stop, progress) = (Stop::new(), Progress::start(rows));
        let signals = Signals::stop(stop.clone())?;
        let seconds = self.plan.duration.as_secs_f64() * rows as f64;
        progress.say(&format!("measuring {}, about {seconds:.0} s", counted(rows, "row")));
        let mut done = 0;
        let outcome = anywire_ipc::run(&self.plan, &stop, |row| {
            done += 1;
            progress.show(done, || format!("{}, {} bytes", row.way.name(), row.size_bytes));
        });
        progress.finish();
        let outcome = outcome.map_err(|error| {
            let code = if matches!(error, Error::OneCore { .. }) { Code::Usage } else { Code::Failed };
            Failure::of(code, &error)
        })?;
        self.results.write(&outcome, Outcome::page)?;
        signals.check()
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire lab ipc
  anywire lab ipc --spin --html ipc.html
  anywire lab ipc --ways unix,shm-loop --sizes 100,64k --duration 2s
  anywire lab ipc --patterns ping-pong --json ipc.json

Exit codes: 0 measured, 1 could not run, 2 bad arguments, 23 result not written,
130 and 143 ended by SIGINT and SIGTERM with the rows until then.";
