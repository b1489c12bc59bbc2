//! An end of the line: a process that transfers what it is told to, over the engine or over the kernel's sockets.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use anywire_stack::device::Device;
use anywire_stack::ip::{self, Layer, Probing};
use anywire_stack::stream::Interface;
use anywire_stack::tap::{Options, Tap};
use anywire_tcp::{Engine, Instant, Limits, Route, Settings, Via};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::child::{self, Role, Said, Where};
use crate::hosts::{Host, Kernel};
use crate::transfer::{Answer, Order, Part};
use crate::work;

/// What an end is to be.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The engine that it has; none for the kernel of its namespace.
    pub(crate) engine: Option<EnginePlan>,
    pub(crate) core: Option<usize>,
}

/// An engine on a TAP device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EnginePlan {
    pub(crate) device: String,
    pub(crate) addresses: Vec<IpAddr>,
    /// Networks on the link.
    pub(crate) networks: Vec<String>,
    /// Bytes that a connection keeps at most, in each direction.
    pub(crate) window_bytes: u32,
}

/// An end, as the process that has started it sees it.
pub(crate) struct End(Role);

impl End {
    pub(crate) fn start(program: &Path, plan: &Plan, place: Where) -> Result<Self> {
        Ok(Self(Role::start(program, ROLE, plan, place)?))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn say(&mut self, order: &Order) -> Result<()> {
        self.0.say(order)
    }

    pub(crate) fn hear(&mut self) -> Result<Answer> {
        self.0.hear()
    }
}

/// Does what standard input says, until it ends.
pub(crate) fn serve(plan: &str) -> Result<()> {
    let plan: Plan = serde_json::from_str(plan).context("the plan of an end")?;
    anywire_sys::descriptors::raise_limit().context("raising the limit of open descriptors")?;
    if let Some(core) = plan.core {
        anywire_sys::cpu::pin_current_thread(core)?;
    }
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(Default::default()).context("no runtime")?;
    runtime.block_on(async {
        match &plan.engine {
            None => obey(&Kernel { congestion_control: String::new() }).await,
            Some(plan) => obey(&open(plan)?).await,
        }
    })
}

/// An engine as the plan says, driven by a task of this runtime.
fn open(plan: &EnginePlan) -> Result<Interface> {
    let tap = Tap::open(&plan.device, Options::default())?;
    let capabilities = tap.capabilities();
    let mut settings = Settings::new([1, 2, 3, 4]);
    settings.checksum_offload = capabilities.transmit_checksum;
    settings.receive_window = plan.window_bytes;
    let mut limits = Limits::default();
    (limits.connections, limits.half_open, limits.time_wait) = (32_768, 32_768, 32_768);
    limits.send_bytes = plan.window_bytes;
    let segments = u16::try_from(plan.window_bytes / SEGMENT_BYTES_MIN).unwrap_or(u16::MAX);
    limits.send_segments = limits.send_segments.max(segments);
    limits.out_of_order_segments = limits.out_of_order_segments.max(segments);
    let mut engine = Engine::new(settings, limits).context("no memory for an engine")?;
    let mac = capabilities.mac.context("a TAP device has an address")?;
    engine.set_mac(mac);
    for network in &plan.networks {
        let network = network.parse().ok().context("a network")?;
        let mtu = capabilities.mtu as u16;
        engine.add_route(Route { network, via: Via::OnLink, mtu, source: None })?;
    }
    let mut below = ip::Settings::new(5);
    below.probing = Probing::OFF;
    let mut layer = Layer::new(mac, below, ip::Limits::default());
    for &address in &plan.addresses {
        layer.add_address(Instant::default(), address)?;
    }
    let (interface, driver) = Interface::with_layer(engine, layer, tap);
    tokio::task::spawn_local(driver);
    Ok(interface)
}

async fn obey(host: &impl Host) -> Result<()> {
    let (tell, mut orders) = mpsc::unbounded_channel();
    // Not a task of the runtime, which would wait for it at its end.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let Ok(()) = tell.send(line) else { return };
        }
    });
    child::say(&Said::Ready)?;
    while let Some(line) = orders.recv().await {
        let order: Order = serde_json::from_str(&line).context("an order")?;
        let (host, transfer) = (host.controlled_by(&order.congestion_control), order.transfer);
        let done = tokio::time::timeout(transfer.patience(), async {
            match order.part {
                Part::Listen => {
                    work::listen(&host, order.address, transfer, || child::say(&Answer::Listening)).await
                }
                Part::Call => work::call(&host, order.address, transfer).await,
            }
        });
        child::say(&match done.await {
            Ok(Ok(outcome)) => Answer::Done(outcome),
            Ok(Err(fault)) => Answer::Failed(format!("{fault:#}")),
            Err(_) => Answer::Failed(format!(
                "it took longer than {} ms; {:?}",
                transfer.patience_ms,
                host.engine()
            )),
        })?;
    }
    Ok(())
}

pub(crate) const ROLE: &str = "end";

/// Segments are counted as well as bytes: so many of them fit into a window, and more if they are short.
const SEGMENT_BYTES_MIN: u32 = 512;
