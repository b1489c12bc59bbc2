//! `anywire probe URL`: why a service is slow.

use std::time::Duration;

use anywire::Chain;
use anywire::advice::Message;
use anywire::load::probe::{self, Limits, Outcome, Plan, ProbeError, Severity};
use anywire::load::{Stop, text};
use anywire::loops::Loops;
use clap::Args;

use crate::explain;
use crate::failure::{Code, Failure};
use crate::output;
use crate::reach::Reach;
use crate::signals::Signals;
use crate::values;
use crate::versions::Versions;

/// Say why a service is slow: what leaves in too many writes, waits for whom, or closes too early
///
/// Makes a few hundred requests, all of them GET and HEAD: single ones on one connection, several in one write, many connections, and
/// some more. It counts data segments and reads of each answer, and says what it finds in verdicts: what was seen, why that costs, and
/// what to change. Without any it says clean. With --pid, on the server's machine, it also counts system calls, CPU by thread and softirqs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Probe {
    /// The URL, such as http://localhost:8080/json; http:// may be left out, and with --via the host too
    #[arg(value_name = "URL")]
    url: String,
    /// Single requests on one connection
    #[arg(short = 'n', long, value_name = "N", default_value_t = 200)]
    requests: usize,
    /// Requests in one write
    #[arg(long, value_name = "N", default_value_t = 16)]
    pipeline: usize,
    /// Connections at once
    #[arg(short, long, value_name = "N", default_value_t = 32)]
    connections: usize,
    /// The server's process on this machine: its system calls, CPU by thread, softirqs and accept queues are looked at, too
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// A path on the same server that takes long: do quick requests wait for it?
    #[arg(long, value_name = "PATH")]
    slow_path: Option<String>,
    #[command(flatten)]
    versions: Versions,
    /// Longest wait for an answer, and for all of one pattern but its last answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = text::positive_duration)]
    timeout: Duration,
    /// Exit with 3 if there is a verdict of this severity or above: note, warning or problem
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
    #[command(flatten)]
    reach: Reach,
}

impl Probe {
    /// Runs it, and prints what it found.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let plan = self.plan()?;
        if let Some(path) = &self.reach.json {
            output::check(path)?;
        }
        let url = plan.url.clone();
        let signals = Signals::stop(plan.stop.clone())?;
        let loops = Loops::start(1).map_err(|error| Failure::of(Code::Failed, &error))?;
        let what = self.reach.via.as_ref().map_or_else(|| url.clone(), |via| format!("{url} over {via}"));
        output::say(format!("probing {what}"));
        let outcome = match probe::run(&loops, plan) {
            Ok(outcome) => outcome,
            Err(error) => {
                // Ended before the first answer: there is nothing to print.
                signals.check()?;
                return Err(unable(&url, &error));
            }
        };
        output::table_or_json(&outcome, self.reach.json.as_deref())?;
        signals.check()?;
        self.judge(&url, &outcome)
    }

    fn plan(&self) -> Result<Plan, Failure> {
        Ok(Plan {
            via: self.reach.via.clone(),
            tls: self.reach.trust.client_tls()?,
            server_name: self.reach.trust.server_name().map(str::to_owned),
            protocol: self.versions.protocol(),
            headers: values::headers(&self.reach.headers)?,
            requests: self.requests,
            pipeline: self.pipeline,
            connections: self.connections,
            pid: self.pid,
            slow_path: self.slow_path.clone(),
            timeout: self.timeout,
            pattern_time: self.timeout,
            connect_timeout: self.reach.connect_timeout,
            handshake_timeout: self.reach.connect_timeout,
            limits: Limits { head: self.reach.heads.limits(), ..Limits::default() },
            stop: Stop::new(),
            ..Plan::new(values::url(&self.url, self.reach.via.as_ref())?)
        })
    }

    /// Whether there is a verdict that must not be, or fewer connections came about. The result has been printed.
    fn judge(&self, url: &str, outcome: &Outcome) -> Result<(), Failure> {
        if let Some(severity) = self.fail_on {
            let found: Vec<_> = outcome.at_least(severity).map(|verdict| verdict.class.name()).collect();
            if !found.is_empty() {
                let verdicts = text::counted(found.len() as u64, "verdict");
                let message = format!(
                    "probing {url}: {verdicts} of severity {severity} or above: {}",
                    found.join(", ")
                );
                let failure = Failure::new(Code::Threshold, message);
                return Err(failure.help("each verdict in the result says what to change"));
            }
        }
        if let Some(many) = outcome.many.as_ref().filter(|many| many.opened < many.connections) {
            let asked = text::counted(many.connections as u64, "connection");
            let first = many.first_failure.as_deref().unwrap_or("the time was up");
            let found = format_args!("probing {url}: only {} of {asked} came about: {first}", many.opened);
            let failure = Failure::of_message(Code::Partial, Message::read(found));
            return Err(failure.or_help("take fewer with --connections, or raise what limits them"));
        }
        Ok(())
    }
}

/// Nothing could be measured.
fn unable(url: &str, error: &ProbeError) -> Failure {
    match error {
        ProbeError::Plan(error) => explain::plan(error),
        ProbeError::SlowPath { .. } | ProbeError::Closes => Failure::of(Code::Usage, error),
        ProbeError::Dial(error) => explain::dial(error).with_code(Code::Failed),
        other => {
            let message = Chain(other).message();
            let found = format!("probing {url}: {}", message.found);
            let failure = Failure::new(Code::Failed, found);
            match explain::limit_of_load(&message.found).or(message.help) {
                Some(help) => failure.help(help),
                None => failure.help("'anywire get -v URL' shows one answer"),
            }
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire probe localhost:8080
  anywire probe localhost:8080 --pid $(pidof my-service)
  anywire probe localhost:8080 --slow-path /report
  anywire probe / --via unix:/run/app.sock
  anywire probe https://example.com/ --fail-on warning
  anywire probe localhost:8080 --json - | jq '.verdicts[].class'

Exit codes: 0 measured, whatever the verdicts are. 1 could not run, or there was no answer. 2 bad
arguments. 3 there is a verdict of the severity of --fail-on, or above. 18 not all
connections of --connections came about. 23 result not written.
130 and 143 ended by SIGINT and SIGTERM, with the result so far.";
