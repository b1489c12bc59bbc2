//! A peer reads everything and closes. Then a read finds what the peer said and an orderly end, a write finds an error,
//! and neither changes what the other one finds.

use std::io::ErrorKind;
use std::sync::Arc;

use anywire_wire::Connection;
use tokio::sync::Semaphore;

/// Writes until it hears that the reader is gone.
async fn write_until_it_fails(connection: &mut Connection) -> ErrorKind {
    loop {
        if let Err(error) = connection.write_all(b"more").await {
            return error.kind();
        }
        tokio::task::yield_now().await;
    }
}

/// Plays the part of who dialled on each wire, against a peer that says goodbye; it may wait until that one has closed.
fn against_one_who_leaves<D>(dialled: impl Fn(Connection, Arc<Semaphore>) -> D + Clone + Send + 'static)
where
    D: Future<Output = ()> + 'static,
{
    let has_closed = Arc::new(Semaphore::new(0));
    let closing = Arc::clone(&has_closed);
    crate::support::on_each_wire(
        move |mut accepted| {
            let closing = Arc::clone(&closing);
            async move {
                accepted.read(&mut [0; 1]).await.expect("the peer writes");
                accepted.write_all(b"goodbye").await.expect("the peer reads");
                drop(accepted);
                closing.add_permits(1);
            }
        },
        move |mut connection| {
            let (dialled, has_closed) = (dialled.clone(), Arc::clone(&has_closed));
            async move {
                connection.write_all(b"!").await.expect("the connection is open");
                dialled(connection, has_closed).await;
            }
        },
    );
}

#[test]
fn who_reads_on_reads_the_end_again() {
    against_one_who_leaves(async |mut connection, _| {
        for expected in [&b"goodbye"[..], b"", b""] {
            assert_eq!(crate::support::read_to_end(&mut connection).await.expect("an orderly end"), expected);
        }
    });
}

#[test]
fn who_writes_first_reads_it_all_the_same() {
    against_one_who_leaves(async |mut connection, has_closed| {
        has_closed.acquire().await.expect("it is never closed").forget();
        let failed = write_until_it_fails(&mut connection).await;
        assert!(matches!(failed, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{failed:?}");
        assert_eq!(write_until_it_fails(&mut connection).await, ErrorKind::BrokenPipe, "and from then on");
        for expected in [&b"goodbye"[..], b""] {
            assert_eq!(crate::support::read_to_end(&mut connection).await.expect("an orderly end"), expected);
        }
    });
}

#[test]
fn half_closing_then_ends_well_or_with_an_error_and_never_hangs() {
    against_one_who_leaves(async |mut connection, _| {
        assert_eq!(crate::support::read_to_end(&mut connection).await.expect("an orderly end"), b"goodbye");
        connection.half_close().await.expect("this direction is open still");
        let _ = connection.half_close().await;
        let failed = connection.write_all(b"more").await.expect_err("this direction has ended");
        assert_eq!(failed.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn who_waits_for_room_hears_of_it() {
    against_one_who_leaves(async |mut connection, _| {
        // More than any wire holds.
        let failed = connection.write_all(&vec![0; 16 << 20]).await.expect_err("nobody reads").kind();
        assert!(matches!(failed, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{failed:?}");
    });
}
