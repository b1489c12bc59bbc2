//! One peer of a datagram socket costs the others nothing: neither by where its datagrams come from or go to, nor because the way
//! to it takes less.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;

use anywire_loops::Loops;
use anywire_wire::udp::{Outgoing, Peer, Received, Sent, Udp, UdpOptions};
use socket2::SockRef;

/// Runs this with a socket on a loop of its own, which is bound there.
fn with_socket<T: Send + 'static>(address: &str, run: impl AsyncFnOnce(Udp) -> T + Send + 'static) -> T {
    let unregistered = Udp::bind(address, &UdpOptions::default(), 1).expect("a free port").remove(0);
    let loops = Loops::start(1).expect("a thread");
    let ran = loops.get(0).spawn(|| async move { run(unregistered.register().expect("it was bound")).await });
    ran.wait().expect("no panic")
}

/// Sends so many equal datagrams at once.
async fn send(socket: &Udp, to: &Peer, from: Option<IpAddr>, bytes: usize, times: usize) -> Sent {
    let mut outgoing = Outgoing::new(socket);
    (0..times).for_each(|_| outgoing.push(to, from, &vec![7; bytes]).expect("there is room"));
    let sent = socket.flush(&mut outgoing).await;
    assert_eq!(sent.datagrams + sent.failed, times as u64, "{sent:?}");
    sent
}

/// A socket of the system to send to.
fn peer(host: &str) -> (UdpSocket, Peer) {
    let socket = UdpSocket::bind((host, 0)).expect("a free port");
    let address = socket.local_addr().expect("it is bound").into();
    (socket, address)
}

/// Fails if the socket does not join datagrams, or does not mark them, as one did to which nothing has happened.
async fn joins_and_marks(socket: &Udp, host: &str) {
    let (_other, to) = peer(host);
    let sent = send(socket, &to, None, 100, 10).await;
    assert_eq!((sent.datagrams, sent.calls), (10, 1), "{sent:?}");
    let options = UdpOptions::default();
    let marked = Udp::bind(&format!("udp:{}", SocketAddr::new(host.parse().expect(host), 0)), &options, 1);
    let marked = marked.expect("a free port").remove(0).register().expect("it was bound");
    let to = marked.local().socket_addr().expect("an IP address").into();
    let (mut outgoing, mut received) = (Outgoing::new(socket), Received::new(&marked));
    outgoing.set_ecn(2);
    outgoing.push(&to, None, b"marked").expect("there is room");
    socket.flush(&mut outgoing).await;
    marked.receive(&mut received).await.expect("an open socket");
    assert_eq!(received.iter().map(|datagram| datagram.ecn).collect::<Vec<_>>(), [2]);
}

/// The address that a datagram was sent to may be gone when it is answered, or be one that nothing leaves from.
#[test]
fn an_answer_that_cannot_leave_from_where_it_was_asked_leaves_all_the_same() {
    let of_ipv4: &[&str] = &["192.0.2.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"];
    let of_ipv6: &[&str] = &["2001:db8::1", "fe80::1", "ff02::1"];
    for (everywhere, host, refused) in
        [("udp:0.0.0.0:0", "127.0.0.1", of_ipv4), ("udp:[::]:0", "::1", of_ipv6)]
    {
        for from in refused {
            with_socket(everywhere, async move |socket| {
                let from = Some(from.parse().expect("an IP address"));
                let (hears, to) = peer(host);
                for times in [1, 10] {
                    let sent = send(&socket, &to, from, 100, times).await;
                    assert_eq!(sent.datagrams, times as u64, "from {from:?}: {sent:?}");
                }
                let mut outgoing = Outgoing::new(&socket);
                outgoing.set_ecn(2);
                outgoing.push(&to, from, b"marked").expect("there is room");
                let sent = socket.flush(&mut outgoing).await;
                assert_eq!(sent.datagrams, 1, "from {from:?}: {sent:?}");
                for length in [[100; 11].as_slice(), &[6]].concat() {
                    assert_eq!(hears.recv(&mut [0; 200]).expect("a datagram"), length);
                }
                socket.send_to(&to, from, b"alone").await.expect("from another address");
                joins_and_marks(&socket, host).await;
            });
        }
    }
}

/// The length of a frame of loopback is 1500 there, as on most networks.
#[test]
fn datagrams_that_are_too_large_for_one_way_stay_joined_on_others() {
    let test = "one_peer_costs_the_others_of_its_socket_nothing::datagrams_that_are_too_large_for_one_way_stay_joined_on_others";
    if !crate::again::is_inner() {
        return crate::again::passes_within(crate::again::OWN_NETWORK, test);
    }
    let ip = ["link", "set", "lo", "mtu", "1500", "up"];
    assert!(Command::new("ip").args(ip).status().expect("it starts").success());
    with_socket("udp:0.0.0.0:0", async |socket| {
        let (_hears, to) = peer("127.0.0.1");
        for from in [None, Some(IpAddr::from([192, 0, 2, 1]))] {
            let sent = send(&socket, &to, from, 2000, 10).await;
            assert_eq!(sent.failed, 10, "none is fragmented: {sent:?}");
            joins_and_marks(&socket, "127.0.0.1").await;
        }
    });
}

/// Answers one datagram that a client sent to this address, then one to each of `forged`, and at last ten at once to the client.
/// Gives the system calls that the ten took.
fn calls_for_ten_behind(target: &str, forged: &[SocketAddr]) -> u64 {
    let server = Udp::bind("udp:0.0.0.0:0", &UdpOptions::default(), 1).expect("a free port").remove(0);
    let port = server.local().port().expect("an IP address");
    let client = UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
    client.set_broadcast(true).expect("an open socket");
    SockRef::from(&client).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("an open socket");
    client.send_to(b"ask", (target, port)).expect("over loopback");
    let forged: Vec<Peer> = forged.iter().map(|address| (*address).into()).collect();
    let loops = Loops::start(1).expect("a thread");
    let answered = loops.get(0).spawn(move || async move {
        let server = server.register().expect("it was bound");
        let (mut received, mut replies) = (Received::new(&server), Outgoing::new(&server));
        server.receive(&mut received).await.expect("an open socket");
        let asked = received.iter().next().expect("it was received");
        replies.push(&asked.peer, asked.local_ip, b"answer").expect("there is room");
        for peer in &forged {
            (0..2).for_each(|_| replies.push(peer, None, b"none").expect("there is room"));
        }
        let sent = server.flush(&mut replies).await;
        assert_eq!((sent.datagrams, sent.failed), (1, 2 * forged.len() as u64), "{sent:?}");
        (0..10).for_each(|_| replies.push(&asked.peer, None, b"equal").expect("there is room"));
        server.flush(&mut replies).await
    });
    let sent = answered.wait().expect("no panic");
    assert_eq!((sent.datagrams, sent.failed), (10, 0), "{sent:?}");
    let mut answer = [0; 16];
    assert_eq!(client.recv(&mut answer).expect("it was answered"), 6);
    sent.calls
}

#[test]
fn who_asks_all_machines_is_answered_and_harms_no_other() {
    let in_one_call = calls_for_ten_behind("127.0.0.1", &[]);
    for group in ["127.255.255.255", "224.0.0.1"] {
        assert_eq!(calls_for_ten_behind(group, &[]), in_one_call, "{group}");
    }
}

#[test]
fn a_forged_sender_harms_no_other() {
    let no_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    assert_eq!(calls_for_ten_behind("127.0.0.1", &[no_port]), calls_for_ten_behind("127.0.0.1", &[]));
}
