//! A peer that accepts a connection only when it is told to, so that a test says when a dial ends.

use std::future::poll_fn;

use anywire_loops::Loops;
use anywire_wire::{Address, Dialer, ListenOptions};
use tokio::sync::mpsc;

use super::{HANG, Talk, wire};

/// An address in memory, the one wire whose accept queue a test can fill: it has room for one dial.
pub struct Gate {
    address: Address,
    orders: mpsc::UnboundedSender<Order>,
    loops: Loops,
}

/// Where to put the connection that is to be accepted.
type Order = std::sync::mpsc::Sender<Talk>;

impl Gate {
    pub fn new() -> Self {
        let loops = Loops::start(1).expect("loops start");
        let memory = wire("memory");
        let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
        let any = memory.scratch().expect("the wire in memory picks a free name");
        let bound = memory.bind(&any, &options, 1).expect("a free name");
        let address = bound.local.clone();
        let (orders, mut to_do) = mpsc::unbounded_channel::<Order>();
        drop(loops.get(0).spawn(move || async move {
            let mut bound = bound;
            let mut number = 0;
            while let Some(order) = to_do.recv().await {
                let arrival = poll_fn(|cx| bound.acceptors[0].poll_accept(cx)).await.expect("an arrival");
                let connection = arrival.register().expect("the wire in memory has no registry");
                // A test that does not wait is over.
                let _ = order.send(Talk::on(connection, number));
                number += 1;
            }
        }));
        Self { address, orders, loops }
    }

    pub fn via(&self) -> &Address {
        &self.address
    }

    /// Accepts the oldest dial; waits for one.
    pub fn accept(&self) -> Talk {
        let (order, accepted) = std::sync::mpsc::channel();
        self.orders.send(order).expect("the gate is open");
        accepted.recv_timeout(HANG).expect("a dial comes")
    }

    /// Takes the one place of the queue: later dials hang until a connection is accepted.
    pub fn fill(&self) {
        let address = self.address.clone();
        let dial = self.loops.get(0).spawn(move || async move {
            let connection = Dialer::default().dial(&address).await.expect("a place in the queue");
            // Held for as long as the loop lives.
            drop(anywire_loops::spawn(async move {
                let _connection = connection;
                std::future::pending::<()>().await;
            }));
        });
        dial.wait().expect("no panic");
    }
}
