//! A device that knows that a peer has gone for good says so, and the connections to this peer end at once: nothing is sent again until
//! the user timeout.

use std::cell::RefCell;
use std::rc::Rc;

use anywire_stack::device::LinkEvent;
use anywire_stack::swarm::{Conn, Incoming, Swarm};
use anywire_tcp::{End, Status};

use crate::hub::Hub;
use crate::scripted::Scripted;
use crate::swarms::{Net, QUICK, address, engine, mac, settings};

/// The host that goes.
const LEAVING: u8 = 1;

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
    let (mut net, hub) = (Net::new(), Hub::default());
    let ends: [Rc<RefCell<Vec<Status>>>; 2] = Default::default();
    let serve = |host| {
        let served = |incoming: Incoming| read_all(incoming.conn, Rc::clone(&ends[0]));
        let device = hub.adapter(mac(host));
        let mut server = Swarm::new(engine(settings(host), host), device, 10, served).expect("address space");
        server.engine().listen(address(host, 7), QUICK).expect("a free port");
        server
    };
    let (mut leaving, mut staying) = (serve(LEAVING), serve(3));
    // As in a mesh, it is told which host has gone.
    let device = Scripted::new(hub.adapter(mac(2)));
    let script = Rc::clone(&device.script);
    let client = |incoming: Incoming| read_all(incoming.conn, Rc::clone(&ends[1]));
    let mut client = Swarm::new(engine(settings(2), 2), device, 10, client).expect("address space");
    for (port, host) in [(1000, LEAVING), (1001, LEAVING), (1002, 3)] {
        client.open(address(2, port), address(host, 7), QUICK).expect("room");
    }
    net.pass(100, &mut [&mut leaving, &mut staying, &mut client]);
    assert_eq!((client.tasks(), client.engine().connections()), (3, 3));
    // It is not asked for frames any more: it has gone without a word.
    script.gone.set(Some(address(LEAVING, 0).ip()));
    script.link_events.borrow_mut().push_back(LinkEvent::Departed);
    net.pass(100, &mut [&mut staying, &mut client]);
    assert_eq!(ends[1].borrow()[..], [Status::Ended(End::Reset); 2]);
    assert_eq!((client.tasks(), client.engine().connections(), client.counters().departed), (1, 1, 2));
    assert_eq!((staying.tasks(), ends[0].borrow().len()), (1, 0));
}
