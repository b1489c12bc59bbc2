//! A service of datagrams answers each on its loop, over UDP and Unix sockets, within its limits.
#![cfg(feature = "udp")]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use anywire_loops::Loops;
use anywire_server::udp::{
    Cut, Datagram, DatagramHandler, Later, PeerRate, Replies, Steering, UdpLimits, UdpOptions, UdpServer,
    UdpServerError, UdpServerHandle,
};

use crate::again;

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);

fn echo(datagram: &Datagram<'_>, replies: &mut Replies<'_>) {
    replies.send(datagram, datagram.data()).expect("there is room");
}

fn client(server: &UdpServerHandle) -> UdpSocket {
    let address = server.addresses()[0].socket_addr().expect("an IP address");
    let socket =
        UdpSocket::bind((if address.is_ipv4() { "127.0.0.1" } else { "::1" }, 0)).expect("a free port");
    socket.connect(address).expect("UDP needs no answer");
    socket.set_read_timeout(Some(HANG)).expect("a socket");
    socket
}

fn send(client: &UdpSocket, data: &[u8], times: usize) {
    for _ in 0..times {
        client.send(data).expect("over loopback");
    }
}

fn answer(socket: &UdpSocket) -> Vec<u8> {
    let mut answer = [0; 2048];
    let length = socket.recv(&mut answer).expect("an answer");
    answer[..length].to_vec()
}

#[track_caller]
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let hang = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < hang, "{what}: not so after a minute");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_deadline_of_the_end_may_be_endless() {
    let server = UdpServer::new(|| echo).listen("udp:127.0.0.1:0").loops(1).start().expect("a free port");
    let client = client(&server);
    send(&client, b"ab", 1);
    assert_eq!(answer(&client), b"ab");
    assert_eq!(server.shutdown(Duration::MAX).wait().counters.cut, 0);
}

#[test]
fn each_on_the_loop_of_its_flow() {
    let server = UdpServer::new(|| echo).listen("udp:127.0.0.1:0").listen("udp:[::1]:0").loops(2);
    let server = server.start().expect("free ports");
    let clients: Vec<_> = (0..64).map(|_| client(&server)).collect();
    for round in 0..3_u8 {
        clients.iter().for_each(|client| send(client, &[round; 10], 1));
        clients.iter().for_each(|client| assert_eq!(answer(client), [round; 10]));
    }
    let ended = server.shutdown(HANG).wait();
    let counters = ended.counters;
    assert_eq!((counters.datagrams, counters.bytes, counters.replies), (192, 1920, 192), "{counters:?}");
    assert!(ended.by_loop.iter().all(|one| one.datagrams > 0), "{ended:?}");
}

#[test]
fn over_a_unix_socket_a_peer_that_reads_nothing_holds_up_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let server = UdpServer::new(|| echo).listen(&format!("unixgram:{}", at("server").display())).loops(1);
    let server = server.start().expect("nobody is there");
    let [silent, busy] = ["silent", "busy"].map(|name| {
        // Not connected: the system then bounds what waits for each of them.
        let socket = UnixDatagram::bind(at(name)).expect("it is ours");
        socket.set_read_timeout(Some(HANG)).expect("a socket");
        socket
    });
    let sent = 1000;
    for _ in 0..sent {
        silent.send_to(b"lost", at("server")).expect("it waits for room");
    }
    busy.send_to(b"answered", at("server")).expect("it waits for room");
    let mut buffer = [0; 16];
    assert_eq!(busy.recv(&mut buffer).expect("an answer"), 8);
    let counters = server.shutdown(HANG).wait().counters;
    assert_eq!(counters.datagrams, sent + 1, "{counters:?}");
    assert_eq!(counters.replies + counters.replies_failed, sent + 1, "{counters:?}");
    assert!(counters.replies_failed > 0, "its queue is shorter: {counters:?}");
    assert!(!at("server").exists(), "the file goes with the service");
}

#[test]
fn a_connection_id_decides_on_the_loop() {
    let steering = Steering::Payload { offset: 0, width: 1 };
    let options = UdpOptions { steering, ..UdpOptions::default() };
    let server = UdpServer::new(|| echo).listen("udp:127.0.0.1:0").options(options).loops(2);
    let server = server.start().expect("a free port");
    let client = client(&server);
    for id in 0..64_u8 {
        client.send(&[id]).expect("over loopback");
        assert_eq!(answer(&client), [id]);
    }
    let by_loop = server.counters_by_loop();
    assert_eq!(by_loop.iter().map(|one| one.datagrams).collect::<Vec<_>>(), [32, 32]);
}

#[test]
fn a_peer_over_its_rate_is_not_handled() {
    let rate = PeerRate { datagrams_per_second: 1, burst: 5, ..PeerRate::default() };
    let limits = UdpLimits { peer_rate: Some(rate), ..UdpLimits::default() };
    let server = UdpServer::new(|| echo).listen("udp:127.0.0.1:0").limits(limits).loops(1);
    let server = server.start().expect("a free port");
    let client = client(&server);
    send(&client, b"much", 100);
    eventually("all are counted", || {
        let counters = server.counters();
        counters.datagrams + counters.over_rate == 100
    });
    let counters = server.counters();
    // More than the burst only as far as time passes.
    assert!(counters.datagrams >= 5 && counters.over_rate > 0, "{counters:?}");
    (0..5).for_each(|_| assert_eq!(answer(&client), b"much"));
}

/// Tells of cut datagrams and of the size of batches.
struct Telling(mpsc::Sender<Result<usize, Cut>>);

impl DatagramHandler for Telling {
    fn datagram(&mut self, _: &Datagram<'_>, _: &mut Replies<'_>) {
        unreachable!("the batch is handled whole");
    }

    fn batch(&mut self, datagrams: &mut dyn Iterator<Item = Datagram<'_>>, _: &mut Replies<'_>) {
        let _ = self.0.send(Ok(datagrams.map(|datagram| datagram.data().len()).sum()));
    }

    fn cut(&mut self, cut: Cut) {
        let _ = self.0.send(Err(cut));
    }
}

#[test]
fn a_datagram_over_the_limit_is_told_and_not_handled() {
    let (sender, told) = mpsc::channel();
    let options = UdpOptions { datagram_bytes_max: 8, ..UdpOptions::default() };
    let server = UdpServer::new(move || Telling(sender.clone())).options(options).loops(1);
    let server = server.listen("udp:127.0.0.1:0").start().expect("a free port");
    let client = client(&server);
    client.send(&[0; 9]).expect("over loopback");
    client.send(&[0; 8]).expect("over loopback");
    let (mut bytes, mut cuts) = (0, Vec::new());
    while bytes < 8 || cuts.is_empty() {
        match told.recv_timeout(HANG).expect("both are told") {
            Ok(more) => bytes += more,
            Err(cut) => cuts.push(cut),
        }
    }
    assert_eq!(server.shutdown(HANG).wait().counters.cut, 1);
    bytes += told.try_iter().filter_map(Result::ok).sum::<usize>();
    let peer = client.local_addr().expect("bound").into();
    assert_eq!((bytes, cuts), (8, vec![Cut { peer, limit_bytes: 8 }]));
}

#[test]
fn replies_that_cannot_leave_are_counted_and_harm_no_other() {
    let handler = || {
        |datagram: &Datagram<'_>, replies: &mut Replies<'_>| match datagram.data() {
            // More than all replies that may wait.
            b"huge" => assert!(replies.send(datagram, &vec![0; 2 << 20]).is_err()),
            // More than a datagram of UDP carries, which the system says when it is sent.
            b"large" => replies.send(datagram, &[0; 65_508]).expect("there is room"),
            _ => echo(datagram, replies),
        }
    };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").loops(1).start().expect("a free port");
    let client = client(&server);
    for data in [&b"first"[..], b"huge", b"large", b"last"] {
        client.send(data).expect("over loopback");
    }
    assert_eq!([answer(&client), answer(&client)], [b"first".to_vec(), b"last".to_vec()]);
    let ended = server.shutdown(HANG).wait().counters;
    assert_eq!((ended.datagrams, ended.replies), (4, 2), "{ended:?}");
    assert_eq!((ended.replies_dropped, ended.replies_failed, ended.panics), (1, 1, 0), "{ended:?}");
}

#[test]
fn replies_beyond_what_the_network_takes_are_counted() {
    const REPLIES: u64 = 20_000;
    let test = "datagrams_are_answered::replies_beyond_what_the_network_takes_are_counted";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, test);
    }
    if !again::slow_loopback("40mbit") {
        return;
    }
    let refused = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&refused);
    let handler = move || {
        let refused = Arc::clone(&seen);
        move |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            let full = (0..REPLIES).filter(|_| replies.send(datagram, &[7; 1000]).is_err()).count();
            refused.fetch_add(full, Ordering::Relaxed);
        }
    };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").loops(1).start().expect("a free port");
    let client = client(&server);
    send(&client, b"much, please", 1);
    assert_eq!(answer(&client), [7; 1000]);
    let ended = server.shutdown(HANG).wait().counters;
    let refused = refused.load(Ordering::Relaxed) as u64;
    assert!(refused > 0, "the line took all: {ended:?}");
    assert_eq!(ended.replies_dropped, refused, "{ended:?}");
    // All that was taken has left, though the send buffer was full on the way: 1 MiB waited for it.
    assert_eq!((ended.replies, ended.replies_failed), (REPLIES - refused, 0), "{ended:?}");
    assert!(ended.replies > 1000, "{ended:?}");
}

#[test]
fn a_slow_network_does_not_hold_up_the_end() {
    const REPLIES: u64 = 1000;
    let test = "datagrams_are_answered::a_slow_network_does_not_hold_up_the_end";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, test);
    }
    // At this rate the replies would take more than a minute.
    if !again::slow_loopback("100kbit") {
        return;
    }
    let handler = || {
        |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            (0..REPLIES).for_each(|_| replies.send(datagram, &[7; 1000]).expect("there is room"));
        }
    };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").loops(1).start().expect("a free port");
    let client = client(&server);
    send(&client, b"much, please", 1);
    assert_eq!(answer(&client), [7; 1000]);
    let ended = server.shutdown(Duration::ZERO).wait().counters;
    assert!((1..REPLIES).contains(&ended.replies) && ended.replies_failed == 0, "{ended:?}");
}

/// Panics again when it is dropped.
struct Unwilling;

impl Drop for Unwilling {
    fn drop(&mut self) {
        panic!("as the test wishes");
    }
}

#[test]
fn a_panic_costs_one_batch() {
    let handler = || {
        let unwilling = Unwilling;
        move |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            let _ = &unwilling;
            if datagram.data() == b"bad" {
                std::panic::panic_any(Unwilling);
            }
            echo(datagram, replies);
        }
    };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").loops(1).start().expect("a free port");
    let client = client(&server);
    client.send(b"bad").expect("over loopback");
    eventually("the panic is counted", || server.counters().panics == 1);
    client.send(b"good").expect("over loopback");
    assert_eq!(answer(&client), b"good");
    let ended = server.shutdown(HANG).wait();
    assert_eq!((ended.counters.panics, ended.counters.replies), (1, 1), "{ended:?}");
}

#[test]
fn what_has_arrived_is_answered_before_the_end() {
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let started = Arc::new(AtomicUsize::new(0));
    let of_handler = Arc::clone(&started);
    let server = UdpServer::new(move || {
        let (wait, started) = (Arc::clone(&wait), Arc::clone(&of_handler));
        move |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            if started.fetch_add(1, Ordering::SeqCst) == 0 {
                // The loop stands still meanwhile.
                let _ = wait.lock().expect("nobody else has it").recv_timeout(HANG);
            }
            echo(datagram, replies);
        }
    });
    let server = server.listen("udp:127.0.0.1:0").loops(1).start().expect("a free port");
    let client = client(&server);
    client.send(b"first").expect("over loopback");
    eventually("the handler has begun", || started.load(Ordering::SeqCst) == 1);
    send(&client, b"waiting", 200);
    let ending = server.shutdown(HANG);
    go_on.send(()).expect("the handler waits");
    assert_eq!(ending.wait().counters.replies, 201);
    assert_eq!(answer(&client), b"first");
    (0..200).for_each(|_| assert_eq!(answer(&client), b"waiting"));
    let refused = client.send(b"late").and_then(|_| client.recv(&mut [0; 16]));
    assert_eq!(refused.expect_err("the socket is closed").kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn what_one_peer_has_sent_is_handled_though_it_has_left() {
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(Some(wait)));
    let started = Arc::new(AtomicUsize::new(0));
    let of_handler = Arc::clone(&started);
    let handler = move || {
        let (mut wait, started) = (wait.lock().expect("nobody else has it").take(), Arc::clone(&of_handler));
        move |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            started.fetch_add(1, Ordering::SeqCst);
            if let Some(wait) = wait.take() {
                let _ = wait.recv_timeout(HANG);
            }
            echo(datagram, replies);
        }
    };
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let only_peer = Some(peer.local_addr().expect("bound"));
    let options = UdpOptions { only_peer, offload: false, ..UdpOptions::default() };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").options(options).loops(1);
    let server = server.start().expect("a free port");
    peer.connect(server.addresses()[0].socket_addr().expect("an IP address")).expect("UDP needs no answer");
    send(&peer, b"first", 1);
    eventually("the handler has begun", || started.load(Ordering::SeqCst) == 1);
    // More than are taken before the end is looked at.
    send(&peer, b"waiting", 1500);
    drop(peer);
    let ending = server.shutdown(HANG);
    go_on.send(()).expect("the handler waits");
    // Each answer is refused, and says so at the next call.
    let counters = ending.wait().counters;
    assert_eq!((counters.datagrams, counters.dropped_by_system), (1501, 0), "{counters:?}");
}

/// A service with so much to do that nothing is ever left to wait for: whatever it gets, it has sent to itself again. Counts how often.
fn flooded(loops: &Loops) -> (UdpServerHandle, Arc<AtomicUsize>) {
    let own = Arc::new(OnceLock::<SocketAddr>::new());
    let sent = Arc::new(AtomicUsize::new(0));
    let of_handler = (Arc::clone(&own), Arc::clone(&sent));
    let handler = move || {
        let (own, sent) = of_handler.clone();
        // What comes from its own address it would not hear.
        let other = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        move |datagram: &Datagram<'_>, _: &mut Replies<'_>| {
            let own = own.get().expect("it is known before the first one is sent");
            other.send_to(datagram.data(), own).expect("over loopback");
            sent.fetch_add(1, Ordering::Relaxed);
        }
    };
    let options = UdpOptions { offload: false, ..UdpOptions::default() };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").options(options).on(loops);
    let server = server.start().expect("a free port");
    own.set(server.addresses()[0].socket_addr().expect("an IP address")).expect("once");
    send(&client(&server), b"again", 500);
    eventually("it goes round", || server.counters().datagrams > 5000);
    (server, sent)
}

#[test]
fn a_flood_does_not_hold_up_the_end() {
    let loops = Loops::start(1).expect("a thread");
    let (server, sent) = flooded(&loops);
    let ending = server.shutdown(HANG);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(ending.wait().counters));
    let counters = told.recv_timeout(HANG).expect("it ends");
    let sent = sent.load(Ordering::Relaxed) as u64 + 500;
    assert_eq!(counters.dropped_by_system + counters.datagrams, sent, "{counters:?}");
    // If it is the loop that ends, the service hears of it, too.
    let (server, _) = flooded(&loops);
    let ended = loops.shutdown(HANG).expect("this thread is no loop");
    assert_eq!((ended.tasks_cut, ended.loops_stuck), (0, 0), "{:?}", server.counters());
}

#[test]
fn the_flows_of_a_loop_that_died_go_to_others() {
    for steering in [Steering::Flow, Steering::Payload { offset: 0, width: 1 }] {
        let loops = Loops::start(3).expect("threads");
        let options = UdpOptions { steering, ..UdpOptions::default() };
        let server = UdpServer::new(|| echo).listen("udp:127.0.0.1:0").options(options).on(&loops);
        let server = server.start().expect("a free port");
        let clients: Vec<_> = (0..64).map(|_| client(&server)).collect();
        let ask = || {
            for (number, client) in clients.iter().enumerate() {
                send(client, &[number as u8], 1);
                assert_eq!(answer(client), [number as u8]);
            }
        };
        ask();
        kill(&loops, 1);
        let dead = server.counters_by_loop()[1];
        assert!(dead.datagrams > 0, "{dead:?}");
        ask();
        assert_eq!(server.counters_by_loop()[1], dead);
        let ended = server.shutdown(HANG).wait();
        assert_eq!((ended.counters.datagrams, ended.by_loop[1]), (128, dead));
    }
}

#[test]
fn a_socket_that_is_alone_moves_if_its_loop_dies() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let by_name = UnixDatagram::bind(at("client")).expect("it is ours");
    by_name.set_read_timeout(Some(HANG)).expect("a socket");
    let by_ip = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    by_ip.set_read_timeout(Some(HANG)).expect("a socket");
    let only_peer = Some(by_ip.local_addr().expect("bound"));
    let file = format!("unixgram:{}", at("server").display());
    for address in [&file, "udp:127.0.0.1:0"] {
        let loops = Loops::start(3).expect("threads");
        let options = UdpOptions { only_peer, ..UdpOptions::default() };
        let server = UdpServer::new(|| echo).listen(address).options(options).on(&loops);
        let server = server.start().expect("nobody is there");
        let ask = || match server.addresses()[0].socket_addr() {
            Some(to) => {
                by_ip.send_to(b"ask", to).expect("it is received");
                answer(&by_ip)
            }
            None => {
                by_name.send_to(b"ask", at("server")).expect("it is received");
                let mut answer = vec![0; 16];
                let length = by_name.recv(&mut answer).expect("an answer");
                answer[..length].to_vec()
            }
        };
        for dead in 0..2 {
            assert_eq!(ask(), b"ask");
            kill(&loops, dead);
            assert_eq!(ask(), b"ask");
        }
        let ended = server.shutdown(HANG).wait();
        let datagrams: Vec<_> = ended.by_loop.iter().map(|one| one.datagrams).collect();
        assert_eq!(datagrams, [1, 2, 1], "{ended:?}");
        assert!(!at("server").exists(), "the file goes with the service");
    }
}

#[test]
fn a_service_starts_without_the_loops_that_died() {
    for steering in [Steering::Flow, Steering::Payload { offset: 0, width: 1 }] {
        let loops = Loops::start(3).expect("threads");
        kill(&loops, 1);
        let options = UdpOptions { steering, ..UdpOptions::default() };
        let start =
            || UdpServer::new(|| echo).listen("udp:127.0.0.1:0").options(options.clone()).on(&loops).start();
        let server = start().expect("two loops live");
        for number in 0..64 {
            let client = client(&server);
            send(&client, &[number], 1);
            assert_eq!(answer(&client), [number]);
        }
        let by_loop: Vec<_> = server.counters_by_loop().iter().map(|one| one.datagrams).collect();
        assert!(by_loop[0] > 0 && by_loop[1] == 0 && by_loop[2] > 0, "{by_loop:?}");
        drop(server);
        kill(&loops, 0);
        kill(&loops, 2);
        assert!(matches!(start(), Err(UdpServerError::Register(_))), "no loop lives");
    }
}

/// Has a loop die, and waits until nothing of it is left.
fn kill(loops: &Loops, index: usize) {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as the test wishes");
        }
    }
    let killed = loops.get(index);
    let killer = killed.spawn(|| async {
        // The runtime's own timer calls it.
        let mut sleep = std::pin::pin!(tokio::time::sleep(Duration::from_millis(1)));
        let panics = Waker::from(Arc::new(Panics));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
        std::future::pending::<()>().await;
    });
    killer.wait().expect_err("its loop dies");
    let thread = format!("/proc/self/task/{}", killed.thread_id());
    eventually("its thread has ended", || !std::path::Path::new(&thread).exists());
}

#[test]
fn later_replies_are_bounded_and_waited_for() {
    let (give, given) = mpsc::channel::<Result<(), String>>();
    let (release, held) = tokio::sync::watch::channel(false);
    let handler = move || {
        let (give, held) = (give.clone(), held.clone());
        move |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            let later: Result<Later, _> = replies.later(datagram);
            let _ = give.send(later.as_ref().map(drop).map_err(ToString::to_string));
            let Ok(later) = later else { return };
            let mut held = held.clone();
            drop(anywire_loops::spawn(async move {
                let _ = held.wait_for(|released| *released).await;
                later.send(b"later").await.expect("there is a way");
            }));
        }
    };
    let limits = UdpLimits { later_max: 2, ..UdpLimits::default() };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").limits(limits).loops(1);
    let server = server.start().expect("a free port");
    let client = client(&server);
    send(&client, b"ask", 3);
    let outcomes: Vec<_> = (0..3).map(|_| given.recv_timeout(HANG).expect("it is handled")).collect();
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok() && outcomes[2].is_err(), "{outcomes:?}");
    let ending = server.shutdown(HANG);
    release.send(true).expect("they wait");
    let counters = ending.wait().counters;
    assert_eq!((counters.replies, counters.later_refused), (2, 1), "{counters:?}");
    (0..2).for_each(|_| assert_eq!(answer(&client), b"later"));
}

#[test]
fn a_reply_that_never_comes_does_not_keep_the_address() {
    let (failed, failure) = mpsc::channel();
    let loops = Loops::start(1).expect("a thread");
    let handler = move || {
        let failed = failed.clone();
        move |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
            let (later, failed) = (replies.later(datagram).expect("there is room"), failed.clone());
            drop(anywire_loops::spawn(async move {
                // The service has ended by then.
                anywire_loops::stopping().await;
                let _ = failed.send(later.send(b"too late").await.map_err(|error| error.kind()));
            }));
        }
    };
    let server = UdpServer::new(handler).listen("udp:127.0.0.1:0").on(&loops).start().expect("a free port");
    let address = server.addresses()[0].clone();
    send(&client(&server), b"ask", 1);
    eventually("it is handled", || server.counters().datagrams == 1);
    let _ = server.shutdown(Duration::ZERO).wait();
    let again = UdpServer::new(|| echo).listen(&address).on(&loops).start().expect("it is free again");
    drop(again);
    loops.shutdown(HANG).expect("this thread is no loop");
    let told = failure.recv_timeout(HANG).expect("the task has ended");
    assert_eq!(told, Err(io::ErrorKind::NotConnected));
}

#[test]
fn a_mistake_stops_the_start() {
    let start = |address: Option<&str>| {
        let server = UdpServer::new(|| echo).loops(1);
        let server = address.into_iter().fold(server, UdpServer::listen);
        server.start().map(drop).expect_err("a mistake")
    };
    assert!(matches!(start(None), UdpServerError::NoAddress));
    assert!(matches!(start(Some("tcp:127.0.0.1:0")), UdpServerError::Address(_)));
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = format!("udp:{}", taken.local_addr().expect("bound"));
    assert!(matches!(start(Some(&address)), UdpServerError::Bind(_)));
}
