//! `anywire stack stat`: connections as `ss` prints them, counters as `nstat`, neighbours as `ip`.

use clap::Args;
use serde_json::Value;

use super::process::{Process, Target, hosts};
use super::table;
use crate::failure::Failure;
use crate::{output, values};

/// Show what a service on a device does: connections, counters, addresses and neighbours
///
/// Without --connections, --counters or --neighbours all three are shown. The names are those of ss, nstat and ip; counters that Linux
/// does not have begin with Stack. Counters of several loops are summed; a listener on several is shown
/// once, with the fullest of its accept queues.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Stat {
    /// The service: a PID, a device such as tap0 or xdp:eth0, or the address of its routes [default: the only one]
    #[arg(value_name = "PID|DEVICE|ADDRESS", value_parser = Target::parse)]
    target: Option<Target>,
    /// Show listeners and connections (ss -tani)
    #[arg(short, long)]
    connections: bool,
    /// Show what was counted, except for zeros (nstat -a)
    #[arg(short = 'n', long)]
    counters: bool,
    /// Show addresses and neighbours (ip address, ip neighbour)
    #[arg(long)]
    neighbours: bool,
    /// Connections to show of each loop
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = values::up_to(0, 100_000))]
    limit: usize,
    /// Show counters that are zero as well, and those of each loop beside the sum
    #[arg(short, long)]
    zeros: bool,
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
    /// Print the counters as Prometheus scrapes them
    #[arg(long, conflicts_with_all = ["json", "connections", "counters", "neighbours"])]
    prometheus: bool,
}

impl Stat {
    pub(super) fn run(self) -> Result<(), Failure> {
        let process = Process::find(self.target.as_ref())?;
        if self.prometheus {
            return output::print_text(&process.text("/metrics")?);
        }
        let mut stat = process.json(&format!("/stat?connections={}", self.limit))?;
        if let (Some(device), Some(all)) = (process.device(), stat["hosts"].as_array_mut()) {
            all.retain(|host| host["device"] == *device);
        }
        if self.json {
            return output::print_text(&format!("{stat:#}\n"));
        }
        let is_all = !(self.connections || self.counters || self.neighbours);
        let mut parts = Vec::new();
        if is_all || self.neighbours {
            parts.push(table::links(&stat));
        }
        if is_all || self.connections {
            parts.push(table::connections(&stat));
        }
        if is_all || self.counters {
            parts.push(table::counters(&stat, self.zeros));
        }
        for silent in stat["silent"].as_array().into_iter().flatten() {
            output::say(format_args!("{} loop {}: {}", text(&silent["device"]), silent["loop"], SILENT));
        }
        if hosts(&stat).next().is_none() {
            output::say("no loop of this service has used its device yet");
        }
        output::print_text(&parts.join("\n"))
    }
}

/// What a JSON text says, without its quotes.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const SILENT: &str = "it has not answered within 2 s, because something holds it up";

const EXAMPLES: &str = "\
Examples:
  anywire stack stat                         the one service on a device
  anywire stack stat 4711 --connections      of this process, as ss -tani prints them
  anywire stack stat tap0 --counters -z      all counters, also of each loop
  anywire stack stat --json | jq '.hosts[].counters.TcpRetransSegs'
  anywire stack stat --prometheus > /var/lib/node_exporter/stack.prom

Exit codes: 0 shown, 1 failed, 2 bad arguments, 7 no such service, 28 it does not answer.";
