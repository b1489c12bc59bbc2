//! A task has one place among those that wait to send, even if it begins to wait again and again. If its turn comes while it does
//! something else, it gets another place.

use std::cell::Cell;
use std::time::Duration;

use crate::hub::Adapter;
use crate::swarms::{Net, QUICK, address};
use anywire_stack::swarm::{Conn, Either, Incoming, Swarm, select, sleep, yield_now};

/// Takes what comes.
async fn sink(mut conn: Conn) {
    while conn.readable().await {
        conn.read(<[u8]>::len);
    }
}

/// Sends whenever it may, and counts.
async fn pusher(mut conn: Conn, sent: &Cell<u64>) {
    loop {
        conn.writable().await;
        sent.set(sent.get() + u64::from(conn.write(100, |room| room.fill(7))));
    }
}

/// So many connections from ports 1000 up, for rounds of 100 us.
fn run<F, S>(connections: u16, rounds: u64, start: S) -> Swarm<F, S, Adapter>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
{
    let mut net = Net::new();
    let mut server = net.host(1, 100, start);
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 100, |incoming: Incoming| sink(incoming.conn));
    for port in 1000..1000 + connections {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    for _ in 0..rounds {
        net.now = net.now + Duration::from_micros(100);
        server.round(net.now);
        client.round(net.now);
    }
    server
}

#[test]
fn one_that_looks_in_between_sends_no_more_than_others() {
    let sent = [const { Cell::new(0) }; 3];
    let server = run(3, 1000, |incoming: Incoming| {
        let (number, sent) = (usize::from(incoming.peer.port() - 1000), &sent);
        async move {
            let mut conn = incoming.conn;
            if number > 0 {
                return pusher(conn, &sent[number]).await;
            }
            loop {
                // There is always something else to do.
                if let Either::First(()) = select(conn.writable(), yield_now()).await {
                    sent[0].set(sent[0].get() + u64::from(conn.write(100, |room| room.fill(7))));
                }
            }
        }
    });
    let sent = sent.each_ref().map(Cell::get);
    assert!(sent[1] > 10_000 && sent[2] > 10_000 && sent[0] <= sent[1] + sent[1] / 10, "{sent:?}");
    assert!(server.bytes() < 200_000, "{} bytes: places are kept", server.bytes());
}

#[test]
fn one_whose_turn_comes_while_it_does_something_else_gets_another() {
    let (sent, own) = (Cell::new(0), Cell::new(0));
    run(4, 2000, |incoming: Incoming| {
        let (is_other, sent, own) = (incoming.peer.port() > 1000, &sent, &own);
        async move {
            let mut conn = incoming.conn;
            if is_other {
                return pusher(conn, sent).await;
            }
            loop {
                let mut send = conn.send(&b"message"[..]);
                if let Either::First(()) = select(yield_now(), &mut send).await {
                    // Its turn comes meanwhile.
                    sleep(Duration::from_millis(1)).await;
                    send.await;
                }
                own.set(own.get() + 1);
            }
        }
    });
    assert!(sent.get() > 10_000 && own.get() > 10, "{} and {}", sent.get(), own.get());
}
