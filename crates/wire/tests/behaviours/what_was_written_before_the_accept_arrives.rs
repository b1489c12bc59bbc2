//! A peer may connect, write and close before the server accepts. The server hears it all the same.

use std::sync::mpsc;

#[test]
fn what_was_written_before_the_accept_arrives() {
    for address in crate::support::addresses_without_handshake() {
        let (loops, peers) = (crate::support::loops(1), crate::support::loops(1));
        let listener = crate::support::bind(&loops, &address, &crate::support::listening());
        let address = listener.local().clone();
        let writing = peers.get(0).spawn(move || async move {
            for message in [&b"first"[..], b"second", b""] {
                let mut connection = crate::support::dial(&address).await;
                connection.write_all(message).await.expect("the wire has room");
            }
            let mut last = crate::support::dial(&address).await;
            last.write_all(b"last").await.expect("the wire has room");
            last.half_close().await.expect("an open connection");
        });
        writing.wait().expect("no panic");
        let (heard, hearing) = mpsc::channel();
        let listening = listener.serve(move |mut connection| {
            let heard = heard.clone();
            drop(anywire_loops::spawn(async move {
                let all = crate::support::read_to_end(&mut connection).await.expect("an orderly end");
                heard.send(String::from_utf8_lossy(&all).into_owned()).expect("the test waits");
            }));
        });
        let next = || hearing.recv_timeout(crate::support::HANG).expect("each of them is accepted");
        let mut all: Vec<_> = (0..4).map(|_| next()).collect();
        all.sort();
        assert_eq!(all, ["", "first", "last", "second"]);
        crate::support::eventually("nothing of them is left", || listening.limit().open() == 0);
    }
}
