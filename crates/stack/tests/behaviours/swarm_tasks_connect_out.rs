//! A task opens connections by itself, waits for several things at once, and learns why one of them failed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::swarms::{Net, QUICK, address, settings};
use anywire_stack::swarm::{
    self, Conn, Deadline, Dial, DialError, Either, Elapsed, Incoming, connect, connect_from, select, sleep,
    splice, timeout, yield_now,
};
use anywire_tcp::ConnectError;

/// Sends back what comes, and ends when the peer does.
async fn echo(mut conn: Conn) {
    while let Some(received) = conn.recv().await {
        conn.send(received).await;
    }
}

/// Sends so many bytes as it gets room, and checks that they all come back before the end.
async fn send_and_compare(mut conn: Conn, bytes: usize, done: Rc<Cell<u32>>) {
    let (mut sent, mut seen) = (0, 0);
    let byte = |position: usize| (position % 251) as u8;
    while seen < bytes {
        if sent < bytes {
            let part: Vec<u8> = (sent..bytes.min(sent + 5000)).map(byte).collect();
            sent += conn.send(&part[..]).await;
        }
        if sent == bytes || seen + 20_000 < sent {
            assert!(conn.readable().await, "{seen} of {bytes} came back");
        }
        seen += conn.read(|bytes| {
            assert!(bytes.iter().enumerate().all(|(at, found)| *found == byte(seen + at)));
            bytes.len()
        });
    }
    conn.shutdown();
    assert!(!conn.readable().await, "the end is passed on");
    done.set(done.get() + 1);
}

#[test]
fn a_proxy_passes_on_every_byte_and_the_end() {
    let mut net = Net::new();
    let done = Rc::new(Cell::new(0));
    let mut server = net.host(1, 50, |incoming: Incoming| echo(incoming.conn));
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut proxy = net.host(3, 100, |mut incoming: Incoming| async move {
        let mut far = connect(address(1, 7), QUICK).await.expect("the server listens");
        splice(&mut incoming.conn, &mut far).await;
    });
    proxy.engine().listen(address(3, 80), QUICK).expect("a free port");
    let mut client =
        net.host(2, 50, |incoming: Incoming| send_and_compare(incoming.conn, 300_000, Rc::clone(&done)));
    for port in 1000..1020 {
        client.open(address(2, port), address(3, 80), QUICK).expect("room");
    }
    net.pass(3000, &mut [&mut server, &mut client, &mut proxy]);
    assert_eq!((done.get(), client.counters().tasks.panicked, proxy.counters().tasks.panicked), (20, 0, 0));
    assert_eq!((proxy.tasks(), server.tasks(), client.tasks()), (0, 0, 0));
    // All of its connections have gone, but for what waits in TIME-WAIT.
    assert_eq!((proxy.engine().connections(), server.engine().connections()), (0, 0));
}

#[test]
fn a_failed_attempt_says_why() {
    let mut net = Net::new();
    let found: Rc<RefCell<Vec<DialError>>> = Rc::default();
    let mut quick = settings(3);
    quick.open_timeout = Duration::from_secs(10);
    let mut tasks = net.host_with(quick, 3, 100, |incoming: Incoming| {
        let found = Rc::clone(&found);
        async move {
            // The connection that came in goes first: its place is free for the next one, which is this task's all the same.
            drop(incoming);
            let nobody_there = address(7, 7);
            for to in [address(1, 9), "192.168.0.1:7".parse().expect("an address"), nobody_there] {
                let error = connect(to, QUICK).await.expect_err("it fails");
                found.borrow_mut().push(error);
            }
            let error = connect_from(address(4, 1), address(1, 7), QUICK).await.expect_err("not ours");
            found.borrow_mut().push(error);
            let late = timeout(Duration::from_secs(1), connect(nobody_there, QUICK)).await;
            assert_eq!(late.expect_err("nobody answers"), Elapsed);
        }
    });
    tasks.engine().listen(address(3, 80), QUICK).expect("a free port");
    let mut server = net.host(1, 10, |incoming: Incoming| echo(incoming.conn));
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    server.open(address(1, 1000), address(3, 80), QUICK).expect("room");
    net.pass(20_000, &mut [&mut server, &mut tasks]);
    let expected = [
        DialError::Refused,
        DialError::Begin(ConnectError::NoRoute),
        DialError::TimedOut,
        DialError::Begin(ConnectError::NoAddress),
    ];
    assert_eq!(*found.borrow(), expected);
    assert_eq!((tasks.counters().tasks.panicked, tasks.tasks(), tasks.engine().connections()), (0, 0, 0));
}

#[test]
fn a_connection_in_the_place_of_the_tasks_own_starts_no_task() {
    let mut net = Net::new();
    let done = Rc::new(Cell::new(0));
    let mut server = net.host(1, 50, |incoming: Incoming| echo(incoming.conn));
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut tasks = net.host(3, 100, |incoming: Incoming| {
        let done = Rc::clone(&done);
        async move {
            let own = incoming.conn.index();
            incoming.conn.abort();
            // The place is free once the reset has left.
            sleep(Duration::from_millis(1)).await;
            let conn = connect(address(1, 7), QUICK).await.expect("it listens");
            assert_eq!(conn.index(), own);
            send_and_compare(conn, 1000, done).await;
        }
    });
    tasks.engine().listen(address(3, 80), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| echo(incoming.conn));
    client.open(address(2, 1000), address(3, 80), QUICK).expect("room");
    net.pass(100, &mut [&mut server, &mut tasks, &mut client]);
    let counters = tasks.counters();
    assert_eq!((done.get(), counters.tasks.finished, counters.tasks.panicked), (1, 1, 0));
    assert_eq!((counters.displaced, server.counters().tasks.finished), (0, 1));
}

#[test]
fn an_attempt_can_be_handed_to_another_task() {
    let mut net = Net::new();
    let (begun, done): (RefCell<Option<Dial>>, _) = (RefCell::default(), Rc::new(Cell::new(0)));
    let mut server = net.host(1, 50, |incoming: Incoming| echo(incoming.conn));
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut tasks = net.host(3, 100, |incoming: Incoming| {
        let (begun, done) = (&begun, Rc::clone(&done));
        async move {
            let _conn = incoming.conn;
            let other = begun.borrow_mut().take();
            if let Some(dial) = other {
                return send_and_compare(dial.await.expect("it listens"), 1000, done).await;
            }
            let mut dial = connect(address(1, 7), QUICK);
            select(&mut dial, yield_now()).await;
            *begun.borrow_mut() = Some(dial);
            sleep(Duration::from_secs(1000)).await;
        }
    });
    tasks.engine().listen(address(3, 80), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| echo(incoming.conn));
    // The answer comes when both have asked.
    for port in [1000, 1001] {
        client.open(address(2, port), address(3, 80), QUICK).expect("room");
        net.pass(5, &mut [&mut tasks, &mut client]);
    }
    net.pass(100, &mut [&mut server, &mut tasks, &mut client]);
    assert_eq!((done.get(), tasks.tasks()), (1, 1));
}

#[test]
fn a_task_waits_for_the_first_of_two_connections() {
    let mut net = Net::new();
    let order: Rc<RefCell<Vec<u8>>> = Rc::default();
    let mut server = net.host(1, 10, |incoming: Incoming| async move {
        let (mut conn, port) = (incoming.conn, incoming.local.port());
        sleep(Duration::from_millis(if port == 7 { 50 } else { 20 })).await;
        conn.send(&[port as u8][..]).await;
        sleep(Duration::from_secs(9)).await;
    });
    for port in [7, 8] {
        server.engine().listen(address(1, port), QUICK).expect("a free port");
    }
    let mut client = net.host(2, 10, |mut incoming: Incoming| {
        let order = Rc::clone(&order);
        async move {
            let mut other = connect(address(1, 8), QUICK).await.expect("it listens");
            for _ in 0..2 {
                let see = |bytes: &[u8]| {
                    order.borrow_mut().extend(bytes);
                    bytes.len()
                };
                match select(incoming.conn.readable(), other.readable()).await {
                    Either::First(true) => incoming.conn.read(see),
                    Either::Second(true) => other.read(see),
                    _ => panic!("both stay"),
                };
            }
        }
    });
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(200, &mut [&mut server, &mut client]);
    assert_eq!((&order.borrow()[..], client.counters().tasks.panicked), (&[8, 7][..], 0));
}

#[test]
fn a_deadline_that_moves_costs_no_turns() {
    let mut net = Net::new();
    let ended_after = Rc::new(Cell::new(Duration::ZERO));
    let mut server = net.host(1, 10, |mut incoming: Incoming| {
        let ended_after = Rc::clone(&ended_after);
        async move {
            let (idle, begun) = (Duration::from_millis(500), swarm::now());
            let mut deadline = Deadline::never();
            deadline.reset(Duration::from_secs(9));
            deadline.clear();
            deadline.reset(idle);
            while let Either::First(true) = select(incoming.conn.readable(), &mut deadline).await {
                incoming.conn.read(<[u8]>::len);
                deadline.reset(idle);
            }
            ended_after.set(swarm::now().since(begun));
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |mut incoming: Incoming| async move {
        for _ in 0..100 {
            incoming.conn.send(&b"alive"[..]).await;
            sleep(Duration::from_millis(20)).await;
        }
        while incoming.conn.readable().await {}
    });
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(4000, &mut [&mut server, &mut client]);
    let ended_after = ended_after.get().as_millis();
    assert!((2480..2520).contains(&ended_after), "{ended_after} ms");
    // A poll for each message, and for a look at the deadline every half a second.
    let polls = server.counters().tasks.polls;
    assert!((100..115).contains(&polls), "{polls} polls");
    assert_eq!(client.tasks(), 0);
}
