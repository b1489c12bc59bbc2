//! A flow that begins on a line with a long queue stops to double its window when round trips grow (RFC 9406): it neither fills
//! the queue nor loses what would not fit.

use std::time::Duration;

use crate::hosts::{CLIENT, Network, SERVER, address, bytes, run};
use anywire_stack::impair::Impairment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn nothing_is_lost_to_the_queue() {
    run(async || {
        let network = Network::new();
        // 17 segments keep the line busy, 400 more find room in its queue, and the window would let 700 leave.
        let line = Impairment {
            rate_bits_per_second: Some(10_000_000),
            queue_frames: 400,
            delay: Duration::from_millis(10),
            ..Impairment::default()
        };
        let client = network.host_with_room(CLIENT, line, 1 << 20);
        let server =
            network.host_with_room(SERVER, Impairment { rate_bits_per_second: None, ..line }, 1 << 20);
        let mut listener = server.listen(address(SERVER, 80), Default::default()).expect("the port is free");
        let sent = bytes(0, 4 << 20);
        let expected = sent.clone();
        let reading = tokio::task::spawn_local(async move {
            let (mut stream, mut read) = (listener.accept().await.expect("it has come"), Vec::new());
            stream.read_to_end(&mut read).await.expect("it ends well");
            assert!(read == expected, "{} bytes", read.len());
        });
        let mut stream = client.connect(address(SERVER, 80)).await.expect("somebody listens");
        stream.write_all(&sent).await.expect("it is read");
        stream.shutdown().await.expect("it is read");
        reading.await.expect("no panic");
        let counters = client.with_engine(|engine| *engine.counters());
        assert_eq!(counters.retransmits, 0, "{counters:?}");
    });
}
