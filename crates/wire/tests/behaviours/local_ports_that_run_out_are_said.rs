//! Where the system has no local port left, the error says so, and what would help.

use std::net::{TcpListener, TcpStream};

use anywire_wire::{Address, DialError, Dialer, ListenError, ListenOptions, Listener};

use crate::{again, support};

#[test]
fn of_each_socket_that_needs_one() {
    let this = "local_ports_that_run_out_are_said::of_each_socket_that_needs_one";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, this);
    }
    if !again::ten_local_ports() {
        return;
    }
    let loops = support::loops(1);
    let dial = |address: &str| {
        let address: Address = address.parse().expect("an address");
        let dialled =
            loops.get(0).spawn(move || async move { Dialer::default().dial(&address).await.map(drop) });
        dialled.wait().expect("it ends").expect_err("it cannot be reached")
    };
    let listener = TcpListener::bind("127.0.0.1:8080").expect("a port beside those");
    let connect =
        |_| TcpStream::connect(listener.local_addr().expect("it is bound")).expect("a port is left");
    let held: Vec<_> = (0..10).map(connect).collect();
    let error = dial("tcp:127.0.0.1:8080");
    assert!(matches!(error, DialError::NoLocalPort { .. }), "{error:?}");
    assert!(error.to_string().contains("net.ipv4.ip_local_port_range"), "{error}");
    let options = ListenOptions::default();
    let error = Listener::bind("tcp:127.0.0.1:0", &options, &loops).map(drop).expect_err("no port is free");
    assert!(matches!(error, ListenError::NoFreePort { .. }), "{error:?}");
    let error =
        Listener::bind("tcp:127.0.0.1:8080", &options, &loops).map(drop).expect_err("the port is in use");
    assert!(matches!(error, ListenError::InUse { .. }), "{error:?}");
    drop(held);
    // The system says the same where it has no address of its own for the way.
    std::fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1").expect("it is a namespace of this test");
    let error = dial("tcp:[::1]:8080");
    assert!(matches!(error, DialError::Unreachable { .. }), "{error:?}");
}

#[cfg(feature = "udp")]
#[test]
fn of_datagrams_too() {
    use anywire_wire::udp::{Udp, UdpError, UdpOptions};

    let this = "local_ports_that_run_out_are_said::of_datagrams_too";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, this);
    }
    if !again::ten_local_ports() {
        return;
    }
    let hold = |_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is left");
    let held: Vec<_> = (0..10).map(hold).collect();
    let options = UdpOptions::default();
    let bound = Udp::bind("udp:127.0.0.1:0", &options, 1).map(drop);
    let loops = support::loops(1);
    let connected = loops.get(0).spawn(move || async move {
        Udp::connect("udp:127.0.0.1:9", &UdpOptions::default()).await.map(drop)
    });
    for tried in [bound, connected.wait().expect("it ends")] {
        let error = tried.expect_err("no port is free");
        assert!(matches!(error, UdpError::NoLocalPort { .. }), "{error:?}");
    }
    drop(held);
}
