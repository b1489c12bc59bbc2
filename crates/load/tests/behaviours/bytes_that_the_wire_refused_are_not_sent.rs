//! A request counts its bytes as the wire takes them, and not when it is begun.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use anywire_http::Headers;
use anywire_load::{Amount, Handles, Plan, Protocol, start};
use anywire_loops::Loops;
use anywire_wire::{Address, ListenOptions, Listener};

#[test]
fn a_peer_that_does_not_read_gets_what_its_buffer_holds() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let loops = Loops::start(1).unwrap();
        let address: Address = format!("memory:does-not-read-{}", protocol.depth_name()).parse().unwrap();
        let listener = Listener::bind(address.clone(), &ListenOptions::default(), &loops).unwrap();
        let (tell, told) = mpsc::channel();
        let _listener = listener.serve(move |mut connection| {
            let tell = tell.clone();
            anywire_loops::spawn(async move {
                connection.read(&mut [0]).await.unwrap();
                tell.send(()).unwrap();
                pending::<()>().await;
            });
        });
        let mut headers = Headers::new();
        headers.insert("x-filler", "y".repeat(FILLER_BYTES)).unwrap();
        let plan = Plan {
            via: Some(address),
            protocol,
            connections: 1,
            depth: DEPTH,
            headers,
            warm_up: Duration::ZERO,
            amount: Amount::Duration(Duration::from_secs(3600)),
            ..Plan::new("http://h/")
        };
        let handles = Handles::default();
        let stop = handles.stop.clone();
        let run = start(&loops, plan, handles).unwrap();
        // The first byte is here, so the wire was offered all requests.
        let _: () = told.recv().unwrap();
        stop.stop();
        let totals = run.wait().unwrap().totals;
        assert_eq!(totals.measured.sent, DEPTH as u64, "{protocol}");
        assert!(
            (1..FILLER_BYTES as u64 * DEPTH as u64 / 2).contains(&totals.bytes_out),
            "{protocol}: {totals:?}"
        );
    }
}

const DEPTH: usize = 50;
/// Fifty of these are 800 kB, far more than the wire holds.
const FILLER_BYTES: usize = 16_000;
