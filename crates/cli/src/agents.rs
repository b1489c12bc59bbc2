//! `anywire load` on several machines: which part this process has, and what it says of the others.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anywire::advice::Message;
use anywire::load::agents::{
    self, AgentError, AgentEvent, AgentOptions, Leading, Members, TeamError, TeamLimits, TeamOptions,
};
#[cfg(feature = "udp")]
use anywire::load::udp::{UdpOutcome, UdpPlan};
use anywire::load::{Handles, Outcome, Plan, text};
use anywire::loops::Loops;
use anywire::wire::Address;
use clap::Args;

use crate::failure::{Code, Failure};
use crate::{explain, output, values};

/// Which of several machines this is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several machines")]
pub(crate) struct Agents {
    /// Load from the agents of this file, an address a line; this machine leads them and sends no requests itself
    #[arg(long, value_name = "FILE")]
    agents: Option<PathBuf>,
    /// Be an agent: wait at this address for those who lead, such as 0.0.0.0:7117, until Ctrl-C
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["agents", "index"], value_parser = address)]
    agent: Option<Address>,
    /// Be number I, from 0, of those that load together; number 0 leads and has a part of the load
    #[arg(long, value_name = "I", requires = "of", requires = "coordinator", conflicts_with = "agents")]
    index: Option<usize>,
    /// How many load together
    #[arg(long, value_name = "N", requires = "index")]
    of: Option<usize>,
    /// Where number 0 listens for the others
    #[arg(long, value_name = "ADDRESS", requires = "index", value_parser = address)]
    coordinator: Option<Address>,
    /// A file with a secret that all must know; it travels as plain text, as plans and results do
    #[arg(long, value_name = "FILE")]
    agents_token: Option<PathBuf>,
    /// How long to wait for all to be there [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = text::positive_duration)]
    agents_wait: Option<Duration>,
}

/// The part of this process.
pub(crate) enum Role {
    /// It loads alone.
    Alone,
    /// It waits for leaders at this address.
    Agent(Address),
    /// It joins the leader there, as number so much of so many.
    Member(Address, (usize, usize)),
    /// It leads these.
    Leader(Followers),
}

/// The others, as the command line names them.
#[derive(Debug, Clone)]
pub(crate) enum Followers {
    Listed(Vec<Address>),
    Joining { listen: Address, of: usize },
}

impl Agents {
    /// What this process is to be.
    pub(crate) fn role(&self) -> Result<Role, Failure> {
        if let Some(listen) = &self.agent {
            return Ok(Role::Agent(listen.clone()));
        }
        if let Some(file) = &self.agents {
            return Ok(Role::Leader(Followers::Listed(listed(file)?)));
        }
        let (Some(index), Some(of), Some(coordinator)) = (self.index, self.of, &self.coordinator) else {
            return Ok(Role::Alone);
        };
        if index >= of {
            let message =
                format!("--index {index} --of {of}: the first has index 0, and the last {}", of.max(1) - 1);
            return Err(Failure::new(Code::Usage, message).help("give each machine an index below --of"));
        }
        Ok(match index {
            0 => Role::Leader(Followers::Joining { listen: listen_at(coordinator), of }),
            _ => Role::Member(coordinator.clone(), (index, of)),
        })
    }

    /// Whether the plan of the command line is not needed: a leader brings one.
    pub(crate) fn options(&self, loops: &Loops, handles: &Handles) -> Result<AgentOptions, Failure> {
        let (loops, handles) = (loops.clone(), handles.clone());
        Ok(AgentOptions { loops, handles, token: self.token()?, limits: self.limits() })
    }

    fn limits(&self) -> TeamLimits {
        let usual = TeamLimits::default();
        TeamLimits { gather: self.agents_wait.unwrap_or(usual.gather), ..usual }
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.agents_token else { return Ok(None) };
        let limit = TeamLimits::default().token_bytes as u64;
        let token = read(path, limit)?.trim_end_matches(['\r', '\n']).to_owned();
        if token.is_empty() {
            let message = format!("reading the token of {}: it is empty", path.display());
            return Err(Failure::new(Code::Read, message).help("write the secret into its first line"));
        }
        Ok(Some(token))
    }

    /// Starts the plan on all machines. `control` is a loop that generates no load.
    pub(crate) fn lead(
        &self,
        control: &Loops,
        plan: &Plan,
        followers: &Followers,
        own: AgentOptions,
    ) -> Result<Leading, Failure> {
        let (members, options) = team(followers, own);
        announced(agents::lead(control, plan, members, options))
    }

    /// The same for a load of datagrams.
    #[cfg(feature = "udp")]
    pub(crate) fn lead_datagrams(
        &self,
        control: &Loops,
        plan: &UdpPlan,
        followers: &Followers,
        own: AgentOptions,
    ) -> Result<Leading<UdpOutcome>, Failure> {
        let (members, options) = team(followers, own);
        announced(agents::lead_datagrams(control, plan, members, options))
    }
}

fn team(followers: &Followers, own: AgentOptions) -> (Members, TeamOptions) {
    let (token, limits, stop) = (own.token.clone(), own.limits.clone(), own.handles.stop.clone());
    let members = match followers.clone() {
        Followers::Listed(addresses) => Members::Listed(addresses),
        Followers::Joining { listen, of } => Members::Joining { listen, of, own: Box::new(own) },
    };
    (members, TeamOptions { token, limits, stop })
}

/// Says where the others are waited for.
fn announced<O: Send + 'static>(leading: Result<Leading<O>, TeamError>) -> Result<Leading<O>, Failure> {
    let leading = leading.map_err(|error| team_failure(&error))?;
    if let Some(address) = leading.listening() {
        output::say(format_args!("waiting for the others at {address}"));
    }
    Ok(leading)
}

/// A loop for what leader and agents say to each other: it must not wait for the load.
pub(crate) fn control() -> Result<Loops, Failure> {
    Loops::start(1).map_err(|error| Failure::of(Code::Failed, &error))
}

/// Serves leaders until it is told to end.
pub(crate) fn serve(control: &Loops, listen: &Address, options: &AgentOptions) -> Result<(), Failure> {
    if options.token.is_none() {
        output::say(
            "without --agents-token anybody who reaches this port can have this machine load any server",
        );
    }
    let told = |event: AgentEvent| match event {
        // On stdout, as that of a service.
        AgentEvent::Listening(address) => {
            let _ = output::print_line(format_args!("listening on {address}"));
        }
        AgentEvent::Begins { leader, plan } => output::say(format_args!(
            "{leader}: loading {} with {}",
            plan.url,
            text::counted(plan.connections as u64, "connection")
        )),
        AgentEvent::Done(outcome) => output::say(format_args!(
            "done: {} answers, errors: {}",
            text::grouped(outcome.totals.measured.answered),
            outcome.totals.measured.errors.line()
        )),
        #[cfg(feature = "udp")]
        AgentEvent::BeginsDatagrams { leader, plan } => output::say(format_args!(
            "{leader}: loading {} with {}",
            plan.target,
            text::counted(plan.flows as u64, "flow")
        )),
        #[cfg(feature = "udp")]
        AgentEvent::DatagramsDone(outcome) => output::say(format_args!(
            "done: {} of {} datagrams came back",
            text::grouped(outcome.received),
            text::grouped(outcome.sent)
        )),
        AgentEvent::Lost(error) => output::say(Message::read(anywire::Chain(&error))),
        _ => {}
    };
    agents::serve(control, listen, options, told).map_err(|error| Failure::of(Code::Failed, &error))
}

/// Joins the leader, and gives the outcome of the own part.
pub(crate) fn join(
    control: &Loops,
    leader: &Address,
    place: (usize, usize),
    options: &AgentOptions,
) -> Result<Outcome, Failure> {
    say_joining(leader, place);
    agents::join(control, leader, place, options, |_| {}).map_err(|error| unjoined(&error))
}

/// The same for a load of datagrams.
#[cfg(feature = "udp")]
pub(crate) fn join_datagrams(
    control: &Loops,
    leader: &Address,
    place: (usize, usize),
    options: &AgentOptions,
) -> Result<UdpOutcome, Failure> {
    say_joining(leader, place);
    agents::join_datagrams(control, leader, place, options, |_| {}).map_err(|error| unjoined(&error))
}

fn say_joining(leader: &Address, (index, of): (usize, usize)) {
    output::say(format_args!("joining {leader} as number {index} of {of}"));
}

fn unjoined(error: &AgentError) -> Failure {
    match error {
        AgentError::Load(error) => explain::plan(error),
        // The signal says it.
        AgentError::Stopped => Failure::silent(Code::Interrupted),
        error => Failure::of(Code::Failed, error),
    }
}

/// Why there is no result of several machines.
pub(crate) fn team_failure(error: &TeamError) -> Failure {
    match error {
        TeamError::Plan(error) => explain::plan(error),
        error => Failure::of(Code::Failed, error)
            .or_help("see what the agents say; 'anywire load --help' shows how they are started"),
    }
}

/// The addresses of a file: one a line, and what begins with # is for people.
fn listed(path: &Path) -> Result<Vec<Address>, Failure> {
    let text = read(path, LIST_BYTES_MAX)?;
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let wrong = |number: usize, why: &str| {
        let message = format!("reading the agents of {}, line {number}: {why}", path.display());
        Failure::new(Code::Read, message).help("write an address a line, such as 10.0.0.2:7117")
    };
    let mut addresses = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let address = address(line).map_err(|why| wrong(number, &why))?;
        if addresses.contains(&address) {
            return Err(wrong(number, &format!("{address} stands there twice")));
        }
        addresses.push(address);
    }
    if addresses.is_empty() {
        let message = format!("reading the agents of {}: it names none", path.display());
        return Err(Failure::new(Code::Read, message).help("write an address a line, such as 10.0.0.2:7117"));
    }
    Ok(addresses)
}

fn read(path: &Path, bytes_max: u64) -> Result<String, Failure> {
    let text = File::open(path).and_then(|file| values::whole_text(file, bytes_max));
    text.map_err(|cause| {
        let message = format!("reading {} failed: {cause}", path.display());
        Failure::new(Code::Read, message).help("name a file that this user can read")
    })
}

/// An address of an agent: HOST:PORT is one of TCP.
fn address(text: &str) -> Result<Address, String> {
    let is_plain = !text.contains('/')
        && text.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok() && (!host.contains(':') || host.starts_with('['))
        });
    if is_plain { values::address(&format!("tcp:{text}")) } else { values::address(text) }
}

/// Where number 0 listens: at an address of this machine as it is given, and on all of them if it is a name, since a name of a
/// cluster may lead here by another address.
fn listen_at(coordinator: &Address) -> Address {
    let Some((host, port)) = coordinator.location().rsplit_once(':') else { return coordinator.clone() };
    let is_ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    if coordinator.scheme() != "tcp" || is_ip {
        return coordinator.clone();
    }
    // An address of any machine with a port is an address.
    format!("tcp:0.0.0.0:{port}").parse().unwrap_or_else(|_| coordinator.clone())
}

/// 1 MiB: more agents than can be led.
const LIST_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_needs_no_wire_in_its_address() {
        for (text, meant) in [
            ("10.0.0.2:7117", "tcp:10.0.0.2:7117"),
            ("host.name:1", "tcp:host.name:1"),
            ("[::1]:7117", "tcp:[::1]:7117"),
            ("tcp:h:1", "tcp:h:1"),
            ("unix:/run/agent.sock", "unix:/run/agent.sock"),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()).as_deref(), Ok(meant));
        }
        assert!(address("nowhere").is_err() && address("").is_err());
    }

    #[test]
    fn a_name_is_listened_for_on_all_addresses() {
        for (coordinator, listen) in [
            ("tcp:load-0.load:7117", "tcp:0.0.0.0:7117"),
            ("tcp:127.0.0.1:7117", "tcp:127.0.0.1:7117"),
            ("tcp:[::1]:7117", "tcp:[::1]:7117"),
            ("unix:/run/load.sock", "unix:/run/load.sock"),
        ] {
            let coordinator: Address = coordinator.parse().expect("an address");
            assert_eq!(listen_at(&coordinator).to_string(), listen);
        }
    }

    #[test]
    fn a_list_names_its_wrong_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("agents");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("it can be written");
            listed(&path).map_err(|failure| failure.message().to_owned())
        };
        assert_eq!(read("# two\n10.0.0.1:1\n\n 10.0.0.2:1 \r\n").map(|list| list.len()), Ok(2));
        assert!(read("10.0.0.1:1\nnonsense\n").is_err_and(|said| said.contains("line 2")));
        assert!(read("h:1\nh:1\n").is_err_and(|said| said.contains("line 2") && said.contains("twice")));
        assert!(read("\n# none\n").is_err_and(|said| said.contains("names none")));
    }
}
