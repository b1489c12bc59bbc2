//! A request that is passed on names the version in which it came (RFC 9110 7.6.3), and has no deadline for the whole:
//! its caller waits for as long as the request's own peer does.

use std::time::Duration;

use crate::support::{OK, Peer, block_on, client, on_four_wires_at_a_time, wire};
use anywire_http::{Request, Version};

#[test]
fn what_is_forwarded_says_by_what_version() {
    on_four_wires_at_a_time(|wire| {
        let (report, heard) = std::sync::mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                let _ = report.send(request.head.headers().get("via").map(str::to_owned));
                // Longer than the client's deadline for a whole call.
                std::thread::sleep(Duration::from_millis(300));
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder.total_timeout(Duration::from_millis(1)));
        for (version, via) in [
            (Version::HTTP_10, "1.0 anywire"),
            (Version::HTTP_11, "1.1 anywire"),
            (Version::HTTP_2, "2 anywire"),
        ] {
            let mut request = Request::get("/");
            request.head.set_version(version);
            let call = client.forward(request, peer.url("/")).via(peer.via());
            assert_eq!(block_on(call.send()).expect("an answer").status(), 200);
            assert_eq!(heard.recv().expect("the peer heard it").as_deref(), Some(via));
        }
    });
}

#[test]
fn fields_of_this_connection_are_named_in_it() {
    let (report, heard) = std::sync::mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let field = |name| request.head.headers().get(name).unwrap_or_default().to_owned();
            let _ = report.send((field("te"), field("upgrade"), field("connection")));
            talk.say(OK);
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    let heard = |call: anywire_client::Call| {
        assert_eq!(block_on(call.via(peer.via()).send()).expect("an answer").status(), 200);
        heard.recv().expect("the peer heard it")
    };
    let seen = |te: &str, upgrade: &str, connection: &str| {
        (te.to_owned(), upgrade.to_owned(), connection.to_owned())
    };
    let get = |name: &str, value: &str| client.get(peer.url("/")).header(name, value);
    assert_eq!(heard(get("te", "trailers")), seen("trailers", "", "te"));
    assert_eq!(heard(get("upgrade", "h2c")), seen("", "h2c", "upgrade"));
    // As it came over HTTP/1, and over HTTP/2; the options of that connection are not those of this one.
    for connection in [Some("te, x-hop, upgrade"), None] {
        let mut request = Request::get("/").header("te", "trailers, deflate").header("x-hop", "1");
        if let Some(connection) = connection {
            request = request.header("connection", connection).header("upgrade", "h2c");
        }
        assert_eq!(heard(client.forward(request, peer.url("/"))), seen("trailers", "", "te"));
    }
    // Such calls leave the connection open for the next ones.
    assert_eq!(peer.accepted(), 1);
}
