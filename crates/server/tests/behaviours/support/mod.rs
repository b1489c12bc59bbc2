//! What the behaviour tests share: a server on each wire, and a peer that writes raw bytes and reads answers.

#![allow(dead_code, reason = "each test file uses its own part of this")]

mod alike;
pub(crate) mod clock;
/// A wire with a handshake, which holds bytes back.
#[path = "../../../../wire/tests/behaviours/support/coat.rs"]
mod coat;
pub(crate) mod h2;
pub(crate) mod log;
mod peer;
pub(crate) mod remote;
pub(crate) mod tower;
/// A certificate for `localhost`.
#[cfg(feature = "tls")]
#[path = "../../../../wire/tests/behaviours/support/trial.rs"]
pub(crate) mod trial;

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anywire_http::h2::Limits as Http2Limits;
use anywire_server::{Counters, Limits, Router, Server, ServerHandle};
use anywire_wire::{Address, Wire};

pub(crate) use self::peer::{Answer, Peer};
pub(crate) use self::remote::Remote;

/// Far beyond what any test needs: only a hang gets there.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// Where a scene is played.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    address: Address,
}

/// Every wire of this build, and one with a coat.
fn wires() -> impl Iterator<Item = &'static dyn Wire> {
    anywire_wire::wires().chain([&coat::Coat as &dyn Wire])
}

/// Plays a scene on each wire, all at once: most of them wait.
pub(crate) fn on_each_wire(scene: impl Fn(&Scene) + Sync) {
    on_few_wires_at_a_time(usize::MAX, scene);
}

/// Plays a scene on each wire, on `count` wires at once. A scene of many parts needs that: on all wires at once, the parts would
/// wait for a processor for longer than their deadlines.
pub(crate) fn on_few_wires_at_a_time(count: usize, scene: impl Fn(&Scene) + Sync) {
    let all: Vec<_> = wires().collect();
    for some in all.chunks(count.min(all.len())) {
        std::thread::scope(|threads| {
            for wire in some {
                let address = wire.scratch().expect("every wire so far can make an address up");
                let scene = &scene;
                std::thread::Builder::new()
                    .name(wire.scheme().to_owned())
                    .spawn_scoped(threads, move || scene(&Scene { address }))
                    .expect("the system has threads left");
            }
        });
    }
}

impl Scene {
    /// On TCP alone, for what is about HTTP and has nothing to do with the wire.
    pub(crate) fn tcp() -> Self {
        Self { address: "tcp:127.0.0.1:0".parse().expect("an address") }
    }

    /// Where this text says.
    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.parse().expect("an address") }
    }

    /// The same wire, at an address of its own.
    pub(crate) fn elsewhere(&self) -> Self {
        let wire = wires().find(|wire| self.is(wire.scheme())).expect("a wire of the list");
        Self { address: wire.scratch().expect("every wire so far can make an address up") }
    }

    pub(crate) fn is(&self, scheme: &str) -> bool {
        self.address.scheme() == scheme
    }

    /// Whether a dial ends only after the server has taken the connection.
    pub(crate) fn has_handshake(&self) -> bool {
        self.is("coat") || self.is("shm") || self.address.scheme().starts_with("tls")
    }

    pub(crate) fn serve(&self, router: Router) -> Served {
        self.serve_with(router, Limits::default())
    }

    pub(crate) fn serve_with(&self, router: Router, limits: Limits) -> Served {
        self.serve_on(2, router, limits)
    }

    /// On so many loops: what one does says nothing of when another does it.
    pub(crate) fn serve_on(&self, loops: usize, router: Router, limits: Limits) -> Served {
        self.start(self.certified(Server::new(router).limits(limits).loops(loops)))
    }

    /// For one of many scenes with [`fivefold_faster`] limits on this wire: on one loop, at an address of its own, and after it has
    /// answered once. So these servers start one after another: the handshakes of all of them at the same time would last
    /// longer on a slow machine than a head may.
    pub(crate) fn serve_fivefold_faster(&self, router: Router) -> Served {
        let served = self.elsewhere().serve_on(1, router, fivefold_faster());
        served.assert_alive();
        served
    }

    /// With these certificates.
    #[cfg(feature = "tls")]
    pub(crate) fn serve_tls(&self, router: Router, tls: &anywire_wire::tls::ServerTls) -> Served {
        self.start(Server::new(router).loops(2).tls(tls))
    }

    /// A server that the test has set up, on one loop.
    pub(crate) fn serve_by(&self, server: Server) -> Served {
        self.start(self.certified(server.loops(1)))
    }

    /// With a certificate, in case the wire takes one.
    #[cfg_attr(not(feature = "tls"), expect(clippy::unused_self, reason = "there is no TLS"))]
    fn certified(&self, server: Server) -> Server {
        #[cfg(feature = "tls")]
        let server = server.tls(&trial::server());
        server
    }

    fn start(&self, server: Server) -> Served {
        let server = server.listen(&self.address);
        let running = server.start().expect("a free address and right routes");
        let address = running.addresses().next().expect("one address").clone();
        Served { running, address }
    }
}

/// A server that runs.
pub(crate) struct Served {
    pub(crate) running: ServerHandle,
    pub(crate) address: Address,
}

/// On TCP, as [`Scene::serve`].
pub(crate) fn serve(router: Router) -> Served {
    Scene::tcp().serve(router)
}

impl Served {
    pub(crate) fn connect(&self) -> Peer<Remote> {
        Peer::new(Remote::dial(&self.address))
    }

    /// A peer whose socket the test can look at.
    pub(crate) fn connect_tcp(&self) -> Peer<TcpStream> {
        let address: SocketAddr = self.address.location().parse().expect("host and port");
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(HANG)).expect("a TCP socket");
        Peer::new(stream)
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, request: &str) -> Answer {
        let mut peer = self.connect();
        peer.send(request);
        peer.answer(request.starts_with("HEAD"))
    }

    /// The server still answers others.
    pub(crate) fn assert_alive(&self) {
        let answer = self.ask("GET /alive HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(answer.status == 200 || answer.status == 404, "another connection got {answer:?}");
    }

    /// Waits for a count, which the server's loops write after what the peer sees.
    #[track_caller]
    pub(crate) fn await_count(&self, what: &str, count: impl Fn(&Counters) -> u64, expected: u64) {
        let hang = Instant::now() + HANG;
        loop {
            let counters = self.running.counters();
            if count(&counters) == expected {
                return;
            }
            assert!(Instant::now() < hang, "{what} is not {expected}: {counters:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A channel whose receiver fails instead of hanging.
pub(crate) fn channel<T>() -> (mpsc::Sender<T>, Told<T>) {
    let (sender, receiver) = mpsc::channel();
    (sender, Told(receiver))
}

pub(crate) struct Told<T>(mpsc::Receiver<T>);

impl<T> Told<T> {
    #[track_caller]
    pub(crate) fn next(&self) -> T {
        self.0.recv_timeout(HANG).expect("told in time")
    }

    /// What has been told and not taken.
    pub(crate) fn so_far(&self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

/// The default limits with everything that is a time five times shorter, in the same order, and rates to match.
pub(crate) fn fivefold_faster() -> Limits {
    let Limits {
        head,
        body_bytes,
        form_fields,
        json_depth,
        drain_bytes,
        body_in_flight_bytes,
        connections,
        head_timeout,
        idle_timeout,
        body_timeout,
        handler_timeout,
        interim_responses,
        write_timeout,
        min_bytes_per_second,
        min_rate_grace,
        half_close_timeout,
        linger_timeout,
        shutdown_grace,
        http2_shutdown_grace,
        http2,
    } = Limits::default();
    Limits {
        head,
        body_bytes,
        form_fields,
        json_depth,
        drain_bytes,
        body_in_flight_bytes,
        connections,
        head_timeout: head_timeout / 5,
        idle_timeout: idle_timeout / 5,
        body_timeout: body_timeout / 5,
        handler_timeout: handler_timeout / 5,
        interim_responses,
        write_timeout: write_timeout / 5,
        min_bytes_per_second: min_bytes_per_second * 5,
        min_rate_grace: min_rate_grace / 5,
        half_close_timeout: half_close_timeout / 5,
        linger_timeout: linger_timeout / 5,
        shutdown_grace: shutdown_grace / 5,
        http2_shutdown_grace: http2_shutdown_grace / 5,
        http2: Http2Limits {
            // As it is: a peer whose preface drips is late with its head before it is late with its settings, also on a busy machine.
            settings_deadline: http2.settings_deadline,
            ping_deadline: http2.ping_deadline / 5,
            ..http2
        },
    }
}
