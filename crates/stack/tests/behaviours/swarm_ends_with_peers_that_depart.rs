//! A device that knows that a peer has gone for good says so, and the connections to this peer end at once: nothing is sent again until
//! the user timeout.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use anywire_stack::device::{Capabilities, Device, DeviceCounters, LinkEvent};
use anywire_stack::swarm::{Conn, Incoming, Swarm};
use anywire_tcp::{End, Frames, Instant, Status};

use crate::hub::{Adapter, Hub};
use crate::swarms::{Net, QUICK, address, engine, mac, settings};

/// The host that goes.
const LEAVING: u8 = 1;

/// The device of host 2, as in a mesh: it is told which host has gone.
struct Departing {
    device: Adapter,
    gone: Rc<Cell<Option<u8>>>,
    has_told: bool,
}

impl Device for Departing {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.device.receive(now, frames)
    }

    fn room(&self) -> usize {
        self.device.room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.device.transmit(now, frames)
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        let is_new = self.gone.get().is_some() && !std::mem::replace(&mut self.has_told, true);
        is_new.then_some(LinkEvent::Departed)
    }

    fn reaches(&self, _: SocketAddr, remote: SocketAddr) -> bool {
        self.gone.get().is_none_or(|host| address(host, 0).ip() != remote.ip())
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}

/// Reads until the end, and says how it has ended.
async fn read_all(mut conn: Conn, ends: Rc<RefCell<Vec<Status>>>) {
    conn.send(&b"hello"[..]).await;
    while conn.readable().await {
        conn.read(<[u8]>::len);
    }
    ends.borrow_mut().push(conn.status());
}

#[test]
fn and_keeps_those_to_others() {
    let (mut net, hub, gone) = (Net::new(), Hub::default(), Rc::new(Cell::new(None)));
    let ends: [Rc<RefCell<Vec<Status>>>; 2] = Default::default();
    let serve = |host| {
        let served = |incoming: Incoming| read_all(incoming.conn, Rc::clone(&ends[0]));
        let device = hub.adapter(mac(host));
        let mut server = Swarm::new(engine(settings(host), host), device, 10, served).expect("address space");
        server.engine().listen(address(host, 7), QUICK).expect("a free port");
        server
    };
    let (mut leaving, mut staying) = (serve(LEAVING), serve(3));
    let device = Departing { device: hub.adapter(mac(2)), gone: Rc::clone(&gone), has_told: false };
    let client = |incoming: Incoming| read_all(incoming.conn, Rc::clone(&ends[1]));
    let mut client = Swarm::new(engine(settings(2), 2), device, 10, client).expect("address space");
    for (port, host) in [(1000, LEAVING), (1001, LEAVING), (1002, 3)] {
        client.open(address(2, port), address(host, 7), QUICK).expect("room");
    }
    net.pass(100, &mut [&mut leaving, &mut staying, &mut client]);
    assert_eq!((client.tasks(), client.engine().connections()), (3, 3));
    // It is not asked for frames any more: it has gone without a word.
    gone.set(Some(LEAVING));
    net.pass(100, &mut [&mut staying, &mut client]);
    assert_eq!(ends[1].borrow()[..], [Status::Ended(End::Reset); 2]);
    assert_eq!((client.tasks(), client.engine().connections(), client.counters().departed), (1, 1, 2));
    assert_eq!((staying.tasks(), ends[0].borrow().len()), (1, 0));
}
