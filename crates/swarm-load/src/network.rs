//! The network of a run: two engines, joined back to back, with impairments and the capture in between.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use anywire_stack::capture::{self, Capture};
use anywire_stack::device::Device;
use anywire_stack::impair::{Impair, Impairment};
use anywire_stack::pair::{self, Endpoint};
use anywire_tcp::{Cidr, ConnectOptions, Engine, Limits, Mac, Route, Settings, Via};

use crate::error::Error;
use crate::plan::{Mode, Plan, SHORT_TUPLES};

/// An end of all connections, not yet opened: its engine, and its device.
pub(crate) type End = (Engine, Box<dyn Device>);

/// Clients and servers, joined as the plan says.
pub(crate) fn join(plan: &Plan) -> Result<[End; 2], Error> {
    let pair = pair::Settings { queue_frames: QUEUE_FRAMES, ..pair::Settings::default() };
    let impaired = |end: Endpoint, seed| -> Box<dyn Device> {
        let impairment = Impairment { loss: plan.loss, seed: plan.seed ^ seed, ..Impairment::default() };
        match plan.loss {
            0.0 => Box::new(end),
            _ => Box::new(Impair::new(end, impairment)),
        }
    };
    let [one, two] = Endpoint::pair(pair);
    let mut client_device = impaired(one, 1);
    if let Some(path) = &plan.capture {
        let limits = capture::Limits { file_bytes: CAPTURE_BYTES, ..capture::Limits::default() };
        let file = File::create(path).map_err(|cause| Error::Capture { path: path.clone(), cause })?;
        client_device = Box::new(Capture::new(client_device, file, limits).starting_at(SystemTime::now()));
    }
    let tuples = if plan.mode == Mode::Short { SHORT_TUPLES } else { plan.connections };
    let addresses = (0..tuples.div_ceil(PORTS)).map(|number| client_address(number * PORTS).ip());
    let client = engine(plan, [CLIENT, SERVER], addresses, plan.time_waits())?;
    // Clients close first, so what waits for old segments is theirs. A table that had room for it as well would be spread
    // over so many pages that each lookup would miss the translation of its address.
    let mut server = engine(plan, [SERVER, CLIENT], [SERVER_ADDRESS.into()], 0)?;
    server.listen(server_address(plan), options(plan)).map_err(Error::setup)?;
    Ok([(client, client_device), (server, impaired(two, 2))])
}

/// The options of all connections, at both ends.
pub(crate) fn options(plan: &Plan) -> ConnectOptions {
    ConnectOptions { no_nagle: true, keep_alive: plan.keep_alive.is_some(), ..ConnectOptions::default() }
}

/// Where connection `number` comes from: 60,000 ports of each address.
pub(crate) fn client_address(number: u32) -> SocketAddr {
    let host = CLIENT_ADDRESS.to_bits() + number / PORTS;
    SocketAddr::new(Ipv4Addr::from_bits(host).into(), PORT_FIRST + (number % PORTS) as u16)
}

/// Where all of them go.
pub(crate) fn server_address(plan: &Plan) -> SocketAddr {
    SocketAddr::new(SERVER_ADDRESS.into(), if plan.mode == Mode::Http { 80 } else { 7 })
}

fn engine(
    plan: &Plan,
    [source, next_hop]: [Mac; 2],
    addresses: impl IntoIterator<Item = IpAddr>,
    time_waits: usize,
) -> Result<Engine, Error> {
    let mut limits = Limits::default();
    limits.connections = plan.connections_max();
    limits.time_wait = time_waits.max(1024);
    limits.extensions = (plan.connections as usize / 16).max(65_536);
    limits.segment_bytes = plan.connections as usize * plan.kept_bytes() + (256 << 20);
    let mut engine = Engine::new(settings(plan, source), limits).map_err(Error::setup)?;
    for address in addresses {
        engine.add_address(address).map_err(Error::setup)?;
    }
    engine.set_mac(source);
    // All addresses of the other end have one interface, as those behind a router.
    let gateway = Ipv4Addr::new(192, 0, 2, 1).into();
    let route = Route { network: Cidr::ALL_V4, via: Via::Gateway(gateway), mtu: 1500, source: None };
    engine.add_route(route).map_err(Error::setup)?;
    engine.add_neighbour(gateway, next_hop).map_err(Error::setup)?;
    Ok(engine)
}

fn settings(plan: &Plan, mac: Mac) -> Settings {
    let mut random = fastrand::Rng::with_seed(plan.seed ^ u64::from(mac == SERVER) << 32);
    let mut settings = Settings::new(std::array::from_fn(|_| random.u64(..)));
    settings.checksums = plan.checksums;
    settings.timestamps = plan.timestamps;
    settings.keep_alive_idle = plan.keep_alive.unwrap_or(settings.keep_alive_idle);
    settings.time_wait = plan.time_wait;
    if plan.segments == 3 {
        // A round of all connections may last for seconds: the next request would come too late to carry the ACK
        // (RFC 9293 3.8.6.3).
        settings.delayed_ack = Duration::ZERO;
    } else {
        // Longer than any round; and nothing counts as lost meanwhile.
        settings.delayed_ack = LONG;
        settings.rto_min = LONG;
        settings.rto_max = LONG;
        settings.user_timeout = 10 * LONG;
    }
    settings
}

const CLIENT: Mac = Mac::new([2, 0, 0, 0, 1, 1]);
const SERVER: Mac = Mac::new([2, 0, 0, 0, 1, 2]);
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 0);
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORTS: u32 = 60_000;
const PORT_FIRST: u16 = 1024;
/// Longer than any round, and less than the engine's clock can compare.
const LONG: Duration = Duration::from_secs(300);
/// Frames under way in one direction: few batches, so that they stay in the second-level cache.
const QUEUE_FRAMES: usize = 320;
/// Some 60,000 small frames.
const CAPTURE_BYTES: u64 = 16 << 20;
