//! All bytes written to a stream are read at its other end, in order, whatever happens to the frames.

use std::time::Duration;

use crate::hosts::{CLIENT, Network, SERVER, address, bytes, echo, exchange, run};
use anywire_stack::impair::Impairment;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MEBIBYTE: usize = 1 << 20;

/// Sends a mebibyte to an echo and has it back, both directions at once.
fn echo_over(impairment: Impairment) {
    run(async || {
        let network = Network::new();
        let client = network.host_behind(CLIENT, impairment);
        let server = network.host_behind(SERVER, Impairment { seed: impairment.seed + 1, ..impairment });
        let mut listener = server.listen(address(SERVER, 80), Default::default()).expect("the port is free");
        let serving = tokio::task::spawn_local(async move {
            echo(listener.accept().await.expect("it has come")).await;
        });
        let stream = client.connect(address(SERVER, 80)).await.expect("somebody listens");
        let sent = bytes(impairment.seed as usize, MEBIBYTE);
        let back = exchange(stream, sent.clone()).await.expect("a connection that ends well");
        assert!(back == sent, "{} bytes of {} came back", back.len(), sent.len());
        serving.await.expect("no panic");
        println!("{impairment:?}: {:?}", client.with_engine(|engine| *engine.counters()));
    });
}

#[test]
fn over_a_good_network() {
    echo_over(Impairment::default());
}

#[test]
fn over_one_that_loses_frames() {
    for seed in 0..4 {
        echo_over(Impairment { loss: 0.01, seed, delay: Duration::from_millis(2), ..Impairment::default() });
    }
}

#[test]
fn over_one_that_does_everything_wrong() {
    for seed in 0..4 {
        echo_over(Impairment {
            loss: 0.01,
            duplicate: 0.01,
            reorder: 0.02,
            reorder_by: Duration::from_millis(5),
            corrupt: 0.005,
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(2),
            seed,
            ..Impairment::default()
        });
    }
}

#[test]
fn over_a_slow_line() {
    let rate_bits_per_second = Some(100_000_000);
    echo_over(Impairment {
        rate_bits_per_second,
        queue_frames: 100,
        delay: Duration::from_millis(10),
        ..Impairment::default()
    });
}

#[test]
fn many_streams_take_turns() {
    run(async || {
        let network = Network::new();
        let (client, server) = (network.host(CLIENT), network.host(SERVER));
        let mut listener = server.listen(address(SERVER, 80), Default::default()).expect("the port is free");
        tokio::task::spawn_local(async move {
            while let Ok(stream) = listener.accept().await {
                tokio::task::spawn_local(echo(stream));
            }
        });
        let tasks: Vec<_> = (0..500)
            .map(|number| {
                let client = client.clone();
                tokio::task::spawn_local(async move {
                    let stream = client.connect(address(SERVER, 80)).await.expect("somebody listens");
                    let sent = bytes(number, 10_000 + number);
                    assert!(exchange(stream, sent.clone()).await.expect("it ends well") == sent);
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(server.with_engine(|engine| *engine.counters()).accepted, 500);
        assert_eq!(server.with_engine(|engine| *engine.counters()).resets_sent, 0);
    });
}

#[test]
fn the_two_ends_of_a_conversation_take_turns() {
    run(async || {
        let (mut client, mut server) = crate::hosts::pair().await;
        let answering = tokio::task::spawn_local(async move {
            let mut question = [0; 64];
            while server.read_exact(&mut question).await.is_ok() {
                server.write_all(&question).await.expect("it is read");
            }
        });
        for round in 0..1000 {
            let question = bytes(round, 64);
            client.write_all(&question).await.expect("it is read");
            let mut answer = [0; 64];
            client.read_exact(&mut answer).await.expect("it is answered");
            assert_eq!(answer, question[..]);
        }
        drop(client);
        answering.await.expect("no panic");
    });
}

#[test]
fn vectored_writes_keep_their_order() {
    run(async || {
        let (mut client, mut server) = crate::hosts::pair().await;
        let all = bytes(0, 300_000);
        let expected = all.clone();
        let writing = tokio::task::spawn_local(async move {
            let mut at = 0;
            while at < all.len() {
                let (first, second) = all[at..].split_at((all.len() - at).min(1 + at % 700));
                let slices = [first, &[], second].map(std::io::IoSlice::new);
                assert!(client.is_write_vectored());
                at += client.write_vectored(&slices).await.expect("it is read");
            }
        });
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.expect("it ends well");
        assert!(read == expected);
        writing.await.expect("no panic");
    });
}
