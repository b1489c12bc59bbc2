//! Streams end as kernel sockets do: with the same errors, at the same moments, and no task is left waiting.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::Poll;
use std::time::Duration;

use crate::hosts::{CLIENT, Network, SERVER, address, bytes, pair, run};
use anywire_stack::impair::Impairment;
use anywire_stack::stream::ListenOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn half_close_leaves_the_other_direction_open() {
    run(async || {
        let (mut client, mut server) = pair().await;
        client.write_all(b"question").await.expect("an open connection");
        client.shutdown().await.expect("an open connection");
        let refused = client.write_all(b"more").await.expect_err("this direction has ended");
        assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
        let mut heard = String::new();
        server.read_to_string(&mut heard).await.expect("it ends well");
        assert_eq!(heard, "question");
        assert_eq!(server.read(&mut [0; 8]).await.expect("still the end"), 0);
        let answer = bytes(0, 500_000);
        let expected = answer.clone();
        tokio::task::spawn_local(async move { server.write_all(&answer).await.expect("it is read") });
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.expect("it ends well");
        assert!(heard == expected);
    });
}

/// Nothing else happens on the network that would wake the driver.
#[test]
fn a_half_closed_connection_that_is_dropped_is_given_up_in_time() {
    run(async || {
        let network = Network::new();
        let (client, server) = (network.host(CLIENT), network.host(SERVER));
        let mut listener = server.listen(address(SERVER, 80), ListenOptions::default()).expect("it is free");
        let mut calling = client.connect(address(SERVER, 80)).await.expect("it listens");
        let mut called = listener.accept().await.expect("somebody calls");
        calling.half_close().expect("an open connection");
        assert_eq!(called.read(&mut [0; 8]).await.expect("it ends well"), 0);
        // The FIN is acknowledged.
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(calling);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(client.with_engine(|engine| engine.connections()), 0, "FIN-WAIT-2 lasts for 60 s");
    });
}

#[test]
fn an_abort_is_a_reset_for_reader_and_writer() {
    run(async || {
        let (mut client, server) = pair().await;
        let reading = tokio::task::spawn_local(async move {
            let error = client.read(&mut [0; 8]).await.expect_err("a reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            let error = client.write_all(b"more").await.expect_err("it has been said");
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            let error = client.read(&mut [0; 8]).await.expect_err("nobody takes it for a good end");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
        let mut server = server;
        server.abort();
        drop(server);
        reading.await.expect("no panic");

        let (mut client, mut server) = pair().await;
        let writing = tokio::task::spawn_local(async move {
            let written = client.write_all(&bytes(0, 10 << 20)).await;
            assert_eq!(written.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
        });
        server.read_exact(&mut [0; 100]).await.expect("it is there");
        // Something is left unread.
        drop(server);
        writing.await.expect("no panic");
    });
}

#[test]
fn what_was_written_before_a_drop_arrives() {
    run(async || {
        let (mut client, mut server) = pair().await;
        client.write_all(&bytes(0, 200_000)).await.expect("the engine takes that much");
        drop(client);
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.expect("it ends well");
        assert!(heard == bytes(0, 200_000));
    });
}

#[test]
fn connections_end_with_their_process_though_streams_have_them() {
    run(async || {
        let network = Network::new();
        let (client, server) = (network.host(CLIENT), network.host(SERVER));
        let mut listener = server.listen(address(SERVER, 80), ListenOptions::default()).expect("it is free");
        let mut calling = client.connect(address(SERVER, 80)).await.expect("it listens");
        let mut called = listener.accept().await.expect("somebody calls");
        calling.write_all(b"last words").await.expect("an open connection");
        client.close_all();
        client.finish(Duration::ZERO, Duration::from_secs(1));
        let mut heard = String::new();
        called.read_to_string(&mut heard).await.expect("it ends well");
        assert_eq!(heard, "last words");
        assert_eq!(calling.read(&mut [0; 8]).await.expect("it has ended well"), 0);
        let refused = calling.write(b"more").await.expect_err("it is closed");
        assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn where_nobody_listens_it_is_refused_and_where_nobody_is_it_times_out() {
    run(async || {
        let network = Network::new();
        let (client, _server) = (network.host(CLIENT), network.host(SERVER));
        let refused = client.connect(address(SERVER, 80)).await.expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let lost = client.connect(address(9, 80)).await.expect_err("nobody is there");
        assert_eq!(lost.kind(), ErrorKind::TimedOut);
        let unknown = client.connect(([192, 0, 2, 1], 80).into()).await.expect_err("no route");
        assert_eq!(unknown.kind(), ErrorKind::NetworkUnreachable);
        let foreign = client.listen(address(SERVER, 80), ListenOptions::default()).expect_err("not its own");
        assert_eq!(foreign.kind(), ErrorKind::AddrNotAvailable);
    });
}

#[test]
fn a_peer_that_falls_silent_times_out() {
    run(async || {
        let network = Network::new();
        let (client, server) = (network.host(CLIENT), network.host_and_driver(SERVER, Impairment::default()));
        let (server, driver) = server;
        let driving = tokio::task::spawn_local(driver);
        let mut listener = server.listen(address(SERVER, 80), ListenOptions::default()).expect("free");
        let mut stream = client.connect(address(SERVER, 80)).await.expect("somebody listens");
        let mut accepted = listener.accept().await.expect("it has come");
        driving.abort();
        let gone = accepted.read(&mut [0; 1]).await.expect_err("nobody drives it");
        assert_eq!(gone.kind(), ErrorKind::ConnectionAborted);
        let gone = listener.accept().await.expect_err("nobody drives it");
        assert_eq!(gone.kind(), ErrorKind::ConnectionAborted);
        stream.write_all(b"anybody there?").await.expect("the engine takes it");
        let error = stream.read(&mut [0; 1]).await.expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn beyond_the_backlog_the_newest_wait_and_none_is_reset() {
    run(async || {
        let network = Network::new();
        let (client, server) = (network.host(CLIENT), network.host(SERVER));
        let options = ListenOptions { backlog: 3, ..ListenOptions::default() };
        let mut listener = server.listen(address(SERVER, 80), options).expect("the port is free");
        let overflows = || server.with_engine(|engine| engine.counters().listen_overflows);
        let calling: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                tokio::task::spawn_local(async move {
                    let mut stream = client.connect(address(SERVER, 80)).await.expect("it has its turn");
                    let mut heard = [0; 1];
                    stream.read_exact(&mut heard).await.expect("it is served");
                })
            })
            .collect();
        // As with listen(2), one more than the backlog has a place.
        while overflows() < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(server.with_engine(|engine| engine.counters().accepted), 4);
        for _ in 0..8 {
            let mut accepted = listener.accept().await.expect("each comes in the end");
            accepted.write_all(b"!").await.expect("it is read");
        }
        for call in calling {
            call.await.expect("it ends well");
        }
        assert_eq!(server.with_engine(|engine| engine.counters().resets_sent), 0);
        let mut waits = client.connect(address(SERVER, 80)).await.expect("there is room again");
        drop(listener);
        let error = waits.read(&mut [0; 1]).await.expect_err("it is turned away");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let refused = client.connect(address(SERVER, 80)).await.expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// Whoever has connected to a listener that closes at that moment hears a reset at once, whether it has something to say or waits.
#[test]
fn a_listener_that_closes_resets_the_handshakes_under_way() {
    for speaks in [true, false] {
        run(async || {
            let network = Network::new();
            // 20 ms each way, so that the end of the handshake is still under way.
            let slow = || Impairment { delay: Duration::from_millis(20), ..Impairment::default() };
            let (client, server) = (network.host_behind(CLIENT, slow()), network.host_behind(SERVER, slow()));
            let listener = server.listen(address(SERVER, 80), Default::default()).expect("the port is free");
            let dialling = tokio::task::spawn_local(async move {
                let mut stream = client.connect(address(SERVER, 80)).await.expect("the SYN-ACK has left");
                if speaks {
                    stream.write_all(b"hello").await.expect("it takes itself for open");
                }
                let reading = tokio::time::timeout(Duration::from_secs(1), async move {
                    stream.read(&mut [0; 1]).await.map_err(|error| error.kind())
                });
                reading.await.expect("it is told within a round trip")
            });
            while server.with_engine(|engine| engine.half_open()) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(listener);
            assert_eq!(dialling.await.expect("no panic"), Err(ErrorKind::ConnectionReset));
        });
    }
}

#[test]
fn the_driver_sleeps_while_nothing_happens_and_ends_with_its_net() {
    run(async || {
        let network = Network::new();
        let client = network.host(CLIENT);
        let (server, driver) = network.host_and_driver(SERVER, Impairment::default());
        let driving = tokio::task::spawn_local(driver);
        let mut listener = server.listen(address(SERVER, 80), ListenOptions::default()).expect("free");
        let mut stream = client.connect(address(SERVER, 80)).await.expect("somebody listens");
        let mut accepted = listener.accept().await.expect("it has come");
        stream.write_all(b"!").await.expect("it is read");
        accepted.readable().await;
        accepted.readable().await;
        assert_eq!(accepted.read(&mut [0; 8]).await.expect("waiting took nothing away"), 1);
        let is_idle = poll_fn(|cx| Poll::Ready(accepted.poll_readable(cx).is_pending())).await;
        assert!(is_idle);
        // The delayed ACK, and what looks whether it came.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (polls_before, idle) =
            (server.counters().polls + client.counters().polls, Duration::from_secs(3600));
        tokio::time::sleep(idle).await;
        let polls = server.counters().polls + client.counters().polls - polls_before;
        assert!(polls <= 4, "{polls} polls in an hour of nothing");

        drop((stream, listener));
        assert_eq!(accepted.read(&mut [0; 8]).await.expect("it ends well"), 0);
        drop(accepted);
        drop(server);
        driving.await.expect("it ends by itself");
    });
}
