//! `anywire lab udp-load`: sends datagrams at a rate, and accounts for each.

use std::time::Duration;

use anywire::load::search::Stage;
use anywire::load::udp::{Search, Trial, UdpLoadError, UdpOutcome, UdpPlan, run, search};
use anywire::load::{Counts, Handles, Schedule, Shape, Snapshot, report, text};
use anywire::loops::Loops;
use anywire::wire::udp::DatagramAddress;
use clap::Args;

use super::address;
use crate::agents::{self, Agents, Role};
use crate::failure::{Code, Failure};
use crate::loops::LoadLoops;
use crate::output::Results;
use crate::pace::{self, Spread};
use crate::progress::{self, Progress};
use crate::signals::Signals;
use crate::values;

/// Send datagrams at a rate to a service that returns them, and account for each
///
/// Open mode: a datagram is sent when it is due, whatever has come back. 'anywire udp serve' is such a service. Ctrl-C ends the
/// run early and prints the result so far.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UdpLoad {
    /// The service: udp:HOST:PORT or unixgram:PATH
    #[arg(value_name = "ADDRESS", value_parser = address, required_unless_present = "agent")]
    target: Option<DatagramAddress>,
    /// Datagrams a second, such as 500 or 10k; with --search the first rate to try
    #[arg(short, long, value_name = "R", default_value = "10k", value_parser = pace::rate)]
    rate: f64,
    /// Go from one rate to another over the time
    #[arg(long, value_name = "A:B", value_parser = pace::ramp, conflicts_with_all = ["rate", "search"])]
    ramp: Option<Shape>,
    /// Go from one rate to another in N steps
    #[arg(long, value_name = "A:B:N", value_parser = pace::steps, conflicts_with_all = ["rate", "ramp", "search"])]
    step: Option<Shape>,
    #[command(flatten)]
    spread: Spread,
    /// What the gaps are drawn by
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long to send; with --search for each rate
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = text::positive_duration)]
    duration: Duration,
    /// Bytes of a datagram
    #[arg(long, value_name = "N", default_value_t = 200)]
    bytes: usize,
    /// Flows, each with numbers of its own
    #[arg(long, value_name = "N", default_value_t = 64)]
    flows: usize,
    /// Sockets, each with a port of its own [default: one for each flow]
    #[arg(long, value_name = "N")]
    sockets: Option<usize>,
    /// How long a datagram may take to come back
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = text::positive_duration)]
    wait: Duration,
    /// Search for the highest rate with at most this share lost, such as 0 or 0.001
    #[arg(long, value_name = "SHARE", value_parser = share)]
    search: Option<f64>,
    /// How often each rate of a search has to hold
    #[arg(long, value_name = "N", default_value_t = 1, requires = "search", value_parser = values::up_to(1, Search::REPEATS_MAX as u64))]
    repeats: usize,
    /// How many times as long the last run of a search is, in which the rate that was found must hold once more; 0 for none
    #[arg(long, value_name = "N", default_value_t = 3, requires = "search", value_parser = clap::value_parser!(u32).range(0..=i64::from(Search::CONFIRM_MAX)))]
    confirm: u32,
    /// Send 64 datagrams of a flow in one system call (GSO), and take joined ones (GRO)
    #[arg(long)]
    offload: bool,
    /// Receive buffer of each socket, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    receive_buffer: usize,
    #[command(flatten)]
    loops: LoadLoops,
    #[command(flatten)]
    results: Results,
    #[command(flatten)]
    agents: Agents,
}

impl UdpLoad {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.results.check()?;
        let (role, handles) = (self.agents.role()?, Handles::default());
        if self.search.is_some() && !matches!(role, Role::Alone) {
            return Err(Failure::new(Code::Usage, "searching with agents: they load once")
                .help("leave out --search, or the options of agents"));
        }
        let signals = Signals::stop(handles.stop.clone())?;
        let loops = self.loops.start()?;
        if let Role::Agent(listen) = &role {
            return agents::serve(&agents::control()?, listen, &self.agents.options(&loops, &handles)?);
        }
        let target = self
            .target
            .as_ref()
            .ok_or_else(|| Failure::new(Code::Usage, "loading nothing: no address is given"))?;
        let plan = self.plan(target)?;
        let progress = Progress::start(self.duration.as_millis() as u64);
        progress.say(&format!("loading {target}"));
        let begun = std::time::Instant::now();
        let show = || progress.show(begun.elapsed().as_millis() as u64, || "sending".to_owned());
        let outcome = match role {
            Role::Member(leader, place) => {
                let options = self.agents.options(&loops, &handles)?;
                let outcome = agents::join_datagrams(&agents::control()?, &leader, place, &options)?;
                progress.finish();
                self.results.write(&outcome, report::udp)?;
                return signals.check();
            }
            Role::Leader(followers) => {
                let (control, options) = (agents::control()?, self.agents.options(&loops, &handles)?);
                let leading = self.agents.lead_datagrams(&control, &plan, &followers, options)?;
                let view = leading.view();
                let show = || progress.show(begun.elapsed().as_millis() as u64, || so_far(&view.snapshot()));
                let outcome = progress::during(show, || leading.wait()).or_else(|error| {
                    // Whoever ended it knows why there is nothing.
                    signals.check()?;
                    Err(agents::team_failure(&error))
                })?;
                progress.finish();
                self.results.write(&outcome, report::udp)?;
                outcome
            }
            Role::Alone | Role::Agent(_) => {
                if let Some(loss_max) = self.search {
                    let outcome = self.searched(loss_max, &loops, &plan, &handles, &progress)?;
                    signals.check()?;
                    return judge(&outcome);
                }
                let outcome =
                    progress::during(show, || run(&loops, plan, handles)).map_err(|error| failure(&error))?;
                progress.finish();
                self.results.write(&outcome, report::udp)?;
                outcome
            }
        };
        signals.check()?;
        judge(&outcome)
    }

    /// Searches, and prints what was found; gives the account of the best run.
    fn searched(
        &self,
        loss_max: f64,
        loops: &Loops,
        plan: &UdpPlan,
        handles: &Handles,
        progress: &Progress,
    ) -> Result<UdpOutcome, Failure> {
        let options = Search { loss_max, repeats: self.repeats, confirm: self.confirm, ..Search::default() };
        let told = |trial: &Trial| {
            let rate = text::whole(trial.datagrams_per_second);
            let early = if trial.held.is_none() { ", ended early" } else { "" };
            let longer = if trial.stage == Stage::Confirm { "confirming " } else { "" };
            progress.say(&format!("{longer}{rate}/s: {} of {} lost{early}", trial.lost, trial.sent));
        };
        let found = search(loops, plan, handles, &options, told).map_err(|error| failure(&error))?;
        progress.finish();
        self.results.write(&found, report::udp_search)?;
        Ok(found.outcome)
    }

    fn plan(&self, target: &DatagramAddress) -> Result<UdpPlan, Failure> {
        Ok(UdpPlan {
            schedule: self.schedule(),
            duration: self.duration,
            bytes: self.bytes,
            flows: self.flows,
            sockets: self.sockets,
            wait: self.wait,
            offload: self.offload,
            receive_buffer_bytes: self.receive_buffer,
            ..UdpPlan::new(target).map_err(|error| Failure::of(Code::Usage, &error))?
        })
    }

    fn schedule(&self) -> Schedule {
        let shape = self.ramp.or(self.step).unwrap_or(Shape::Constant { per_second: self.rate });
        Schedule { gaps: self.spread.gaps(), seed: self.seed, ..Schedule::of(shape) }
    }
}

/// A run in which nothing came back has measured nothing. The result has been printed, with the same words.
fn judge(outcome: &UdpOutcome) -> Result<(), Failure> {
    if outcome.received + outcome.late > 0 {
        whole(outcome)?;
        return in_time(outcome);
    }
    let loading =
        |found: String| Failure::new(Code::Failed, format_args!("loading {}: {found}", outcome.target));
    if outcome.unreachable > 0 {
        return Err(loading("nobody receives there".to_owned()).help("start the service, or check the port"));
    }
    if let Some(because) = &outcome.refused_because {
        return Err(loading(format!("the system refused to send: {because}"))
            .help("check the way to it, or send fewer --bytes"));
    }
    let found = format!("none of {} datagrams came back", outcome.sent);
    Err(loading(found).help("the service must return each datagram, as 'anywire udp serve' does"))
}

/// A load of which a part is missing is not what was asked for.
fn whole(outcome: &UdpOutcome) -> Result<(), Failure> {
    let mut lost = outcome.agents.iter().filter_map(|share| Some((&share.agent, share.agent.lost.as_ref()?)));
    let Some((agent, why)) = lost.next() else { return Ok(()) };
    let found = format_args!(
        "loading {}: agent {} at {} was lost: {why}",
        outcome.target, agent.index, agent.address
    );
    Err(Failure::new(Code::Partial, found).help("see what the agent says; the figures are of the others"))
}

/// A load whose sender was the limit says nothing of the service.
fn in_time(outcome: &UdpOutcome) -> Result<(), Failure> {
    let Some(found) = outcome.saturation() else { return Ok(()) };
    Err(Failure::new(Code::Saturated, format_args!("loading {}: {found}", outcome.target))
        .help("use more loops on cores of their own, more machines (--agents), or --offload"))
}

/// What all agents have told.
fn so_far(snapshot: &Snapshot) -> String {
    let sum = |of: fn(&Counts) -> u64| snapshot.loops.iter().map(|agent| of(&agent.counts)).sum::<u64>();
    let (sent, received) = (sum(|counts| counts.sent), sum(|counts| counts.answered));
    format!("{} sent, {} came back", text::grouped(sent), text::grouped(received))
}

fn failure(error: &UdpLoadError) -> Failure {
    match error {
        UdpLoadError::Limit { .. } => Failure::of(Code::Usage, error),
        _ => Failure::of(Code::Failed, error),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "write a share from 0 to below 1, such as 0.001 for one of a thousand".to_owned())
}

const EXAMPLES: &str = "\
Examples:
  anywire lab udp-load udp:127.0.0.1:9000 --rate 170000 --duration 10s --flows 4096
  anywire lab udp-load udp:127.0.0.1:9000 --rate 50000 --json udp.json --html udp.html
  anywire lab udp-load udp:127.0.0.1:9000 --rate 10k --poisson --seed 7
  anywire lab udp-load udp:127.0.0.1:9000 --ramp 1k:100k --duration 30s
  anywire lab udp-load udp:127.0.0.1:9000 --search 0.001 --duration 2s
  anywire lab udp-load udp:10.0.0.9:9000 --rate 500k --agents agents.txt --agents-token token

Exit codes: 0 measured, 1 nothing came back, or could not run, 2 bad arguments, 4 this end was the limit, 18 an agent was lost,
23 result not written, 130 and 143 ended by SIGINT and SIGTERM with the result so far.";
