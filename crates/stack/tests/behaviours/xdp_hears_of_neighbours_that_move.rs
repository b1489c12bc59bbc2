//! A neighbour that tells everybody of its new MAC is believed at once over `xdp:`, though what it says goes to the kernel as well.

use std::net::{IpAddr, TcpListener};
use std::time::Duration;

use anywire_stack::ip::{self, Event, Layer, Probing};
use anywire_stack::stream::Interface;
use anywire_stack::xdp::{Options, Wanted, WantedMode};
use anywire_tcp::{Engine, Instant, Limits, Mac, Route, Via};

use crate::hosts::next_event;
use crate::networks::frames::{STACK, THEIRS, open};
use crate::networks::{PATIENCE, Pair};

const BEFORE: Mac = Mac::new([2, 0, 0, 0, 0, 2]);
const AFTER: Mac = Mac::new([2, 0, 0, 0, 0, 3]);

/// A host with one address, which takes a neighbour that was heard of for reachable all day.
fn host(own: IpAddr) -> (Engine, Layer) {
    let mac = Mac::new([2, 0, 0, 0, 0, 1]);
    let mut engine = Engine::new(anywire_tcp::Settings::new([7; 4]), Limits::default()).expect("memory");
    engine.set_mac(mac);
    for network in ["10.77.0.0/24", "fd77::/64"] {
        let network = network.parse().expect("a network");
        engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).expect("a good route");
    }
    let mut settings = ip::Settings::new(7);
    settings.probing = Probing::OFF;
    settings.reachable_time = Duration::from_hours(24);
    let mut layer = Layer::new(mac, settings, ip::Limits::default());
    layer.add_address(Instant::default(), own).expect("room");
    (engine, layer)
}

/// The kernel of their end has another MAC from now on, and says so.
fn move_theirs(pair: &Pair) {
    pair.theirs.run(|| {
        for told in ["ipv4/conf/far/arp_notify", "ipv6/conf/far/ndisc_notify"] {
            std::fs::write(format!("/proc/sys/net/{told}"), "1").expect("it is a setting of each kernel");
        }
    });
    pair.theirs.ip(&format!("link set far address {AFTER}"));
}

#[test]
fn over_both_versions() {
    for (own, theirs) in [(IpAddr::from(STACK), IpAddr::from(THEIRS)), (v6("fd77::2"), v6("fd77::1"))] {
        let Some(pair) = Pair::new() else { return };
        let (device, _claim) = open(&pair, WantedMode::Any, Options::default());
        let _own = device.attachment().claim(Wanted::Address(own)).expect("there is room");
        let listener = pair.theirs.run(|| TcpListener::bind((theirs, 0)).expect("a free port"));
        let to = listener.local_addr().expect("it is bound");
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(Default::default()).expect("a runtime");
        runtime.block_on(async {
            let (engine, layer) = host(own);
            let (interface, driver) = Interface::with_layer(engine, layer, device);
            tokio::task::spawn_local(driver);
            assert_eq!(next_event(&interface).await, Some(Event::AddressReady(own)));
            let _stream = interface.connect(to).await.expect("the kernel listens");
            move_theirs(&pair);
            let told = tokio::time::timeout(PATIENCE, next_event(&interface)).await.expect("it is told");
            assert_eq!(told, Some(Event::NeighbourMoved { address: theirs, from: BEFORE, to: AFTER }));
        });
    }
}

fn v6(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
