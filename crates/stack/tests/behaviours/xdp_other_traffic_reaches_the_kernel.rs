//! What the stack has not claimed goes to the kernel as before, and what it has claimed does not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use anywire_stack::xdp::{Options, Wanted, WantedMode};

use crate::networks::Pair;
use crate::networks::frames::{STACK, await_frame, datagram_to, open};

/// Their kernel speaks to ours over TCP.
fn speaks(pair: &Pair, address: &str) {
    let listener = pair.ours.run(|| TcpListener::bind((address, 0)).expect("the address is the kernel's"));
    let to = listener.local_addr().expect("it is bound");
    let mut client = pair.theirs.run(|| TcpStream::connect(to).expect("the kernel answers"));
    let (mut server, _) = listener.accept().expect("it has connected");
    client
        .write_all(&[7; 100_000])
        .and_then(|()| client.shutdown(std::net::Shutdown::Write))
        .expect("it is taken");
    let mut bytes = Vec::new();
    server.read_to_end(&mut bytes).expect("they arrive");
    assert_eq!(bytes.len(), 100_000);
}

/// Whether a frame is a SYN to this port.
fn is_syn_to(frame: &[u8], port: u16) -> bool {
    let tcp_at = if frame.get(12..14) == Some(&[8, 0]) { 34 } else { 54 };
    frame.get(tcp_at + 2..tcp_at + 4) == Some(&port.to_be_bytes()) && frame.get(tcp_at + 13) == Some(&2)
}

#[test]
fn the_kernel_keeps_its_addresses() {
    let Some(pair) = Pair::new() else { return };
    for mode in [WantedMode::Native, WantedMode::Generic] {
        let (mut device, claim) = open(&pair, mode, Options::default());
        speaks(&pair, "10.77.0.3");
        speaks(&pair, "fd77::3");
        let socket = pair.theirs.run(|| UdpSocket::bind("10.77.0.1:0").expect("a free port"));
        socket.send_to(b"to the stack", (STACK, 9)).expect("it leaves");
        await_frame(&mut device, |frame| (datagram_to(frame, 9)? == b"to the stack").then_some(()));
        drop((claim, device));
        speaks(&pair, "10.77.0.3");
    }
}

/// Their kernel asks for the MAC of an address by ARP or a neighbour solicitation, and the stack hears it.
#[test]
fn questions_for_an_address_reach_the_stack() {
    let Some(pair) = Pair::new() else { return };
    pair.theirs.ip("neigh flush dev far");
    pair.theirs.ip("neigh del 10.77.0.2 dev far");
    pair.theirs.ip("neigh del fd77::2 dev far");
    let (mut device, _claim) = open(&pair, WantedMode::Any, Options::default());
    let address = "fd77::2".parse().expect("it is an address");
    let _v6 = device.attachment().claim(Wanted::Address(address)).expect("the group is joined");
    let groups = pair.ours.ip("maddr show dev near");
    assert!(groups.contains("ff02::1:ff00:2") && groups.contains("33:33:ff:00:00:02"), "{groups}");
    let ask = |from: &str, to: &str| {
        let (from, to): (SocketAddr, SocketAddr) = (from.parse().expect("one"), to.parse().expect("one"));
        let socket = pair.theirs.run(|| UdpSocket::bind(from).expect("a free port"));
        // It waits in the kernel for the answer.
        socket.send_to(b"who has it?", to).expect("it is taken");
    };
    ask("10.77.0.1:0", "10.77.0.2:9");
    await_frame(&mut device, |frame| {
        (frame.get(12..14)? == [8, 6] && frame.get(38..42)? == STACK.octets()).then_some(())
    });
    ask("[fd77::1]:0", "[fd77::2]:9");
    await_frame(&mut device, |frame| {
        let is_solicitation = frame.get(12..14)? == [0x86, 0xdd] && frame.get(54)? == &135;
        (is_solicitation && frame.get(38..40)? == [0xff, 0x02]).then_some(())
    });
    drop(_v6);
    assert!(!pair.ours.ip("maddr show dev near").contains("ff02::1:ff00:2"), "the group is left");
}

/// A port of the kernel's own address.
#[test]
fn a_single_port_can_be_claimed() {
    let Some(pair) = Pair::new() else { return };
    let (mut device, _claim) = open(&pair, WantedMode::Any, Options::default());
    for address in ["10.77.0.3:8080", "[fd77::3]:8080"] {
        let to: SocketAddr = address.parse().expect("it is one");
        let port = device.attachment().claim(Wanted::Port(to)).expect("there is room");
        let again = device.attachment().claim(Wanted::Port(to)).expect("the same may be claimed twice");
        drop(port);
        let client = pair.theirs.run(|| {
            let family = rustix::net::AddressFamily::from_raw(if to.is_ipv4() { 2 } else { 10 });
            let flags = rustix::net::SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(family, rustix::net::SocketType::STREAM, flags, None);
            let socket = socket.expect("a socket");
            assert_eq!(rustix::net::connect(&socket, &to), Err(rustix::io::Errno::INPROGRESS));
            socket
        });
        await_frame(&mut device, |frame| is_syn_to(frame, 8080).then_some(()));
        drop(client);
        // Other ports are still the kernel's.
        speaks(&pair, &to.ip().to_string());
        drop(again);
        // Nobody listens there, so the kernel refuses.
        let refused = pair.theirs.run(|| TcpStream::connect(to)).expect_err("the port is the kernel's again");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}
