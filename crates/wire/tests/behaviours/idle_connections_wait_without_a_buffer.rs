//! A connection can be waited for without a buffer to read into; waiting takes nothing away.

use std::future::poll_fn;
use std::task::{Context, Poll};

use anywire_wire::Connection;

async fn now<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    poll_fn(|cx| Poll::Ready(poll(cx))).await
}

/// Looks as a connection does before it goes idle: a wire may be readable too early, but not after a read that found no
/// bytes.
async fn is_idle(connection: &mut Connection) -> bool {
    let early = now(|cx| connection.poll_readable(cx)).await.is_ready();
    (!early || now(|cx| connection.poll_read(cx, &mut [0; 1])).await.is_pending())
        && now(|cx| connection.poll_readable(cx)).await.is_pending()
}

#[test]
fn waiting_ends_with_bytes_and_with_the_end_and_takes_nothing() {
    crate::support::on_each_wire(
        async |mut accepted| {
            assert!(is_idle(&mut accepted).await, "nothing was sent yet");
            accepted.write_all(b"go").await.expect("the peer reads");
            accepted.readable().await.expect("the peer answers");
            accepted.readable().await.expect("and again: nothing was taken away");
            let mut buffer = [0; 16];
            let read = accepted.read(&mut buffer).await.expect("it is there");
            assert_eq!(&buffer[..read], b"gone");
            assert!(is_idle(&mut accepted).await, "it was all");
            accepted.write_all(b"end").await.expect("the peer reads");
            accepted.readable().await.expect("the peer ends");
            assert_eq!(accepted.read(&mut buffer).await.expect("an orderly end"), 0);
        },
        async |mut dialled| {
            dialled.readable().await.expect("the peer writes");
            let mut buffer = [0; 16];
            assert_eq!(dialled.read(&mut buffer).await.expect("it is there"), 2);
            assert!(is_idle(&mut dialled).await, "the peer waits for this one");
            dialled.write_all(b"gone").await.expect("the peer reads");
            dialled.readable().await.expect("the peer writes");
            assert_eq!(dialled.read(&mut buffer).await.expect("it is there"), 3);
        },
    );
}

#[test]
fn a_read_into_little_room_leaves_the_rest() {
    crate::support::on_each_wire(
        async |mut accepted| accepted.write_all(b"abc").await.expect("the peer reads"),
        async |mut dialled| {
            for expected in b"abc" {
                dialled.readable().await.expect("there is more");
                let mut one = [0; 1];
                assert_eq!(dialled.read(&mut one).await.expect("there is more"), 1);
                assert_eq!(one[0], *expected);
            }
            assert_eq!(dialled.read(&mut [0; 1]).await.expect("an orderly end"), 0);
        },
    );
}

#[test]
fn a_connection_is_a_few_words() {
    assert!(size_of::<Connection>() <= 32, "addresses and the like are asked for, not stored");
}
