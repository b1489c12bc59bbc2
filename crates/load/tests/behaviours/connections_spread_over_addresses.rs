//! The connections of a load take turns over all addresses of a name, and the result says how many each address had.

use anywire_load::{Amount, Plan};
use anywire_loops::Loops;

use crate::support::run;
use crate::support::server::{Manner, TestServer};

/// A server at each address of `localhost`, on one port.
fn both() -> [TestServer; 2] {
    for _ in 0..100 {
        let v4 = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
        let port = v4.address.port().expect("tcp has ports");
        // Another program may have the port there.
        if std::net::TcpListener::bind(("::1", port)).is_ok() {
            return [v4, TestServer::start(&format!("tcp:[::1]:{port}"), Manner::Answer)];
        }
    }
    panic!("no port is free at 127.0.0.1 and at ::1");
}

/// A load of the name, no address of which is preferred.
fn plan(server: &TestServer, connections: usize) -> Plan {
    let port = server.address.port().expect("tcp has ports");
    Plan {
        via: None,
        url: format!("http://localhost:{port}/"),
        connections,
        amount: Amount::Requests(60),
        ..server.plan(60)
    }
}

#[test]
fn each_address_has_its_share() {
    let servers = both();
    for loops in [1, 2] {
        let outcome = run(&Loops::start(loops).unwrap(), plan(&servers[0], 6)).unwrap();
        let totals = &outcome.totals;
        assert_eq!((totals.measured.answered, totals.measured.errors.total()), (60, 0));
        let shares = servers.each_ref().map(|server| (server.address.location().to_owned(), 3));
        assert_eq!(totals.addresses, shares.into(), "{loops} loops");
        assert!(outcome.to_string().contains("3 to 127.0.0.1:"), "{outcome}");
    }
    // The servers have seen the same: 6 each of two runs.
    assert_eq!(servers.each_ref().map(|server| server.seen.connections()), [6, 6]);
}

#[test]
fn addresses_that_refuse_are_passed_over() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let outcome = run(&Loops::start(1).unwrap(), plan(&server, 6)).unwrap();
    let totals = outcome.totals;
    assert_eq!((totals.measured.answered, totals.measured.errors.total()), (60, 0));
    assert_eq!(totals.addresses, [(server.address.location().to_owned(), 6)].into());
}

#[test]
fn the_parts_of_agents_begin_at_different_addresses() {
    let servers = both();
    let plan = plan(&servers[0], 2);
    for index in 0..2 {
        run(&Loops::start(1).unwrap(), plan.part(index, 2).unwrap()).unwrap();
    }
    assert_eq!(servers.each_ref().map(|server| server.seen.connections()), [1, 1]);
}

#[test]
fn wires_without_addresses_have_none() {
    let server = TestServer::start("memory:no-addresses", Manner::Answer);
    let totals = run(&Loops::start(1).unwrap(), server.plan(10)).unwrap().totals;
    assert_eq!((totals.connections.opened, totals.addresses.len()), (1, 0));
}
