//! An aborted connection ends at once, and its peer does not take a message that was cut for a whole one.

use std::io::ErrorKind;

use anywire_wire::Connection;

/// Reads until the connection has ended, and says how.
async fn end_of(connection: &mut Connection) -> Result<(), ErrorKind> {
    crate::support::read_to_end(connection).await.map(drop).map_err(|error| error.kind())
}

/// Aborts once the peer is connected and has written. Of longer messages the rest stays unread.
async fn read_one_byte_and_abort(mut connection: Connection) {
    assert_eq!(connection.read(&mut [0; 1]).await.expect("the peer writes"), 1);
    connection.abort();
}

#[test]
fn on_every_wire_the_peer_that_is_not_heard_out_sees_a_reset() {
    crate::support::on_each_wire(read_one_byte_and_abort, async |mut dialled| {
        dialled.write_all(b"never read to its end").await.expect("the connection is open");
        let end = end_of(&mut dialled).await;
        assert!(crate::support::is_cut(&dialled, &end), "{end:?}");
    });
}

#[test]
fn what_follows_is_refused_and_nothing_hangs() {
    crate::support::on_each_wire(read_one_byte_and_abort, async |mut dialled| {
        dialled.write_all(b"!").await.expect("the connection is open");
        // A Unix socket has no reset to send; there the end comes alone.
        let end = end_of(&mut dialled).await;
        assert!(matches!(end, Ok(())) || crate::support::is_cut(&dialled, &end), "{end:?}");
        let written = dialled.write_all(&[0; 100_000]).await.map_err(|error| error.kind());
        assert!(matches!(written, Err(ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)), "{written:?}");
    });
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    crate::support::on_each_wire(read_one_byte_and_abort, async |mut dialled| {
        // More than any wire holds, so that this waits until the reader is gone.
        let written = dialled.write_all(&vec![0; 16 * 1024 * 1024]).await.map_err(|error| error.kind());
        assert!(matches!(written, Err(ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)), "{written:?}");
    });
}

#[test]
fn it_is_a_reset_even_if_all_was_read() {
    crate::support::on_each_wire(read_one_byte_and_abort, async |mut dialled| {
        dialled.write_all(b"!").await.expect("the connection is open");
        let end = end_of(&mut dialled).await;
        // A Unix socket has no reset to send.
        let is_unix = dialled.peer().scheme() == "unix";
        assert!(if is_unix { end.is_ok() } else { crate::support::is_cut(&dialled, &end) }, "{end:?}");
    });
}

#[test]
fn a_plain_close_is_no_reset() {
    crate::support::on_each_wire(
        async |mut accepted| accepted.write_all(b"goodbye").await.expect("the peer reads"),
        async |mut dialled| {
            assert_eq!(crate::support::read_to_end(&mut dialled).await.expect("an orderly end"), b"goodbye");
        },
    );
}
