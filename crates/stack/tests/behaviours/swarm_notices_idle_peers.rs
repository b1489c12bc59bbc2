//! The idle deadline of a connection moves with each message. Once it has passed, its task waits no more.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::swarms::{Net, QUICK, address};
use anywire_stack::swarm::{Conn, Incoming, ReadError, now, sleep};
use anywire_tcp::{Instant, Status};

const IDLE: Duration = Duration::from_secs(1);

/// Sends a byte after each of these times, and stays until it is told to end.
async fn speak(mut conn: Conn, pauses: &[u64], said_at: Rc<Cell<Instant>>) {
    for pause in pauses {
        sleep(Duration::from_millis(*pause)).await;
        conn.send(&b"x"[..]).await;
        said_at.set(now());
    }
    while conn.readable().await {
        conn.read(<[u8]>::len);
    }
}

/// Lets `server` read from a client that speaks so, for so long. Gives when the client has spoken last.
fn play<F: Future<Output = ()>>(
    pauses: &'static [u64],
    millis: u64,
    server: impl FnMut(Incoming) -> F,
) -> Instant {
    let mut net = Net::new();
    let mut server = net.host(1, 10, server);
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let said_at = Rc::new(Cell::new(Instant::default()));
    let mut client = net.host(2, 10, |incoming: Incoming| speak(incoming.conn, pauses, Rc::clone(&said_at)));
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(millis, &mut [&mut server, &mut client]);
    assert_eq!((server.counters().tasks.panicked, client.counters().tasks.panicked), (0, 0));
    assert_eq!((server.tasks(), client.tasks()), (0, 0));
    said_at.get()
}

#[test]
fn each_message_moves_it_and_silence_ends_the_wait() {
    let ended = Rc::new(Cell::new((Instant::default(), 0)));
    let said_at = play(&[900, 900, 900, 999, 10], 10_000, |mut incoming: Incoming| {
        let ended = Rc::clone(&ended);
        async move {
            let mut heard = 0;
            incoming.conn.set_idle_deadline(Some(IDLE));
            while let Some(received) = incoming.conn.recv().await {
                heard += received.len();
                incoming.conn.read(<[u8]>::len);
                incoming.conn.set_idle_deadline(Some(IDLE));
            }
            assert!(incoming.conn.is_idle() && incoming.conn.status() == Status::Open);
            ended.set((now(), heard));
        }
    });
    let (at, heard) = ended.get();
    assert_eq!(heard, 5);
    let late = at.since(said_at + IDLE);
    assert!(late <= Duration::from_millis(5), "{late:?}");
}

#[test]
fn whoever_waits_to_read_waits_no_more_and_what_has_come_is_read() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    play(&[100, 3000, 1500], 12_000, |mut incoming: Incoming| {
        let seen = Rc::clone(&seen);
        async move {
            let conn = &mut incoming.conn;
            conn.set_idle_deadline(Some(IDLE));
            let short = conn.fill_to(2).await;
            assert_eq!(short, Err(ReadError::Idle { have: 1, wanted: 2 }));
            assert!(conn.is_idle());
            // A byte is there, so whoever waits for any is told of it first.
            assert!(conn.readable().await);
            assert_eq!(conn.read(|bytes| bytes.len()), 1);
            assert!(!conn.readable().await && conn.recv().await.is_none());
            // Set again, it waits again; taken away, it waits for ever.
            conn.set_idle_deadline(Some(Duration::from_secs(3)));
            assert!(!conn.is_idle() && conn.readable().await);
            conn.read(<[u8]>::len);
            conn.set_idle_deadline(None);
            assert!(conn.readable().await);
            conn.read(<[u8]>::len);
            // Nothing comes any more.
            conn.set_idle_deadline(Some(IDLE));
            let is_readable = conn.readable().await;
            seen.borrow_mut().push(is_readable);
        }
    });
    assert_eq!(*seen.borrow(), [false]);
}

#[test]
fn the_next_connection_in_the_place_has_none() {
    let mut net = Net::new();
    let ended = Rc::new(Cell::new(0));
    let mut server = net.host(1, 10, |mut incoming: Incoming| {
        let ended = Rc::clone(&ended);
        async move {
            if incoming.peer.port() == 1000 {
                incoming.conn.set_idle_deadline(Some(IDLE));
            }
            while incoming.conn.readable().await {
                incoming.conn.read(<[u8]>::len);
            }
            ended.set(ended.get() + 1);
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |mut incoming: Incoming| async move {
        while incoming.conn.readable().await {
            incoming.conn.read(<[u8]>::len);
        }
        if incoming.local.port() == 1001 {
            sleep(Duration::from_secs(3600)).await;
        }
    });
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(2000, &mut [&mut server, &mut client]);
    assert_eq!((ended.get(), server.tasks(), client.tasks()), (1, 0, 0));
    client.open(address(2, 1001), address(1, 7), QUICK).expect("room");
    net.pass(10_000, &mut [&mut server, &mut client]);
    assert_eq!((ended.get(), server.tasks(), client.tasks()), (1, 1, 1));
}

/// Of connections of one swarm, each comes at its own time, to the millisecond and never early.
#[test]
fn it_may_be_as_far_away_as_one_likes() {
    let day = Duration::from_secs(86_400);
    let lengths = [Duration::from_secs(10), 13 * day, 25 * day, 50 * day, 365 * day];
    let mut net = Net::new();
    let waited = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&waited);
    let mut server = net.host(1, 10, move |incoming: Incoming| {
        let told = Rc::clone(&told);
        async move {
            let (mut conn, begun) = (incoming.conn, now());
            conn.set_idle_deadline(Some(lengths[usize::from(incoming.peer.port() - 1000)]));
            assert!(!conn.readable().await && conn.is_idle());
            told.borrow_mut().push(now().since(begun));
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| async move {
        let mut conn = incoming.conn;
        while conn.readable().await {
            conn.read(<[u8]>::len);
        }
    });
    for port in 1000..1005 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(10, &mut [&mut server, &mut client]);
    assert_eq!(server.tasks(), 5);
    while let Some(at) = server.next_deadline().filter(|_| server.tasks() > 0) {
        net.now = net.now.max(at);
        server.round(net.now);
        client.round(net.now);
    }
    let waited = waited.borrow();
    assert_eq!(waited.len(), 5);
    for (waited, length) in waited.iter().zip(lengths) {
        assert!(*waited >= length && *waited < length + Duration::from_millis(2), "{length:?}: {waited:?}");
    }
}
