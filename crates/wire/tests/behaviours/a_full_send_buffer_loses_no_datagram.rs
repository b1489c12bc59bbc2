//! While the send buffer of a UDP socket is full, sending waits, and the other datagrams stay in the queue.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::udp::{Outgoing, Received, Sent, Udp, UdpOptions};

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);
/// 800 KB: more than a send buffer, and less than a queue holds.
const DATAGRAMS: usize = 800;
const DATAGRAM: [u8; 1000] = [7; 1000];

#[test]
fn a_full_send_buffer_loses_no_datagram() {
    if crate::again::is_inner() {
        if crate::again::slow_loopback("40mbit") {
            for offload in [false, true] {
                let loops = Loops::start(1).expect("a thread");
                let played = loops.get(0).spawn(move || tokio::time::timeout(HANG, fill(offload)));
                played.wait().expect("no panic").expect("it ends");
            }
        }
        return;
    }
    let test = "a_full_send_buffer_loses_no_datagram::a_full_send_buffer_loses_no_datagram";
    crate::again::passes_within(crate::again::OWN_NETWORK, test);
}

/// Sends faster than the line takes, in batches and one by one, and accounts for each datagram.
async fn fill(offload: bool) {
    let options = UdpOptions { offload, ..UdpOptions::default() };
    let server = Udp::bind("udp:127.0.0.1:0", &options, 1).expect("a free port").remove(0);
    let client = Udp::connect(server.local(), &options).await.expect("there is a way");
    let server = server.register().expect("it was bound");
    let mut outgoing = Outgoing::new(&client);
    for _ in 0..DATAGRAMS {
        outgoing.push_to_peer(&DATAGRAM).expect("there is room");
    }
    let mut sent = Sent::default();
    assert!(!client.try_flush(&mut outgoing, &mut sent), "the buffer holds all: {sent:?}");
    assert!(sent.datagrams > 0 && sent.failed == 0, "{sent:?}");
    assert_eq!(outgoing.len(), DATAGRAMS - sent.datagrams as usize, "the rest waits: {sent:?}");
    // A dropped flush does not tell what it has sent; the rest stays in the queue.
    {
        let mut given_up = pin!(client.flush(&mut outgoing));
        let polled = poll_fn(|cx| Poll::Ready(given_up.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "{polled:?}");
    }
    let waiting = outgoing.len() as u64;
    assert!(waiting > 0);
    let rest = client.flush(&mut outgoing).await;
    assert_eq!((rest.datagrams, rest.failed), (waiting, 0), "{rest:?}");
    assert!(outgoing.is_empty());
    for number in 0..DATAGRAMS {
        client.send(&DATAGRAM).await.unwrap_or_else(|error| panic!("datagram {number}: {error}"));
    }
    // The socket was not read so far: each datagram either arrives or is counted as dropped.
    let (mut received, mut arrived) = (Received::new(&server), 0);
    while arrived + server.drops().expect("the system counts") as usize != 2 * DATAGRAMS {
        while server.try_receive(&mut received).expect("an open socket") {
            arrived += received.len();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
