//! TLS is spoken around any connection that is there already, also around one with TLS, by both ends.

use std::io::ErrorKind;

use anywire_wire::Connection;
use anywire_wire::tls::TlsError;

use crate::support::{HANG, addresses, on_a_loop, play, trial};

fn protocols(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Both ends of TLS, around both ends of something.
async fn shake_hands(client: Connection, server: Connection, name: &str) -> (Connection, Connection) {
    let mut client = trial::client().around(client, name, &protocols(&["new", "old"])).expect("a name");
    let mut server = trial::server().around(server, &protocols(&["old"])).expect("a certificate");
    let (here, there) = tokio::join!(client.handshake(HANG), server.handshake(HANG));
    here.and(there).expect("both agree");
    (client, server)
}

/// Sends so many bytes one way and looks that they come, then the end.
async fn send(mut from: Connection, mut to: Connection, count: usize) {
    let bytes: Vec<_> = (0..count).map(|at| (at % 251) as u8).collect();
    let write = async {
        from.write_all(&bytes).await.expect("the other end reads");
        from.half_close().await.expect("the other end is there");
    };
    let read = async {
        let (mut read, mut buffer) = (Vec::new(), vec![0; 5000]);
        while let more @ 1.. = to.read(&mut buffer).await.expect("the stream is whole") {
            read.extend_from_slice(&buffer[..more]);
        }
        read
    };
    let ((), read) = tokio::join!(write, read);
    assert!(read == bytes, "{} of {count} bytes came, or others", read.len());
}

#[test]
fn a_stream_of_memory_is_secured_once_and_once_more() {
    on_a_loop(|| async {
        let (client, server) = Connection::pair();
        let (client, server) = shake_hands(client, server, "peer.example").await;
        assert_eq!((client.peer().scheme(), server.local().scheme()), ("tls+memory", "tls+memory"));
        let agreed = client.negotiated().expect("a handshake").clone();
        assert_eq!(agreed.protocol.as_deref(), Some("old"));
        // Within that one, as to an origin through a proxy that is spoken to over TLS.
        let (client, server) = shake_hands(client, server, "one.example").await;
        assert_eq!(client.peer().scheme(), "tls+memory", "no wire is TLS around TLS");
        let agreed = server.negotiated().expect("a handshake").clone();
        assert_eq!(agreed.server_name.as_deref(), Some("one.example"));
        send(client, server, 1 << 20).await;
    });
}

#[test]
fn every_wire_can_be_secured() {
    for address in addresses() {
        let accepted = |connection: Connection| async move {
            let mut connection = trial::server().around(connection, &[]).expect("a certificate");
            connection.handshake(HANG).await.expect("a client");
            connection.write_all(b"hello").await.expect("it reads");
            connection.half_close().await.expect("it is there");
            assert_eq!(connection.read(&mut [0]).await.expect("an end"), 0);
        };
        let dialled = |connection: Connection| async move {
            let mut connection = trial::client().around(connection, "localhost", &[]).expect("a name");
            connection.handshake(HANG).await.expect("a server");
            let mut buffer = [0; 16];
            assert_eq!(connection.read(&mut buffer).await.expect("a greeting"), 5);
            assert_eq!(connection.read(&mut buffer).await.expect("an end"), 0);
        };
        play(&address, accepted, dialled);
    }
}

#[test]
fn a_name_that_is_not_proved_is_refused() {
    on_a_loop(|| async {
        let (client, server) = Connection::pair();
        let mut client = trial::client().around(client, "elsewhere.example", &[]).expect("a name");
        let mut server = trial::server().around(server, &[]).expect("a certificate");
        let trying = async move { client.handshake(HANG).await };
        let (refused, _) = tokio::join!(trying, async move { server.handshake(HANG).await });
        let refused = refused.expect_err("another name");
        assert!(refused.to_string().contains("elsewhere.example"), "{refused}");

        let (client, _server) = Connection::pair();
        let wrong = trial::client().around(client, "no name", &[]);
        assert!(matches!(wrong, Err(TlsError::Name { .. })), "{wrong:?}");
    });
}

#[test]
fn a_silent_peer_is_given_up() {
    on_a_loop(|| async {
        let (client, _server) = Connection::pair();
        let mut client = trial::client().around(client, "peer.example", &[]).expect("a name");
        let error = client.handshake(std::time::Duration::ZERO).await.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}
