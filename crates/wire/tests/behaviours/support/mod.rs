//! What the behaviour tests share: a scene with two ends that is played on each wire of the list, and listeners.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use anywire_loops::{LoopState, Loops};
use anywire_wire::{
    self as wire, Address, Connection, DialError, DialOptions, Dialer, ListenOptions, Listener,
    ListenerHandle, Wire,
};

/// A wire as users write them.
#[path = "../../../../anywire/examples/own_wire/pipe.rs"]
mod pipe;

/// A name server for tests.
#[cfg(feature = "dns")]
pub(crate) mod dns;
/// A resolver for tests.
#[allow(unreachable_pub, reason = "other crates include it")]
pub(crate) mod names;

/// A certificate for `localhost`.
#[cfg(feature = "tls")]
pub(crate) mod trial;

/// Far beyond what any test needs: only a hang gets there.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// Every wire of this build, and one as users write them.
pub(crate) fn wires() -> impl Iterator<Item = &'static dyn Wire> {
    wire::wires().chain([&pipe::Pipe as &dyn Wire])
}

/// A free address of each wire.
pub(crate) fn addresses() -> impl Iterator<Item = Address> {
    wires().map(|wire| {
        // Shown if the test fails.
        println!("on {}", wire.scheme());
        wire.scratch().expect("every wire so far can make an address up")
    })
}

/// The wires on which a dial is done before the listener accepts.
pub(crate) fn addresses_without_handshake() -> impl Iterator<Item = Address> {
    addresses().filter(|address| !has_tls(address) && address.scheme() != "shm")
}

/// Whether the wire speaks TLS.
pub(crate) fn has_tls(address: &Address) -> bool {
    address.scheme().starts_with("tls")
}

/// Whether a stream was cut: by a reset, or on a wire with TLS without `close_notify`.
pub(crate) fn is_cut(connection: &Connection, end: &Result<(), io::ErrorKind>) -> bool {
    match end {
        Err(io::ErrorKind::ConnectionReset) => true,
        Err(io::ErrorKind::UnexpectedEof) => has_tls(&connection.peer()),
        _ => false,
    }
}

/// How to listen on any wire: with a certificate if it needs one.
pub(crate) fn listening() -> ListenOptions {
    ListenOptions {
        #[cfg(feature = "tls")]
        tls: Some(trial::server()),
        ..ListenOptions::default()
    }
}

/// How to dial on any wire, with trust in that certificate.
pub(crate) fn dialling() -> DialOptions {
    DialOptions {
        #[cfg(feature = "tls")]
        tls: Some(trial::client()),
        #[cfg(feature = "tls")]
        server_name: Some("localhost".to_owned()),
        ..DialOptions::default()
    }
}

pub(crate) fn dialer() -> Dialer {
    Dialer::new(dialling())
}

/// Plays a scene on each wire: one part for the accepted end and one for the end that dialled, each on a loop of its
/// own. Ends when both have.
pub(crate) fn on_each_wire<A, D>(
    accepted: impl Fn(Connection) -> A + Clone + Send + 'static,
    dialled: impl Fn(Connection) -> D + Clone + Send + 'static,
) where
    A: Future<Output = ()> + 'static,
    D: Future<Output = ()> + 'static,
{
    for address in addresses() {
        play(&address, accepted.clone(), dialled.clone());
    }
}

/// Plays a scene at one address.
pub(crate) fn play<A, D>(
    address: &Address,
    accepted: impl Fn(Connection) -> A + Clone + Send + 'static,
    dialled: impl FnOnce(Connection) -> D + Send + 'static,
) where
    A: Future<Output = ()> + 'static,
    D: Future<Output = ()> + 'static,
{
    let (ended, ends) = mpsc::channel();
    let here = loops(1);
    let listening = bind(&here, address, &listening()).serve(move |connection| {
        let (report, part) = (Report(ended.clone()), accepted(connection));
        drop(anywire_loops::spawn(async move {
            part.await;
            drop(report);
        }));
    });
    let (address, there) = (listening.local().clone(), loops(1));
    let playing = there.get(0).spawn(move || async move {
        let part = async { dialled(dial(&address).await).await };
        tokio::time::timeout(HANG, part).await.expect("the end that dialled ends");
    });
    playing.wait().expect("no panic");
    // Its loop lives until the other end has ended. Bytes that outlive their loop have a test of their own.
    assert!(ends.recv_timeout(HANG).expect("the accepted end ends"), "the accepted end failed");
}

/// Dials a listener that serves already, and plays the part of the end that dialled.
pub(crate) fn play_on<D>(listening: &ListenerHandle, dialled: impl FnOnce(Connection) -> D + Send + 'static)
where
    D: Future<Output = ()> + 'static,
{
    let address = listening.local().clone();
    on_a_loop(move || async move { dialled(dial(&address).await).await });
}

/// Runs something on a loop of its own, and waits for it.
pub(crate) fn on_a_loop<F>(make: impl FnOnce() -> F + Send + 'static) -> F::Output
where
    F: Future + 'static,
    F::Output: Send + 'static,
{
    loops(1).get(0).spawn(make).wait().expect("no panic")
}

pub(crate) fn loops(count: usize) -> Loops {
    Loops::start(count).expect("the system has threads left")
}

pub(crate) fn bind(loops: &Loops, address: &Address, options: &ListenOptions) -> Listener {
    Listener::bind(address, options, loops).expect("nobody listens there")
}

/// Listens, and echoes on each connection in a task of its own.
pub(crate) fn serve_echo(loops: &Loops, address: &Address, options: &ListenOptions) -> ListenerHandle {
    bind(loops, address, options).serve(|connection| drop(anywire_loops::spawn(echo(connection))))
}

pub(crate) async fn echo(mut connection: Connection) {
    let mut buffer = [0; 4096];
    while let Ok(read) = connection.read(&mut buffer).await
        && read > 0
        && connection.write_all(&buffer[..read]).await.is_ok()
    {}
}

/// Dials on the present loop.
pub(crate) async fn dial(address: &Address) -> Connection {
    dialer().dial(address).await.expect("somebody listens there")
}

/// Dials on a loop of its own, and drops the connection if there is one.
pub(crate) fn try_dial(address: &Address) -> Result<(), DialError> {
    try_dial_with(dialer(), address)
}

pub(crate) fn try_dial_with(dialer: Dialer, address: &Address) -> Result<(), DialError> {
    let address = address.clone();
    on_a_loop(move || async move { dialer.dial(&address).await.map(drop) })
}

/// Reads to the end, or to the error that comes instead.
pub(crate) async fn read_to_end(connection: &mut Connection) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match connection.read(&mut buffer).await? {
            0 => return Ok(all),
            read => all.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Sends some bytes to an echo and has them back.
pub(crate) async fn ask_echo(connection: &mut Connection) {
    connection.write_all(b"echo").await.expect("the peer reads");
    let mut back = Vec::new();
    let mut buffer = [0; 16];
    while back.len() < 4 {
        let read = connection.read(&mut buffer).await.expect("the peer answers");
        assert_ne!(read, 0, "the peer answers");
        back.extend_from_slice(&buffer[..read]);
    }
    assert_eq!(back, b"echo");
}

/// An address where nobody listens. Its port is bound for as long as the process lives, so that nobody else gets it.
pub(crate) fn unused_tcp_address() -> std::net::SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    let address = socket.local_addr().expect("it is bound").as_socket().expect("an IP address");
    let _ = std::mem::ManuallyDrop::new(socket);
    address
}

/// Polls for a change on another thread that has no event to wait for.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let hang = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < hang, "{what}: not so after {HANG:?}");
        std::thread::yield_now();
    }
}

/// A waker of users' code that panics.
pub(crate) fn panicking_waker() -> Waker {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics, as the test wishes");
        }
    }
    Arc::new(Panics).into()
}

/// Has a loop die, and waits until nothing of it is left.
pub(crate) fn kill(loops: &Loops, index: usize) {
    let killed = loops.get(index);
    // The one way that is left: the runtime's own timer calls a waker that panics.
    let killer = killed.spawn(|| async {
        let mut sleep = std::pin::pin!(tokio::time::sleep(Duration::from_millis(1)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&panicking_waker())).is_pending());
        std::future::pending::<()>().await;
    });
    killer.wait().expect_err("its loop dies");
    let thread = format!("/proc/self/task/{}", killed.thread_id());
    eventually("its thread has ended", || !std::path::Path::new(&thread).exists());
    assert_eq!(killed.state(), LoopState::Died);
}

/// Tells how a part ended: whether without a panic.
struct Report(mpsc::Sender<bool>);

impl Drop for Report {
    fn drop(&mut self) {
        // Without a receiver the test has failed already.
        let _ = self.0.send(!std::thread::panicking());
    }
}

/// Has all of them ask an echo that has not been asked by them before, and says which one is answered first.
pub(crate) async fn first_answered(connections: &mut [Connection]) -> usize {
    for connection in connections.iter_mut() {
        connection.write_all(b"x").await.expect("the wire has room for a byte");
    }
    poll_fn(|cx| {
        for (index, connection) in connections.iter_mut().enumerate() {
            match connection.poll_readable(cx) {
                Poll::Ready(Ok(())) => return Poll::Ready(index),
                Poll::Ready(Err(error)) => panic!("connection {index}: {error}"),
                Poll::Pending => {}
            }
        }
        Poll::Pending
    })
    .await
}
