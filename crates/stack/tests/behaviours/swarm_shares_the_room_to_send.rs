//! Connections of a swarm send round-robin, one message each, whatever the others do.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anywire_stack::pair::{Endpoint, Settings as PairSettings};
use anywire_stack::swarm::{Conn, Instant, Swarm, sleep, yield_now};
use anywire_tcp::{ConnectOptions, Engine, Limits, Mac, Route, Settings, Status, Via};

const MESSAGE_BYTES: usize = 200;

fn engine(address: &str, own: u8, other: u8) -> Engine {
    let mut engine =
        Engine::new(Settings::new([1, 2, 3, own.into()]), Limits::default()).expect("a small one");
    engine.add_address(address.parse().expect("an address")).expect("a new address");
    engine.set_mac(mac(own));
    let network = "10.0.0.0/8".parse().expect("a network");
    let route = Route { network, via: Via::OnLink, mtu: 1500, source: None };
    engine.add_route(route).expect("the first route");
    engine.add_neighbour([10, 0, 0, other].into(), mac(other)).expect("room");
    engine
}

const fn mac(last: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 1, last])
}

/// Takes what comes.
async fn reader(mut conn: Conn) {
    while conn.readable().await {
        conn.read(<[u8]>::len);
    }
}

/// A server whose tasks are made by `start`, and clients that read: so many connections, for so many rounds.
fn run<F: Future<Output = ()>>(connections: u16, rounds: u64, mut start: impl FnMut(Conn) -> F) {
    let [one, two] = Endpoint::pair(PairSettings::default());
    let mut server = Swarm::new(engine("10.0.0.1", 1, 2), one, 1000, move |incoming| start(incoming.conn))
        .expect("addresses are free");
    let listening = "10.0.0.1:7".parse().expect("an address");
    let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
    server.engine().listen(listening, options).expect("a free port");
    let mut client = Swarm::new(engine("10.0.0.2", 2, 1), two, 1000, |incoming| reader(incoming.conn))
        .expect("addresses are free");
    for number in 0..connections {
        let from = ([10, 0, 0, 2], 1000 + number).into();
        client.open(from, listening, options).expect("a free port");
    }
    for round in 0..rounds {
        let now = Instant::from_micros(round * 100);
        server.round(now);
        client.round(now);
    }
    assert_eq!(server.tasks(), usize::from(connections));
}

/// Messages that each connection has sent.
type Sent = Rc<RefCell<Vec<u64>>>;

/// Sends whenever it may, and counts.
async fn pusher(mut conn: Conn, sent: Sent) {
    loop {
        conn.writable().await;
        if conn.write(MESSAGE_BYTES, |room| room.fill(7)) {
            sent.borrow_mut()[conn.index() as usize] += 1;
        } else if conn.status() != Status::Open {
            return;
        }
    }
}

#[test]
fn whoever_finds_the_queue_full_sleeps_until_there_is_room() {
    let (sent, reads) = (Sent::new(RefCell::new(vec![0])), Rc::new(Cell::new(false)));
    let [one, two] = Endpoint::pair(PairSettings::default());
    let mut server =
        Swarm::new(engine("10.0.0.1", 1, 2), one, 10, |incoming| pusher(incoming.conn, Rc::clone(&sent)))
            .expect("addresses are free");
    let mut client = Swarm::new(engine("10.0.0.2", 2, 1), two, 10, |one| {
        let reads = Rc::clone(&reads);
        async move {
            while !reads.get() {
                sleep(Duration::from_millis(1)).await;
            }
            reader(one.conn).await;
        }
    })
    .expect("addresses are free");
    let listening = "10.0.0.1:7".parse().expect("an address");
    server.engine().listen(listening, ConnectOptions::default()).expect("a free port");
    let from = "10.0.0.2:1000".parse().expect("an address");
    client.open(from, listening, ConnectOptions::default()).expect("a free port");
    let mut millis = 0;
    let mut pass = |rounds: u64| {
        for _ in 0..rounds {
            millis += 1;
            server.round(Instant::from_micros(millis * 1000));
            client.round(Instant::from_micros(millis * 1000));
        }
        (server.counters().tasks.polls, sent.borrow()[0])
    };
    // Until the peer's window and the send queue are full. Then there are only probes of the window.
    let (polls, messages) = pass(10_000);
    assert!(messages > 1000, "{messages}");
    let (later, same) = pass(10_000);
    assert_eq!(same, messages);
    assert!(later - polls < 20, "{} polls", later - polls);
    reads.set(true);
    assert!(pass(1000).1 > 2 * messages);
}

#[test]
fn those_who_always_have_something_to_send_send_as_much_as_each_other() {
    for connections in [1, 2, 3, 70] {
        let sent = Sent::new(RefCell::new(vec![0; usize::from(connections)]));
        run(connections, 2000, |conn| pusher(conn, Rc::clone(&sent)));
        let sent = sent.borrow();
        let (least, most) = (sent.iter().min().expect("some"), sent.iter().max().expect("some"));
        // The room of a round is used, however few there are to use it.
        assert!(sent.iter().sum::<u64>() > 2000 * 40, "{connections} connections: {sent:?}");
        assert!(*least > 500 && most - least <= most / 20, "{connections} connections: {sent:?}");
    }
}

#[test]
fn one_that_yields_for_ever_keeps_nobody_from_sending() {
    let sent = Sent::new(RefCell::new(vec![0; 3]));
    let first = Cell::new(true);
    run(3, 500, |conn| {
        let (yields, sent) = (first.take(), Rc::clone(&sent));
        async move {
            if yields {
                loop {
                    yield_now().await;
                }
            }
            pusher(conn, sent).await;
        }
    });
    let mut sent = sent.take();
    sent.sort_unstable();
    assert!(sent[0] == 0 && sent[1] > 100 && sent[2] > 100, "{sent:?}");
}
