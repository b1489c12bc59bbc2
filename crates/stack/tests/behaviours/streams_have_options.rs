//! The options of a stream, set while its driver sleeps: each holds from then on.

use std::io::ErrorKind;
use std::time::Duration;

use crate::hosts::{CLIENT, Network, SERVER, address, pair, run};
use anywire_stack::impair::Impairment;
use anywire_stack::stream::{ListenOptions, Stream};
use anywire_tcp::KeepAlive;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// A stream whose peer has vanished without a word, an hour ago; and that peer.
async fn left_alone() -> (Stream, impl Sized) {
    let network = Network::new();
    let client = network.host(CLIENT);
    let (server, driver) = network.host_and_driver(SERVER, Impairment::default());
    let driving = tokio::task::spawn_local(driver);
    let mut listener = server.listen(address(SERVER, 80), ListenOptions::default()).expect("free");
    let stream = client.connect(address(SERVER, 80)).await.expect("somebody listens");
    let accepted = listener.accept().await.expect("it has come");
    driving.abort();
    sleep(3600 * SECOND).await;
    // Dropped, it would send something after all.
    (stream, (server, listener, accepted))
}

#[test]
fn keep_alive_finds_out_that_the_peer_has_vanished() {
    run(async || {
        let ((mut stream, _peer), begun) = (left_alone().await, Instant::now());
        stream.set_keep_alive(Some(KeepAlive { idle: 3 * SECOND, interval: SECOND, probes: 2 }));
        let ended = timeout(1000 * SECOND, stream.read(&mut [0; 1])).await.expect("it ends");
        let error = ended.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() < 10 * SECOND, "{:?}", begun.elapsed());
        // Of a connection that has ended nothing is to be set.
        stream.set_keep_alive(Some(KeepAlive { idle: SECOND, interval: SECOND, probes: 1 }));
    });
}

#[test]
fn a_user_timeout_is_how_long_data_may_wait() {
    run(async || {
        for (longest, expected) in [(5 * SECOND, 5..20), (Duration::ZERO, 100..300)] {
            let (mut stream, _peer) = left_alone().await;
            stream.set_user_timeout(SECOND);
            stream.set_user_timeout(longest);
            let begun = Instant::now();
            stream.write_all(b"anybody there?").await.expect("the engine takes it");
            let ended = timeout(1000 * SECOND, stream.read(&mut [0; 1])).await.expect("it ends");
            let error = ended.expect_err("no answer");
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(expected.contains(&begun.elapsed().as_secs()), "{longest:?}: {:?}", begun.elapsed());
        }
    });
}

#[test]
fn nagle_keeps_a_small_segment_back_until_the_one_before_is_acknowledged() {
    run(async || {
        let (mut client, mut server) = pair().await;
        for (is_off, expected) in [(true, 0..5), (false, 20..100), (true, 0..5)] {
            // Beyond delayed ACKs of what came before.
            sleep(SECOND).await;
            client.set_no_nagle(is_off);
            client.write_all(b"a").await.expect("an open connection");
            sleep(Duration::from_millis(1)).await;
            let begun = Instant::now();
            client.write_all(b"b").await.expect("an open connection");
            let mut both = [0; 2];
            server.read_exact(&mut both).await.expect("they come");
            assert_eq!(&both, b"ab");
            assert!(expected.contains(&begun.elapsed().as_millis()), "{is_off}: {:?}", begun.elapsed());
        }
        // Switched off, what waits because of it leaves at once.
        sleep(SECOND).await;
        client.set_no_nagle(false);
        client.write_all(b"a").await.expect("an open connection");
        sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        client.write_all(b"b").await.expect("an open connection");
        client.set_no_nagle(true);
        server.read_exact(&mut [0; 2]).await.expect("they come");
        assert!(begun.elapsed() < Duration::from_millis(5), "{:?}", begun.elapsed());
    });
}

#[test]
fn packets_carry_the_diffserv_field() {
    run(async || {
        let network = Network::new();
        let ((client, written), server) = (network.host_written_down(CLIENT), network.host(SERVER));
        let mut listener = server.listen(address(SERVER, 80), ListenOptions::default()).expect("free");
        let mut stream = client.connect(address(SERVER, 80)).await.expect("somebody listens");
        let mut accepted = listener.accept().await.expect("it has come");
        stream.set_dscp(46);
        stream.write_all(b"hello").await.expect("an open connection");
        accepted.read_exact(&mut [0; 5]).await.expect("they come");
        let frames = written.frames();
        let dscp_of = |payload: &[u8]| {
            let frame = frames.iter().find(|frame| frame.ends_with(payload)).expect("it has left");
            frame[15] >> 2
        };
        assert_eq!(dscp_of(b"hello"), 46);
        assert_eq!(frames[0][15] >> 2, 0, "the SYN left before");
    });
}
