//! Streams over a link whose hosts know nothing of each other: the driver carries questions and answers beside segments, and tells what
//! happens below.

use std::io::ErrorKind;

use anywire_stack::ip::Event;
use anywire_stack::stream::ListenOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hosts::{self, Network, address};

#[test]
fn bytes_flow_once_addresses_are_ready() {
    hosts::run(async || {
        let network = Network::new();
        let (client, server) = (network.host_alone(1, address(1, 0)), network.host_alone(2, address(2, 0)));
        let early = server.listen(address(2, 80), ListenOptions::default());
        assert_eq!(early.map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::AddrNotAvailable));
        assert_eq!(server.next_event().await, Some(Event::AddressReady(address(2, 0).ip())));
        assert_eq!(client.next_event().await, Some(Event::AddressReady(address(1, 0).ip())));
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
        assert_eq!(first.next_event().await, Some(Event::AddressReady(address(9, 0).ip())));
        let second = network.host_alone(2, address(9, 0));
        let told = second.next_event().await;
        assert!(
            matches!(told, Some(Event::AddressInUse { address, .. }) if address == hosts::address(9, 0).ip())
        );
    });
}

#[test]
fn a_host_that_is_not_there_is_told() {
    hosts::run(async || {
        let network = Network::new();
        let client = network.host_alone(1, address(1, 0));
        client.next_event().await.expect("its address is ready");
        let nobody = address(77, 80);
        let (dialled, told) = tokio::join!(client.connect(nobody), client.next_event());
        assert_eq!(dialled.map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::HostUnreachable));
        assert_eq!(told, Some(Event::NeighbourUnreachable(nobody.ip())));
    });
}

#[test]
fn without_a_layer_there_are_no_events() {
    hosts::run(async || {
        let network = Network::new();
        let host = network.host(1);
        assert_eq!((host.next_event().await, host.layer_counters()), (None, None));
    });
}
