//! Datagrams that were joined to leave in one call, and have to leave one by one, wait for room like any other.
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::udp::{Outgoing, Sent, Udp, UdpOptions};

/// More than an unread Unix socket takes (`net.unix.max_dgram_qlen`, and its send buffer).
const DATAGRAMS: usize = 20_000;
/// Far beyond what the test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);

#[test]
fn datagrams_that_are_not_joined_wait_for_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("app.sock");
    let reader = UnixDatagram::bind(&file).expect("it is ours");
    let address = format!("unixgram:{}", file.display());
    let loops = Loops::start(1).expect("a thread");
    let sending = loops.get(0).spawn(move || async move {
        let options = UdpOptions::default();
        // A socket that may send segments joins them; one of the other kind never takes them so.
        let joining = Udp::bind("udp:127.0.0.1:0", &options, 1).expect("a free port").remove(0);
        let mut outgoing = Outgoing::new(&joining.register().expect("it was bound"));
        for number in 0..DATAGRAMS {
            outgoing.push_to_peer(&(number as u32).to_le_bytes()).expect("there is room");
        }
        let socket = Udp::connect(&address, &options).await.expect("somebody receives there");
        let mut sent = Sent::default();
        assert!(!socket.try_flush(&mut outgoing, &mut sent), "it takes all at once: {sent:?}");
        assert!(sent.failed == 0 && sent.datagrams > 0, "{sent:?}");
        assert_eq!(outgoing.len(), DATAGRAMS - sent.datagrams as usize);
        let reading = std::thread::spawn(move || {
            reader.set_read_timeout(Some(HANG)).expect("an open socket");
            for number in 0..DATAGRAMS {
                let mut bytes = [0; 4];
                assert_eq!(reader.recv(&mut bytes).expect("it was sent"), 4);
                assert_eq!(u32::from_le_bytes(bytes), number as u32, "in order");
            }
        });
        let rest =
            tokio::time::timeout(HANG, socket.flush(&mut outgoing)).await.expect("there is room again");
        assert_eq!((sent.datagrams + rest.datagrams, rest.failed), (DATAGRAMS as u64, 0), "{rest:?}");
        reading.join().expect("all has arrived");
    });
    sending.wait().expect("no panic");
}
