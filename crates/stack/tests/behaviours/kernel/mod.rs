//! The kernel on the other end of a TAP device, in a network namespace of the test's own.
//!
//! The kernel has 10.0.0.1 and fd00::1; the interface of the test has 10.0.0.2 and fd00::2. The kernel's side is driven by std sockets on
//! other threads, by `tokio::task::spawn_blocking`.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anywire_stack::device::Device;
use anywire_stack::stream::Interface;
use anywire_stack::tap::{Options, Tap};
use anywire_tcp::{Engine, Limits, Mac, Route, Settings, Via};

use crate::again;

pub(crate) const TAP: &str = "tap0";
const KERNEL: [&str; 2] = ["10.0.0.1", "fd00::1"];
const OURS: [&str; 2] = ["10.0.0.2", "fd00::2"];

/// Runs a test in a network namespace of its own, with a TAP device without addresses, which is down. `name` is that of the test in full.
/// Says so if the system gives none, which is a failure on a build machine.
pub(crate) fn in_own_network(name: &str, test: impl FnOnce()) {
    const MAKE: &str = "ip tuntap add dev tap0 mode tap";
    if again::is_inner() {
        shell(MAKE);
        return test();
    }
    let possible = Command::new("unshare").args(again::OWN_NETWORK).args(["sh", "-c", MAKE]).output();
    if !possible.as_ref().is_ok_and(|tried| tried.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "unshare, ip and /dev/net/tun are needed: {possible:?}");
        return crate::skipped::say(format_args!("no TAP device in a network of its own: {possible:?}"));
    }
    again::passes_within(again::OWN_NETWORK, name);
}

/// The same with the kernel's end set up, on a runtime that has I/O and a clock.
pub(crate) fn beside_the_kernel(name: &str, options: Options, test: impl AsyncFnOnce(Interface)) {
    in_own_network(name, || {
        runtime().block_on(async {
            let tap = open(options);
            let (interface, driver) = Interface::new(engine(&tap, |_| ()), tap);
            tokio::task::spawn_local(driver);
            test(interface).await;
        });
    });
}

pub(crate) fn runtime() -> tokio::runtime::LocalRuntime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build_local(Default::default()).expect("a runtime")
}

/// Opens the device and sets up the kernel's end, with neighbours that never change.
pub(crate) fn open(options: Options) -> Tap {
    let tap = Tap::open(TAP, options).expect("it was made");
    // The addresses are set once there is a carrier: otherwise those of IPv6 would be of use a second later.
    shell("ip link set tap0 up");
    set_addresses(&tap);
    tap
}

/// Gives the kernel its addresses and neighbours. Those of IPv6 are gone each time that the interface was down.
pub(crate) fn set_addresses(tap: &Tap) {
    set_addresses_for(tap.capabilities().mac.expect("a TAP has one"));
}

pub(crate) fn set_addresses_for(mac: Mac) {
    set_kernel_addresses();
    for ours in OURS {
        shell(&format!("ip neigh replace {ours} lladdr {mac} dev tap0 nud permanent"));
    }
}

/// Gives the kernel its addresses alone: the neighbours have to be found.
pub(crate) fn set_kernel_addresses() {
    for (kernel, options) in KERNEL.into_iter().zip(["/24", "/64 nodad"]) {
        let (prefix, nodad) = options.split_once(' ').unwrap_or((options, ""));
        shell(&format!("ip addr replace {kernel}{prefix} dev tap0 {nodad}"));
    }
}

/// An engine with the test's addresses, and the kernel as its neighbour.
pub(crate) fn engine(tap: &Tap, change: impl FnOnce(&mut Settings)) -> Engine {
    let mut engine = routed_engine(tap, change);
    for (ours, kernel) in OURS.into_iter().zip(KERNEL) {
        let ours = ours.parse().expect("an address");
        tap.check_address(ours).expect("the kernel does not have it");
        engine.add_address(ours).expect("room");
        engine.add_neighbour(kernel.parse().expect("an address"), tap.kernel_mac()).expect("room");
    }
    engine
}

/// An engine without addresses and neighbours.
pub(crate) fn lonely_engine(tap: &Tap) -> Engine {
    routed_engine(tap, |_| ())
}

fn routed_engine(tap: &Tap, change: impl FnOnce(&mut Settings)) -> Engine {
    let capabilities = tap.capabilities();
    let mut settings = Settings::new([5, 6, 7, 8]);
    settings.checksum_offload = capabilities.transmit_checksum;
    change(&mut settings);
    let mut limits = Limits::default();
    (limits.connections, limits.half_open, limits.time_wait) = (10_000, 1000, 1000);
    let mut engine = Engine::new(settings, limits).expect("address space");
    engine.set_mac(capabilities.mac.expect("a TAP has one"));
    for network in ["10.0.0.0/24", "fd00::/64"] {
        let network = network.parse().expect("a network");
        let mtu = capabilities.mtu as u16;
        engine.add_route(Route { network, via: Via::OnLink, mtu, source: None }).expect("a good route");
    }
    engine
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl Version {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// An address of the kernel's.
    pub(crate) fn kernel(self, port: u16) -> SocketAddr {
        SocketAddr::new(KERNEL[self as usize].parse().expect("an address"), port)
    }

    /// An address of the test's.
    pub(crate) fn ours(self, port: u16) -> SocketAddr {
        SocketAddr::new(OURS[self as usize].parse().expect("an address"), port)
    }
}

/// Runs commands, which must not fail.
pub(crate) fn shell(commands: &str) {
    let done = Command::new("sh").args(["-ec", commands]).output().expect("there is a shell");
    assert!(done.status.success(), "{commands}: {done:?}");
}

/// What a blocking call on the kernel's side comes to.
pub(crate) async fn kernel<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> R {
    let done = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(call)).await;
    done.expect("the kernel's side ends").expect("it does not panic")
}

/// Far longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
