//! On a device whose packets are larger than Ethernet's, a swarm has room for a whole batch of the longest segments.

use anywire_stack::device::Device;
use anywire_stack::pair::{Endpoint, Settings as PairSettings};
use anywire_stack::swarm::{Conn, Instant, Swarm};
use anywire_tcp::{ConnectOptions, Engine, Limits, Mac, Route, Settings, Status, Via};

const MTU: u16 = 9000;
/// All that a segment with timestamps carries.
const MESSAGE_BYTES: usize = 2028 - 12;
const CONNECTIONS: u16 = 200;

fn engine(address: &str, own: u8, other: u8) -> Engine {
    let mut engine =
        Engine::new(Settings::new([1, 2, 3, own.into()]), Limits::default()).expect("a small one");
    engine.add_address(address.parse().expect("an address")).expect("a new address");
    engine.set_mac(mac(own));
    let network = "10.0.0.0/8".parse().expect("a network");
    let route = Route { network, via: Via::OnLink, mtu: MTU, source: None };
    engine.add_route(route).expect("the first route");
    engine.add_neighbour([10, 0, 0, other].into(), mac(other)).expect("room");
    engine
}

const fn mac(last: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 1, last])
}

async fn pusher(mut conn: Conn) {
    while conn.status() == Status::Open {
        conn.writable().await;
        conn.write(MESSAGE_BYTES, |room| room.fill(7));
    }
}

async fn reader(mut conn: Conn) {
    while conn.readable().await {
        conn.read(<[u8]>::len);
    }
}

#[test]
fn a_batch_of_the_longest_segments_leaves_whole() {
    let [one, two] = Endpoint::pair(PairSettings { mtu: MTU.into(), ..PairSettings::default() });
    let places = usize::from(CONNECTIONS);
    let mut server = Swarm::new(engine("10.0.0.1", 1, 2), one, places, |one| pusher(one.conn))
        .expect("addresses are free");
    let mut client = Swarm::new(engine("10.0.0.2", 2, 1), two, places, |one| reader(one.conn))
        .expect("addresses are free");
    let listening = "10.0.0.1:7".parse().expect("an address");
    let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
    server.engine().listen(listening, options).expect("a free port");
    for number in 0..CONNECTIONS {
        client.open(([10, 0, 0, 2], 1000 + number).into(), listening, options).expect("a free port");
    }
    // Three seconds: whatever was lost on the way has been sent again by then.
    for round in 0..3000 {
        let now = Instant::from_micros(round * 1000);
        server.round(now);
        client.round(now);
    }
    let (sent, received) = (server.device().counters(), client.device().counters());
    assert!(received.bytes_in > 30_000 * MESSAGE_BYTES as u64, "{received:?}");
    assert_eq!((sent.dropped_out, received.dropped_in), (0, 0));
    assert_eq!(server.engine().counters().retransmits, 0);
}
