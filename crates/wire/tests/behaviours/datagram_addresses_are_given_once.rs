//! An address for datagrams belongs to one service; answers leave from the address that was asked; a stale file is replaced.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anywire_loops::Loops;
use anywire_wire::udp::{Outgoing, Peer, Received, Udp, UdpError, UdpOptions};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};

fn bind(address: &str, loops: usize) -> Result<Vec<anywire_wire::udp::Unregistered>, UdpError> {
    Udp::bind(address, &UdpOptions::default(), loops)
}

#[test]
fn a_port_in_use_is_said() {
    for loops in [1, 2] {
        let first = bind("udp:127.0.0.1:0", loops).expect("a free port");
        let taken = first[0].local().to_string();
        for other_loops in [1, 2] {
            let refused = bind(&taken, other_loops).expect_err("it is taken");
            assert!(matches!(refused, UdpError::InUse { .. }), "{refused}");
        }
        drop(first);
        bind(&taken, loops).expect("it is free again");
    }
}

#[test]
fn what_cannot_be_bound_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| format!("unixgram:{}/{name}", folder.path().display());
    fs::write(folder.path().join("file"), "").expect("it is ours");
    assert!(matches!(bind(&at("file"), 1), Err(UdpError::NotASocket { .. })));
    assert!(matches!(bind(&at("none/socket"), 1), Err(UdpError::NoFolder { .. })));
    let _streams = UnixListener::bind(folder.path().join("streams")).expect("it is ours");
    assert!(matches!(bind(&at("streams"), 1), Err(UdpError::InUse { .. })));
    assert!(matches!(bind("udp:192.0.2.1:0", 1), Err(UdpError::NotHere { .. })));
    assert!(matches!(bind("udp:127.0.0.1", 1), Err(UdpError::Address(_))));
    assert!(matches!(bind("udp:does-not-exist.invalid:1", 1), Err(UdpError::Resolve { .. })));
}

#[test]
fn a_clone_keeps_the_address_and_what_waits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("app.sock");
    for address in ["udp:127.0.0.1:0".to_owned(), format!("unixgram:{}", file.display())] {
        let loops = Loops::start(1).expect("a thread");
        let options = UdpOptions { offload: false, ..UdpOptions::default() };
        let first = Udp::bind(&address, &options, 1).expect("nobody is there").remove(0);
        let (clone, local) = (first.try_clone().expect("descriptors are left"), first.local().clone());
        let to = local.clone();
        let sent = loops.get(0).spawn(move || async move {
            let first = first.register().expect("descriptors are left");
            let client = Udp::connect(to, &UdpOptions::default()).await.expect("it sends nothing");
            client.send(b"one").await.expect("it is there");
            drop(first);
        });
        sent.wait().expect("no panic");
        assert!(matches!(bind(&local.to_string(), 1), Err(UdpError::InUse { .. })));
        let heard = loops.get(0).spawn(move || async move {
            let clone = clone.register().expect("descriptors are left");
            let mut received = Received::new(&clone);
            clone.receive(&mut received).await.expect("it waits there");
            received.iter().map(|datagram| datagram.data().to_vec()).collect::<Vec<_>>()
        });
        assert_eq!(heard.wait().expect("no panic"), [b"one"]);
        bind(&local.to_string(), 1).expect("it is free again");
        assert!(!file.exists());
    }
}

#[test]
fn a_stale_file_is_replaced_and_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("app.sock");
    drop(UnixDatagram::bind(&file).expect("it is ours"));
    let address = format!("unixgram:{}", file.display());
    let bound = bind(&address, 3).expect("nobody is there");
    assert_eq!(bound.len(), 1, "a Unix address has one socket");
    assert!(matches!(bind(&address, 1), Err(UdpError::InUse { .. })));
    drop(bound);
    assert!(!file.exists());
}

#[test]
fn answers_leave_from_the_address_that_was_asked() {
    for (everywhere, here) in [("udp:0.0.0.0:0", "127.0.0.1"), ("udp:[::]:0", "127.0.0.1")] {
        let server = bind(everywhere, 1).expect("a free port").remove(0);
        let port = server.local().port().expect("an IP address");
        let client = UdpSocket::bind((here, 0)).expect("a free port");
        // The system would choose 127.0.0.1 for the answer, which this socket does not hear.
        client.connect(("127.7.7.7", port)).expect("UDP needs no answer");
        client.send(b"ask").expect("over loopback");
        let loops = Loops::start(1).expect("a thread");
        let answered = loops.get(0).spawn(move || async move {
            let server = server.register().expect("it was bound");
            let (mut received, mut replies) = (Received::new(&server), Outgoing::new(&server));
            server.receive(&mut received).await.expect("an open socket");
            for datagram in received.iter() {
                assert_eq!(
                    datagram.local_ip.map(|ip| ip.to_canonical().to_string()).as_deref(),
                    Some("127.7.7.7")
                );
                replies.push(&datagram.peer, datagram.local_ip, b"answer").expect("there is room");
            }
            server.flush(&mut replies).await
        });
        let sent = answered.wait().expect("no panic");
        assert_eq!((sent.datagrams, sent.failed), (1, 0), "{sent:?}");
        let mut answer = [0; 16];
        assert_eq!(client.recv(&mut answer).expect("it comes from where it was asked"), 6);
    }
}

#[test]
fn a_unix_name_that_has_no_text_is_not_answered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server =
        bind(&format!("unixgram:{}/server", folder.path().display()), 1).expect("it is ours").remove(0);
    let name = format!("anywire-victim-{}", std::process::id());
    // Its path reads like the name of another socket.
    let alike = SocketAddrUnix::new(format!("@{name}")).expect("it is short");
    let invalid = SocketAddrUnix::new_abstract_name(&[0xff; 8]).expect("it is short");
    for address in [alike, invalid] {
        let kind = SocketType::DGRAM;
        let client = rustix::net::socket(AddressFamily::UNIX, kind, None).expect("the system has sockets");
        rustix::net::bind(&client, &address).expect("it is free");
        let server = SocketAddrUnix::new(folder.path().join("server")).expect("it is short");
        rustix::net::sendto(&client, b"ask", SendFlags::empty(), &server).expect("it is bound");
    }
    fs::remove_file(format!("@{name}")).expect("it is ours");
    let loops = Loops::start(1).expect("a thread");
    let peers = loops.get(0).spawn(move || async move {
        let server = server.register().expect("it was bound");
        let mut received = Received::new(&server);
        assert!(server.try_receive(&mut received).expect("an open socket"));
        received.iter().map(|datagram| datagram.peer).collect::<Vec<_>>()
    });
    assert_eq!(peers.wait().expect("no panic"), [Peer::Unnamed, Peer::Unnamed]);
}

#[test]
fn a_stranger_is_not_heard_while_the_socket_is_bound() {
    let friend = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let only_peer = Some(friend.local_addr().expect("bound"));
    let options = UdpOptions { only_peer, ..UdpOptions::default() };
    let address = bind("udp:127.0.0.1:0", 1).expect("a free port").remove(0).local().clone();
    let target = address.socket_addr().expect("an IP address");
    let is_over = AtomicBool::new(false);
    let heard = thread::scope(|scope| {
        scope.spawn(|| {
            let stranger = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            while !is_over.load(Ordering::Relaxed) {
                let _ = stranger.send_to(b"let me in", target);
            }
        });
        let loops = Loops::start(1).expect("a thread");
        let heard = loops.get(0).spawn(move || async move {
            let mut heard = 0;
            for _ in 0..1000 {
                let socket = Udp::bind(&address, &options, 1).expect("it is free").remove(0);
                let socket = socket.register().expect("it was bound");
                let mut received = Received::new(&socket);
                heard += u32::from(socket.try_receive(&mut received).expect("an open socket"));
            }
            heard
        });
        let heard = heard.wait();
        is_over.store(true, Ordering::Relaxed);
        heard
    });
    assert_eq!(heard.expect("no panic"), 0);
}

#[test]
fn one_peer_alone_is_heard_if_so_wished() {
    let (friend, stranger) = (
        UdpSocket::bind("127.0.0.1:0").expect("a free port"),
        UdpSocket::bind("127.0.0.1:0").expect("a free port"),
    );
    let only_peer = Some(friend.local_addr().expect("bound"));
    let options = UdpOptions { only_peer, ..UdpOptions::default() };
    let mut sockets = Udp::bind("udp:127.0.0.1:0", &options, 4).expect("a free port");
    assert_eq!(sockets.len(), 1);
    let socket = sockets.remove(0);
    let target = socket.local().socket_addr().expect("an IP address");
    for sender in [&stranger, &friend] {
        // The system may tell the stranger at once that it is refused.
        let _ = sender.send_to(b"hello", target);
    }
    let loops = Loops::start(1).expect("a thread");
    let heard = loops.get(0).spawn(move || async move {
        let socket = socket.register().expect("it was bound");
        let mut received = Received::new(&socket);
        assert!(socket.try_receive(&mut received).expect("an open socket"));
        received.iter().map(|datagram| datagram.peer).collect::<Vec<_>>()
    });
    assert_eq!(heard.wait().expect("no panic"), only_peer.map(Into::into).into_iter().collect::<Vec<_>>());
}

#[test]
fn congestion_marks_are_told() {
    let loops = Loops::start(1).expect("a thread");
    let marks = loops.get(0).spawn(|| async {
        let options = UdpOptions::default();
        let server = Udp::bind("udp:127.0.0.1:0", &options, 1).expect("a free port").remove(0);
        let client = Udp::connect(server.local(), &options).await.expect("there is a way");
        let server = server.register().expect("it was bound");
        let mut outgoing = Outgoing::new(&client);
        for bits in 0..4 {
            outgoing.set_ecn(bits);
            outgoing.push_to_peer(b"marked").expect("there is room");
        }
        client.flush(&mut outgoing).await;
        let (mut received, mut marks) = (Received::new(&server), Vec::new());
        while marks.len() < 4 {
            server.receive(&mut received).await.expect("an open socket");
            marks.extend(received.iter().map(|datagram| datagram.ecn));
        }
        marks
    });
    assert_eq!(marks.wait().expect("no panic"), [0, 1, 2, 3]);
}

#[test]
fn a_socket_is_never_connected_to_itself() {
    let test = "datagram_addresses_are_given_once::a_socket_is_never_connected_to_itself";
    if !crate::again::is_inner() {
        return crate::again::passes_within(crate::again::OWN_NETWORK, test);
    }
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(up.expect("it starts").success());
    let _ = fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0");
    // So few ports that the system would soon choose the one that is connected to.
    fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40003").expect("the namespace is ours");
    let loops = Loops::start(1).expect("a thread");
    let played = loops.get(0).spawn(|| async {
        // A system without IPv6 has no way to some of them.
        for host in ["127.0.0.1", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]"] {
            for _ in 0..100 {
                let to = format!("udp:{host}:40001");
                match Udp::connect(&to, &UdpOptions::default()).await {
                    Ok(socket) => assert_ne!(socket.local().port(), Some(40_001), "to {host}"),
                    Err(no_way) => assert!(host.contains(':'), "{no_way}"),
                }
            }
        }
    });
    played.wait().expect("no panic");
}

#[test]
fn a_socket_finds_a_unix_peer_that_comes_later_or_anew_and_hears_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("app.sock");
    let address = format!("unixgram:{}", file.display());
    let loops = Loops::start(1).expect("a thread");
    let played = loops.get(0).spawn(move || async move {
        let socket = Udp::connect(&address, &UdpOptions::default()).await.expect("nobody need be there");
        let name =
            socket.local().location().strip_prefix('@').expect("a name of the system's choice").to_owned();
        let own = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("it is short");
        let stranger = UnixDatagram::unbound().expect("the system has sockets");
        // The system says to a stranger that it is not permitted, or drops what it sends.
        let disturb = || {
            let _ = rustix::net::sendto(&stranger, b"stranger", SendFlags::empty(), &own);
        };
        let mut received = Received::new(&socket);
        for round in 0..3 {
            disturb();
            for _ in 0..2 {
                let refused = socket.send(b"nobody").await.expect_err("nobody is there");
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
                disturb();
            }
            let service = UnixDatagram::bind(&file).expect("nobody is there");
            socket.send(&[round]).await.expect("it is there");
            disturb();
            let mut request = [0; 16];
            let (length, client) = service.recv_from(&mut request).expect("a request");
            service.send_to_addr(&request[..length], &client).expect("it is answered");
            socket.receive(&mut received).await.expect("an answer");
            let answers: Vec<_> = received.iter().map(|datagram| datagram.data().to_vec()).collect();
            assert_eq!(answers, [[round]]);
            if round == 1 {
                // Its successor is there before the next request.
                fs::remove_file(&file).expect("it is ours");
                let successor = UnixDatagram::bind(&file).expect("the name is free");
                drop(service);
                socket.send(b"to the successor").await.expect("it is there");
                assert_eq!(successor.recv(&mut request).expect("a request"), 16);
            }
            fs::remove_file(&file).expect("it is ours");
        }
    });
    played.wait().expect("no panic");
}
