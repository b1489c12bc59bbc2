//! A task whose connection has an event is polled in the same round, however many other tasks are ready.

use std::cell::Cell;
use std::time::Duration;

use crate::swarms::{Net, QUICK, address};
use anywire_stack::swarm::{Incoming, yield_now};

/// Several times what a round polls.
const BUSY: u16 = 5000;
const ECHOES: u32 = 100;

#[test]
fn an_echo_takes_a_round_while_thousands_of_tasks_are_ready() {
    let mut net = Net::new();
    let mut server = net.host(1, 1 << 13, |incoming: Incoming| async move {
        let mut conn = incoming.conn;
        while incoming.peer.port() != 1000 {
            yield_now().await;
        }
        while let Some(received) = conn.recv().await {
            conn.send(received).await;
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let (rounds, slowest, echoes) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let (now, most, count) = (&rounds, &slowest, &echoes);
    let mut client = net.host(2, 1 << 13, |incoming: Incoming| async move {
        let mut conn = incoming.conn;
        if incoming.local.port() != 1000 {
            conn.readable().await;
        }
        while count.get() < ECHOES {
            let sent = now.get();
            conn.send(&b"ping"[..]).await;
            conn.readable().await;
            conn.read(<[u8]>::len);
            most.set(most.get().max(now.get() - sent));
            count.set(count.get() + 1);
        }
    });
    let mut opened = 0;
    while echoes.get() < ECHOES {
        if opened < BUSY {
            opened += 100;
            for port in opened - 100..opened {
                client.open(address(2, 1001 + port), address(1, 7), QUICK).expect("room");
            }
        } else if opened == BUSY && server.tasks() == usize::from(BUSY) {
            opened += 1;
            client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
        }
        rounds.set(rounds.get() + 1);
        assert!(rounds.get() < 10_000, "{} of {ECHOES} echoes", echoes.get());
        net.now = net.now + Duration::from_millis(1);
        client.round(net.now);
        server.round(net.now);
    }
    assert!(slowest.get() <= 2, "an echo took {} rounds", slowest.get());
}
