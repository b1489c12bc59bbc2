//! The network of a run: two engines, joined by the switch, with what makes it worse or writes it down in
//! between.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anywire_stack::capture::{self, Capture};
use anywire_stack::device::Device;
use anywire_stack::impair::{Impair, Impairment};
use anywire_stack::switch::{self, Switch};
use anywire_tcp::{ConnectOptions, Engine, Limits, Mac, Route, Settings};

use super::options::{Mode, Options, SHORT_TUPLES};
use crate::failure::{Code, Failure};

/// Both ends of all connections, not yet opened.
pub(super) struct Network {
    pub(super) client: Engine,
    pub(super) client_device: Box<dyn Device>,
    pub(super) server: Engine,
    pub(super) server_device: Box<dyn Device>,
}

impl Network {
    /// As the options say.
    pub(super) fn new(options: &Options) -> Result<Self, Failure> {
        // One thread takes turns for both ends, so a full queue is never one that nobody empties.
        let patience = Duration::from_secs(3600);
        let queues = switch::Limits { queue_frames: QUEUE_FRAMES, patience, ..switch::Limits::default() };
        let switch = Switch::new(switch::Settings { limits: queues, ..switch::Settings::default() });
        let port = |mac| switch.port(mac).map_err(|error| Failure::of(Code::Failed, &error));
        let mut client_device = impaired(port(CLIENT)?, options, options.seed ^ 1);
        if let Some(path) = &options.capture {
            let limits = capture::Limits { file_bytes: CAPTURE_BYTES, ..capture::Limits::default() };
            let file = File::create(path).map_err(|cause| uncreated(path, &cause))?;
            client_device =
                Box::new(Capture::new(client_device, file, limits).starting_at(SystemTime::now()));
        }
        let tuples = if options.mode == Mode::Short { SHORT_TUPLES } else { options.connections };
        let addresses = (0..tuples.div_ceil(PORTS)).map(|number| client_address(number * PORTS).ip());
        let server_addresses = [SERVER_ADDRESS.into()].into_iter();
        // Clients close first, so what waits for old segments is theirs. A table that had room for it as well would be spread
        // over so many pages that each lookup would miss the translation of its address.
        let mut server =
            engine((SERVER, CLIENT), server_addresses, settings(options, 2), limits(options, 0))?;
        server
            .listen(server_address(options), ConnectOptions { no_nagle: true, ..ConnectOptions::default() })
            .map_err(|error| Failure::of(Code::Failed, &error))?;
        Ok(Self {
            client: engine(
                (CLIENT, SERVER),
                addresses,
                settings(options, 1),
                limits(options, options.time_waits()),
            )?,
            client_device,
            server,
            server_device: impaired(port(SERVER)?, options, options.seed ^ 2),
        })
    }
}

/// Where connection `number` comes from: 60,000 ports of each address.
pub(super) fn client_address(number: u32) -> SocketAddr {
    let host = CLIENT_ADDRESS.to_bits() + number / PORTS;
    SocketAddr::new(Ipv4Addr::from_bits(host).into(), PORT_FIRST + (number % PORTS) as u16)
}

/// Where all of them go.
pub(super) fn server_address(options: &Options) -> SocketAddr {
    SocketAddr::new(SERVER_ADDRESS.into(), if options.mode == Mode::Http { 80 } else { 7 })
}

fn impaired(port: switch::Port, options: &Options, seed: u64) -> Box<dyn Device> {
    if options.loss == 0.0 {
        return Box::new(port);
    }
    Box::new(Impair::new(port, Impairment { loss: options.loss, seed, ..Impairment::default() }))
}

fn engine(
    (mac, peer): (Mac, Mac),
    addresses: impl Iterator<Item = std::net::IpAddr>,
    settings: Settings,
    limits: Limits,
) -> Result<Engine, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::of(Code::Failed, error);
    let mut engine = Engine::new(settings, limits).map_err(|error| failed(&error))?;
    for address in addresses {
        engine.add_address(address).map_err(|error| failed(&error))?;
    }
    let network = Ipv4Addr::new(10, 0, 0, 0).into();
    let route = Route { network, prefix: 8, source: mac, next_hop: peer, mtu: 1500 };
    engine.add_route(route).map_err(|error| failed(&error))?;
    Ok(engine)
}

fn settings(options: &Options, number: u64) -> Settings {
    let mut state = options.seed ^ number << 32;
    let mut settings = Settings::new(std::array::from_fn(|_| random(&mut state)));
    settings.checksums = !options.no_checksum;
    settings.time_wait = options.time_wait;
    match options.segments {
        // A turn may last for seconds: the next request would come too late to carry the ACK (RFC 9293
        // 3.8.6.3).
        3 => settings.delayed_ack = Duration::ZERO,
        // For as long as any turn lasts; and nothing is taken for lost meanwhile.
        _ => {
            settings.delayed_ack = LONG;
            settings.rto_min = LONG;
            settings.rto_max = LONG;
            settings.user_timeout = 10 * LONG;
        }
    }
    settings
}

fn limits(options: &Options, time_waits: usize) -> Limits {
    let connections = options.connections as usize;
    let mut limits = Limits::default();
    // Short connections that are being closed still have their blocks.
    limits.connections = if options.stays() { connections } else { 2 * connections + 65_536 };
    limits.time_wait = time_waits.max(1024);
    limits.extensions = (connections / 16).max(65_536);
    limits.segment_bytes = connections * options.kept_bytes() + (256 << 20);
    limits
}

/// Splitmix64 (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn uncreated(path: &Path, cause: &std::io::Error) -> Failure {
    let message = format!("writing the capture to {} failed: {cause}", path.display());
    Failure::new(Code::Write, message).help("choose a place that this user may write to")
}

const CLIENT: Mac = Mac::new([2, 0, 0, 0, 1, 1]);
const SERVER: Mac = Mac::new([2, 0, 0, 0, 1, 2]);
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 0);
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORTS: u32 = 60_000;
const PORT_FIRST: u16 = 1024;
/// Beyond any turn, below what the engine's clock compares.
const LONG: Duration = Duration::from_secs(300);
/// Frames under way in one direction: few batches, so that they stay in the second-level cache.
const QUEUE_FRAMES: usize = 320;
/// Some 60,000 small frames.
const CAPTURE_BYTES: u64 = 16 << 20;
