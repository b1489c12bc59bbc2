//! Speed comparisons of anywire with its peers and its limits: `bench http-server`, `http-client`, `bursts`, `pipelined`, `tls`, `swarm`, `udp`, `ipc`, `pools`, `load`,
//! `instructions`, `stack-throughput`, `stack-bulk`, `stack-http`, `stack-floods`.
//!
//! Every candidate runs in a process of its own: this same program, started again with `serve NAME` or `call NAME`.
//! Candidates are measured in interleaved rounds, on pinned cores, and reported as medians with their spread and as
//! ratios to a limit. See `README.md` beside this crate for what each scenario means and how the peers are set.

mod browser;
mod bursts;
mod check;
mod check_http2;
mod child;
mod clients;
mod figures;
mod generators;
mod http_client;
mod http_server;
mod idle;
mod instructions;
mod ipc;
mod load;
mod measure;
mod options;
mod pipelined;
mod pools;
mod report;
mod rounds;
mod scenario;
mod servers;
mod stack;
mod swarm;
mod table;
mod tls;
mod udp;
mod versions;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use anywire_load::Protocol;
use clap::{Args, Parser, Subcommand};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::clients::Cores;
use crate::report::Candidate;

#[derive(Parser)]
#[command(version, about = "Speed comparisons of anywire with its peers")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// CPU per request of HTTP servers, and memory of their idle connections.
    HttpServer(http_server::Options),
    /// What TLS costs servers: requests, handshakes and idle connections.
    Tls(tls::Options),
    /// CPU per request of HTTP clients.
    HttpClient(http_client::Options),
    /// Bursts of calls by one thread, as RestClient was measured by its authors.
    Bursts(bursts::Options),
    /// 100 connections with 100 requests each, one by one and pipelined.
    Pipelined(pipelined::Options),
    /// Echoes over millions of connections in one process, and what limits them.
    Swarm(swarm::Options),
    /// Datagrams: CPU per echo, a rate that is stood without a loss, and what joining saves.
    Udp(udp::Options),
    /// Messages between two ends on this machine over each way, and HTTP over each wire within it.
    Ipc(ipc::Options),
    /// CPU per request of load generators, and their memory with many connections.
    Load(load::Options),
    /// Instructions of a request in the server and in the client, by callgrind.
    Instructions(instructions::Options),
    /// Functions on a pool of threads: what handing over costs, and what queue deadlines save under overload.
    Pools(pools::Options),
    /// What gets through a line that delays and loses: the engine beside Linux.
    StackThroughput(stack::ThroughputOptions),
    /// Bulk over TAP, beside iperf3.
    StackBulk(stack::BulkOptions),
    /// HTTP over AF_XDP: how busy the server's core is, beside the kernel's TCP.
    StackHttp(stack::HttpOptions),
    /// What connections on the stack keep while packets flood it.
    StackFloods(stack::FloodsOptions),
    /// Write the tables of figures in the documents from the results.
    Figures,
    /// The candidates, their versions and settings.
    List,
    /// Serve as this candidate until standard input closes (how the program starts itself).
    #[command(hide = true)]
    Serve {
        #[command(flatten)]
        child: ChildOptions,
        /// Over HTTP/2.
        #[arg(long)]
        http2: bool,
        /// Serve as anywire, which listens here, too.
        #[arg(long, value_name = "ADDRESS")]
        also: Option<anywire_wire::Address>,
    },
    /// Serve over AF_XDP or beside it (how the program starts itself).
    #[command(hide = true)]
    StackServe(stack::ServeOptions),
    /// Flood a network (how the program starts itself).
    #[command(hide = true)]
    StackFlood {
        /// What to do, as JSON.
        plan: String,
    },
    /// Make bursts as this candidate and print their cost (the program starts itself so).
    #[command(hide = true)]
    Burst {
        #[command(flatten)]
        child: ChildOptions,
        /// What to do, as JSON.
        plan: String,
    },
    /// Make a number of calls as anywire's client and end (the program starts itself so).
    #[command(hide = true)]
    Count {
        #[command(flatten)]
        child: ChildOptions,
        /// What to do, as JSON.
        plan: String,
    },
    /// Wait for each tick of a rate and print how late they were (the program starts itself so).
    #[command(hide = true)]
    Tick {
        /// Ticks a second.
        rate: f64,
        /// For so long.
        seconds: f64,
    },
    /// Make a load as anywire's generator and print its outcome (the program starts itself so).
    #[command(hide = true)]
    Generate {
        /// What to do, as JSON.
        plan: String,
    },
    /// Call as this candidate and print its cost (the program starts itself so).
    #[command(hide = true)]
    Call {
        #[command(flatten)]
        child: ChildOptions,
        /// What to do, as JSON.
        plan: String,
    },
}

/// This thread, and those that it starts, may run on all cores again.
fn everywhere() -> Result<()> {
    let mut all = CpuSet::new();
    for core in 0..CpuSet::count() {
        all.set(core)?;
    }
    sched_setaffinity(Pid::from_raw(0), &all).context("leaving the pinned core failed")
}

#[derive(Args)]
struct ChildOptions {
    /// The candidate.
    name: String,
    /// The core to run on.
    #[arg(long)]
    core: usize,
}

impl ChildOptions {
    /// Before any thread is started, so that all of them inherit it.
    fn pin(&self) -> Result<()> {
        anywire_sys::cpu::pin_current_thread(self.core)
            .with_context(|| format!("pinning to core {} failed", self.core))
    }
}

fn main() -> ExitCode {
    if let Some(code) = anywire_interop::serve_role() {
        return code;
    }
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // In one line: a process that measures shows what its child said in a row of a table.
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    anywire_sys::descriptors::raise_limit().context("raising the limit of open descriptors failed")?;
    match &arguments.command {
        Command::HttpServer(options) => http_server::run(options),
        Command::Tls(options) => tls::run(options),
        Command::HttpClient(options) => http_client::run(options),
        Command::Bursts(options) => bursts::run(options),
        Command::Pipelined(options) => pipelined::run(options),
        Command::Swarm(options) => swarm::run(options),
        Command::Udp(options) => udp::run(options),
        Command::Ipc(options) => ipc::run(options),
        Command::Pools(options) => pools::run(options),
        Command::Load(options) => load::run(options),
        Command::Instructions(options) => instructions::run(options),
        Command::StackThroughput(options) => stack::run(&stack::Bench::Throughput(options)),
        Command::StackBulk(options) => stack::run(&stack::Bench::Bulk(options)),
        Command::StackHttp(options) => stack::run(&stack::Bench::Http(options)),
        Command::StackFloods(options) => stack::run(&stack::Bench::Floods(options)),
        Command::StackServe(options) => stack::serve(options),
        Command::StackFlood { plan } => stack::flood(plan),
        Command::Figures => write_figures(),
        Command::List => {
            list();
            Ok(())
        }
        Command::Serve { child, http2, also } => {
            child.pin()?;
            let http = if *http2 { Protocol::Http2 } else { Protocol::Http1 };
            servers::serve(&child.name, http, also.as_ref())
        }
        Command::Burst { child, plan } => {
            everywhere()?;
            clients::burst(&child.name, plan)
        }
        Command::Count { child, plan } => {
            child.pin()?;
            clients::count(plan)
        }
        Command::Tick { rate, seconds } => load::tick(*rate, *seconds),
        Command::Generate { plan } => load::generate(plan),
        Command::Call { child, plan } => {
            match clients::named(&child.name)?.cores {
                Cores::One => child.pin()?,
                Cores::All => everywhere()?,
            }
            clients::call(&child.name, plan)
        }
    }
}

fn write_figures() -> Result<()> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let results = figures::Results::read(&bench.join("results")).context("reading the results failed")?;
    for name in figures::PAGES {
        let page = bench.join("..").join(name);
        let text = fs::read_to_string(&page).with_context(|| format!("reading {name} failed"))?;
        let filled = figures::filled(&text, &results).map_err(|error| anyhow!("{name}: {error}"))?;
        fs::write(&page, filled).with_context(|| format!("writing {name} failed"))?;
        println!("written: {name}");
    }
    Ok(())
}

fn list() {
    println!("servers");
    for server in servers::SERVERS {
        println!("  {}", Candidate::of_server(server).line());
    }
    println!("servers with TLS");
    for server in tls::SERVERS {
        println!("  {}", Candidate::of_server(server).line());
    }
    println!("load generators");
    for candidate in load::candidates() {
        println!("  {}", candidate.line());
    }
    println!("clients");
    for client in clients::CLIENTS {
        println!("  {}", Candidate::of_client(client).line());
    }
}
