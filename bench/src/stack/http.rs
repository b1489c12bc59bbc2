//! `bench stack-http`: HTTP by a server on `stack:xdp`, called by wrk in another namespace, beside the kernel's TCP on the same veth.
//!
//! What is compared is how long the server's core is busy for a request, softirq included: on veth the sender's core does the work of
//! the receiver, so the server's CPU time alone would leave out half of it. An XDP program is attached at both ends for all servers: any
//! program takes the offloads of a veth away.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use anywire_interop::{Namespace, Verdict};
use anywire_sys::cores::{self, CoreTime};
use anywire_sys::cpu;
use clap::Args;
use serde::Serialize;

use super::program;
use super::servers::{NEAR, Process, Server};
use crate::generators::wrk;
use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Rounds, Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench stack-http`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Run these scenarios alone, separated by commas: 1, 64, 1000, 10000, new.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "1,64,1000,10000,new")]
    scenarios: Vec<String>,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/stack-http.json"))]
    json: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<()> {
    for name in &options.scenarios {
        ensure!(SCENARIOS.iter().any(|scenario| scenario.name == name), "no scenario is named `{name}`");
    }
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let veth = Veth::set_up()?;
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for scenario in
        SCENARIOS.iter().filter(|scenario| options.scenarios.iter().any(|name| name == scenario.name))
    {
        let all = interleaved(&Server::ALL, options.rounds as usize, seed, |server, round| {
            let sample = measure(&veth, *server, scenario, options.seconds)?;
            eprintln!(
                "{}, round {} {:<20} {:.3} us busy, {:.3} of it softirq, {:.0}/s",
                scenario.name,
                round + 1,
                server.name(),
                sample.busy_us,
                sample.softirq_us,
                sample.rate
            );
            Ok(sample)
        });
        judge(scenario, &all, &mut bars);
        rows.extend(
            Server::ALL.iter().zip(&all).map(|(server, rounds)| Row::new(scenario, *server, rounds, &all[0])),
        );
    }
    let mut table = Table::new(&[
        "connections, server",
        "core busy, us/request",
        "softirq",
        "requests/s",
        "p50 us",
        "/ raw epoll",
    ]);
    for row in &rows {
        let name = format!("{}, {}", row.connections, row.server);
        let rate = row.requests_per_second.map(|spread| spread.median);
        table.candidate(
            &name,
            row.failure.as_deref(),
            [
                table::spread(row.busy_us, 2),
                table::spread(row.softirq_us, 2),
                table::thousands(rate),
                table::spread(row.p50_us, 0),
                table::spread(row.ratio, 2),
            ],
        );
    }
    println!("\n{}\n{}", table.text(), report::bars_table(&bars).text());
    let (rounds, seconds, schema) = (options.rounds, options.seconds, report::SCHEMA);
    report::write(
        &options.json,
        &Results { schema, bench: "stack-http", machine, rounds, seconds, seed, rows, bars },
    )
}

/// What the server's core has to reach, where it is judged.
fn judge(scenario: &Scenario, all: &[Rounds<Sample>], bars: &mut Vec<Bar>) {
    let of =
        |wanted: Server| &all[Server::ALL.iter().position(|server| *server == wanted).unwrap_or_default()];
    let ours = of(Server::AnywireXdp);
    for (other, bound) in [(Server::Epoll, 0.6), (Server::RawXdp, 1.3)] {
        if scenario.is_judged {
            let ratio = ours.ratio_to(of(other), |sample| sample.busy_us);
            let what = format!("{}: anywire on stack:xdp / {}", scenario.title, other.name());
            bars.push(Bar::judge_ratio(what, Bound::AtMost(bound), ratio));
        }
    }
}

fn measure(veth: &Veth, server: Server, scenario: &Scenario, seconds: u64) -> Result<Sample> {
    let served = veth.serve(server, scenario.closes)?;
    let mut load = veth.wrk(scenario.connections, seconds, &served.url());
    if scenario.closes {
        load.args(["-H", "Connection: close"]);
    }
    let before = veth.server_time()?;
    let report = wrk::run_to_end(&mut load)?;
    let used = veth.server_time()? - before;
    ensure!(report.errors == 0, "{} errors", report.errors);
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / report.requests as f64;
    Ok(Sample {
        busy_us: each(used.busy),
        softirq_us: each(used.softirq),
        rate: report.requests as f64 / report.seconds,
        p50_us: report.p50_us,
    })
}

/// A veth pair: the server's end in this namespace, that of wrk in another one, and a core for each.
pub(super) struct Veth {
    pub(super) theirs: Namespace,
    server_core: usize,
    client_core: usize,
}

/// A server that runs, and the XDP program beside it.
pub(super) struct Served {
    pub(super) process: Process,
    pub(super) at: SocketAddr,
    _program: Option<Namespace>,
}

impl Served {
    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.at)
    }
}

impl Veth {
    pub(super) fn set_up() -> Result<Self> {
        let mut theirs = Namespace::new(&program()?)?;
        let here = Namespace::here(&program()?)?;
        here.run(&format!(
            "ip link set lo up
            ip link add {NEAR} address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:02 netns {}
            ip addr add {KERNEL}/24 dev {NEAR}
            ip link set {NEAR} up
            echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range
            echo 16384 > /proc/sys/net/core/somaxconn
            echo 16384 > /proc/sys/net/ipv4/tcp_max_syn_backlog",
            theirs.id()
        ))?;
        theirs.run(
            "ip link set lo up
            ip addr add 10.78.0.3/24 dev far
            ip addr add fd78::3/64 dev far nodad
            ip link set far up
            echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range",
        )?;
        theirs.attach("far", Verdict::Pass)?;
        let cores = cpu::available_cores();
        Ok(Self { theirs, server_core: cores[0], client_core: cores[cores.len() - 1] })
    }

    /// Starts a server on the server's core.
    pub(super) fn serve(&self, server: Server, closes: bool) -> Result<Served> {
        let host = if server.has_interface() { STACK } else { KERNEL };
        let at: SocketAddr = format!("{host}:{PORT}").parse()?;
        let program = if server.has_interface() {
            None
        } else {
            let mut here = Namespace::here(&program()?)?;
            here.attach(NEAR, Verdict::Pass)?;
            Some(here)
        };
        let process = server.start(at, self.server_core, closes)?;
        self.wait_for(at)?;
        Ok(Served { process, at, _program: program })
    }

    /// Until it answers: an address of the stack is probed first.
    fn wait_for(&self, at: SocketAddr) -> Result<()> {
        for _ in 0..100 {
            let mut curl = self.theirs.command("curl");
            let done =
                curl.args(["--silent", "--max-time", "1", "--output", "/dev/null", &format!("http://{at}/")]);
            if done.status().context("curl is needed")?.success() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        anyhow::bail!("nobody answers at {at}")
    }

    /// wrk, on the client's core.
    pub(super) fn wrk(&self, connections: usize, seconds: u64, url: &str) -> std::process::Command {
        let mut command = self.on_client_core("wrk");
        command.args(["-t1", "--latency", "--timeout", "10s"]);
        command.args([format!("-c{connections}"), format!("-d{seconds}s"), url.to_owned()]);
        command
    }

    /// A command in the other namespace, on the client's core.
    pub(super) fn on_client_core(&self, program: &str) -> std::process::Command {
        let mut command = self.theirs.command("taskset");
        command.args(["-c", &self.client_core.to_string(), program]);
        command
    }

    /// What the server's core has done so far.
    fn server_time(&self) -> Result<CoreTime> {
        let all = cores::read()?;
        all.into_iter()
            .find(|time| time.core == self.server_core)
            .context("the server's core is not in /proc/stat")
    }
}

const KERNEL: &str = "10.78.0.1";
const STACK: &str = "10.78.0.2";
const PORT: u16 = 80;

struct Scenario {
    name: &'static str,
    title: &'static str,
    connections: usize,
    /// Each request has a connection of its own.
    closes: bool,
    is_judged: bool,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario { name: "1", title: "1 connection", connections: 1, closes: false, is_judged: false },
    Scenario { name: "64", title: "64 connections", connections: 64, closes: false, is_judged: true },
    Scenario { name: "1000", title: "1,000 connections", connections: 1000, closes: false, is_judged: true },
    Scenario {
        name: "10000",
        title: "10,000 connections",
        connections: 10_000,
        closes: false,
        is_judged: true,
    },
    Scenario { name: "new", title: "new connections", connections: 64, closes: true, is_judged: true },
];

struct Sample {
    busy_us: f64,
    softirq_us: f64,
    rate: f64,
    p50_us: Option<f64>,
}

#[derive(Serialize)]
struct Row {
    connections: &'static str,
    server: &'static str,
    /// Microseconds for which the server's core was busy, for each request.
    busy_us: Option<Spread>,
    /// The part in softirqs.
    softirq_us: Option<Spread>,
    requests_per_second: Option<Spread>,
    p50_us: Option<Spread>,
    /// The time for which the core was busy, divided by that of the raw epoll loop.
    ratio: Option<Spread>,
    failure: Option<String>,
}

impl Row {
    fn new(scenario: &Scenario, server: Server, rounds: &Rounds<Sample>, limit: &Rounds<Sample>) -> Self {
        Self {
            connections: scenario.title,
            server: server.name(),
            busy_us: rounds.spread(|sample| Some(sample.busy_us)),
            softirq_us: rounds.spread(|sample| Some(sample.softirq_us)),
            requests_per_second: rounds.spread(|sample| Some(sample.rate)),
            p50_us: rounds.spread(|sample| sample.p50_us),
            ratio: rounds.ratio_to(limit, |sample| sample.busy_us),
            failure: rounds.failure.clone(),
        }
    }
}

#[derive(Serialize)]
struct Results {
    schema: &'static str,
    bench: &'static str,
    machine: Machine,
    rounds: u32,
    seconds: u64,
    seed: u32,
    rows: Vec<Row>,
    bars: Vec<Bar>,
}
