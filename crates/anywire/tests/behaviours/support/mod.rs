//! A server and a client of ours on each wire.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

/// A wire with a handshake, which holds bytes back.
#[path = "../../../../wire/tests/behaviours/support/coat.rs"]
mod coat;
pub mod paused;
/// A certificate for the servers.
#[cfg(feature = "tls")]
#[path = "../../../../wire/tests/behaviours/support/trial.rs"]
pub mod trial;
#[path = "../../../../client/tests/behaviours/support/waiting.rs"]
mod waiting;

use anywire::client::{Call, ClientBuilder};
use anywire::http::Method;
use anywire::loops::Loops;
use anywire::server::{Limits, ServerHandle};
use anywire::wire::{Address, ListenOptions, Wire, wires};
use anywire::{Client, Router, Server};

#[allow(unused_imports, reason = "each test uses a part of it")]
pub use self::waiting::{HANG, all, block_on, eventually, poll_once};

/// A wire of the list.
pub type AnyWire = &'static dyn Wire;

/// Plays a test on each wire of this build, and on one with a coat.
pub fn on_each_wire(test: impl Fn(AnyWire)) {
    for wire in wires().chain([&coat::Coat as AnyWire]) {
        // Shown if the test fails.
        println!("on {}", wire.scheme());
        test(wire);
    }
}

/// A wire whose handshake agrees on a protocol.
pub fn wire_with_handshake() -> AnyWire {
    &coat::Coat
}

/// A server, until it is dropped.
pub struct Served {
    pub running: ServerHandle,
    pub address: Address,
}

impl Served {
    pub fn start(wire: AnyWire, router: Router) -> Self {
        Self::start_with(wire, router, Limits::default(), &[])
    }

    /// With these limits, and protocols that it offers where the wire has a handshake.
    pub fn start_with(wire: AnyWire, router: Router, limits: Limits, protocols: &[&str]) -> Self {
        let address = wire.scratch().expect("every wire can make an address up");
        let protocols = protocols.iter().map(|&name| name.to_owned()).collect();
        let options = ListenOptions { protocols, ..ListenOptions::default() };
        let server = Server::new(router).limits(limits).loops(1).listen(&address).listen_options(options);
        #[cfg(feature = "tls")]
        let server = server.tls(&trial::server());
        let running = server.start().expect("a free address and right routes");
        let address = running.addresses().next().expect("one address").clone();
        Self { running, address }
    }

    pub fn get(&self, client: &Client, path: &str) -> Call {
        self.call(client, Method::GET, path)
    }

    pub fn post(&self, client: &Client, path: &str) -> Call {
        self.call(client, Method::POST, path)
    }

    pub fn call(&self, client: &Client, method: Method, path: &str) -> Call {
        client.request(method, format!("http://peer.example{path}")).via(&self.address)
    }
}

/// A client on a loop of its own, which trusts the servers.
pub fn client(options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Loops, Client) {
    let loops = Loops::start(1).expect("loops start");
    let builder = Client::builder().on(&loops);
    #[cfg(feature = "tls")]
    let builder = builder.tls(trial::client());
    let client = options(builder).build();
    (loops, client)
}

/// A client that speaks HTTP/2 without asking, on a loop of its own.
pub fn client_of_http2(options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Loops, Client) {
    client(|builder| options(builder.http2_prior_knowledge()))
}
