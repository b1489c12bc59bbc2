//! Each loop has a UDP socket of its own at one port, and a small program in the kernel says which gets a datagram.
use std::fmt;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anywire_loops::Loops;
use anywire_wire::udp::{Received, Steering, Udp, UdpOptions};

const SOCKETS: usize = 4;

/// Sends datagrams from so many sockets, and gives what arrived at each of the four.
fn arrivals(steering: Steering, senders: usize, datagrams: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let options = UdpOptions { steering, ..UdpOptions::default() };
    let sockets = Udp::bind("udp:127.0.0.1:0", &options, SOCKETS).expect("a free port");
    assert_eq!(sockets.len(), SOCKETS);
    let target = sockets[0].local().socket_addr().expect("an IP address");
    assert!(sockets.iter().all(|socket| socket.local().socket_addr() == Some(target)));
    for _ in 0..senders {
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        for datagram in datagrams {
            sender.send_to(datagram, target).expect("over loopback");
        }
    }
    // Over loopback a datagram has arrived when its sending returns.
    let loops = Loops::start(1).expect("a thread");
    let all = loops.get(0).spawn(move || async move {
        let mut all = Vec::new();
        for socket in sockets {
            let socket = socket.register().expect("it was bound");
            let (mut received, mut arrived) = (Received::new(&socket), Vec::new());
            while socket.try_receive(&mut received).expect("an open socket") {
                arrived.extend(received.iter().map(|datagram| datagram.data().to_vec()));
            }
            all.push(arrived);
        }
        all
    });
    all.wait().expect("no panic")
}

fn counts(arrivals: &[Vec<Vec<u8>>]) -> Vec<usize> {
    arrivals.iter().map(Vec::len).collect()
}

#[test]
fn a_number_in_the_payload_chooses() {
    // Connection ids behind a byte that says nothing of them.
    for width in [1_u8, 2, 4] {
        let ids = 0..64_u32;
        let datagrams: Vec<Vec<u8>> =
            ids.map(|id| [&[0xee], &id.to_be_bytes()[4 - usize::from(width)..], b"rest"].concat()).collect();
        let arrivals = arrivals(Steering::Payload { offset: 1, width }, 3, &datagrams);
        assert_eq!(counts(&arrivals), [48; SOCKETS]);
        for (number, arrived) in arrivals.iter().enumerate() {
            let last = usize::from(width);
            assert!(arrived.iter().all(|data| usize::from(data[last]) % SOCKETS == number), "{number}");
        }
    }
}

#[test]
fn one_number_means_one_socket() {
    let datagrams = vec![vec![6]; 10];
    let arrivals = arrivals(Steering::Payload { offset: 0, width: 1 }, 10, &datagrams);
    assert_eq!(counts(&arrivals), [0, 0, 100, 0]);
}

#[test]
fn a_datagram_that_is_too_short_goes_by_its_flow() {
    let arrivals = arrivals(Steering::Payload { offset: 2, width: 4 }, 64, &[vec![], vec![0; 3]]);
    assert_eq!(counts(&arrivals).iter().sum::<usize>(), 128);
    assert!(counts(&arrivals).iter().all(|&count| count > 0), "{:?}", counts(&arrivals));
}

#[test]
fn the_core_chooses_a_socket_that_there_is() {
    let arrivals = arrivals(Steering::Cpu, 4, &vec![vec![1]; 10]);
    assert_eq!(counts(&arrivals).iter().sum::<usize>(), 40, "{:?}", counts(&arrivals));
}

#[test]
fn flows_are_spread() {
    let arrivals = arrivals(Steering::Flow, 256, &[vec![1]]);
    let counts = counts(&arrivals);
    assert_eq!(counts.iter().sum::<usize>(), 256);
    assert!(counts.iter().all(|&count| count > 16), "{counts:?}");
}

#[test]
fn a_receive_buffer_beyond_what_the_system_counts_is_a_large_one() {
    let given = |receive_buffer_bytes| {
        let options = UdpOptions { receive_buffer_bytes, ..UdpOptions::default() };
        let socket = Udp::bind("udp:127.0.0.1:0", &options, 1).expect("a free port").remove(0);
        let loops = Loops::start(1).expect("a thread");
        let buffer = loops
            .get(0)
            .spawn(|| async move { socket.register().expect("it was bound").receive_buffer() })
            .wait()
            .expect("no panic");
        assert_eq!(buffer.asked_bytes, receive_buffer_bytes);
        buffer.given_bytes
    };
    let large = given(i32::MAX as usize);
    for beyond in [1 << 32, (1 << 32) + 1, usize::MAX] {
        assert_eq!(given(beyond), large, "{beyond}");
    }
}

#[test]
fn a_smaller_receive_buffer_is_logged_with_its_remedy() {
    let log = Log::default();
    let bind = |receive_buffer_bytes| {
        let options = UdpOptions { receive_buffer_bytes, ..UdpOptions::default() };
        tracing::subscriber::with_default(log.clone(), || Udp::bind("udp:127.0.0.1:0", &options, 1))
            .expect("a free port");
    };
    bind(4096);
    assert_eq!(*log.0.lock().expect("no panic"), [""; 0]);
    bind(i32::MAX as usize);
    let lines = log.0.lock().expect("no panic").clone();
    assert!(lines.len() == 1 && lines[0].contains("sysctl -w net.core.rmem_max=2147483647"), "{lines:?}");
}

/// The messages of warnings.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
            if field.name() == "message" {
                self.0.lock().expect("no panic").push(format!("{value:?}"));
            }
        });
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn what_a_full_buffer_drops_is_counted() {
    let options = UdpOptions { receive_buffer_bytes: 4096, ..UdpOptions::default() };
    let socket = Udp::bind("udp:127.0.0.1:0", &options, 1).expect("a free port").remove(0);
    let drops = socket.drop_counter().expect("an open socket");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let target = socket.local().socket_addr().expect("an IP address");
    for _ in 0..100 {
        sender.send_to(&[0; 200], target).expect("over loopback");
    }
    let loops = Loops::start(1).expect("a thread");
    let received = loops.get(0).spawn(move || async move {
        let socket = socket.register().expect("it was bound");
        let (mut received, mut count) = (Received::new(&socket), 0);
        while socket.try_receive(&mut received).expect("an open socket") {
            count += received.len();
        }
        (count, socket.drops())
    });
    let (received, dropped) = received.wait().expect("no panic");
    assert!((1..100).contains(&received), "{received}");
    assert_eq!(dropped, Some(100 - received as u32));
    assert_eq!(drops.drops(), dropped, "the same is told elsewhere");
}

#[test]
fn equal_datagrams_leave_and_arrive_together() {
    use anywire_wire::udp::Outgoing;

    let loops = Loops::start(1).expect("a thread");
    let played = loops.get(0).spawn(|| async {
        let options = UdpOptions::default();
        let server = Udp::bind("udp:127.0.0.1:0", &options, 1).expect("a free port").remove(0);
        let client = Udp::connect(server.local(), &options).await.expect("there is a way");
        let server = server.register().expect("it was bound");
        let mut outgoing = Outgoing::new(&client);
        for number in 0..200_u8 {
            outgoing.push_to_peer(&[number; 200]).expect("there is room");
        }
        let sent = client.flush(&mut outgoing).await;
        assert_eq!((sent.datagrams, sent.failed), (200, 0), "{sent:?}");
        assert!(sent.calls <= 4, "{sent:?}");
        let (mut received, mut messages, mut arrived) = (Received::new(&server), 0, Vec::new());
        let hang = Instant::now() + Duration::from_secs(60);
        while arrived.len() < 200 && Instant::now() < hang {
            server.receive(&mut received).await.expect("an open socket");
            messages += received.messages();
            arrived.extend(received.iter().map(|datagram| datagram.data().to_vec()));
        }
        let expected: Vec<_> = (0..200_u8).map(|number| vec![number; 200]).collect();
        assert!(arrived == expected, "{} arrived", arrived.len());
        assert!(messages <= 4, "{messages} messages");
    });
    played.wait().expect("no panic");
}

#[test]
fn datagrams_to_several_peers_leave_together_and_one_that_is_refused_alone_is_lost() {
    use anywire_wire::udp::Outgoing;

    let peers: Vec<_> = (0..100).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
    let targets: Vec<_> = peers.iter().map(|peer| peer.local_addr().expect("it is bound").into()).collect();
    let loops = Loops::start(1).expect("a thread");
    let played = loops.get(0).spawn(move || async move {
        let socket = Udp::bind("udp:127.0.0.1:0", &UdpOptions::default(), 1).expect("a free port").remove(0);
        let socket = socket.register().expect("it was bound");
        let mut outgoing = Outgoing::new(&socket);
        for (number, target) in targets.iter().enumerate() {
            let data = if number == REFUSED { vec![0; 65_536] } else { vec![number as u8; number] };
            outgoing.push(target, None, &data).expect("there is room");
        }
        let sent = socket.flush(&mut outgoing).await;
        assert!(outgoing.is_empty());
        sent
    });
    let sent = played.wait().expect("no panic");
    assert_eq!((sent.datagrams, sent.failed), (99, 1), "{sent:?}");
    assert!(sent.calls <= 6, "{sent:?}");
    for (number, peer) in peers.iter().enumerate().filter(|(number, _)| *number != REFUSED) {
        let mut data = [0; 128];
        assert_eq!(peer.recv(&mut data).expect("a datagram"), number);
        assert!(data[..number].iter().all(|byte| usize::from(*byte) == number));
    }
}

/// The datagram that is too large for any way.
const REFUSED: usize = 50;
