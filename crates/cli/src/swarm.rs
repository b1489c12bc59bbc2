//! `anywire lab swarm`: very many connections over user-space TCP in this process, and how fast they go.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anywire::load::Stop;
use anywire::load::text::grouped;
use anywire_swarm_load::{Error, Monitor, Plan, TasksPlan, measure_tasks};
use clap::{Args, Subcommand};

use crate::failure::{Code, Failure};
use crate::output;
use crate::progress::{self, Progress};
use crate::signals::Signals;

/// Run millions of connections in this process, and measure them
///
/// Both ends of every connection are here, on one core: two engines of user-space TCP with the switch between them.
/// Every payload is verified byte for byte.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Swarm {
    #[command(subcommand)]
    alone: Option<Alone>,
    #[command(flatten)]
    plan: Plan,
    /// Write the result as JSON to a file, or to stdout (-) instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Alone {
    /// Measure the executor alone, without a network: switches a second, and bytes a task
    Tasks {
        #[command(flatten)]
        plan: TasksPlan,
        /// Write the result as JSON to a file, or to stdout (-) instead of the table
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

impl Swarm {
    /// Measures it, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(Alone::Tasks { plan, json }) = &self.alone {
            json.iter().try_for_each(|path| output::check(path))?;
            let stop = Stop::new();
            let signals = Signals::stop(stop.clone())?;
            let progress = Progress::start(1);
            progress.say(&format!("measuring {} tasks on core {}", grouped(plan.count.into()), plan.core));
            let outcome = measure_tasks(plan, &stop).map_err(|error| failure(&error))?;
            progress.finish();
            output::table_or_json(&outcome, json.as_deref())?;
            return signals.check();
        }
        self.json.iter().try_for_each(|path| output::check(path))?;
        let plan = &self.plan;
        let (stop, monitor) = (Stop::new(), Monitor::default());
        let signals = Signals::stop(stop.clone())?;
        let progress = Progress::start(u64::from(plan.connections));
        progress.say(&format!(
            "running {} connections on core {}",
            grouped(plan.connections.into()),
            plan.core
        ));
        let mut said = Instant::now();
        // On a terminal always anew, elsewhere a line now and then.
        let show = || {
            let now = monitor.progress();
            if progress.is_bar() {
                let share = now.share.clamp(0.0, 1.0);
                progress.show((share * f64::from(plan.connections)) as u64, || now.to_string());
            } else if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                progress.say(&now.to_string());
            }
        };
        let outcome = progress::during(show, || anywire_swarm_load::run(plan, &stop, &monitor));
        progress.finish();
        let outcome = match outcome {
            Err(stopped @ Error::Stopped) => {
                // There is no result so far, and a script that waits for one should know. Whoever closed stderr reads nothing.
                let _ = writeln!(io::stderr(), "{stopped}");
                return signals.check();
            }
            outcome => outcome.map_err(|error| failure(&error))?,
        };
        output::table_or_json(&outcome, self.json.as_deref())?;
        signals.check()?;
        outcome.check().map_err(|error| failure(&error))
    }
}

/// What the command says of an error.
fn failure(error: &Error) -> Failure {
    let code = match error {
        Error::Payload { .. } | Error::Core { .. } | Error::LossUnseen | Error::NoIdleDeadline => Code::Usage,
        Error::Capture { .. } => Code::Write,
        _ => Code::Failed,
    };
    let failure = Failure::of(code, error);
    match error {
        Error::Memory { fitting: 0, .. } => failure.help("end other programs, or use a larger machine"),
        Error::TaskMemory { fitting, .. } => failure.help(format_args!("--count {fitting} fits")),
        Error::Memory { fitting, .. } => failure.help(format_args!("--connections {fitting} fits")),
        Error::NoIdleDeadline => failure.help("leave out --mode or --idle-deadline"),
        Error::LossUnseen => failure.help("leave out --segments or --loss"),
        _ => failure,
    }
}

/// How often a line is written where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  anywire lab swarm
  anywire lab swarm --connections 6000000 --duration 30s --json swarm.json
  anywire lab swarm -c 1000000 --mode http --loss 0.001
  anywire lab swarm -c 1000000 --mode group --keep-alive 60s
  anywire lab swarm -c 1000000 --keep-alive 60s --idle-deadline 5m
  anywire lab swarm -c 1000 --mode short --time-wait 60s
  anywire lab swarm -c 10 --duration 100ms --capture frames.pcap
  anywire lab swarm tasks --count 100000000 --json tasks.json

Exit codes: 0 measured, 1 could not run (memory), or a payload was corrupt, 2 bad arguments,
23 result not written, 130 and 143 ended by SIGINT and SIGTERM with the result so far.";
