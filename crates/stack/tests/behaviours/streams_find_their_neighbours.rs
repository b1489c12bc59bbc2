//! Streams over a link whose hosts know nothing of each other: the driver carries questions and answers beside segments, and tells what
//! happens below.

use std::io::ErrorKind;

use anywire_stack::ip::Event;
use anywire_stack::stream::ListenOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hosts::{self, Network, address, next_event};

#[test]
fn bytes_flow_once_addresses_are_ready() {
    hosts::run(async || {
        let network = Network::new();
        let (client, server) = (network.host_alone(1, address(1, 0)), network.host_alone(2, address(2, 0)));
        let early = server.listen(address(2, 80), ListenOptions::default());
        assert_eq!(early.map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::AddrNotAvailable));
        assert_eq!(next_event(&server).await, Some(Event::AddressReady(address(2, 0).ip())));
        assert_eq!(next_event(&client).await, Some(Event::AddressReady(address(1, 0).ip())));
        let mut listener = server.listen(address(2, 80), ListenOptions::default()).expect("the port is free");
        let mut dialled = client.connect(address(2, 80)).await.expect("somebody listens");
        let mut accepted = listener.accept().await.expect("it has come");
        let sent = hosts::bytes(7, 300_000);
        let (wrote, heard) = tokio::join!(
            async {
                dialled.write_all(&sent).await.expect("it is read");
                dialled.shutdown().await
            },
            async {
                let mut heard = Vec::new();
                accepted.read_to_end(&mut heard).await.map(|_| heard)
            }
        );
        wrote.expect("it ends");
        assert!(heard.expect("all of it") == sent);
        let counters = client.layer_counters().expect("it has a layer");
        assert_eq!((counters.resolved, counters.pending_dropped), (1, 0));
        assert!(!client.with_engine(|engine| engine.has_unresolved()));
    });
}

#[test]
fn an_address_that_somebody_has_is_told_and_not_used() {
    hosts::run(async || {
        let network = Network::new();
        let first = network.host_alone(1, address(9, 0));
        assert_eq!(next_event(&first).await, Some(Event::AddressReady(address(9, 0).ip())));
        let second = network.host_alone(2, address(9, 0));
        let told = next_event(&second).await;
        assert!(
            matches!(told, Some(Event::AddressInUse { address, .. }) if address == hosts::address(9, 0).ip())
        );
    });
}

/// Each event is told once. A second listener would take events that the first one waits for.
#[test]
fn events_go_to_one_listener() {
    hosts::run(async || {
        let host = Network::new().host_alone(1, address(1, 0));
        let mut events = host.events().expect("nobody listens");
        assert!(host.events().is_none());
        assert_eq!(events.next().await, Some(Event::AddressReady(address(1, 0).ip())));
        drop(events);
        assert!(host.events().is_some());
    });
}

#[test]
fn a_host_that_is_not_there_is_told() {
    hosts::run(async || {
        let network = Network::new();
        let client = network.host_alone(1, address(1, 0));
        next_event(&client).await.expect("its address is ready");
        let nobody = address(77, 80);
        let (dialled, told) = tokio::join!(client.connect(nobody), next_event(&client));
        assert_eq!(dialled.map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::HostUnreachable));
        assert_eq!(told, Some(Event::NeighbourUnreachable(nobody.ip())));
    });
}

#[test]
fn without_a_layer_there_are_no_events() {
    hosts::run(async || {
        let network = Network::new();
        let host = network.host(1);
        assert_eq!((next_event(&host).await, host.layer_counters()), (None, None));
    });
}

#[test]
fn an_address_that_is_taken_away_ends_its_streams() {
    hosts::run(async || {
        let network = Network::new();
        let (client, server) = (network.host_alone(1, address(1, 0)), network.host_alone(2, address(2, 0)));
        next_event(&server).await.expect("its address is ready");
        next_event(&client).await.expect("its address is ready");
        let mut listener = server.listen(address(2, 80), ListenOptions::default()).expect("the port is free");
        let mut dialled = client.connect(address(2, 80)).await.expect("somebody listens");
        let mut accepted = listener.accept().await.expect("it has come");
        let (heard, said, ended) = tokio::join!(accepted.read_u8(), dialled.read_u8(), async {
            // Both wait by now.
            tokio::task::yield_now().await;
            server.remove_address(address(2, 0).ip())
        });
        assert_eq!(ended, 1);
        assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::NetworkDown));
        assert_eq!(said.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
        // The listener waits for it.
        server.add_address(address(2, 0).ip()).expect("it is gone");
        next_event(&server).await.expect("it is ready again");
        client.connect(address(2, 80)).await.expect("somebody listens");
        listener.accept().await.expect("it has come");
    });
}

/// Answers to hosts that nobody finds wait for them, however many batches they fill, and others are served meanwhile.
#[test]
fn peers_that_answer_no_question_hold_up_nobody() {
    hosts::run(async || {
        let network = Network::new();
        let server = network.host_alone(2, address(2, 0));
        assert_eq!(next_event(&server).await, Some(Event::AddressReady(address(2, 0).ip())));
        let mut listener = server.listen(address(2, 80), ListenOptions::default()).expect("the port is free");
        // It was told who its neighbours are, and knows nothing of ARP.
        let silent = network.host(hosts::CLIENT);
        let mut calls = Vec::new();
        for _ in 0..3000 {
            calls.push(silent.start(None, address(2, 80), Default::default()).expect("room"));
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(server.with_engine(|engine| engine.half_open()) > 0, "the calls have come");
        let client = network.host_alone(4, address(4, 0));
        assert_eq!(next_event(&client).await, Some(Event::AddressReady(address(4, 0).ip())));
        let mut dialled = client.connect(address(2, 80)).await.expect("it is served");
        let mut accepted = listener.accept().await.expect("it has come");
        dialled.write_all(b"as ever").await.expect("it is open");
        let mut heard = [0; 7];
        accepted.read_exact(&mut heard).await.expect("it is open");
        assert_eq!(&heard, b"as ever");
        assert_eq!(server.layer_counters().expect("it has a layer").outgoing_dropped, 0);
    });
}
