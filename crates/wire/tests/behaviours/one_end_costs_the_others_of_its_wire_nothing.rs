//! On every wire, what happens to one end costs others nothing: a loop dies, a dial is given up, a waker panics.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use anywire_wire::{Address, ConnectionLimit, DialOptions, Dialer, ListenOptions};

/// More than there are loops, so that each of them has its turn.
const CONNECTIONS: usize = 6;

#[test]
fn every_connection_is_served_though_a_loop_has_died() {
    for wire in crate::support::wires() {
        for dead in 0..3 {
            let address = wire.scratch().expect("every wire so far can make an address up");
            println!("on {address}, without loop {dead}");
            let loops = crate::support::loops(3);
            let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
            let address = listening.local().clone();
            let ask = move |dialer: Dialer| {
                let address = address.clone();
                crate::support::on_a_loop(move || async move {
                    for _ in 0..CONNECTIONS {
                        let mut connection = dialer.dial(&address).await.expect("it is listened on");
                        crate::support::ask_echo(&mut connection).await;
                    }
                });
            };
            ask(crate::support::dialer());
            crate::support::kill(&loops, dead);
            ask(crate::support::dialer());
            // The end of the listener does not wait for the dead loop.
            listening.stop();
            let again = crate::support::serve_echo(&loops, listening.local(), &crate::support::listening());
            ask(crate::support::dialer());
            drop(again);
        }
    }
}

#[test]
fn the_loops_that_live_share_the_connections_of_a_dead_one() {
    for wire in crate::support::wires() {
        let address = wire.scratch().expect("every wire so far can make an address up");
        println!("on {address}");
        let loops = crate::support::loops(3);
        let served: Arc<[AtomicUsize; 3]> = Arc::default();
        let counts = Arc::clone(&served);
        let listening =
            crate::support::bind(&loops, &address, &crate::support::listening()).serve(move |connection| {
                let here = anywire_loops::current().expect("it is served on a loop").id().index();
                counts[here].fetch_add(1, Ordering::Relaxed);
                drop(anywire_loops::spawn(crate::support::echo(connection)));
            });
        crate::support::kill(&loops, 1);
        let address = listening.local().clone();
        crate::support::on_a_loop(move || async move {
            for _ in 0..64 {
                let mut connection = crate::support::dial(&address).await;
                crate::support::ask_echo(&mut connection).await;
            }
        });
        let served: Vec<_> = served.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!((served[1], served.iter().sum()), (0, 64), "on {}: {served:?}", wire.scheme());
        // The system spreads by chance on a wire that has a socket for each loop.
        let few = if matches!(wire.scheme(), "tcp" | "tls") { 8 } else { 32 };
        assert!(served[0] >= few && served[2] >= few, "on {}: {served:?}", wire.scheme());
    }
}

#[test]
fn the_peers_of_a_loop_that_died_hear_of_it() {
    for address in crate::support::addresses() {
        let serving = crate::support::loops(1);
        let listening =
            crate::support::bind(&serving, &address, &crate::support::listening()).serve(|mut connection| {
                drop(anywire_loops::spawn(async move {
                    connection.read(&mut [0; 1]).await.expect("the peer writes");
                    connection.write_all(b"!").await.expect("the peer reads");
                    std::future::pending::<()>().await;
                    drop(connection);
                }));
            });
        let address = listening.local().clone();
        let here = crate::support::loops(1);
        let (tell, told) = mpsc::channel();
        let peers: Vec<_> = [false, true]
            .map(|writes| {
                let (address, tell) = (address.clone(), tell.clone());
                here.get(0).spawn(move || async move {
                    let mut connection = crate::support::dial(&address).await;
                    connection.write_all(b"?").await.expect("the peer reads");
                    connection.read(&mut [0; 1]).await.expect("it has been asked");
                    tell.send(()).expect("the test waits");
                    if writes {
                        // More than any wire holds.
                        connection.write_all(&vec![0; 16 << 20]).await.expect_err("nobody reads it");
                    } else {
                        // As if each task had been dropped: an end, or on a wire with TLS a cut.
                        let _ = crate::support::read_to_end(&mut connection).await;
                    }
                })
            })
            .into();
        for _ in &peers {
            told.recv_timeout(crate::support::HANG).expect("it is served");
        }
        crate::support::kill(&serving, 0);
        peers.into_iter().for_each(|peer| peer.wait().expect("no panic"));
    }
}

/// It was accepted by the loop that has died, and belonged to no loop yet. Over TCP and a stack it belongs to one from the start.
#[test]
fn a_connection_that_waits_for_its_turn_is_served_though_a_loop_has_died() {
    let belongs_to_none = |address: &Address| !matches!(address.scheme(), "tcp" | "stack");
    for address in crate::support::addresses_without_handshake().filter(belongs_to_none) {
        let (loops, dialling) = (crate::support::loops(2), crate::support::loops(1));
        let listening = crate::support::bind(&loops, &address, &crate::support::listening())
            .limited_by(&ConnectionLimit::new(2))
            .serve(|connection| drop(anywire_loops::spawn(crate::support::echo(connection))));
        let address = listening.local().clone();
        let (open, opened) = mpsc::channel();
        let asking = dialling.get(0).spawn(move || async move {
            let mut first = crate::support::dial(&address).await;
            crate::support::ask_echo(&mut first).await;
            let mut second = crate::support::dial(&address).await;
            crate::support::ask_echo(&mut second).await;
            let mut third = crate::support::dial(&address).await;
            open.send(()).expect("the test waits");
            crate::support::ask_echo(&mut third).await;
        });
        opened.recv_timeout(crate::support::HANG).expect("two are served");
        crate::support::eventually("the third one waits", || listening.limit().pauses() == 1);
        crate::support::kill(&loops, 0);
        asking.wait().unwrap_or_else(|_| panic!("on {}: the third one is not served", listening.local()));
    }
}

/// Listens with room for one connection that was not accepted.
fn narrow() -> ListenOptions {
    ListenOptions { backlog: 1, ..crate::support::listening() }
}

#[test]
fn dials_that_were_given_up_leave_nothing_behind() {
    /// As the memory of a task that its waker keeps.
    struct Memory(#[expect(dead_code, reason = "it is there to be counted")] Arc<()>);
    impl Wake for Memory {
        fn wake(self: Arc<Self>) {}
    }
    for address in crate::support::addresses() {
        // Bound and not served: only a few find room.
        let here = crate::support::loops(1);
        let listener = crate::support::bind(&here, &address, &narrow());
        let address = listener.local().clone();
        let left = crate::support::on_a_loop(move || async move {
            let (counted, dialer) = (Arc::new(()), crate::support::dialer());
            for _ in 0..100 {
                let waker = Waker::from(Arc::new(Memory(Arc::clone(&counted))));
                let _ = pin!(dialer.dial(&address)).poll(&mut Context::from_waker(&waker));
            }
            // Sockets are given back to the system when the loop has its next look at them.
            tokio::task::yield_now().await;
            Arc::strong_count(&counted) - 1
        });
        assert_eq!(left, 0, "wakers that are kept, on {}", listener.local());
        drop(listener);
    }
}

/// Addresses of the wires on which another end of this process wakes one, and no socket of the runtime.
fn addresses_within_the_process() -> impl Iterator<Item = Address> {
    crate::support::addresses().filter(|address| !address.reaches_other_processes())
}

/// A waker of users' code that says that it was called, and panics.
#[derive(Default)]
struct Panics(AtomicBool);

impl Panics {
    fn was_called(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
        panic!("a waker panics, as the test wishes");
    }
}

#[test]
fn a_waker_that_panics_costs_no_other_end_its_wake_up() {
    for waits_for_room in [false, true] {
        for address in addresses_within_the_process() {
            let serving = crate::support::loops(1);
            let listening = crate::support::serve_echo(&serving, &address, &crate::support::listening());
            crate::support::play_on(&listening, async move |mut hit| {
                let mut other = crate::support::dial(&hit.peer()).await;
                let panics = Arc::new(Panics::default());
                let waker = Waker::from(Arc::clone(&panics));
                let mut cx = Context::from_waker(&waker);
                if waits_for_room {
                    // The echo waits for room as well, because nobody reads what it sends.
                    while hit.poll_write(&mut cx, &[0; 65_536]).is_ready() {
                        // A task that has used up its budget is woken by the runtime.
                        tokio::task::yield_now().await;
                    }
                } else {
                    while hit.poll_read(&mut cx, &mut [0; 16]).is_ready() {
                        tokio::task::yield_now().await;
                    }
                    hit.write_all(b"echo").await.expect("the peer reads");
                }
                let mut ask = async || crate::support::ask_echo(&mut other).await;
                while !panics.was_called() {
                    if waits_for_room {
                        let _ = hit.poll_read(&mut Context::from_waker(Waker::noop()), &mut [0; 4096]);
                    }
                    ask().await;
                }
                ask().await;
            });
        }
    }
}

/// TLS around a wire makes no difference before a handshake.
#[test]
fn a_diallers_waker_that_panics_stops_no_listener() {
    for address in addresses_within_the_process().filter(|address| !crate::support::has_tls(address)) {
        let here = crate::support::loops(1);
        let listener = crate::support::bind(&here, &address, &narrow());
        let address = listener.local().clone();
        let (tell, told) = mpsc::channel();
        let there = crate::support::loops(1);
        let to = address.clone();
        let dialling = there.get(0).spawn(move || dial_with_a_waker_that_panics(to, tell));
        told.recv().expect("it waits for room");
        let listening =
            listener.serve(|connection| drop(anywire_loops::spawn(crate::support::echo(connection))));
        // On a wire with a list of tokio's, a dial that is given up may call the waker of the next one.
        let _ = dialling.wait();
        crate::support::on_a_loop(move || async move {
            for _ in 0..3 {
                crate::support::ask_echo(&mut crate::support::dial(&address).await).await;
            }
        });
        listening.stop();
    }
}

/// Dials until nobody has room. Keeps all of that until the waker of those who wait has been called.
async fn dial_with_a_waker_that_panics(address: Address, tell: mpsc::Sender<()>) {
    let panics = Arc::new(Panics::default());
    let waker = Waker::from(Arc::clone(&panics));
    // No timer may call the waker: that would end the loop.
    let dialer = Dialer::new(DialOptions { connect_timeout: Duration::MAX, ..crate::support::dialling() });
    let (mut connected, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let mut dialling = Box::pin(dialer.dial(&address));
        match dialling.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => connected.push(done.expect("somebody listens there")),
            Poll::Pending => waiting.push(dialling),
        }
    }
    assert!(!waiting.is_empty(), "there is room for one");
    tell.send(()).expect("the test waits");
    while !panics.was_called() {
        tokio::task::yield_now().await;
    }
}
