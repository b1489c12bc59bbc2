//! The id of a connection that was let go of does nothing to later ones in its place.

use std::num::NonZeroU32;
use std::time::Duration;

use anywire_tcp::{
    ConnId, ConnectOptions, End, Engine, Events, Frames, Instant, Limits, Mac, Route, Settings, Status, Via,
};

/// Both ends of connections from one client to one server.
struct Pair {
    client: Engine,
    server: Engine,
    millis: u64,
}

impl Pair {
    fn new() -> Self {
        let (client, mut server) = (engine(1, 2), engine(2, 1));
        server
            .listen("10.0.0.2:80".parse().expect("an address"), ConnectOptions::default())
            .expect("a listener");
        Self { client, server, millis: 0 }
    }

    /// Opens a connection from this port, up to its being open at both ends.
    fn open(&mut self, port: u16) -> (ConnId, ConnId) {
        let to = "10.0.0.2:80".parse().expect("an address");
        let own = self
            .client
            .connect_from(([10, 0, 0, 1], port).into(), to, ConnectOptions::default())
            .expect("room");
        self.exchange();
        let ready = std::iter::from_fn(|| self.server.next_ready());
        (own, ready.last().expect("it came in").id)
    }

    fn exchange(&mut self) {
        let mut frames = Frames::new();
        for _ in 0..20 {
            self.millis += 50;
            let now = Instant::from_micros(self.millis * 1000);
            let Self { client, server, .. } = self;
            client.advance(now);
            client.transmit(now, &mut frames);
            server.receive(now, &mut frames);
            server.advance(now);
            server.transmit(now, &mut frames);
            client.receive(now, &mut frames);
        }
    }
}

fn engine(own: u8, other: u8) -> Engine {
    let mut limits = Limits::default();
    (limits.connections, limits.segment_bytes) = (64, 1 << 20);
    let mut engine = Engine::new(Settings::new([1, 2, 3, u64::from(own)]), limits).expect("address space");
    engine.add_address([10, 0, 0, own].into()).expect("room");
    let mac = |last| Mac::new([2, 0, 0, 0, 0, last]);
    engine.set_mac(mac(own));
    let network = "10.0.0.0/8".parse().expect("a network");
    engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).expect("a route");
    engine.add_neighbour([10, 0, 0, other].into(), mac(other)).expect("room");
    engine
}

/// All that a holder can do to a connection.
fn use_all(engine: &mut Engine, id: ConnId) {
    assert_eq!((engine.send(id, b"stranger"), engine.send_with(id, 8, |_| panic!("no room"))), (0, false));
    assert_eq!(
        (engine.recv(id, |_| panic!("nothing to read")), engine.splice(id, 5), engine.readable(id)),
        (0, 0, 0)
    );
    assert!(engine.is_finished(id) && !engine.has_peer_closed(id) && !engine.wants_room(id));
    assert_eq!((engine.send_room(id), engine.segment_bytes(id)), (0, 0));
    assert_eq!(engine.status(id), Status::Ended(End::Closed));
    assert!(engine.addresses(id).1.ip().is_unspecified() && !engine.sends_pure_ack(id));
    engine.set_no_nagle(id, true);
    engine.set_user_timeout(id, Duration::from_millis(1));
    engine.set_dscp(id, 46);
    assert!(!engine.set_rate(id, NonZeroU32::new(1)));
    engine.shutdown(id);
    engine.close(id);
    engine.abort(id);
}

#[test]
fn every_call_with_an_old_id_comes_to_nothing() {
    let mut pair = Pair::new();
    let (old, old_peer) = pair.open(1000);
    pair.client.abort(old);
    pair.exchange();
    pair.server.close(old_peer);
    // The same addresses and ports, in the same places.
    let (new, new_peer) = pair.open(1000);
    assert_eq!((old.index(), old_peer.index()), (new.index(), new_peer.index()));
    assert!(old != new && old_peer != new_peer);
    pair.server.send(new_peer, b"hello");
    pair.exchange();
    use_all(&mut pair.client, old);
    use_all(&mut pair.server, old_peer);
    pair.exchange();
    assert_eq!((pair.client.status(new), pair.server.status(new_peer)), (Status::Open, Status::Open));
    assert_eq!((pair.client.readable(new), pair.client.at(new.index())), (5, Some(new)));
}

#[test]
fn an_id_of_no_place_comes_to_nothing() {
    let mut pair = Pair::new();
    pair.open(1000);
    for place in [1, 1000, 1 << 30, u32::MAX >> 1, u32::MAX] {
        use_all(&mut pair.client, ConnId::claimed(place));
    }
}

#[test]
fn a_claimed_connection_keeps_its_place_until_it_is_released() {
    for ends_by_abort in [true, false] {
        let mut pair = Pair::new();
        let (id, peer) = pair.open(1000);
        use_all(&mut pair.client, ConnId::claimed(id.index()));
        pair.client.claim(id);
        let claimed = ConnId::claimed(id.index());
        assert_eq!(pair.client.send(claimed, b"hello"), 5);
        pair.exchange();
        assert_eq!(pair.server.readable(peer), 5);
        // Somebody else ends it; it is not theirs to let go of.
        let end = |engine: &mut Engine| if ends_by_abort { engine.abort(id) } else { engine.close(id) };
        end(&mut pair.client);
        pair.exchange();
        assert_eq!(pair.server.recv(peer, |bytes| bytes.len()), 5);
        pair.server.close(peer);
        pair.exchange();
        end(&mut pair.client);
        let mut ready = std::iter::from_fn(|| pair.client.next_ready());
        let events = ready.find(|ready| ready.id == claimed).expect("its holder hears of it").events;
        assert!(events.has(Events::CLOSED) || !ends_by_abort && events.has(Events::READABLE), "{events:?}");
        assert!(pair.client.is_finished(claimed) && pair.client.at(id.index()) == Some(id));
        let (next, _) = pair.open(1001);
        assert_ne!(next.index(), id.index());
        // Released, it goes as any other.
        pair.client.release(claimed);
        pair.client.abort(id);
        use_all(&mut pair.client, claimed);
        let later = (1002..1060).map(|port| pair.open(port).0);
        let last = later.into_iter().find(|last| last.index() == id.index()).expect("its place is free");
        use_all(&mut pair.client, claimed);
        assert_eq!(pair.client.status(last), Status::Open);
    }
}

#[test]
fn ids_differ_though_a_place_has_had_very_many_connections() {
    let mut pair = Pair::new();
    let (first, _) = pair.open(1000);
    pair.client.abort(first);
    pair.exchange();
    // More than the counter of a place counts.
    for port in 1001..1301 {
        let (next, next_peer) = pair.open(port);
        assert_eq!(next.index(), first.index());
        assert!(!pair.client.is_held(first), "by port {port} it is valid again");
        pair.client.abort(next);
        pair.exchange();
        pair.server.close(next_peer);
    }
}

#[test]
fn a_connection_that_was_closed_is_nobodys_while_it_ends() {
    let mut pair = Pair::new();
    let (own, peer) = pair.open(1000);
    pair.client.close(own);
    assert!(!pair.client.is_held(own) && pair.client.at(own.index()).is_none());
    use_all(&mut pair.client, own);
    pair.exchange();
    assert_eq!(pair.server.status(peer), Status::PeerClosed);
    // Of an engine with fewer places.
    assert!(!engine(3, 1).is_held(peer));
}
