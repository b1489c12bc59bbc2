//! `anywire swarm`: very many connections over user-space TCP in this process, and how fast they go.

mod tasks;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anywire::load::Stop;
use anywire::load::text::grouped;
use anywire_swarm_load::{CONNECTIONS_MAX, Error, Mode, Monitor, Order, Plan};
use clap::{Args, Subcommand};

use self::tasks::Tasks;
use crate::failure::{Code, Failure};
use crate::progress::{self, Progress};
use crate::signals::Signals;
use crate::{output, values};

/// Run millions of connections in this process, and measure them
///
/// Both ends of every connection are here, on one core: two engines of user-space TCP with the switch between them.
/// Every payload is verified byte for byte.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Swarm {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    what: Option<What>,
}

/// What is measured instead of connections.
#[derive(Debug, Subcommand)]
enum What {
    Tasks(Tasks),
}

/// The options of a run over a network.
#[derive(Debug, Args)]
struct Options {
    /// Connections; both ends of each are in this process
    #[arg(short, long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    connections: u32,
    /// What they do
    #[arg(short, long, value_name = "MODE", default_value = "echo", value_parser = values::choice(&MODES))]
    mode: Mode,
    /// Bytes of each payload, all of which are compared
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    payload: usize,
    /// Whose turn is when
    #[arg(long, value_name = "ORDER", default_value = "random", value_parser = values::choice(&ORDERS))]
    order: Order,
    /// 3: data is acknowledged within its batch, as RFC 9293 asks. 2: the acknowledgment is sent with the next
    /// request, however long that takes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    segments: u8,
    /// Neither make nor verify checksums
    #[arg(long)]
    no_checksum: bool,
    /// The share of frames that the network loses, from 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    loss: f64,
    /// How long to measure
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = run_time)]
    duration: Duration,
    /// How long to run before that; at least until each connection had a turn
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    warm_up: Duration,
    /// How long TIME-WAIT lasts
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration)]
    time_wait: Duration,
    /// The seed of everything random: the order, the losses, the engines' secrets
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The core to run on [default: the last one]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Write the first 16 MiB of the clients' frames to a file that wireshark opens
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Write the result as JSON to a file, or to stdout (-) instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Swarm {
    /// Measures it, and prints the result.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what {
            Some(What::Tasks(tasks)) => tasks.run(),
            None => self.options.run(),
        }
    }
}

impl Options {
    fn run(self) -> Result<(), Failure> {
        let defaults = Plan::new(self.connections);
        let plan = Plan {
            mode: self.mode,
            order: self.order,
            checksums: !self.no_checksum,
            payload_bytes: self.payload,
            loss: self.loss,
            seed: self.seed,
            core: self.core.unwrap_or(defaults.core),
            segments: self.segments,
            duration: self.duration,
            warm_up: self.warm_up,
            time_wait: self.time_wait,
            capture: self.capture,
            ..defaults
        };
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
        let outcome = progress::during(show, || anywire_swarm_load::run(&plan, &stop, &monitor));
        progress.finish();
        let outcome = match outcome {
            Err(Error::Stopped) => return signals.check(),
            outcome => outcome.map_err(|error| failure(&error, "--connections"))?,
        };
        output::table_or_json(&outcome, self.json.as_deref())?;
        signals.check()?;
        outcome.check().map_err(|error| failure(&error, "--connections"))
    }
}

/// What the command says of an error; `count` is the option for the number of connections or tasks.
fn failure(error: &Error, count: &str) -> Failure {
    let code = match error {
        Error::Payload { .. } | Error::Core { .. } | Error::LossUnseen => Code::Usage,
        Error::Capture { .. } => Code::Write,
        _ => Code::Failed,
    };
    let failure = Failure::of(code, error);
    match error {
        Error::Memory { fitting: 0, .. } => failure.help("end other programs, or use a larger machine"),
        Error::Memory { fitting, .. } => failure.help(format_args!("{count} {fitting} fits")),
        Error::LossUnseen => failure.help("leave out --segments or --loss"),
        _ => failure,
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=0.5).contains(share));
    share.ok_or_else(|| {
        format!("{text:?} is no share from 0 to 0.5; write it such as 0.001 for one in a thousand")
    })
}

fn run_time(text: &str) -> Result<Duration, String> {
    let time = values::positive_duration(text)?;
    if time > Duration::from_secs(3600) { Err("an hour is the longest".to_owned()) } else { Ok(time) }
}

static MODES: [(&str, &str, Mode); 4] = [
    ("echo", "Each client sends a request, and the next one when it has come back", Mode::Echo),
    ("push", "The server sends a message to each connection in turn", Mode::Push),
    ("short", "Each connection is opened for one echo, and closed by FINs", Mode::Short),
    ("http", "Each client asks by HTTP, and again when it has the answer; connections stay", Mode::Http),
];

static ORDERS: [(&str, &str, Order); 2] = [
    (
        "random",
        "In an order that is unrelated to their places in memory, the same in each round",
        Order::Random,
    ),
    ("sequential", "As they lie in memory, so that the processor foresees the next one", Order::Sequential),
];

/// How often a line is written where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  anywire swarm
  anywire swarm --connections 6000000 --duration 30s --json swarm.json
  anywire swarm -c 1000000 --mode http --loss 0.001
  anywire swarm -c 1000 --mode short --time-wait 60s
  anywire swarm -c 10 --duration 100ms --capture frames.pcap
  anywire swarm tasks --count 100000000

'anywire swarm tasks --help' shows the options of the executor alone.

Exit codes: 0 measured, 1 could not run (memory), or a payload was corrupt, 2 bad arguments,
23 result not written, 130 and 143 ended by SIGINT and SIGTERM with the result so far.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shares() {
        assert_eq!((share("0.001"), share("0")), (Ok(0.001), Ok(0.0)));
        for wrong in ["", "1", "-0.1", "NaN", "1%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
