//! The first byte, the connection and the handshake have latencies of their own, over each version and wire.

use anywire_load::Plan;
use anywire_loops::Loops;
use anywire_wire::Wire;

use crate::support::h2_server::{self, H2Server};
use crate::support::run;
use crate::support::server::{Manner, TestServer};

#[test]
fn each_connection_and_handshake_is_recorded_once() {
    for address in anywire_wire::wires().filter_map(Wire::scratch) {
        let (text, loops) = (address.to_string(), Loops::start(2).unwrap());
        let http1 = TestServer::start(&text, Manner::Answer);
        let one = run(&loops, Plan { connections: 3, ..http1.plan(60) }).unwrap();
        drop(http1);
        let http2 = H2Server::start(&text, h2_server::Manner::Answer);
        let two = run(&loops, Plan { connections: 3, ..http2.plan(60) }).unwrap();
        for outcome in [one, two] {
            let [connect, tls] = [&outcome.latency.connect, &outcome.latency.tls]
                .map(|column| column.as_ref().map(|column| column.count));
            assert_eq!((outcome.totals.connections.opened, connect), (3, Some(3)), "{address}");
            assert_eq!(tls, address.has_tls().then_some(3), "{address}");
            // Each response has a first byte, and without a rate nothing is late.
            let first_byte = outcome.latency.first_byte.expect("responses came");
            assert_eq!(first_byte.count, 60, "{address}");
            assert!(first_byte.max <= outcome.latency.send.expect("responses came").max, "{address}");
            assert_eq!((outcome.latency.intended, outcome.latency.lag), (None, None));
        }
    }
}

#[test]
fn the_first_byte_of_a_long_response_comes_before_its_last() {
    // Far more than one read takes.
    let body = "x".repeat(8 << 20);
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = TestServer::start("memory:first-byte", Manner::Bytes(Box::leak(response.into())));
    let outcome = run(&Loops::start(1).unwrap(), server.plan(4)).unwrap();
    let [first_byte, send] =
        [outcome.latency.first_byte, outcome.latency.send].map(|column| column.expect("responses came"));
    assert_eq!((first_byte.count, send.count), (4, 4));
    assert!(first_byte.min < send.min && first_byte.max < send.max, "{first_byte:?} {send:?}");
}
