//! A datagram that claims to come from nobody, or from the service itself, is dropped: its answer would go to another service of this
//! machine, or round and round for ever.
#![cfg(feature = "udp")]

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use anywire_server::udp::{Datagram, Replies, UdpServer, UdpServerHandle};
use rustix::net::{AddressFamily, Protocol, RawProtocol, SendFlags, SocketType, sendto, socket};

use crate::again;

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);

fn echo(datagram: &Datagram<'_>, replies: &mut Replies<'_>) {
    replies.send(datagram, datagram.data()).expect("there is room");
}

#[track_caller]
fn eventually(is_so: impl Fn() -> bool) {
    let hang = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < hang, "not so after {HANG:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until so many datagrams have come to the service. None of them may have been answered.
#[track_caller]
fn all_are_dropped(server: &UdpServerHandle, count: u64) {
    eventually(|| server.counters().forged + server.counters().datagrams >= count);
    let counters = server.counters();
    assert_eq!((counters.forged, counters.datagrams, counters.replies), (count, 0, 0), "{counters:?}");
}

/// The second address of this machine, beside `::1`.
const OTHER: &str = "fd00::1";

#[test]
fn what_nobody_or_the_service_itself_has_sent_is_dropped() {
    let test = "forged_datagrams_are_not_answered::what_nobody_or_the_service_itself_has_sent_is_dropped";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, test);
    }
    for setting in ["link set lo up", &format!("addr add {OTHER}/128 dev lo nodad")] {
        assert!(
            Command::new("ip").args(setting.split(' ')).status().expect("it starts").success(),
            "{setting}"
        );
    }
    for own in ["::1", OTHER] {
        // The system makes its ways to a new address a little later.
        let socket = UdpSocket::bind((own, 0)).expect("a free port");
        socket.set_nonblocking(true).expect("a socket");
        let port = socket.local_addr().expect("it is bound").port();
        let other = UdpSocket::bind("[::]:0").expect("a free port");
        eventually(|| other.send_to(b"", (own, port)).is_ok() && socket.recv(&mut []).is_ok());
    }
    let server = UdpServer::new(|| echo).listen("udp:[::]:9000").listen("udp:[::1]:9001").loops(2);
    let server = server.start().expect("free ports");
    // Of other services of this machine, which hear whoever is on it.
    let others = [("127.0.0.1", 7), (OTHER, 8)].map(|at| UdpSocket::bind(at).expect("a free port"));
    let forged = [
        // Linux takes this for its own address, and so an answer to it would come to the other service.
        ("::", 7),
        ("::", 9000),
        (OTHER, 0),
        // Not by IPv6. The answer would come to the other service from 127.0.0.1.
        ("::ffff:127.0.0.1", 7),
        // The service itself, by all of its addresses: one that answers each datagram would answer itself for ever.
        ("::1", 9000),
        (OTHER, 9000),
        ("::1", 9001),
    ];
    for (from, port) in forged {
        for to in ["::1", OTHER] {
            send_raw(from.parse().expect(from), port, to.parse().expect(to), 9000);
        }
    }
    all_are_dropped(&server, 2 * forged.len() as u64);
    // One behind them is answered, so they had their turns.
    let client = UdpSocket::bind("[::1]:0").expect("a free port");
    client.send_to(b"a client", "[::1]:9000").expect("over loopback");
    assert_eq!(client.recv(&mut [0; 16]).expect("an answer"), 8);
    for other in &others {
        other.set_nonblocking(true).expect("a socket");
        assert!(other.recv(&mut [0; 16]).is_err(), "an answer went astray");
    }
}

/// Sends a datagram that says it comes from elsewhere.
fn send_raw(from: Ipv6Addr, from_port: u16, to: Ipv6Addr, to_port: u16) {
    let data = b"hello";
    let length = (8 + data.len()) as u16;
    let mut udp = [from_port.to_be_bytes(), to_port.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
    udp.extend_from_slice(data);
    let pseudo =
        [&from.octets()[..], &to.octets(), &u32::from(length).to_be_bytes(), &[0, 0, 0, UDP], &udp].concat();
    let words = pseudo.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    udp[6..8].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let ip = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[UDP, 64], &from.octets(), &to.octets()].concat();
    let raw = Protocol::from_raw(RawProtocol::new(RAW).expect("it is not 0"));
    let raw = socket(AddressFamily::INET6, SocketType::RAW, Some(raw)).expect("in a name space of its own");
    let to = SocketAddr::from(SocketAddrV6::new(to, 0, 0, 0));
    sendto(&raw, &[ip, udp].concat(), SendFlags::empty(), &to).expect("over loopback");
}

const UDP: u8 = 17;
/// `IPPROTO_RAW`: what is sent begins with its own IP header.
const RAW: u32 = 255;

#[test]
fn what_has_the_services_own_unix_name_is_dropped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let listen = |name: &str| format!("unixgram:{}", at(name).display());
    let server = UdpServer::new(|| echo).listen(&listen("one")).listen(&listen("other")).loops(1);
    let server = server.start().expect("nobody is there");
    // As in a mount name space of its own, where the file of that name is another one.
    for name in ["one", "other"] {
        fs::rename(at(name), at("kept")).expect("it is ours");
        let forger = UnixDatagram::bind(at(name)).expect("the name is free");
        forger.connect(at("kept")).expect("it is bound");
        fs::remove_file(at(name)).expect("it is ours");
        fs::rename(at("kept"), at(name)).expect("it is ours");
        for _ in 0..2 {
            forger.send(b"hello").expect("there is room");
        }
    }
    all_are_dropped(&server, 4);
}

/// Nothing of this needs a name space.
#[test]
fn an_answer_to_nobody_is_not_sent() {
    let handler = || {
        |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            let port = u16::from_be_bytes(datagram.data().try_into().expect("two bytes"));
            for nobody in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
                let nobody: IpAddr = nobody.parse().expect("an IP address");
                // One alone, and two that may be joined.
                for length in [1, 2, 2] {
                    let to = SocketAddr::new(nobody, port).into();
                    replies.send_to(&to, &vec![0; length]).expect("there is room");
                }
            }
        }
    };
    let server = UdpServer::new(handler).listen("udp:[::]:0").loops(1).start().expect("a free port");
    let port = server.addresses()[0].port().expect("an IP address");
    for host in ["127.0.0.1", "::1"] {
        let other = UdpSocket::bind((host, 0)).expect("a free port");
        let own = other.local_addr().expect("it is bound").port();
        let before = server.counters().replies_failed;
        other.send_to(&own.to_be_bytes(), (host, port)).expect("over loopback");
        eventually(|| server.counters().replies_failed + server.counters().replies >= before + 9);
        assert_eq!(server.counters().replies, 0, "{:?}", server.counters());
        other.set_nonblocking(true).expect("a socket");
        assert!(other.recv(&mut [0; 16]).is_err(), "an answer to nobody went to {host}");
    }
}
