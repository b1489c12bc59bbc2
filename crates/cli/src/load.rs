//! `anywire load URL`: many requests over many connections, and what each took.

use std::time::Duration;

use anywire::advice::Message;
use anywire::load::agents::AgentOptions;
use anywire::load::script::Step;
use anywire::load::search::Search;
use anywire::load::{
    Amount, Handles, IntervalFigures, Limits, Outcome, Plan, Recorder, RequireError, RequireReason,
    Requirement, Snapshot, Stop, Threshold, Verdict, text,
};
use anywire::loops::Loops;
use anywire::wire::Address;
use clap::Args;

use crate::agents::{self, Agents, Followers, Role};
use crate::explain;
use crate::exports::{Exports, Lines};
use crate::failure::{Code, Failure};
use crate::heads::HeadLimits;
use crate::hosts::KnownHosts;
use crate::limit::{self, Limit};
use crate::loops::LoadLoops;
use crate::output;
use crate::pace::Pace;
use crate::progress;
use crate::repeat;
use crate::requests::Requests;
use crate::signals::Signals;
use crate::trust::{self, Trust};
use crate::values;
use crate::versions::Versions;
use crate::watch::{Facts, Watch};

/// Load a URL and print how fast it answers
///
/// Closed mode: each connection sends its next request when an answer has come, so a stall of the server also stops
/// the requests that would have shown it. Open mode, with --rate, --ramp or --step: requests leave by a schedule, and a
/// late one is late in the result. Ctrl-C ends the run early and prints the result so far.
///
/// HTTP/1.1 is spoken, over TLS too, unless --http2 asks for the other version.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Load {
    /// The URL, such as http://localhost:8080/json; http:// may be left out, and with --via the host too
    #[arg(value_name = "URL", required_unless_present_any = ["agent", "urls", "har", "script"])]
    url: Option<String>,
    /// Connections in all, spread evenly over the loops
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// How long to measure
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = measured)]
    duration: Duration,
    /// Send so many requests instead of measuring for a time
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,
    /// Run it so often, each time anew: 'diff' can judge rounds. The figures are of the round in the middle by its rate
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Requests in flight on each connection of HTTP/1 (pipelining, if more than 1)
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    versions: Versions,
    /// Streams that are kept busy on each connection of HTTP/2 [default: 1]
    #[arg(long, value_name = "N", requires = "http2", conflicts_with = "depth", value_parser = values::up_to(1, DEPTH_MAX))]
    streams: Option<usize>,
    /// The wire to go by instead of the URL's host and port, WIRE:WHERE
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    via: Option<Address>,
    #[command(flatten)]
    known: KnownHosts,
    #[command(flatten)]
    loops: LoadLoops,
    /// Load before the measured part, which is in no figure [default: 1s, and none with --requests]
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    warm_up: Option<Duration>,
    /// Longest wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::positive_duration)]
    timeout: Duration,
    /// How long connecting may take, and as long again the handshake of TLS
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = text::positive_duration)]
    connect_timeout: Duration,
    /// Give a connection up after so many failures in a row, such as refused dials, without an answer between them; 0 never does
    ///
    /// In the open mode too: the requests that were due go to the other connections. Between two attempts it pauses, from 5 ms up to 1 s.
    /// Agents take a number up to 8.
    #[arg(long, value_name = "N", default_value_t = Limits::default().failures_in_a_row)]
    give_up_after: u32,
    /// The field of an answer that tells the server's own time, in ms or with its unit [default: Server-Timing]
    #[arg(long, value_name = "NAME")]
    server_time_header: Option<String>,
    /// Count the system calls of the loops by name, which costs time at each of them
    #[arg(long)]
    count_calls: bool,
    #[command(flatten)]
    sent: Requests,
    /// What the result must keep to, such as 'p99<5ms' 'errors<0.1%' 'rate>=10k', or of one request 'p95{GET /cart}<5ms'; give the URL before it
    #[arg(long, value_name = "THRESHOLD", num_args = 1.., value_parser = requirement)]
    require: Vec<Requirement>,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    exports: Exports,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    heads: HeadLimits,
    #[command(flatten)]
    agents: Agents,
}

impl Load {
    /// Runs it, and prints the result.
    pub(crate) fn run(self, is_verbose: bool) -> Result<(), Failure> {
        let handles = Handles { tls: self.trust.client_tls()?, hosts: self.known.hosts(), stop: Stop::new() };
        let role = self.agents.role()?;
        if self.rounds > 1 && !matches!(role, Role::Alone) {
            return Err(Failure::new(Code::Usage, "loading in rounds: agents load once")
                .help("leave out --rounds, or the options of agents"));
        }
        if let Role::Agent(listen) = &role {
            return self.serve(listen, &handles);
        }
        let search = self.limit.search(self.pace.rate(), self.duration, &self.require)?;
        let (plan, said) = self.plan(search.as_ref())?;
        if let Some(said) = said {
            output::say(said);
        }
        self.requests_are_there(&plan)?;
        self.exports.check()?;
        let signals = Signals::stop(handles.stop.clone())?;
        let loops = self.loops.start()?;
        let mut lines = self.exports.intervals()?;
        let mut lost = None;
        let mut outcome = match role {
            Role::Member(leader, place) => {
                let options = self.agents.options(&loops, &handles)?;
                // Judged are the figures of all, by the one who has them.
                let mut outcome = agents::join(&agents::control()?, &leader, place, &options)?;
                outcome.command = Some(repeat::command());
                self.exports.write(&outcome)?;
                return signals.check();
            }
            Role::Leader(followers) => {
                let control = agents::control()?;
                let mut once = |plan: &Plan| {
                    let options = self.agents.options(&loops, &handles)?;
                    let led = self.led(&control, plan, (&followers, options), is_verbose, &mut lines);
                    led.or_else(|failure| signals.check().and(Err(failure)))
                };
                match &search {
                    Some(search) => limit::find(search, &plan, &handles.stop, |plan| {
                        let outcome = once(plan)?;
                        if let Some(found) = outcome.lost_agents() {
                            // Rates of fewer machines cannot be compared with those before.
                            handles.stop.stop();
                            lost = Some(found);
                        }
                        Ok(outcome)
                    })?,
                    None => once(&plan)?,
                }
            }
            Role::Alone | Role::Agent(_) => {
                let mut once = |plan: &Plan| self.once(&loops, plan, &handles, is_verbose, &mut lines);
                match &search {
                    Some(search) => limit::find(search, &plan, &handles.stop, once)?,
                    None => self.in_rounds(&plan, &handles, &mut once)?,
                }
            }
        };
        outcome.command = Some(repeat::command());
        if search.is_none() {
            outcome.thresholds = anywire::load::judge(&self.require, &outcome);
        }
        self.exports.write(&outcome).and(lines.end())?;
        signals.check()?;
        if let Some(found) = lost {
            let message = format_args!("searching the limit of {}: {found}", outcome.target.url);
            return Err(Failure::of_message(Code::Partial, Message::read(message))
                .or_help("see what the agents say, and search again; the result so far is printed"));
        }
        judge(&outcome)
    }

    /// Leads a plan on several machines.
    fn led(
        &self,
        control: &Loops,
        plan: &Plan,
        (followers, options): (&Followers, AgentOptions),
        is_verbose: bool,
        lines: &mut Lines,
    ) -> Result<Outcome, Failure> {
        let leading = self.agents.lead(control, plan, followers, options)?;
        let (facts, view) = (Facts { part: "agent", ..self.facts(plan) }, leading.view());
        let look = move || view.snapshot();
        let (led, intervals) = self.observed((&facts, plan), is_verbose, lines, look, || leading.wait());
        Ok(Outcome { intervals, ..led.map_err(|error| agents::team_failure(&error))? })
    }

    /// Runs the plan so often as there are rounds.
    fn in_rounds(
        &self,
        plan: &Plan,
        handles: &Handles,
        once: &mut impl FnMut(&Plan) -> Result<Outcome, Failure>,
    ) -> Result<Outcome, Failure> {
        let mut outcomes = Vec::new();
        for round in 1..=self.rounds {
            if self.rounds > 1 {
                output::say(format_args!("round {round} of {}", self.rounds));
            }
            outcomes.push(once(plan)?);
            if handles.stop.is_stopped() {
                break;
            }
        }
        Ok(match outcomes.len() {
            1 => outcomes.swap_remove(0),
            _ => Outcome::of_rounds(outcomes).expect("there is a round"),
        })
    }

    /// Runs a plan on this machine.
    fn once(
        &self,
        loops: &Loops,
        plan: &Plan,
        handles: &Handles,
        is_verbose: bool,
        lines: &mut Lines,
    ) -> Result<Outcome, Failure> {
        let run = anywire::load::start(loops, plan.clone(), handles.clone())?;
        let monitor = run.monitor();
        let look = move || monitor.snapshot();
        let facts = self.facts(plan);
        let (ran, intervals) = self.observed((&facts, plan), is_verbose, lines, look, || run.wait());
        Ok(Outcome { intervals, ..ran? })
    }

    /// Waits for the end of a run, shows how it goes meanwhile, and records it in intervals.
    fn observed<T>(
        &self,
        (facts, plan): (&Facts, &Plan),
        is_verbose: bool,
        lines: &mut Lines,
        look: impl Fn() -> Snapshot + Clone + Send + Sync + 'static,
        wait: impl FnOnce() -> T,
    ) -> (T, Vec<IntervalFigures>) {
        let mut recorder = Recorder::of(look.clone(), self.exports.interval()).of_plan(plan);
        let record = || {
            if let Some(interval) = recorder.look() {
                lines.write(&interval);
            }
        };
        let ended = progress::during(record, || self.watch.during(facts, is_verbose, look, wait));
        if let Some(interval) = recorder.finish() {
            lines.write(&interval);
        }
        (ended, recorder.into_timeline())
    }

    /// Waits for leaders, as an agent.
    fn serve(&self, listen: &Address, handles: &Handles) -> Result<(), Failure> {
        let _signals = Signals::stop(handles.stop.clone())?;
        agents::serve(&agents::control()?, listen, &self.agents.options(&self.loops.start()?, handles)?)
    }

    /// The plan, and what is to be said of its requests, such as what is left out of a recording.
    fn plan(&self, search: Option<&Search>) -> Result<(Plan, Option<String>), Failure> {
        let usual = search.map(|search| search.rates.first);
        let schedule = self.pace.schedule(usual, self.sent.seed()).map_err(|option| {
            Failure::new(Code::Usage, format_args!("{option} needs a schedule"))
                .help("add --rate, --ramp or --step; without one requests leave when answers come")
        })?;
        let plan = Plan {
            via: self.via.clone(),
            server_name: self.trust.server_name().map(str::to_owned),
            connections: self.connections,
            protocol: self.versions.protocol(),
            depth: self.depth(),
            schedule,
            deadline: self.pace.deadline(),
            reuse: self.pace.reuse(),
            spin: self.pace.spin(),
            requests_per_connection: self.pace.requests_per_connection(),
            amount: self.requests.map_or(Amount::Duration(self.duration), Amount::Requests),
            warm_up: self.warm_up(),
            server_time_header: self.server_time_header.clone(),
            count_system_calls: self.count_calls,
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            handshake_timeout: self.connect_timeout,
            limits: Limits {
                head: self.heads.limits(),
                // No run lasts for so many.
                failures_in_a_row: if self.give_up_after == 0 { u32::MAX } else { self.give_up_after },
                ..Limits::default()
            },
            ..Plan::new("")
        };
        self.sent.add_to(plan, self.url.as_deref(), self.via.as_ref())
    }

    /// Whether the load has each request that a threshold is about: after a run of an hour it would be late to say so.
    fn requests_are_there(&self, plan: &Plan) -> Result<(), Failure> {
        let steps =
            plan.script.iter().flat_map(|script| &script.sequences).flat_map(|sequence| &sequence.steps);
        let names: Vec<String> = steps.map(Step::name_in_results).collect();
        for requirement in &self.require {
            let Some(name) = requirement
                .request()
                .filter(|name| names.len() < 2 || !names.iter().any(|known| known == name))
            else {
                continue;
            };
            let failure = Failure::new(
                Code::Usage,
                format!("--require '{requirement}': no request of the load is named {name:?}"),
            );
            let shown = names.iter().take(REQUESTS_SHOWN_MAX).map(|name| format!("{name:?}"));
            return Err(match names.len() {
                0 | 1 => failure.help(format_args!("leave out {{{name}}}: the load has one request alone")),
                _ => failure.help(format_args!("there are {}", shown.collect::<Vec<_>>().join(", "))),
            });
        }
        Ok(())
    }

    /// Whoever names a number of requests means all that are sent.
    fn warm_up(&self) -> Duration {
        let usual = if self.requests.is_some() { Duration::ZERO } else { WARM_UP };
        self.warm_up.unwrap_or(usual)
    }

    /// Requests in flight on a connection.
    fn depth(&self) -> usize {
        self.streams.unwrap_or(self.depth)
    }

    /// What is known of the run before it begins.
    fn facts(&self, plan: &Plan) -> Facts {
        let target =
            self.via.as_ref().map_or_else(|| plan.url.clone(), |via| format!("{} over {via}", plan.url));
        Facts {
            target,
            connections: plan.connections,
            depth: (plan.protocol.depth_name(), plan.depth),
            amount: plan.amount,
            warm_up: plan.warm_up,
            rate: plan.schedule.map(|schedule| schedule.shape.mean()),
            part: "loop",
            latency_from: if plan.schedule.is_some() { "intended time" } else { "send" },
        }
    }
}

/// A run without a single good answer has measured nothing, and one that fell short of its plan something else than was
/// asked for. The result has been printed, with the same words.
fn judge(outcome: &Outcome) -> Result<(), Failure> {
    let url = &outcome.target.url;
    let search = outcome.search.as_ref();
    // Where nothing was answered at all, a search says no more than a load does.
    if let Some(search) =
        search.filter(|search| search.highest_rate.is_some() || outcome.no_good_answer().is_none())
    {
        return limit::judge(url, search, outcome);
    }
    if let Some(found) = outcome.no_good_answer() {
        let failure =
            Failure::of_message(Code::Failed, Message::read(format_args!("loading {url}: {found}")));
        let found = found.found;
        if let Some(help) = trust::help_with(&found) {
            return Err(failure.help(help));
        }
        if found.contains("by prior knowledge") {
            return Err(failure.help("leave out --http2, or let the server take HTTP/2 without TLS (h2c)"));
        }
        if let Some(help) = explain::limit_of_load(&found) {
            return Err(failure.help(help));
        }
        return Err(
            failure.or_help(format_args!("see the server's log; 'anywire get -v {url}' shows one answer"))
        );
    }
    if let Some(found) = outcome.shortfall() {
        return Err(Failure::of_message(
            Code::Partial,
            Message::read(format_args!("loading {url}: {found}")),
        )
        .or_help("see the errors in the result and the server's log: it died, or refuses"));
    }
    if let Some(found) = outcome.saturation() {
        return Err(Failure::of_message(
            Code::Saturated,
            Message::read(format_args!("loading {url}: {found}")),
        ));
    }
    thresholds(url, outcome)
}

/// Which thresholds broke, with what was found.
fn thresholds(url: &str, outcome: &Outcome) -> Result<(), Failure> {
    let broken: Vec<String> = outcome
        .thresholds
        .iter()
        .filter(|threshold| threshold.verdict == Verdict::Broken)
        .map(Threshold::to_string)
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::Threshold, format_args!("loading {url}: {}", broken.join("; ")))
        .help("see the result for the other figures; a limit that is too strict is changed in --require"))
}

/// A threshold. A URL among them was meant to be loaded.
fn requirement(text: &str) -> Result<Requirement, String> {
    text.parse().map_err(|wrong: RequireError| match wrong.reason() {
        RequireReason::NoOperator => format!("{wrong}, and the URL before --require"),
        _ => wrong.to_string(),
    })
}

/// A time to measure. Who writes a body means the `-d` of curl.
pub(crate) fn measured(text: &str) -> Result<Duration, String> {
    let body = "a body is given by --data, and -d is how long to measure, such as 10s";
    match text.starts_with(|first: char| first.is_ascii_digit()) {
        true => text::positive_duration(text).map_err(|wrong| format!("{wrong}; {body}")),
        false => Err(format!("it is no time; {body}")),
    }
}

/// The deepest that a plan allows.
pub(crate) const DEPTH_MAX: u64 = 4096;
/// Names of requests in a message.
const REQUESTS_SHOWN_MAX: usize = 12;
const WARM_UP: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  anywire load localhost:8080 -c 64 -d 10s
  anywire load / --via unix:/run/app.sock --depth 16
  anywire load localhost:8080 --rate 10k --require 'p99<5ms'
  anywire load localhost:8080 --rate 500 --poisson --seed 7 --deadline 2s
  anywire load localhost:8080 --step 1k:10k:10 -d 60s
  anywire load localhost:8080 --search --require 'p99<20ms' 'errors<0.1%'
  anywire load localhost:8080 --search=1k:50k --precision 2% -d 5s --confirm 1m
  anywire load localhost:8080 --ramp 100:5k --jitter --reuse mru --new-connection-every 1000
  anywire load --http2 --streams 100 -c 4 localhost:8080
  anywire load https://localhost:8443/ --cacert root.pem
  anywire load localhost:8080/echo --data @body.json -H 'Content-Type: application/json'
  anywire load 'localhost:8080/items/{{int 1 500}}' --expect-body price
  anywire load --script shop.toml -c 100 -d 30s localhost:8080
  anywire load --har visit.har --har-think --cookies -n 1000
  anywire load --openapi openapi.json localhost:8080/api --openapi-value 'id={{int 1 500}}'
  anywire load localhost:8080 --json result.json --html result.html
  anywire load localhost:8080 --require 'p99<5ms' 'errors<0.1%' 'rate>=10k'
  anywire load localhost:8080 --urls urls --require 'p95{GET /cart}<5ms'
  anywire load localhost:8080 -d 60s --intervals - | jq '[.t, .achieved, .latency.p99]'
  anywire load localhost:8080 --csv result.csv --prometheus result.prom
  anywire load localhost:8080 --rounds 10 --json old.json
  anywire load localhost:8080 -d 2s --json - | jq .rate.achieved
  anywire load --agent 0.0.0.0:7117 --agents-token token
  anywire load shop.test -c 512 --agents agents.txt --agents-token token
  anywire load shop.test -c 512 --index 0 --of 4 --coordinator 10.0.0.10:7117

Exit codes: 0 measured as asked; errors may be among the answers, and are counted. 1 could not
run, or not one answer was good. 2 bad arguments. 3 a threshold broke, or --search found no rate
that holds. 4 the load generator was the limit at that rate, or of a search: no verdict. 18 the run fell short of
its plan: no connection was left before its time was up or its requests were sent, some were given
up or never open, an agent was lost, or a search ended without an answer or after too many
attempts; the result so far is printed. Requests of a rate that were never sent, since all
connections were busy, are no such end: --require 'rate_ratio>=0.99' judges them. 23 result not written. 26 data not read. 130 and 143 ended by
SIGINT and SIGTERM, with the result so far.";
