//! A thread that comes late finds in its device what a timer waits for: it takes that in before it looks at the timer.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use anywire_stack::ip::{self, Event, Layer, Probing};
use anywire_stack::pair::{Endpoint, Settings};
use anywire_stack::stream::Interface;
use anywire_stack::swarm::{Incoming, Swarm};
use tokio::task::unconstrained;

use crate::swarms::{Net, QUICK, Rounds, address, engine, layer, lonely_engine, mac, settings};

/// Longer than a SYN waits for its answer, and than an address is probed.
const LATE: Duration = Duration::from_secs(5);

const SERVER: u8 = 1;
const CLIENT: u8 = 2;

/// Polls it once, and says whether it has ended.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    unconstrained(poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    }))
    .await
}

#[tokio::test(start_paused = true)]
async fn an_interface_sends_nothing_again_whose_answer_is_here() {
    let [near, far] = Endpoint::pair(Settings::default());
    let (client, client_driver) = Interface::new(engine(settings(CLIENT), CLIENT), near);
    let (server, server_driver) = Interface::new(engine(settings(SERVER), SERVER), far);
    let (mut client_driver, mut server_driver) = (pin!(client_driver), pin!(server_driver));
    let service: SocketAddr = address(SERVER, 7);
    let _listener = server.listen(service, Default::default()).expect("the port is free");
    let mut connecting = pin!(client.connect(service));
    assert!(once(connecting.as_mut()).await.is_none());
    once(client_driver.as_mut()).await;
    once(server_driver.as_mut()).await;
    tokio::time::advance(LATE).await;
    once(client_driver.as_mut()).await;
    assert_eq!(client.with_engine(|engine| engine.counters().retransmits), 0);
    once(connecting.as_mut()).await.expect("its answer is here").expect("somebody listens");
}

#[test]
fn a_swarm_sends_nothing_again_whose_answer_is_here() {
    let mut net = Net::new();
    let mut server = net.host(SERVER, 10, |_: Incoming| async {});
    server.engine().listen(address(SERVER, 7), QUICK).expect("a free port");
    let mut client = net.host(CLIENT, 10, |_: Incoming| async {});
    client.open(address(CLIENT, 1000), address(SERVER, 7), QUICK).expect("room");
    for host in [&mut client as &mut dyn Rounds, &mut server] {
        host.round(net.now);
    }
    net.now = net.now + LATE;
    client.round(net.now);
    assert_eq!(client.engine().counters().retransmits, 0);
    net.pass(10, &mut [&mut client, &mut server]);
    assert_eq!(client.counters().tasks.finished, 1, "it was open");
}

#[test]
fn an_address_is_not_used_that_somebody_has_said_to_have() {
    let [near, far] = Endpoint::pair(Settings::default());
    let wanted = address(SERVER, 0).ip();
    let mut probing = ip::Settings::new(1);
    probing.probing = Probing { probes: 1, wait_max: Duration::ZERO, ..Probing::LOCAL };
    let start = |_: Incoming| async {};
    let swarm = |host, layer, device| {
        Swarm::with_layer(lonely_engine(settings(host), host), layer, device, 10, start)
            .expect("address space")
    };
    let mut owner = swarm(SERVER, layer(SERVER), near);
    let mut late = swarm(CLIENT, Layer::new(mac(CLIENT), probing, ip::Limits::default()), far);
    let mut now = Net::new().now;
    owner.add_address(wanted).expect("room");
    owner.round(now);
    late.add_address(wanted).expect("room");
    late.round(now);
    owner.round(now);
    now = now + LATE;
    late.round(now);
    assert_eq!(late.next_event(), Some(Event::AddressInUse { address: wanted, by: mac(SERVER) }));
}
