//! A swarm on a link that nobody has prepared: it finds its neighbours, its addresses come and go, and its owner hears what happens to
//! the link.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anywire_stack::device::{Device, LinkEvent};
use anywire_stack::ip::{self, Event, Layer};
use anywire_stack::pair::{self, Endpoint};
use anywire_stack::swarm::{Conn, DialError, Incoming, Swarm, connect, connect_from};
use anywire_tcp::{ConnectError, ConnectOptions, End, Instant, Status};

use crate::scripted::Scripted;
use crate::swarms::{QUICK, Rounds, address, layer, lonely_engine, mac, settings};

/// What tasks have heard, by the port of the peer.
type Heard = Rc<RefCell<Vec<(u16, Status)>>>;

/// Two ends, whose links do what the test says.
fn cables() -> [Scripted<Endpoint>; 2] {
    Endpoint::pair(pair::Settings::default()).map(Scripted::new)
}

/// Echoes, and notes how the connection stands after its end.
async fn echo(mut conn: Conn, port: u16, heard: Heard) {
    while let Some(received) = conn.recv().await {
        conn.send(received).await;
    }
    heard.borrow_mut().push((port, conn.status()));
}

/// Sends something, checks that it comes back, and waits for the end.
async fn call(mut conn: Conn, heard: Heard) {
    conn.send(&b"hello"[..]).await;
    let mut back = [0; 5];
    conn.read_exact(&mut back).await.expect("it comes back");
    assert_eq!(&back, b"hello");
    let ended = !conn.readable().await;
    assert!(ended, "nothing else is sent");
    heard.borrow_mut().push((conn.addresses().1.port(), conn.status()));
}

/// Lets two swarms run for so many milliseconds.
fn run(now: &mut Instant, millis: u64, mut swarms: [&mut dyn Rounds; 2]) {
    let end = *now + Duration::from_millis(millis);
    while *now < end {
        *now = *now + Duration::from_millis(1);
        while swarms.iter_mut().map(|swarm| swarm.round(*now)).sum::<usize>() > 0 {}
    }
}

fn swarm<F: Future<Output = ()>, S: FnMut(Incoming) -> F, D: Device>(
    host: u8,
    layer: Layer,
    device: D,
    start: S,
) -> Swarm<F, S, D> {
    Swarm::with_layer(lonely_engine(settings(host), host), layer, device, 100, start).expect("address space")
}

const START: Instant = Instant::from_micros(1_000_000);

#[test]
fn neighbours_are_found_and_an_address_taken_away_ends_its_connections() {
    let [one, two] = cables();
    let (theirs, ours) = (Heard::default(), Heard::default());
    let mut server =
        swarm(1, layer(1), one, |incoming| echo(incoming.conn, incoming.local.port(), Rc::clone(&theirs)));
    let mut client = swarm(2, layer(2), two, |incoming| call(incoming.conn, Rc::clone(&ours)));
    let mut now = START;
    for host in [1, 9] {
        server.add_address(address(host, 0).ip()).expect("room");
    }
    client.add_address(address(2, 0).ip()).expect("room");
    assert!(client.add_address(address(2, 0).ip()).is_err(), "it is there");
    assert_eq!(client.next_event(), None, "not before a round");
    assert!(server.engine().listen(address(1, 7), ConnectOptions::default()).is_err(), "it is not ready");
    run(&mut now, 2, [&mut server, &mut client]);
    let ready = |host| Some(Event::AddressReady(address(host, 0).ip()));
    assert_eq!([server.next_event(), server.next_event(), server.next_event()], [ready(1), ready(9), None]);
    assert_eq!(client.next_event(), ready(2));

    for (host, port) in [(1, 7), (9, 8)] {
        server.engine().listen(address(host, port), ConnectOptions::default()).expect("a free port");
        client.open(address(2, 1000 + port), address(host, port), QUICK).expect("a way");
    }
    run(&mut now, 200, [&mut server, &mut client]);
    assert_eq!((server.tasks(), client.tasks()), (2, 2));
    let counters = client.layer().expect("it has one").counters();
    assert_eq!((counters.resolved, counters.pending_dropped), (2, 0), "both addresses, once each");

    assert_eq!(server.remove_address(address(9, 0).ip()), 1);
    run(&mut now, 200, [&mut server, &mut client]);
    assert_eq!(*theirs.borrow(), [(8, Status::Ended(End::NetworkDown))]);
    assert_eq!(*ours.borrow(), [(8, Status::Ended(End::Reset))]);
    assert_eq!((server.tasks(), client.tasks()), (1, 1), "that of the other address goes on");

    // Nobody answers for it any more, and it comes back with its listener.
    server.add_address(address(9, 0).ip()).expect("it is gone");
    run(&mut now, 2, [&mut server, &mut client]);
    assert_eq!((server.next_event(), server.next_event()), (ready(9), None));
    client.open(address(2, 1009), address(9, 8), QUICK).expect("a way");
    run(&mut now, 200, [&mut server, &mut client]);
    assert_eq!((server.tasks(), client.tasks()), (2, 2));
}

#[test]
fn an_address_that_somebody_has_is_told_and_not_used() {
    let [one, two] = cables();
    let idle = |incoming: Incoming| async move { drop(incoming) };
    let mut first = swarm(1, layer(1), one, idle);
    let probing = Layer::new(mac(2), ip::Settings::new(2), ip::Limits::default());
    let mut second = swarm(2, probing, two, idle);
    let (mut now, ip) = (START, address(5, 0).ip());
    first.add_address(ip).expect("room");
    run(&mut now, 2, [&mut first, &mut second]);
    second.add_address(ip).expect("room");
    run(&mut now, 10_000, [&mut first, &mut second]);
    assert_eq!(second.next_event(), Some(Event::AddressInUse { address: ip, by: mac(1) }));
    assert_eq!(second.engine().connect(address(1, 7), QUICK), Err(ConnectError::NoAddress));
}

#[test]
fn a_link_that_fails_is_told_and_one_that_is_gone_ends_all() {
    let [one, two] = cables();
    let script = Rc::clone(&one.script);
    let (theirs, ours) = (Heard::default(), Heard::default());
    let mut server =
        swarm(1, layer(1), one, |incoming| echo(incoming.conn, incoming.local.port(), Rc::clone(&theirs)));
    let mut client = swarm(2, layer(2), two, |incoming| call(incoming.conn, Rc::clone(&ours)));
    let mut now = START;
    server.add_address(address(1, 0).ip()).expect("room");
    client.add_address(address(2, 0).ip()).expect("room");
    run(&mut now, 5000, [&mut server, &mut client]);
    server.engine().listen(address(1, 7), ConnectOptions::default()).expect("a free port");
    client.open(address(2, 1000), address(1, 7), QUICK).expect("a way");
    run(&mut now, 200, [&mut server, &mut client]);
    server.next_event().expect("its address is ready");

    let told = |swarm: &Swarm<_, _, _>| swarm.layer().expect("it has one").counters().asked_and_told;
    let before = told(&client);
    for (event, expected) in [(LinkEvent::Down, Event::LinkDown), (LinkEvent::Up, Event::LinkUp)] {
        script.link_events.borrow_mut().push_back(event);
        assert!(server.round(now) > 0, "its owner is not to rest");
        assert_eq!((server.next_event(), server.next_event()), (Some(expected), None));
    }
    run(&mut now, 200, [&mut server, &mut client]);
    assert_eq!((server.counters().link_downs, server.tasks()), (1, 1), "connections go on");
    assert!(told(&client) > before, "the address is announced anew");

    script.link_events.borrow_mut().push_back(LinkEvent::Gone);
    run(&mut now, 200, [&mut server, &mut client]);
    assert_eq!(server.next_event(), Some(Event::DeviceGone));
    assert_eq!(*theirs.borrow(), [(7, Status::Ended(End::NetworkDown))]);
    assert_eq!((server.tasks(), server.engine().connections()), (0, 0));
    assert_eq!(server.engine().connect(address(2, 7), QUICK), Err(ConnectError::NoAddress));
}

/// What came of a dial.
type Outcome = Rc<RefCell<Option<Result<(), DialError>>>>;

#[test]
fn dials_hear_that_nobody_is_there_and_that_their_own_address_is_gone() {
    let [one, two] = cables();
    let outcomes = [Outcome::default(), Outcome::default()];
    let mut server = swarm(1, layer(1), one, |mut incoming| {
        let outcomes = outcomes.clone();
        async move {
            let ours = incoming.local;
            let dial = connect(address(77, 7), QUICK).await;
            outcomes[0].replace(Some(dial.map(drop)));
            let from = address(9, 2000);
            assert_ne!(from.ip(), ours.ip());
            let dial = connect_from(from, address(78, 7), QUICK).await;
            outcomes[1].replace(Some(dial.map(drop)));
            while incoming.conn.recv().await.is_some() {}
        }
    });
    let mut client =
        swarm(2, layer(2), two, |mut incoming| async move { while incoming.conn.recv().await.is_some() {} });
    let mut now = START;
    for host in [1, 9] {
        server.add_address(address(host, 0).ip()).expect("room");
    }
    client.add_address(address(2, 0).ip()).expect("room");
    run(&mut now, 2, [&mut server, &mut client]);
    server.engine().listen(address(1, 7), ConnectOptions::default()).expect("a free port");
    client.open(address(2, 1000), address(1, 7), QUICK).expect("a way");
    run(&mut now, 4000, [&mut server, &mut client]);
    let dial = |number: usize| outcomes[number].borrow_mut().take();
    assert!(matches!(dial(0), Some(Err(DialError::Unreachable))));
    let events: Vec<_> = std::iter::from_fn(|| server.next_event()).collect();
    assert!(events.contains(&Event::NeighbourUnreachable(address(77, 0).ip())), "{events:?}");
    assert!(dial(1).is_none(), "it is on its way");
    server.remove_address(address(9, 0).ip());
    run(&mut now, 2, [&mut server, &mut client]);
    assert!(matches!(dial(1), Some(Err(DialError::NetworkDown))));
}
