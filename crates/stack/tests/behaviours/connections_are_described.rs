//! A stream and its interface tell of a connection what `ss -ti` tells, bytes included, and of the link what `ip neigh` tells.

use std::time::Duration;

use anywire_stack::impair::Impairment;
use anywire_tcp::TcpState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use anywire_stack::ip::NeighbourState;

use crate::hosts::{CLIENT, Network, SERVER, address, next_event, pair, run};

#[test]
fn bytes_are_those_of_its_user_and_of_its_peer() {
    run(async || {
        let (mut client, mut server) = pair().await;
        client.write_all(&[1; 5000]).await.expect("it takes them");
        server.read_exact(&mut [0; 3000]).await.expect("they come");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let [ours, theirs] = [&client, &server].map(|stream| stream.info().expect("it is open"));
        assert_eq!((ours.tcp.state, ours.bytes_acked, ours.tcp.send_q), (TcpState::Established, 5000, 0));
        assert_eq!((theirs.bytes_received, theirs.tcp.recv_q, theirs.bytes_acked), (5000, 2000, 0));
        assert_eq!((ours.bytes_sent, theirs.bytes_sent, ours.tcp.bytes_retrans), (5000, 0, 0));
        assert_eq!((ours.tcp.local, ours.tcp.peer), (theirs.tcp.peer, theirs.tcp.local));
    });
}

#[test]
fn what_is_sent_again_counts_each_time_and_what_waits_does_not() {
    run(async || {
        let network = Network::new();
        let loses = Impairment { loss: 0.2, seed: 7, ..Impairment::default() };
        let (client, server) = (network.host_behind(CLIENT, loses), network.host(SERVER));
        let mut listener = server.listen(address(SERVER, 80), Default::default()).expect("it is free");
        let mut stream = client.connect(address(SERVER, 80)).await.expect("it listens");
        let mut accepted = listener.accept().await.expect("it has come");
        // More than the window takes, and nobody reads.
        let writing = tokio::time::timeout(Duration::from_secs(100), stream.write_all(&[1; 400_000])).await;
        writing.expect("the queue has room").expect("it takes them");
        tokio::time::sleep(Duration::from_secs(100)).await;
        let info = stream.info().expect("it is open");
        let (in_flight, again) = (info.tcp.send_q - info.tcp.notsent, info.tcp.bytes_retrans);
        assert!(again > 0 && info.tcp.notsent > 0, "{info:?}");
        assert_eq!(info.bytes_sent, info.bytes_acked + u64::from(in_flight) + again, "{info:?}");
        accepted.read_exact(&mut [0; 400_000]).await.expect("they come");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let info = stream.info().expect("it is open");
        assert_eq!((info.bytes_acked, info.bytes_sent), (400_000, 400_000 + info.tcp.bytes_retrans));
        assert!(info.tcp.bytes_retrans >= again);
    });
}

#[test]
fn an_interface_tells_of_all_that_it_has() {
    run(async || {
        let network = Network::new();
        let hosts = [CLIENT, SERVER].map(|last| network.host_alone(last, address(last, 0)));
        assert!(matches!(hosts[0].own_addresses()[..], [(_, false)]), "it is probed");
        for host in &hosts {
            next_event(host).await.expect("the address is ready");
        }
        let [client, server] = &hosts;
        assert_eq!(server.own_addresses(), [(address(SERVER, 0).ip(), true)]);
        let mut listener = server.listen(address(SERVER, 80), Default::default()).expect("it is free");
        let mut stream = client.connect(address(SERVER, 80)).await.expect("it listens");
        let accepted = listener.accept().await.expect("it has come");
        stream.write_all(b"hello").await.expect("it takes them");
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            next = server.survey(from, 7, &mut all);
        }
        let states: Vec<_> = all.iter().map(|one| (one.tcp.state, one.tcp.local)).collect();
        let here = address(SERVER, 80);
        assert_eq!(states, [(TcpState::Listen, here), (TcpState::Established, here)]);
        assert_eq!(all[1], accepted.info().expect("it is open"));
        let [neighbour] = server.neighbours()[..] else { panic!("one neighbour") };
        assert_eq!((neighbour.address, neighbour.mac.is_some()), (address(CLIENT, 0).ip(), true));
        assert_ne!(neighbour.state, NeighbourState::Incomplete, "{neighbour:?}");
    });
}
