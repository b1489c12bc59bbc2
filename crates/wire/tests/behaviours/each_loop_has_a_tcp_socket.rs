//! Over TCP each loop listens with a socket of its own, all of them on one port.

use std::net::SocketAddr;

use anywire_wire::Address;

fn socket_address(address: &Address) -> SocketAddr {
    address.location().parse().expect("a listener has an IP address and a port")
}

/// How many sockets of this network listen on a port of 127.0.0.1 (proc_net_tcp(5): state 0A).
fn listening(port: u16) -> usize {
    let local = format!("0100007F:{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("proc is mounted");
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some("0A")
    };
    table.lines().filter(is_one).count()
}

#[test]
fn port_zero_gives_one_port_for_all_loops() {
    let address = "tcp:127.0.0.1:0".parse().expect("an address");
    let loops = crate::support::loops(3);
    let listener = crate::support::serve_echo(&loops, &address, &crate::support::listening());
    let port = socket_address(listener.local()).port();
    assert_ne!(port, 0);
    assert_eq!(listening(port), 3);
    listener.stop();
    assert_eq!(listening(port), 0);
}

#[test]
fn the_unspecified_ipv6_address_takes_ipv4_peers_and_names_them_as_such() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        crate::skipped::say("this machine has no IPv6");
        return;
    }
    let address = "tcp:[::]:0".parse().expect("an address");
    let loops = crate::support::loops(2);
    let (named, naming) = std::sync::mpsc::channel();
    let listener =
        crate::support::bind(&loops, &address, &crate::support::listening()).serve(move |connection| {
            named.send((connection.local(), connection.peer())).expect("the test waits")
        });
    let port = socket_address(listener.local()).port();
    for host in ["127.0.0.1", "::1"] {
        let address = Address::from_host(host, port).expect("an address");
        let at = address.clone();
        let here = crate::support::on_a_loop(move || async move { crate::support::dial(&at).await.local() });
        assert_eq!(naming.recv_timeout(crate::support::HANG).expect("it is served"), (address, here));
    }
}

#[test]
fn a_name_is_resolved() {
    let address = "tcp:localhost:0".parse().expect("an address");
    let loops = crate::support::loops(2);
    let listener = crate::support::serve_echo(&loops, &address, &crate::support::listening());
    let local = socket_address(listener.local());
    assert!(local.ip().is_loopback(), "{local}");
    crate::support::try_dial(&format!("tcp:localhost:{}", local.port()).parse().expect("an address"))
        .expect("it is there");
}
