//! A swarm ends by a deadline: it listens no more, tells its tasks one after the other, and cuts the rest.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::hub::Hub;
use crate::swarms::{Net, QUICK, address};
use anywire_stack::swarm::{Either, Incoming, Swarm, connect, draining, park, select, sleep, spread};

const CONNECTIONS: u16 = 200;

#[test]
fn tasks_are_told_one_after_the_other_and_the_rest_is_cut() {
    let mut net = Net::new();
    let mut server = net.host(1, 1000, |mut incoming: Incoming| async move {
        // One of ten does not listen.
        if incoming.peer.port().is_multiple_of(10) {
            while incoming.conn.readable().await {}
            return;
        }
        let told = select(draining(), incoming.conn.readable()).await;
        assert!(matches!(told, Either::First(())));
        incoming.conn.send(&b"bye"[..]).await;
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let ended = Rc::new(Cell::new(0_u32));
    let mut client = net.host(2, 1000, |mut incoming: Incoming| {
        let ended = Rc::clone(&ended);
        async move {
            while incoming.conn.readable().await {
                incoming.conn.read(<[u8]>::len);
            }
            ended.set(ended.get() + 1);
        }
    });
    for port in 1000..1000 + CONNECTIONS {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(100, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), server.is_drained()), (200, false));
    server.drain(Duration::from_secs(4));
    client.open(address(2, 5000), address(1, 7), QUICK).expect("room");
    let mut before = 0;
    for quarter in 1..=4 {
        net.pass(500, &mut [&mut server, &mut client]);
        // In the first half of the time, as many in each part of it.
        let now = ended.get();
        assert!((35..=55).contains(&(now - before)), "{} in quarter {quarter}", now - before);
        before = now;
    }
    assert_eq!((server.tasks(), client.counters().unopened), (20, 1));
    net.pass(1900, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), server.counters().cut, ended.get()), (20, 0, 180));
    net.pass(200, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), server.counters().cut, ended.get()), (0, 20, 200));
    assert!(server.is_drained());
    assert_eq!(server.counters().tasks.panicked, 0);
}

#[test]
fn connections_of_tasks_that_have_ended_are_waited_for_until_the_deadline() {
    for peers_answer in [true, false] {
        let mut net = Net::new();
        let mut server = net.host(1, 10, |mut incoming: Incoming| async move {
            // It connects out meanwhile, to nobody.
            select(connect(address(7, 7), QUICK), draining()).await;
            incoming.conn.send(&b"bye"[..]).await;
        });
        server.engine().listen(address(1, 7), QUICK).expect("a free port");
        let mut client = net.host(2, 10, |mut incoming: Incoming| async move {
            while incoming.conn.readable().await {
                incoming.conn.read(<[u8]>::len);
            }
        });
        for port in 1000..1005 {
            client.open(address(2, port), address(1, 7), QUICK).expect("room");
        }
        net.pass(20, &mut [&mut server, &mut client]);
        server.drain(Duration::from_secs(1));
        if peers_answer {
            net.pass(600, &mut [&mut server, &mut client]);
        } else {
            net.pass(600, &mut [&mut server]);
        }
        assert_eq!((server.tasks(), server.is_drained()), (0, peers_answer));
        net.pass(400, &mut [&mut server]);
        assert_eq!((server.is_drained(), server.counters().cut), (true, 0));
    }
}

#[test]
fn a_task_that_asks_late_is_told_at_once() {
    let mut net = Net::new();
    let mut server = net.host(1, 10, |incoming: Incoming| async move {
        let _conn = incoming.conn;
        sleep(Duration::from_secs(3)).await;
        draining().await;
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client =
        net.host(2, 10, |mut incoming: Incoming| async move { while incoming.conn.readable().await {} });
    for port in 1000..1005 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(20, &mut [&mut server, &mut client]);
    server.drain(Duration::from_secs(4));
    net.pass(2900, &mut [&mut server, &mut client]);
    assert_eq!(server.tasks(), 5);
    net.pass(110, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), server.counters().cut), (0, 0));
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor that panics, as it was told to");
    }
}

#[test]
fn a_task_that_panics_while_it_is_cut_keeps_no_other_from_it() {
    let mut net = Net::new();
    let mut server = net.host(1, 10, |mut incoming: Incoming| async move {
        let _bomb = Bomb;
        while incoming.conn.readable().await {}
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client =
        net.host(2, 10, |mut incoming: Incoming| async move { while incoming.conn.readable().await {} });
    for port in 1000..1005 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(20, &mut [&mut server, &mut client]);
    server.drain(Duration::from_millis(10));
    net.pass(100, &mut [&mut server, &mut client]);
    assert_eq!((server.counters().cut, server.tasks(), client.tasks()), (5, 0, 0));
    assert!(server.is_drained());
}

/// However many tasks are told, or cut at the deadline: frames of others come in and leave in between.
#[test]
fn very_many_are_told_and_cut_in_parts() {
    const MANY: u16 = 5000;
    let mut net = Net::new();
    let asked = Rc::new(Cell::new(0_u32));
    let mut server = net.host(1, MANY.into(), |mut incoming: Incoming| {
        let asked = Rc::clone(&asked);
        async move {
            // Nobody ends by himself; who is told says so, and all of them answer.
            let mut told = draining();
            while let Either::Second(Some(received)) = select(&mut told, incoming.conn.recv()).await {
                incoming.conn.send(received).await;
            }
            asked.set(asked.get() + 1);
            while let Some(received) = incoming.conn.recv().await {
                incoming.conn.send(received).await;
            }
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let (answers, ended) = (Rc::new(Cell::new(0_u32)), Rc::new(Cell::new(0_u32)));
    let mut client = net.host(2, MANY.into(), |mut incoming: Incoming| {
        let (answers, ended) = (Rc::clone(&answers), Rc::clone(&ended));
        async move {
            while incoming.conn.readable().await {
                incoming.conn.read(<[u8]>::len);
                answers.set(answers.get() + 1);
            }
            ended.set(ended.get() + 1);
        }
    });
    let mut last = None;
    for port in 1000..1000 + MANY {
        last = Some(client.open(address(2, port), address(1, 7), QUICK).expect("room"));
        if port % 500 == 0 {
            net.pass(5, &mut [&mut server, &mut client]);
        }
    }
    net.pass(50, &mut [&mut server, &mut client]);
    let (last, many) = (last.expect("many"), usize::from(MANY));
    assert_eq!((server.tasks(), asked.get()), (many, 0));
    server.drain(Duration::from_micros(4));
    // The end of the telling, and of all tasks, comes at once.
    net.now = net.now + Duration::from_millis(1);
    let (mut rounds, mut before, mut answered_while_cut) = (0, many, false);
    while server.tasks() > 0 {
        rounds += 1;
        client.engine().send(last, b"are you there?");
        client.round(net.now);
        assert!(server.next_deadline().is_some_and(|at| at <= net.now), "it goes on at once");
        assert!(server.round(net.now) > 0);
        assert!((1..=1024).contains(&(before - server.tasks())), "round {rounds}");
        before = server.tasks();
        while client.round(net.now) > 0 {}
        answered_while_cut |= answers.get() > 0 && before > 0;
        assert!(ended.get() > 0 && ended.get() as usize <= many - before, "FINs leave as tasks are cut");
    }
    assert!(rounds >= 5 && answered_while_cut, "{rounds} rounds");
    net.pass(100, &mut [&mut server, &mut client]);
    assert_eq!((server.counters().cut, ended.get()), (MANY.into(), MANY.into()));
    assert!(server.is_drained() && asked.get() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_of_tokio_ends_with_the_last_connection() {
    let (hub, notifiers) = (Hub::default(), crate::hosts::Notifiers::default());
    let live = |host: u8| notifiers.attach(hub.adapter(crate::swarms::mac(host)));
    let engine = |host: u8| crate::swarms::engine(crate::swarms::settings(host), host);
    let mut server = Swarm::new(engine(1), live(1), 10, |mut incoming: Incoming| async move {
        select(draining(), incoming.conn.readable()).await;
    })
    .expect("address space");
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let again = RefCell::new(Vec::new());
    let mut client = Swarm::new(engine(2), live(2), 10, |mut incoming: Incoming| {
        let again = &again;
        async move {
            while incoming.conn.readable().await {}
            drop(incoming);
            let wait = spread(Duration::from_secs(60));
            sleep(wait).await;
            again.borrow_mut().push(wait);
        }
    })
    .expect("address space");
    for port in 1000..1005 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    let stop = tokio::sync::Notify::new();
    let serve = async {
        server.run_until(tokio::time::sleep(Duration::from_secs(1))).await;
        assert_eq!(server.tasks(), 5);
        let begun = tokio::time::Instant::now();
        server.drain(Duration::from_secs(100));
        server.run_until_drained().await;
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_secs(100)).await;
        stop.notify_waiters();
    };
    tokio::join!(serve, client.run_until(stop.notified()));
    let mut again = again.take();
    again.sort_unstable();
    again.dedup();
    assert_eq!(again.len(), 5, "each waits for another time");
}

async fn stays_open(incoming: Incoming) {
    let _conn = incoming.conn;
    park().await;
}

async fn reads_to_the_end(incoming: Incoming) {
    let mut conn = incoming.conn;
    while conn.readable().await {
        conn.read(<[u8]>::len);
    }
}

/// "Afterwards the swarm takes no connections, even if its engine listens again."
#[test]
fn a_swarm_that_has_drained_takes_no_connections() {
    let mut net = Net::new();
    let started = Rc::new(Cell::new(0));
    let count = Rc::clone(&started);
    let mut server = net.host(1, 10, move |incoming: Incoming| {
        count.set(count.get() + 1);
        stays_open(incoming)
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, reads_to_the_end);
    server.drain(Duration::from_millis(50));
    net.pass(100, &mut [&mut server, &mut client]);
    assert!(server.is_drained());
    let listens = server.engine().listen(address(1, 7), QUICK);
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(100, &mut [&mut server, &mut client]);
    assert_eq!((started.get(), server.tasks(), server.counters().refused), (0, 0, 1), "{listens:?}");
    assert_eq!((client.tasks(), client.engine().connections()), (0, 0), "it is reset");
}

/// A connection whose handshake is under way when the drain begins.
#[test]
fn a_half_open_connection_does_not_start_a_task_after_the_drain_has_begun() {
    let mut net = Net::new();
    let started = Rc::new(Cell::new(0));
    let count = Rc::clone(&started);
    let mut server = net.host(1, 10, move |incoming: Incoming| {
        count.set(count.get() + 1);
        stays_open(incoming)
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, reads_to_the_end);
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    client.round(net.now);
    server.round(net.now);
    server.drain(Duration::from_millis(50));
    net.pass(40, &mut [&mut server, &mut client]);
    let tasks = server.tasks();
    net.pass(100, &mut [&mut server, &mut client]);
    assert_eq!((started.get(), tasks, server.tasks()), (0, 0, 0), "it listens no more");
}
