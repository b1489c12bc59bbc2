//! Messages keep their borders on every wire, whatever their sizes, and one that is too long or cut is an error.

use anywire_wire::Connection;
use anywire_wire::local::{Channel, Error, Limits};

const SIZES: [usize; 12] = [0, 1, 3, 4, 5, 100, 4091, 4092, 16_384, 65_535, 65_537, 1 << 20];

fn message(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 7 + size) as u8).collect()
}

/// A channel that sends its messages back.
async fn echo(connection: Connection) {
    let mut channel = Channel::new(connection);
    while let Some(message) = channel.receive().await.expect("whole messages") {
        let message = message.to_vec();
        channel.send(&message).await.expect("the peer reads");
    }
}

#[test]
fn of_every_size_on_every_wire() {
    crate::support::on_each_wire(echo, async |connection| {
        let mut channel = Channel::new(connection);
        for size in SIZES {
            channel.send(&message(size)).await.expect("the peer reads");
            let back = channel.receive().await.expect("whole messages").expect("an answer");
            assert!(back == message(size), "{size}");
        }
        channel.half_close().await.expect("an open connection");
        assert_eq!(channel.receive().await.expect("an orderly end"), None);
    });
}

#[test]
fn many_before_the_first_is_received() {
    crate::support::on_each_wire(
        async |connection| {
            let mut channel = Channel::new(connection);
            for size in 0..2000 {
                channel.send(&message(size)).await.expect("the peer reads");
            }
        },
        async |connection| {
            let mut channel = Channel::new(connection);
            for size in 0..2000 {
                let received = channel.receive().await.expect("whole messages").expect("one more");
                assert!(received == message(size), "{size}");
            }
            assert_eq!(channel.receive().await.expect("an orderly end"), None);
        },
    );
}

#[test]
fn too_long_is_refused_at_either_end() {
    crate::support::on_each_wire(
        async |connection| {
            let mut channel = Channel::new(connection).with_limits(Limits { message_bytes: 1000 });
            let error = channel.receive().await.expect_err("more than it takes");
            assert!(matches!(error, Error::PeerTooLong { bytes: 1001, max: 1000 }), "{error}");
        },
        async |connection| {
            let mut channel = Channel::new(connection).with_limits(Limits { message_bytes: 1001 });
            let error = channel.send(&[0; 1002]).await.expect_err("more than it may");
            assert!(matches!(error, Error::TooLong { bytes: 1002, max: 1001 }), "{error}");
            channel.send(&[0; 1001]).await.expect("nothing was sent, so that it goes on");
            // Until the peer has looked at it.
            let _ = channel.receive().await;
        },
    );
}

#[test]
fn an_end_within_a_message_is_told_apart() {
    for part in [&b"\x05"[..], b"\x05\0\0\0", b"\x05\0\0\0four"] {
        crate::support::on_each_wire(
            move |mut connection| async move {
                connection.write_all(part).await.expect("the peer reads");
            },
            async |connection| {
                let error = Channel::new(connection).receive().await.expect_err("it is not whole");
                assert!(matches!(error, Error::Cut), "{error}");
            },
        );
    }
}
