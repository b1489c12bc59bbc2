//! Bytes arrive whole and in order, with any sizes of writes and with a slow reader.

use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::LazyLock;

use anywire_wire::Connection;

/// More than the buffers of any wire hold, so that the writer has to wait for the reader.
const BYTES: usize = 8 * 1024 * 1024;

/// Made once, and compared in pieces: a byte at a time took most of the time of these tests.
static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| (0..BYTES).map(|at| (at % 251) as u8).collect());

async fn read_all(mut connection: Connection) {
    let mut buffer = vec![0; 10_007];
    let mut at = 0;
    loop {
        let read = connection.read(&mut buffer).await.expect("the peer is alive");
        if read == 0 {
            break;
        }
        assert!(ALL.get(at..at + read) == Some(&buffer[..read]), "near {at}");
        at += read;
    }
    assert_eq!(at, BYTES);
    connection.write_all(b"all").await.expect("the peer waits for it");
}

#[test]
fn in_single_writes() {
    crate::support::on_each_wire(read_all, async |mut connection| {
        connection.write_all(&ALL).await.expect("the peer reads");
        connection.half_close().await.expect("the peer is alive");
        assert_eq!(crate::support::read_to_end(&mut connection).await.expect("an answer"), b"all");
    });
}

#[test]
fn in_vectored_writes() {
    crate::support::on_each_wire(read_all, async |mut connection| {
        let mut at = 0;
        while at < BYTES {
            let rest = &ALL[at..];
            // One slice, nothing, and a large one.
            let (first, second) = rest.split_at(rest.len().min(1 + at % 1000));
            let slices = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)];
            at += poll_fn(|cx| connection.poll_write_vectored(cx, &slices)).await.expect("the peer reads");
        }
        connection.half_close().await.expect("the peer is alive");
        assert_eq!(crate::support::read_to_end(&mut connection).await.expect("an answer"), b"all");
    });
}

#[test]
fn through_the_traits_of_tokio() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    crate::support::on_each_wire(read_all, async |mut connection| {
        AsyncWriteExt::write_all(&mut connection, &ALL).await.expect("the peer reads");
        connection.shutdown().await.expect("the peer is alive");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("an answer");
        assert_eq!(answer, "all");
    });
}
