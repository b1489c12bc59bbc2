//! A response finds its request whatever its order; each call ends by its deadline, with an error that says why.
#![cfg(feature = "udp")]

use std::future::poll_fn;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::task::Poll;
use std::time::Duration;

use anywire_client::udp::{Matching, UdpCallError, UdpClient, UdpClientOptions, UdpOptions};
use anywire_loops::{Loops, spawn};

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);
const ID: Matching = Matching::Field { offset: 0, width: 1 };

/// A peer on a thread, which plays its part with a socket.
fn peer(play: impl FnOnce(UdpSocket) + Send + 'static) -> std::net::SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(HANG)).expect("a socket");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || play(socket));
    address
}

fn patient() -> UdpClientOptions {
    UdpClientOptions { timeout: HANG, ..UdpClientOptions::default() }
}

/// Runs something on a loop of its own.
fn on_loop<F>(make: impl FnOnce() -> F + Send + 'static) -> F::Output
where
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let limited = move || async move { tokio::time::timeout(2 * HANG, make()).await.expect("it ends") };
    Loops::start(1).expect("a thread").get(0).spawn(limited).wait().expect("no panic")
}

#[test]
fn a_call_may_wait_for_ever() {
    let address = peer(|socket| {
        let mut buffer = [0; 16];
        let (length, from) = socket.recv_from(&mut buffer).expect("a request");
        socket.send_to(&buffer[..length], from).expect("over loopback");
    });
    on_loop(move || async move {
        let options = UdpClientOptions { timeout: Duration::MAX, ..UdpClientOptions::default() };
        let client = UdpClient::connect(address, ID, options).await.expect("there is a way");
        assert_eq!(client.call(b"ab").await.expect("an answer"), b"ab");
    });
}

#[test]
fn responses_in_any_order() {
    let address = peer(|socket| {
        let mut requests = Vec::new();
        for _ in 0..100 {
            let mut buffer = [0; 16];
            let (length, from) = socket.recv_from(&mut buffer).expect("a request");
            requests.push((buffer[..length].to_vec(), from));
        }
        // The last one first, and a stranger's between them.
        for (request, from) in requests.iter().rev() {
            socket.send_to(request, from).expect("over loopback");
            socket.send_to(&[], from).expect("over loopback");
        }
    });
    on_loop(move || async move {
        let client = UdpClient::connect(address, ID, patient()).await.expect("there is a way");
        let calls: Vec<_> = (0..100_u8)
            .map(|id| {
                let client = client.clone();
                spawn(async move { client.call(&[id, id ^ 0xff]).await })
            })
            .collect();
        for (id, call) in (0..100_u8).zip(calls) {
            assert_eq!(call.await.expect("no panic").expect("a response"), [id, id ^ 0xff]);
        }
        let counters = client.counters();
        assert_eq!((counters.sent, counters.matched), (100, 100), "{counters:?}");
        while client.counters().unmatched < 100 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_call_that_ends_takes_no_later_one_with_its_tag_away() {
    let address = peer(|socket| {
        let mut buffer = [0; 16];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..length], from).expect("over loopback");
        }
    });
    on_loop(move || async move {
        let client = UdpClient::connect(address, ID, patient()).await.expect("there is a way");
        let [mut first, mut second] =
            [&b"1 first"[..], b"1 second"].map(|request| Box::pin(client.call(request)));
        assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
        // Its response is there, and it has not looked yet.
        while client.counters().matched == 0 {
            tokio::task::yield_now().await;
        }
        assert!(poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await);
        assert_eq!(first.await.expect("a response"), b"1 first");
        assert_eq!(second.await.expect("a response"), b"1 second");
    });
}

#[test]
fn no_response_is_said_in_time_and_a_lost_request_is_sent_again() {
    let address = peer(|socket| {
        let mut buffer = [0; 16];
        for attempt in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            // The first two are lost on their way.
            if attempt >= 2 {
                socket.send_to(&buffer[..length], from).expect("over loopback");
            }
        }
    });
    on_loop(move || async move {
        let timeout = Duration::from_millis(100);
        let once = UdpClientOptions { timeout, ..UdpClientOptions::default() };
        let client = UdpClient::connect(address, ID, once.clone()).await.expect("there is a way");
        let failed = client.call(b"1").await.expect_err("it was lost");
        assert!(failed.is_timeout() && failed.may_have_been_processed(), "{failed}");
        let often = UdpClientOptions { attempts: 600, ..once };
        let client = UdpClient::connect(address, ID, often).await.expect("there is a way");
        assert_eq!(client.call(b"2").await.expect("it comes through"), b"2");
        assert!(client.counters().timeouts >= 1);
    });
}

#[test]
fn nobody_there_is_said_at_once() {
    let gone = UdpSocket::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    on_loop(move || async move {
        let client = UdpClient::connect(gone, ID, patient()).await.expect("nobody is asked");
        let failed = client.call(b"1").await.expect_err("nobody is there");
        assert!(matches!(failed, UdpCallError::Refused { .. }), "{failed}");
        assert!(!failed.may_have_been_processed());
    });
}

#[test]
fn a_peer_that_leaves_may_have_taken_requests_before() {
    let (leave, leaves) = std::sync::mpsc::channel::<()>();
    let (tell, taken) = tokio::sync::oneshot::channel();
    let address = peer(move |socket| {
        socket.recv_from(&mut [0; 16]).expect("a request");
        let _ = leaves.recv_timeout(HANG);
        drop(socket);
        let _ = tell.send(());
    });
    on_loop(move || async move {
        let client = UdpClient::connect(address, ID, patient()).await.expect("there is a way");
        let first = spawn({
            let client = client.clone();
            async move { client.call(b"1").await }
        });
        while client.counters().sent == 0 {
            tokio::task::yield_now().await;
        }
        leave.send(()).expect("it waits");
        taken.await.expect("it leaves");
        let second = client.call(b"2").await.expect_err("nobody is there any more");
        let first = first.await.expect("no panic").expect_err("it will not be answered");
        for failed in [first, second] {
            assert!(matches!(failed, UdpCallError::Refused { is_certain: false, .. }), "{failed:?}");
            assert!(failed.may_have_been_processed());
        }
    });
}

#[test]
fn a_lost_datagram_makes_refusals_uncertain_for_as_long_as_it_may_be_on_its_way() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    // Time flies past the limit of the other tests.
    let loops = Loops::start(1).expect("a thread");
    let played = loops.get(0).spawn(move || async move {
        let client =
            UdpClient::connect(address, ID, UdpClientOptions::default()).await.expect("there is a way");
        tokio::time::pause();
        assert!(client.call(b"1").await.expect_err("nobody answers").is_timeout());
        tokio::time::resume();
        drop(socket);
        for (id, certain) in [(b"2", false), (b"3", true), (b"4", true)] {
            let failed = client.call(id).await.expect_err("nobody is there");
            assert!(
                matches!(failed, UdpCallError::Refused { is_certain, .. } if is_certain == certain),
                "{failed:?}"
            );
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(300)).await;
            tokio::time::resume();
        }
    });
    played.wait().expect("no panic");
}

#[test]
fn a_call_without_room_to_send_ends_by_its_deadline() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("service");
    // It reads nothing, so the system soon has no room for more.
    let _service = UnixDatagram::bind(&path).expect("it is ours");
    let address = format!("unixgram:{}", path.display());
    on_loop(move || async move {
        let options = UdpClientOptions { timeout: Duration::from_millis(50), ..UdpClientOptions::default() };
        let wide = Matching::Field { offset: 0, width: 2 };
        let options = UdpClientOptions { calls_max: usize::MAX, ..options };
        let client = UdpClient::connect(&address, wide, options).await.expect("it is there");
        let calls: Vec<_> = (0..5000_u16)
            .map(|id| {
                let client = client.clone();
                spawn(async move { client.call(&id.to_be_bytes()).await })
            })
            .collect();
        for call in calls {
            let ended = tokio::time::timeout(HANG, call).await.expect("a call has a deadline");
            let failed = ended.expect("no panic").expect_err("it is not answered");
            assert!(failed.is_timeout(), "{failed}");
        }
        assert!(client.counters().sent < 5000, "there was room for all");
    });
}

#[test]
fn what_cannot_be_called_says_why() {
    let address = peer(|socket| {
        let mut buffer = [0; 16];
        let (_, from) = socket.recv_from(&mut buffer).expect("a request");
        socket.send_to(&[7; 100], from).expect("over loopback");
        // Until the test has ended the socket is open.
        while socket.recv_from(&mut buffer).is_ok() {}
    });
    on_loop(move || async move {
        let socket = UdpOptions { datagram_bytes_max: 99, ..UdpOptions::default() };
        let options = UdpClientOptions { calls_max: 2, socket, ..patient() };
        let client = UdpClient::connect(address, ID, options).await.expect("there is a way");
        assert!(matches!(client.call(&[7]).await, Err(UdpCallError::Cut(_))), "its response is too long");
        assert!(matches!(client.call(&[]).await, Err(UdpCallError::NoTag { bytes: 0 })));
        assert!(matches!(client.call(&[1; 65_508]).await, Err(UdpCallError::TooLarge { bytes: 65_508, .. })));
        let under_way: Vec<_> = [1, 2]
            .map(|id| {
                let client = client.clone();
                spawn(async move { client.call(&[id]).await })
            })
            .into();
        while client.counters().sent < 3 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(client.call(&[1]).await, Err(UdpCallError::TagInUse { tag: 1 })));
        assert!(matches!(client.call(&[3]).await, Err(UdpCallError::Full { under_way: 2 })));
        under_way.iter().for_each(|call| call.abort());
        while under_way.iter().any(|call| !call.is_finished()) {
            tokio::task::yield_now().await;
        }
        let timeout = Duration::from_millis(1);
        let outcome = tokio::time::timeout(timeout, client.call(&[1])).await;
        assert!(outcome.is_err(), "a call that was dropped has given its tag back: {outcome:?}");
    });
}

/// A service at an address of each kind, which answers one request and ends.
enum Service {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Service {
    fn start(address: &str) -> Self {
        match address.strip_prefix("unixgram:") {
            Some(path) => Self::Unix(UnixDatagram::bind(path).expect("nobody is there")),
            None => Self::Udp(UdpSocket::bind(&address["udp:".len()..]).expect("nobody is there")),
        }
    }

    fn answer_once(self) {
        let mut buffer = [0; 16];
        match self {
            Self::Udp(socket) => {
                let (length, from) = socket.recv_from(&mut buffer).expect("a request");
                socket.send_to(&buffer[..length], from).expect("over loopback");
            }
            Self::Unix(socket) => {
                let (length, from) = socket.recv_from(&mut buffer).expect("a request");
                socket.send_to_addr(&buffer[..length], &from).expect("it waits");
                let own = socket.local_addr().expect("it is bound");
                std::fs::remove_file(own.as_pathname().expect("a path")).expect("it is ours");
            }
        }
    }
}

#[test]
fn a_service_may_start_later_and_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // An address of this machine that no other test uses.
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    for address in
        [format!("udp:127.{high}.{low}.9:9009"), format!("unixgram:{}/app.sock", folder.path().display())]
    {
        on_loop(move || async move {
            let client = UdpClient::connect(&address, ID, patient()).await.expect("nobody need be there");
            for round in 0..3_u8 {
                let refused = client.call(&[round, b'?']).await.expect_err("nobody is there");
                assert!(matches!(refused, UdpCallError::Refused { .. }), "{address}: {refused}");
                let service = Service::start(&address);
                let answering = std::thread::spawn(|| service.answer_once());
                assert_eq!(client.call(&[round, b'!']).await.expect("an answer"), [round, b'!'], "{address}");
                answering.join().expect("no panic");
            }
        });
    }
}
