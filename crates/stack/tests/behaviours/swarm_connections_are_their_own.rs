//! A connection of a swarm belongs to the task that holds it. A task that goes on without it never acts on the next one in
//! its place, and a connection that is dropped, wherever that is, closes itself alone.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::swarms::{Net, QUICK, address};
use anywire_stack::swarm::{Conn, Either, Incoming, select, sleep, yield_now};
use anywire_tcp::{End, KeepAlive, ListenerId, Status};

/// Sends back what comes.
async fn echo(mut conn: Conn) {
    while let Some(received) = conn.recv().await {
        conn.send(received).await;
    }
}

/// Asks every 10 ms, and counts the answers.
async fn ask(mut conn: Conn, answers: Rc<Cell<u32>>) {
    while conn.send(&b"ping"[..]).await == 4 && conn.fill_to(4).await.is_ok() {
        conn.read(<[u8]>::len);
        answers.set(answers.get() + 1);
        sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_task_that_outlives_its_connection_leaves_the_next_one_alone() {
    let mut net = Net::new();
    let started = Rc::new(Cell::new(0));
    let mut server = net.host(1, 10, |incoming: Incoming| {
        started.set(started.get() + 1);
        let is_first = started.get() == 1;
        async move {
            if is_first {
                incoming.conn.abort();
                sleep(Duration::from_secs(1)).await;
            } else {
                echo(incoming.conn).await;
            }
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let answers = Rc::new(Cell::new(0));
    let mut client = net.host(2, 10, |incoming: Incoming| ask(incoming.conn, Rc::clone(&answers)));
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(50, &mut [&mut server, &mut client]);
    assert_eq!((client.tasks(), answers.get()), (0, 0));
    client.open(address(2, 1001), address(1, 7), QUICK).expect("room");
    net.pass(100, &mut [&mut server, &mut client]);
    // The sleeping task is still there, and another task serves the second connection.
    assert_eq!((server.tasks(), server.counters().displaced), (2, 1));
    assert!(answers.get() >= 5, "{}", answers.get());
    net.pass(2000, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), client.tasks()), (1, 1));
    assert!(answers.get() >= 100, "{}", answers.get());
}

#[test]
fn a_connection_that_is_dropped_elsewhere_closes_itself_alone() {
    let mut net = Net::new();
    let kept: Rc<RefCell<Vec<Conn>>> = Rc::default();
    let mut server = net.host(1, 10, |incoming: Incoming| {
        let kept = Rc::clone(&kept);
        async move { kept.borrow_mut().push(incoming.conn) }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let ended = Rc::new(Cell::new(0));
    let mut client = net.host(2, 10, |mut incoming: Incoming| {
        let (ended, kept) = (Rc::clone(&ended), Rc::clone(&kept));
        let port = incoming.local.port();
        async move {
            if port == 1003 {
                // Of another swarm, whose places are the same.
                let dropped = kept.borrow_mut().remove(0);
                drop(dropped);
            }
            while incoming.conn.readable().await {}
            ended.set(ended.get() + 1);
        }
    });
    for port in 1000..1003 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), kept.borrow().len(), ended.get()), (0, 3, 0));
    // Outside of any task.
    let second = kept.borrow_mut().remove(1);
    drop(second);
    assert!(
        server.next_deadline().is_some_and(|deadline| deadline <= net.now),
        "the server must not sleep on it"
    );
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!((ended.get(), client.tasks()), (1, 2));
    // In a task of the other swarm.
    client.open(address(2, 1003), address(1, 7), QUICK).expect("room");
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!((ended.get(), client.tasks(), kept.borrow().len()), (2, 2, 2));
    // Of a swarm that is gone.
    drop(server);
    kept.borrow_mut().clear();
    net.pass(20, &mut [&mut client]);
    assert_eq!((ended.get(), client.tasks()), (2, 2));
}

#[test]
fn a_connection_that_is_dropped_elsewhere_is_not_taken_for_that_of_another_swarm() {
    let mut net = Net::new();
    let kept: Rc<RefCell<Vec<Conn>>> = Rc::default();
    let mut one = net.host(1, 10, |incoming: Incoming| {
        let kept = Rc::clone(&kept);
        async move { kept.borrow_mut().push(incoming.conn) }
    });
    let mut other = net.host(3, 10, |incoming: Incoming| echo(incoming.conn));
    one.engine().listen(address(1, 7), QUICK).expect("a free port");
    other.engine().listen(address(3, 7), QUICK).expect("a free port");
    let ended = Rc::new(RefCell::new(Vec::new()));
    let mut client = net.host(2, 10, |mut incoming: Incoming| {
        let ended = Rc::clone(&ended);
        async move {
            while incoming.conn.readable().await {}
            ended.borrow_mut().push(incoming.peer);
        }
    });
    // Both have the same place, ports and peer.
    for host in [1, 3] {
        client.open(address(2, 1000), address(host, 7), QUICK).expect("room");
    }
    net.pass(20, &mut [&mut other, &mut one, &mut client]);
    kept.borrow_mut().clear();
    net.pass(20, &mut [&mut other, &mut one, &mut client]);
    assert_eq!((&ended.borrow()[..], other.tasks()), (&[address(1, 7)][..], 1));
}

#[test]
fn a_connection_can_be_handed_to_another_task() {
    let mut net = Net::new();
    let kept: Rc<RefCell<Vec<Conn>>> = Rc::default();
    let mut server = net.host(1, 10, |incoming: Incoming| {
        let kept = Rc::clone(&kept);
        async move {
            if incoming.peer.port() == 1000 {
                kept.borrow_mut().push(incoming.conn);
                return;
            }
            let other = loop {
                let next = kept.borrow_mut().pop();
                if let Some(conn) = next {
                    break conn;
                }
                yield_now().await;
            };
            drop(incoming.conn);
            echo(other).await;
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let answers = Rc::new(Cell::new(0));
    let mut client = net.host(2, 10, |incoming: Incoming| ask(incoming.conn, Rc::clone(&answers)));
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(30, &mut [&mut server, &mut client]);
    assert_eq!(answers.get(), 0);
    client.open(address(2, 1001), address(1, 7), QUICK).expect("room");
    net.pass(100, &mut [&mut server, &mut client]);
    assert!(answers.get() >= 5, "{}", answers.get());
}

#[test]
fn a_connection_that_is_kept_by_no_task_is_read_after_its_end() {
    for opens in [false, true] {
        let mut net = Net::new();
        let kept: Rc<RefCell<Vec<Conn>>> = Rc::default();
        let keep = |incoming: Incoming| {
            kept.borrow_mut().push(incoming.conn);
            async {}
        };
        let say = |mut incoming: Incoming| async move {
            incoming.conn.send(&b"last words"[..]).await;
            sleep(Duration::from_millis(5)).await;
            incoming.conn.abort();
        };
        let (mut one, mut other) = (net.host(1, 10, keep), net.host(2, 10, say));
        if opens {
            other.engine().listen(address(2, 7), QUICK).expect("a free port");
            one.open(address(1, 1000), address(2, 7), QUICK).expect("room");
        } else {
            one.engine().listen(address(1, 7), QUICK).expect("a free port");
            other.open(address(2, 1000), address(1, 7), QUICK).expect("room");
        }
        net.pass(50, &mut [&mut one, &mut other]);
        assert_eq!((one.tasks(), one.counters().unopened, one.engine().connections()), (0, 0, 1));
    }
    let found = Cell::new(None);
    let mut net = Net::new();
    let kept: RefCell<Option<Conn>> = RefCell::default();
    let mut server = net.host(1, 10, |incoming: Incoming| {
        let earlier = kept.replace(Some(incoming.conn));
        let found = &found;
        async move {
            if let Some(mut earlier) = earlier {
                found.set(Some((earlier.status(), earlier.read(<[u8]>::len))));
            }
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |mut incoming: Incoming| async move {
        incoming.conn.send(&b"last words"[..]).await;
        sleep(Duration::from_millis(5)).await;
        incoming.conn.abort();
    });
    for port in [1000, 1001] {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
        net.pass(50, &mut [&mut server, &mut client]);
    }
    assert_eq!(found.get(), Some((Status::Ended(End::Reset), 10)));
}

/// The peer's port, our own, and the listener.
type Told = (u16, u16, Option<ListenerId>);

#[test]
fn a_task_is_told_who_called_and_where() {
    let mut net = Net::new();
    let told: RefCell<Vec<Told>> = RefCell::default();
    let mut server = net.host(1, 10, |incoming: Incoming| {
        told.borrow_mut().push((incoming.peer.port(), incoming.local.port(), incoming.listener));
        let mut conn = incoming.conn;
        // A connection has options from the start.
        conn.set_user_timeout(Duration::from_secs(5));
        conn.set_dscp(46);
        conn.set_no_nagle(true);
        assert_eq!(conn.addresses(), (incoming.local, incoming.peer));
        async move {
            assert_ne!(conn.status(), Status::Opening);
        }
    });
    let first = server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let second = server.engine().listen(address(1, 8), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| async move { assert_eq!(incoming.listener, None) });
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    client.open(address(2, 1001), address(1, 8), QUICK).expect("room");
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!(*told.borrow(), [(1000, 7, Some(first)), (1001, 8, Some(second))]);
    assert_eq!((server.counters().tasks.panicked, client.counters().tasks.panicked), (0, 0));
}

#[test]
fn connections_beyond_the_limit_are_refused_and_counted() {
    let mut net = Net::new();
    let mut server = net.host(1, 2, |incoming: Incoming| echo(incoming.conn));
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| echo(incoming.conn));
    for port in 1000..1005 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    // No service listens there.
    client.open(address(2, 1005), address(1, 9), QUICK).expect("room");
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), client.tasks(), server.counters().refused), (2, 2, 3));
    assert_eq!((client.counters().unopened, client.engine().connections()), (1, 2));
}

#[test]
fn a_peer_that_vanishes_is_found_out_by_keep_alive() {
    let mut net = Net::new();
    let ended = Cell::new(None);
    let second = Duration::from_secs(1);
    let mut server = net.host(1, 10, |mut incoming: Incoming| {
        incoming.conn.set_keep_alive(Some(KeepAlive { idle: 3 * second, interval: second, probes: 2 }));
        let ended = &ended;
        async move {
            while incoming.conn.readable().await {}
            ended.set(Some(incoming.conn.status()));
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| echo(incoming.conn));
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(10_000, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), ended.get()), (1, None), "the peer answers probes");
    // From here on it does not.
    net.pass(10_000, &mut [&mut server]);
    assert_eq!((server.tasks(), ended.get()), (0, Some(Status::Ended(End::TimedOut))));
}

/// Keeps a connection, and panics or waits: a future of its own is not unwound like a block of code.
struct Keeps {
    _conn: Option<Conn>,
    panics: bool,
}

impl Future for Keeps {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        assert!(!self.panics, "as it was told to");
        Poll::Pending
    }
}

#[test]
fn a_connection_of_another_swarm_is_closed_however_its_task_ends() {
    for end in ["by a panic", "cut at the deadline", "with its swarm"] {
        let mut net = Net::new();
        let kept: Rc<RefCell<Vec<Conn>>> = Rc::default();
        let mut server = net.host(1, 10, |incoming: Incoming| {
            let kept = Rc::clone(&kept);
            async move { kept.borrow_mut().push(incoming.conn) }
        });
        server.engine().listen(address(1, 7), QUICK).expect("a free port");
        let mut client =
            net.host(2, 10, |mut incoming: Incoming| async move { while incoming.conn.readable().await {} });
        client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
        net.pass(20, &mut [&mut server, &mut client]);
        let mut other = net.host(3, 10, |incoming: Incoming| {
            drop(incoming);
            Keeps { _conn: kept.borrow_mut().pop(), panics: end == "by a panic" }
        });
        other.engine().listen(address(3, 7), QUICK).expect("a free port");
        client.open(address(2, 1001), address(3, 7), QUICK).expect("room");
        net.pass(20, &mut [&mut server, &mut client, &mut other]);
        assert!(kept.borrow().is_empty());
        match end {
            "by a panic" => assert_eq!(other.counters().tasks.panicked, 1),
            "cut at the deadline" => {
                other.drain(Duration::ZERO);
                net.pass(1, &mut [&mut other]);
            }
            _ => drop(other),
        }
        net.pass(20, &mut [&mut server, &mut client]);
        assert_eq!((client.tasks(), server.engine().connections()), (0, 0), "{end}");
    }
}

#[test]
fn a_task_hears_that_the_owner_has_ended_its_connection() {
    let mut net = Net::new();
    let heard = Rc::new(RefCell::new(Vec::new()));
    let mut server = net.host(1, 10, |incoming: Incoming| echo(incoming.conn));
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |mut incoming: Incoming| {
        let heard = Rc::clone(&heard);
        async move {
            while incoming.conn.recv().await.is_some() {}
            heard.borrow_mut().push((incoming.local.port(), incoming.conn.status()));
            // It holds its connection, so that no other has its place.
            sleep(Duration::from_secs(1)).await;
            assert!(!incoming.conn.write(1, |_| panic!("it sends no more")));
        }
    });
    let first = client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(20, &mut [&mut server, &mut client]);
    client.engine().abort(first);
    let second = client.open(address(2, 1001), address(1, 7), QUICK).expect("room");
    assert_ne!(first.index(), second.index());
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!(*heard.borrow(), [(1000, Status::Ended(End::Aborted))]);
    assert_eq!((client.tasks(), server.tasks()), (2, 1));
    // Closed, it ends once the peer has ended its direction, too.
    client.engine().close(second);
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!(heard.borrow().last(), Some(&(1001, Status::PeerClosed)));
    net.pass(2000, &mut [&mut server, &mut client]);
    assert_eq!((client.tasks(), server.tasks()), (0, 0));
    assert_eq!(client.engine().connections(), 0);
}

#[test]
fn a_connection_of_another_swarm_is_a_closed_one() {
    let mut net = Net::new();
    let kept: Rc<RefCell<Option<Conn>>> = Rc::default();
    let mut server = net.host(1, 10, |incoming: Incoming| {
        let kept = Rc::clone(&kept);
        async move { *kept.borrow_mut() = Some(incoming.conn) }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| {
        let kept = Rc::clone(&kept);
        async move {
            // Both have the first place of their swarm.
            let own = incoming.conn;
            sleep(Duration::from_millis(10)).await;
            let mut foreign = kept.borrow_mut().take().expect("it came in");
            assert_eq!(own.index(), foreign.index());
            assert_eq!(foreign.status(), Status::Ended(End::Closed));
            assert!(foreign.recv().await.is_none() && !foreign.readable().await);
            assert_eq!(foreign.send(&b"stranger"[..]).await, 0);
            assert!(!foreign.write(1, |_| panic!("it is not ours")) && foreign.fill_to(1).await.is_err());
            foreign.shutdown();
            assert_eq!(own.status(), Status::Open);
        }
    });
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(50, &mut [&mut server, &mut client]);
    assert_eq!((client.tasks(), client.counters().tasks.panicked), (0, 0));
    assert!(kept.borrow().is_none());
}

#[test]
fn what_one_connection_has_shown_does_not_count_for_the_next_in_its_place() {
    let mut net = Net::new();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let mut server = net.host(1, 10, |mut incoming: Incoming| {
        let seen = Rc::clone(&seen);
        async move {
            if incoming.conn.readable().await {
                // It takes none, and lets go of the connection.
                let place = incoming.conn.index();
                incoming.conn.read(|bytes| {
                    seen.borrow_mut().push((place, bytes.len()));
                    0
                });
            }
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let lengths = Cell::new(6);
    let mut client = net.host(2, 10, |mut incoming: Incoming| {
        lengths.set(lengths.get() / 2);
        let length = lengths.get();
        async move {
            incoming.conn.send(&[7; 3][..length]).await;
            while incoming.conn.readable().await {}
        }
    });
    for port in [1000, 1001] {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
        net.pass(100, &mut [&mut server, &mut client]);
    }
    assert_eq!(*seen.borrow(), [(0, 3), (0, 1)]);
    assert_eq!((server.tasks(), client.tasks()), (0, 0));
}

/// A connection beyond the limit is reset, and the next one in its place, too, or gets a task.
#[test]
fn a_connection_beyond_the_limit_leaves_nothing_behind() {
    let mut net = Net::new();
    let served = Rc::new(Cell::new(0));
    let count = Rc::clone(&served);
    // Ten connections at most. Their tasks outlive them, so that later ones go to spare slots.
    let mut server = net.host(1, 10, move |incoming: Incoming| {
        let count = Rc::clone(&count);
        async move {
            count.set(count.get() + 1);
            let mut conn = incoming.conn;
            while conn.readable().await {
                conn.read(<[u8]>::len);
            }
            drop(conn);
            sleep(Duration::from_secs(1000)).await;
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let ended = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&ended);
    let go = Rc::new(Cell::new(0_u16));
    let until = Rc::clone(&go);
    let mut client = net.host(2, 1000, move |incoming: Incoming| {
        let (told, until) = (Rc::clone(&told), Rc::clone(&until));
        async move {
            let port = incoming.local.port();
            let mut conn = incoming.conn;
            loop {
                if let Either::First(false) = select(conn.readable(), sleep(Duration::from_millis(5))).await {
                    told.borrow_mut().push(port);
                    return;
                }
                if port < until.get() {
                    return;
                }
            }
        }
    });
    // Connections that end, while their tasks go on: the spare slots fill.
    for port in 1000..1010 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(20, &mut [&mut server, &mut client]);
    go.set(1010);
    net.pass(2000, &mut [&mut server, &mut client]);
    assert_eq!((server.tasks(), served.get()), (10, 10));
    // All ten places are used by new connections, whose tasks are displaced to the slots 10, 11 and so on.
    for port in 1010..1020 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(20, &mut [&mut server, &mut client]);
    assert_eq!((server.counters().displaced, served.get()), (10, 20), "{:?}", server.counters());
    // One more, in the place 10, is refused.
    for round in 0..5_u16 {
        let port = 1100 + round;
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
        net.pass(200, &mut [&mut server, &mut client]);
        assert_eq!(
            server.counters().refused,
            u64::from(round) + 1,
            "it is reset: {:?}, {:?}",
            server.counters(),
            ended.borrow()
        );
        assert!(ended.borrow().contains(&port), "round {round}: {:?}", ended.borrow());
    }
}
