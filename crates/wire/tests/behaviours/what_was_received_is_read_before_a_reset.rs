//! A peer may answer early and close, or break off. Its bytes are read first, and the reset behind them.

use std::io::ErrorKind;

use anywire_wire::Connection;

const ANSWER: &[u8] = b"HTTP/1.1 413 Content Too Large\r\n\r\n";

/// Reads a byte of what the peer sends, answers, and closes although there is more.
async fn answer_early(mut connection: Connection) {
    connection.read(&mut [0; 1]).await.expect("the peer writes");
    connection.write_all(ANSWER).await.expect("the wire has room");
}

/// Everything that was received, and how the connection ended.
async fn heard(connection: &mut Connection) -> (Vec<u8>, Result<(), ErrorKind>) {
    let mut all = Vec::new();
    let mut buffer = [0; 16];
    loop {
        match connection.read(&mut buffer).await {
            Ok(0) => return (all, Ok(())),
            Ok(read) => all.extend_from_slice(&buffer[..read]),
            Err(error) => return (all, Err(error.kind())),
        }
    }
}

/// Writes until it hears that the reader is gone.
async fn write_until_it_fails(connection: &mut Connection) -> ErrorKind {
    loop {
        if let Err(error) = connection.write_all(b"more").await {
            return error.kind();
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_early_answer_arrives_before_the_reset() {
    for _ in 0..10 {
        crate::support::on_each_wire(answer_early, async |mut dialled| {
            dialled.write_all(b"never read to its end").await.expect("the connection is open");
            dialled.readable().await.expect("the answer comes first");
            let (answer, end) = heard(&mut dialled).await;
            assert_eq!(answer, ANSWER);
            assert!(crate::support::is_cut(&dialled, &end), "{end:?}");
        });
    }
}

#[test]
fn an_early_answer_arrives_though_a_write_has_failed() {
    crate::support::on_each_wire(answer_early, async |mut dialled| {
        dialled.write_all(b"never read to its end").await.expect("the connection is open");
        let failed = write_until_it_fails(&mut dialled).await;
        assert!(matches!(failed, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{failed:?}");
        dialled.readable().await.expect("the answer comes first");
        let (answer, end) = heard(&mut dialled).await;
        assert_eq!(answer, ANSWER);
        assert!(crate::support::is_cut(&dialled, &end), "{end:?}");
        // A second read says the same: an end would make the part look whole.
        let end = heard(&mut dialled).await.1;
        assert!(crate::support::is_cut(&dialled, &end), "{end:?}");
    });
}

#[test]
fn what_was_said_before_an_abort_arrives() {
    crate::support::on_each_wire(
        async |mut accepted| {
            accepted.read(&mut [0; 1]).await.expect("the peer writes");
            accepted.write_all(b"last words").await.expect("the wire has room");
            accepted.abort();
        },
        async |mut dialled| {
            dialled.write_all(b"!").await.expect("the connection is open");
            let (words, end) = heard(&mut dialled).await;
            assert_eq!(words, b"last words");
            // A Unix socket has no reset to send if nothing was left unread; there the end comes alone.
            let is_unix = dialled.peer().scheme() == "unix";
            assert!(if is_unix { end.is_ok() } else { crate::support::is_cut(&dialled, &end) }, "{end:?}");
        },
    );
}

#[test]
fn an_end_before_the_reset_stays_an_end() {
    crate::support::on_each_wire(
        async |mut accepted| {
            accepted.read(&mut [0; 1]).await.expect("the peer writes");
            accepted.write_all(ANSWER).await.expect("the wire has room");
            accepted.half_close().await.expect("an open connection");
        },
        async |mut dialled| {
            dialled.write_all(b"never read to its end").await.expect("the connection is open");
            write_until_it_fails(&mut dialled).await;
            let (answer, end) = heard(&mut dialled).await;
            assert_eq!(answer, ANSWER);
            // The kernel keeps one end only of a Unix socket, and there it is the later one.
            let is_unix = dialled.peer().scheme() == "unix";
            assert_eq!(end, if is_unix { Err(ErrorKind::ConnectionReset) } else { Ok(()) });
        },
    );
}
