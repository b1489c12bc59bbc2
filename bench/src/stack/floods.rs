//! `bench stack-floods`: goodput of established connections during a flood that one core sends at full speed. The baseline is the same
//! flood through the same veth to an unused address, which never reaches the stack.
//!
//! The load has connected before the flood begins, and both end together but for the moment that this took.
//!
//! The packets of the load share the queue of the veth with the flood in both, so what that drops is no part of the difference.
//!
//! The flood and the load share a core, and the server has the other one. A flood comes from a TAP device in the namespace of the load,
//! whose bridge sends it through the veth.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant as Moment};

use anyhow::{Context, Result, anyhow, bail, ensure};
use anywire_stack::device::Device;
use anywire_stack::tap::{Options as TapOptions, Tap};
use anywire_tcp::Instant;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::http::Veth;
use super::packets::{RST, SYN, Segment, write_ipv4};
use super::program;
use super::servers::Server;
use crate::generators::wrk;
use crate::measure::Family;
use crate::report::{self, Bar, Bound, Machine};
use crate::rounds::{Seed, Spread, interleaved};
use crate::table::{self, Table};

/// Options of `bench stack-floods`.
#[derive(Args)]
pub struct Options {
    /// Rounds; in each everything is measured once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a flood.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// These floods alone, separated by commas: syn, rst, arp, ndp, fragments.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "syn,rst,arp,ndp,fragments")]
    floods: Vec<String>,
    #[command(flatten)]
    seed: Seed,
    /// The result's file.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/stack-floods.json"))]
    json: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let machine = Machine::here();
    println!("{}", machine.line());
    let seed = options.seed.chosen();
    let place = Place::set_up()?;
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for name in &options.floods {
        let kind = Kind::named(name)?;
        let all = interleaved(
            &[Target::Elsewhere, Target::Stack],
            options.rounds as usize,
            seed,
            |target, round| {
                let sample = place.measure(kind, *target, options.seconds)?;
                eprintln!(
                    "{name}, round {} {target:<10?} {:.0} requests/s, flood {:.0}/s, {:.1} MiB more",
                    round + 1,
                    sample.rate,
                    sample.flood_rate,
                    sample.grown_mib
                );
                Ok(sample)
            },
        );
        let kept = all[1].ratio_to(&all[0], |sample| sample.rate);
        bars.push(Bar::judge_ratio(format!("{name} flood: goodput kept"), Bound::AtLeast(0.8), kept));
        let grown = all[1].spread(|sample| Some(sample.grown_mib));
        bars.push(Bar::judge(
            format!("{name} flood: MiB more"),
            Bound::AtMost(GROWTH_MIB_MAX),
            grown.map(|grown| grown.max),
        ));
        rows.push(Row {
            flood: name.clone(),
            packets_per_second: all[1].spread(|sample| Some(sample.flood_rate)),
            elsewhere: all[0].spread(|sample| Some(sample.rate)),
            flooded: all[1].spread(|sample| Some(sample.rate)),
            kept,
            grown_mib: grown,
            failure: all.iter().find_map(|rounds| rounds.failure.clone()),
        });
    }
    let mut table =
        Table::new(&["flood", "packets/s", "requests/s, elsewhere", "requests/s", "kept", "MiB more"]);
    for row in &rows {
        table.candidate(
            &row.flood,
            row.failure.as_deref(),
            [
                table::spread(row.packets_per_second, 0),
                table::spread(row.elsewhere, 0),
                table::spread(row.flooded, 0),
                table::spread(row.kept, 2),
                table::spread(row.grown_mib, 1),
            ],
        );
    }
    println!("\n{}\n{}", table.text(), report::bars_table(&bars).text());
    let (rounds, seconds, schema) = (options.rounds, options.seconds, report::SCHEMA);
    report::write(
        &options.json,
        &Results { schema, bench: "stack-floods", machine, rounds, seconds, seed, rows, bars },
    )
}

/// Where a flood goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Through the same veth, to an address of nobody: the XDP program leaves it to the kernel, which drops it.
    Elsewhere,
    /// To the stack.
    Stack,
}

/// The veth of the server, and a bridge at its other end.
struct Place {
    veth: Veth,
}

struct Sample {
    rate: f64,
    flood_rate: f64,
    grown_mib: f64,
}

impl Place {
    fn set_up() -> Result<Self> {
        let veth = Veth::set_up()?;
        // A bridge with the address of that namespace: the load and the flood enter the veth alike.
        veth.theirs.run(&format!(
            "ip link add bridge address 02:00:00:00:00:02 type bridge mcast_snooping 0 forward_delay 0 stp_state 0
            ip addr flush dev far
            ip link set far address 02:00:00:00:00:04 master bridge
            ip link set bridge up
            ip addr add 10.78.0.3/24 dev bridge
            ip addr add fd78::3/64 dev bridge nodad
            bridge fdb add {} dev far master static
            bridge fdb add {} dev far master static",
            as_text(ELSEWHERE_MAC),
            as_text(SERVER_MAC)
        ))?;
        Ok(Self { veth })
    }

    fn measure(&self, kind: Kind, target: Target, seconds: u64) -> Result<Sample> {
        let served = self.veth.serve(Server::AnywireXdp, false)?;
        let family = Family::of(served.process.id());
        let before = family.memory()?.resident_bytes;
        let to_stack = target == Target::Stack;
        let plan = FloodPlan { kind: kind.name().to_owned(), to_stack, seconds };
        // Nothing is learned of its senders, of whom there is no end.
        self.veth.theirs.run(
            "ip link del flood 2>/dev/null || true
            ip tuntap add dev flood mode tap
            ip link set flood master bridge up
            bridge link set dev flood learning off",
        )?;
        let mut flood = self.veth.on_client_core(program()?.to_str().context("a path in UTF-8")?);
        flood.args(["stack-flood", &serde_json::to_string(&plan)?]).stdout(Stdio::piped());
        let mut load = self.veth.wrk(CONNECTIONS, seconds, &served.url());
        // The flood begins when the connections of the load are there: what is asked is what these keep.
        let (report, flooded) = thread::scope(|scope| -> Result<_> {
            let loading = scope.spawn(move || wrk::run_to_end(&mut load));
            let flooded = self.wait_for_connections().and_then(|()| Ok(flood.output()?));
            let report = loading.join().map_err(|_| anyhow!("the load panicked"))?;
            Ok((report?, flooded?))
        })?;
        let after = family.memory()?.resident_bytes;
        ensure!(report.errors == 0, "{} errors", report.errors);
        let sent: u64 =
            String::from_utf8_lossy(&flooded.stdout).trim().parse().context("the flood told no number")?;
        Ok(Sample {
            rate: report.requests as f64 / report.seconds,
            flood_rate: sent as f64 / seconds as f64,
            grown_mib: after.saturating_sub(before) as f64 / f64::from(1 << 20),
        })
    }

    /// Until all connections of the load are established.
    fn wait_for_connections(&self) -> Result<()> {
        let file = format!("/proc/{}/net/tcp", self.veth.theirs.id());
        for _ in 0..500 {
            let text = std::fs::read_to_string(&file)?;
            // Number, local and remote address, state: 1 is ESTABLISHED.
            let is_open = |line: &&str| line.split_ascii_whitespace().nth(3) == Some("01");
            if text.lines().filter(is_open).count() >= CONNECTIONS {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        bail!("the load has not connected")
    }
}

/// What a flooding process does.
#[derive(Serialize, Deserialize)]
struct FloodPlan {
    kind: String,
    to_stack: bool,
    seconds: u64,
}

/// Body of `bench stack-flood`: sends as fast as it can, and prints how many frames it has sent.
///
/// # Errors
/// There is no device for it.
pub fn flood(plan: &str) -> Result<()> {
    let plan: FloodPlan = serde_json::from_str(plan)?;
    let kind = Kind::named(&plan.kind)?;
    let mut tap = Tap::open("flood", TapOptions { offloads: false })?;
    let (mut batch, mut frame, mut sent) = (tap.batch(), Vec::new(), 0_u64);
    let end = Moment::now() + Duration::from_secs(plan.seconds);
    while Moment::now() < end {
        frame.clear();
        kind.write(sent, plan.to_stack, &mut frame);
        while batch.push(&frame) {
            sent += 1;
            frame.clear();
            kind.write(sent, plan.to_stack, &mut frame);
        }
        tap.transmit(Instant::default(), &mut batch);
    }
    println!("{sent}");
    Ok(())
}

/// What a flood is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Syn,
    Rst,
    Arp,
    Ndp,
    Fragments,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Syn, Self::Rst, Self::Arp, Self::Ndp, Self::Fragments];

    const fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::Rst => "rst",
            Self::Arp => "arp",
            Self::Ndp => "ndp",
            Self::Fragments => "fragments",
        }
    }

    fn named(name: &str) -> Result<Self> {
        let Some(kind) = Self::ALL.into_iter().find(|kind| kind.name() == name) else {
            bail!("no flood is named `{name}`")
        };
        Ok(kind)
    }

    /// Writes the frame of this number: from another sender each time, as a flood is.
    fn write(self, number: u64, to_stack: bool, frame: &mut Vec<u8>) {
        // Spread by a multiplication (Knuth), so that neighbours in number are none in address.
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let to = if to_stack { SERVER_MAC } else { ELSEWHERE_MAC };
        let host = if to_stack { STACK_LAST } else { 254 };
        let stack = Ipv4Addr::new(10, 78, 0, host);
        let mut from = [2, 0xf1, 0, 0, 0, 0];
        from[2..].copy_from_slice(&(random as u32).to_be_bytes());
        // The neighbours that this network has.
        let neighbour = Ipv4Addr::new(10, 78, 0, 4 + (random % 250) as u8);
        let macs = [from, to];
        let segment = |from: Ipv4Addr, flags| Segment {
            macs,
            addresses: [from, stack],
            ports: [1024 + (random >> 8) as u16 % 60_000, 80],
            seq: random as u32,
            ack: 0,
            flags,
            payload_bytes: 0,
        };
        match self {
            Self::Syn => segment(neighbour, SYN).write(&[], frame),
            // As if from the peer whose connections are open.
            Self::Rst => segment(Ipv4Addr::new(10, 78, 0, 3), RST).write(&[], frame),
            Self::Arp => {
                frame.extend(to);
                frame.extend(from);
                frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
                frame.extend(from);
                frame.extend(neighbour.octets());
                frame.extend([0; 6]);
                frame.extend(stack.octets());
            }
            Self::Ndp => write_solicitation(macs, host, random, frame),
            Self::Fragments => {
                // The first of more, of another packet each time.
                write_ipv4(macs, [neighbour, stack], 6, [0x20, 0], 64, frame);
                frame[18..20].copy_from_slice(&(random as u16).to_be_bytes());
                let sum = super::packets::fold(anywire_sys::checksum::ones_complement_sum(
                    &[&frame[14..24], &[0, 0], &frame[26..34]].concat(),
                    0,
                ));
                frame[24..26].copy_from_slice(&(!sum).to_le_bytes());
                frame.extend([0; 64]);
            }
        }
    }
}

/// A question of neighbour discovery for the server's address (RFC 4861 4.3), from another neighbour each time.
fn write_solicitation([from, to]: [[u8; 6]; 2], host: u8, random: u64, frame: &mut Vec<u8>) {
    let own = [0xfd, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host];
    let mut source = [0xfd, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    source[8..].copy_from_slice(&random.to_be_bytes());
    frame.extend(to);
    frame.extend(from);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
    frame.extend(source);
    frame.extend(own);
    let at = frame.len();
    frame.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend(own);
    frame.extend([1, 1]);
    frame.extend(from);
    let pseudo = anywire_sys::checksum::ones_complement_sum(&frame[22..54], 0);
    let around = u64::from(32_u16.swap_bytes()) + u64::from(58_u16.swap_bytes());
    let sum = super::packets::fold(anywire_sys::checksum::ones_complement_sum(&frame[at..], pseudo + around));
    frame[at + 2..at + 4].copy_from_slice(&(!sum).to_le_bytes());
}

fn as_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ELSEWHERE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// The last byte of the stack's addresses.
const STACK_LAST: u8 = 2;

/// Connections of the load, as of the other benchmarks of HTTP.
const CONNECTIONS: usize = 64;

/// What a flood may cost in memory: the neighbours, half-open connections and queues that the limits allow.
const GROWTH_MIB_MAX: f64 = 64.0;

#[derive(Serialize)]
struct Row {
    flood: String,
    packets_per_second: Option<Spread>,
    /// Requests a second while the flood goes elsewhere.
    elsewhere: Option<Spread>,
    /// While it reaches the stack.
    flooded: Option<Spread>,
    kept: Option<Spread>,
    grown_mib: Option<Spread>,
    failure: Option<String>,
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
