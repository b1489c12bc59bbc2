//! Datagrams of any size and content arrive whole, over IPv4, IPv6 and Unix sockets. Longer ones than the limit are marked as cut.
use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::udp::{DatagramAddress, Outgoing, Received, Udp, UdpOptions, is_too_large};

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);

/// An address of each kind; the directory lives as long as its socket file.
fn addresses() -> (tempfile::TempDir, Vec<DatagramAddress>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = [
        "udp:127.0.0.1:0".to_owned(),
        "udp:[::1]:0".to_owned(),
        format!("unixgram:{}/echo.sock", folder.path().display()),
        format!("unixgram:@anywire-test-{}", folder.path().display()),
    ];
    (folder, texts.iter().map(|text| text.parse().expect(text)).collect())
}

/// Sends datagrams to an echo, one at a time, and gives each answer: its bytes, and whether they were cut.
fn echoed(
    address: &DatagramAddress,
    limit: usize,
    datagrams: Vec<Vec<u8>>,
) -> io::Result<Vec<(Vec<u8>, bool)>> {
    let loops = Loops::start(1).expect("a thread");
    let server = Udp::bind(address, &UdpOptions::default(), 1).expect("a free address").remove(0);
    let address = server.local().clone();
    let echo = loops.get(0).spawn(move || async move {
        let server = server.register().expect("it was bound");
        let (mut received, mut replies) = (Received::new(&server), Outgoing::new(&server));
        loop {
            server.receive(&mut received).await.expect("an open socket");
            for datagram in received.iter() {
                let data = datagram.whole().expect("there is no limit here");
                replies.push(&datagram.peer, datagram.local_ip, data).expect("one at a time");
            }
            let sent = server.flush(&mut replies).await;
            assert_eq!(sent.failed, 0, "{sent:?}");
        }
    });
    let call = loops.get(0).spawn(move || async move {
        let options = UdpOptions { datagram_bytes_max: limit, ..UdpOptions::default() };
        let client = Udp::connect(&address, &options).await.expect("there is a way");
        let mut received = Received::new(&client);
        let mut answers = Vec::new();
        for datagram in datagrams {
            client.send(&datagram).await?;
            let arrived = tokio::time::timeout(HANG, client.receive(&mut received)).await;
            arrived.expect("an answer")?;
            assert_eq!(received.len(), 1, "one at a time");
            answers.extend(received.iter().map(|one| (one.data().to_vec(), one.is_cut())));
        }
        Ok(answers)
    });
    let answers = call.wait().expect("no panic");
    echo.abort();
    answers
}

/// The longest datagram that loopback takes in one piece: its MTU is 65,536 bytes, headers included.
fn longest(address: &DatagramAddress) -> usize {
    if address.to_string().contains("[::1]") { 65_488 } else { 65_507 }
}

fn contents(lengths: &[usize]) -> Vec<Vec<u8>> {
    lengths.iter().map(|&length| (0..length).map(|at| (at * 7 + length) as u8).collect()).collect()
}

#[test]
fn from_nothing_to_the_longest() {
    let (_folder, addresses) = addresses();
    for address in addresses {
        let longest = longest(&address);
        let sent = contents(&[0, 1, 2, 0, 508, 1472, 1473, 9000, longest - 1, longest]);
        let whole: Vec<_> = sent.iter().map(|data| (data.clone(), false)).collect();
        assert!(echoed(&address, 65_535, sent).expect("over this machine") == whole, "{address}");
    }
}

#[test]
fn what_is_over_the_limit_is_cut_and_said() {
    let (_folder, addresses) = addresses();
    for address in addresses {
        let sent = contents(&[99, 100, 101, longest(&address)]);
        let answers = echoed(&address, 100, sent).expect("over this machine");
        let found: Vec<_> = answers.iter().map(|(data, cut)| (data.len(), *cut)).collect();
        assert_eq!(found, [(99, false), (100, false), (100, true), (100, true)], "{address}");
    }
}

#[test]
fn a_unix_datagram_that_is_longer_than_any_of_udp_is_cut_and_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("app.sock");
    let options = UdpOptions { datagram_bytes_max: usize::MAX, ..UdpOptions::default() };
    let server =
        Udp::bind(&format!("unixgram:{}", file.display()), &options, 1).expect("it is ours").remove(0);
    let client = UnixDatagram::unbound().expect("the system has sockets");
    for length in [65_535, 65_536, 100_000] {
        client.send_to(&vec![7; length], &file).expect("it is bound");
    }
    let loops = Loops::start(1).expect("a thread");
    let found = loops.get(0).spawn(move || async move {
        let server = server.register().expect("it was bound");
        let mut received = Received::new(&server);
        assert!(server.try_receive(&mut received).expect("an open socket"));
        let found = received.iter().map(|one| one.whole().map(<[u8]>::len).map_err(|cut| cut.limit_bytes));
        found.collect::<Vec<_>>()
    });
    assert_eq!(found.wait().expect("no panic"), [Ok(65_535), Err(65_535), Err(65_535)]);
}

#[test]
fn what_the_way_does_not_take_is_refused_to_its_sender() {
    for address in ["udp:127.0.0.1:0", "udp:[::1]:0"] {
        let address: DatagramAddress = address.parse().expect("an address");
        let sent = contents(&[longest(&address) + 1]);
        let refused = echoed(&address, 65_535, sent).expect_err("it would have to be fragmented");
        assert!(is_too_large(&refused), "{refused}");
    }
}
