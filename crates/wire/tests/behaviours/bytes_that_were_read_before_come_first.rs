//! A connection that is given bytes back has them before those of its peer, and is otherwise the same.

use std::io::ErrorKind;
use std::pin::pin;
use std::task::{Context, Waker};

use anywire_wire::Connection;

use crate::support::{is_cut, on_a_loop, on_each_wire};

#[test]
fn they_are_read_in_order_and_in_pieces() {
    on_each_wire(
        |mut connection| async move {
            connection.write_all(b"rest").await.expect("it reads");
            connection.half_close().await.expect("it is there");
            assert_eq!(connection.read(&mut [0; 8]).await.expect("an answer"), 2);
        },
        |connection| async move {
            let (local, peer) = (connection.local(), connection.peer());
            let mut connection = connection.preceded_by(b"before ".to_vec());
            assert_eq!((connection.local(), connection.peer()), (local, peer));
            let (mut read, mut buffer) = (Vec::new(), [0; 3]);
            connection.readable().await.expect("bytes are there");
            while let more @ 1.. = connection.read(&mut buffer).await.expect("the stream is whole") {
                read.extend_from_slice(&buffer[..more]);
                // At its end it waits as a plain one does.
                connection.readable().await.expect("the peer is there");
            }
            assert_eq!(read, b"before rest");
            connection.write_all(b"ok").await.expect("the peer reads");
        },
    );
}

#[test]
fn behind_them_nothing_is_ready() {
    on_a_loop(|| async {
        let (here, _there) = Connection::pair();
        let mut here = here.preceded_by(b"x".to_vec());
        assert_eq!(here.read(&mut [0; 8]).await.expect("it was there"), 1);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(here.poll_readable(cx).is_pending() && here.poll_read(cx, &mut [0]).is_pending());
        assert!(pin!(here.readable()).poll(cx).is_pending());
    });
}

#[test]
fn if_nobody_reads_them_the_close_is_a_reset() {
    on_each_wire(
        |mut connection| async move {
            connection.write_all(b"x").await.expect("it reads");
            let mut end = connection.read(&mut [0]).await.map(drop).map_err(|error| error.kind());
            if connection.peer().scheme() == "unix" {
                // It has no resets.
                assert!(end.is_ok() || end == Err(ErrorKind::ConnectionReset), "{end:?}");
                end = Err(ErrorKind::ConnectionReset);
            }
            assert!(is_cut(&connection, &end) || connection.peer().scheme() == "tls+unix", "{end:?}");
        },
        |mut connection| async move {
            // A reset that overtakes the end of the handshake would leave nothing to be accepted.
            assert_eq!(connection.read(&mut [0; 8]).await.expect("it was accepted"), 1);
            drop(connection.preceded_by(b"unread".to_vec()));
        },
    );
}

#[cfg(feature = "tls")]
#[test]
fn tls_looks_at_them_first() {
    use crate::support::trial;
    use anywire_wire::tls::{ServerTls, ServerTlsOptions};

    let options = ServerTlsOptions {
        identities: vec![trial::identity()],
        takes_clear_text: true,
        ..ServerTlsOptions::default()
    };
    let server = ServerTls::new(options).expect("a certificate");
    on_each_wire(
        move |connection| {
            let server = server.clone();
            async move {
                // What is in the socket begins as TLS does, and what was read before does not.
                let connection = connection.preceded_by(b"GET".to_vec());
                let mut connection = server.around(connection, &[]).expect("a certificate");
                connection.handshake(crate::support::HANG).await.expect("clear text is taken");
                let (mut read, mut buffer) = (Vec::new(), [0; 8]);
                while let more @ 1.. = connection.read(&mut buffer).await.expect("the stream is whole") {
                    read.extend_from_slice(&buffer[..more]);
                }
                assert_eq!(read, b"GET\x16 /");
            }
        },
        |mut connection| async move {
            connection.write_all(b"\x16 /").await.expect("the peer reads");
            connection.half_close().await.expect("the peer is there");
            assert_eq!(connection.read(&mut [0]).await.expect("an end"), 0);
        },
    );
}
