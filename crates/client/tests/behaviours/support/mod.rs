//! A scripted peer that listens on any wire, and what tests wait with.
//!
//! A script reads from top to bottom, on a plain thread. Each of its steps is carried out by a task that owns the
//! connection and does nothing between steps: nothing is read that the script did not ask for.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

/// Kinds and flags of frames, and how they are written.
#[path = "../../../../http/tests/behaviours/support/h2.rs"]
pub mod bytes_of_http2;
/// A wire with a handshake, which holds bytes back.
#[path = "../../../../wire/tests/behaviours/support/coat.rs"]
mod coat;
mod dice;
mod fed;
mod frames;
mod gate;
/// A resolver for tests.
#[path = "../../../../wire/tests/behaviours/support/names.rs"]
pub mod names;
mod real;
mod served;
pub mod simulated;
mod talk;
mod tokens;
/// A certificate for the peers.
#[cfg(feature = "tls")]
#[path = "../../../../wire/tests/behaviours/support/trial.rs"]
pub mod trial;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anywire_client::{Client, ClientBuilder};
use anywire_loops::Loops;
use anywire_wire::{Address, ListenOptions, Listener, ListenerHandle, Wire};

#[allow(unused_imports, reason = "each test uses a part of it")]
pub use self::{
    dice::Dice,
    fed::fed,
    frames::{Frame, Frames},
    gate::Gate,
    real::{Real, real_servers, skipped},
    served::Served,
    talk::{Received, Talk},
    tokens::on_token,
    waiting::{HANG, all, block_on, eventually, poll_once, until_no_call},
};

/// A wire of the list.
pub type AnyWire = &'static dyn Wire;

/// Every wire of this build, and one with a coat.
fn wires() -> impl Iterator<Item = AnyWire> {
    anywire_wire::wires().chain([&coat::Coat as AnyWire])
}

/// Plays a test on each wire of the list.
pub fn on_each_wire(test: impl Fn(AnyWire)) {
    for wire in wires() {
        // Shown if the test fails.
        println!("on {}", wire.scheme());
        test(wire);
    }
}

/// As [`on_each_wire`], on four of them at a time: for tests that wait for a deadline. All at once, their threads would wait for
/// their turns on the processor for longer than the deadlines allow.
pub fn on_four_wires_at_a_time(test: impl Fn(AnyWire) + Sync) {
    let all: Vec<_> = wires().collect();
    for four in all.chunks(4) {
        thread::scope(|scope| {
            for &wire in four {
                let test = &test;
                // The name is shown if the test fails.
                let named = thread::Builder::new().name(format!("on {}", wire.scheme()));
                named.spawn_scoped(scope, move || test(wire)).expect("the system has threads left");
            }
        });
    }
}

/// The wire of this name, for tests that are about one.
pub fn wire(scheme: &str) -> AnyWire {
    wires().find(|wire| wire.scheme() == scheme).expect("a wire of the list")
}

/// A peer at an address of its own. Each connection runs the script on a thread of its own.
pub struct Peer {
    listening: ListenerHandle,
    accepted: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
    _loops: Loops,
}

impl Peer {
    pub fn start(wire: AnyWire, script: impl Fn(Talk) + Send + Sync + 'static) -> Self {
        Self::start_on(&Loops::start(1).expect("loops start"), wire, script)
    }

    /// As [`start`](Self::start), on loops that others use too.
    pub fn start_on(loops: &Loops, wire: AnyWire, script: impl Fn(Talk) + Send + Sync + 'static) -> Self {
        Self::start_with(loops, wire, &[], script)
    }

    /// As [`start_on`](Self::start_on), and agrees on one of these protocols where the wire has a handshake.
    pub fn start_with(
        loops: &Loops,
        wire: AnyWire,
        protocols: &[&str],
        script: impl Fn(Talk) + Send + Sync + 'static,
    ) -> Self {
        Self::play(loops, wire, protocols, Arc::new(script))
    }

    /// Of one type for all scripts, so that none of this is compiled once for each.
    fn play(
        loops: &Loops,
        wire: AnyWire,
        protocols: &[&str],
        script: Arc<dyn Fn(Talk) + Send + Sync>,
    ) -> Self {
        let address = wire.scratch().expect("every wire can make an address up");
        let protocols = protocols.iter().map(|&name| name.to_owned()).collect();
        let options = ListenOptions { protocols, ..listening() };
        let listener = Listener::bind(&address, &options, loops).expect("a free address");
        let (accepted, most_open) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let open = Arc::<AtomicUsize>::default();
        let (count, most) = (accepted.clone(), most_open.clone());
        let listening = listener.serve(move |connection| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (script, open) = (script.clone(), open.clone());
            let talk = Talk::on(connection, number);
            thread::spawn(move || {
                script(talk);
                open.fetch_sub(1, Ordering::SeqCst);
            });
        });
        Self { listening, accepted, most_open, _loops: loops.clone() }
    }

    /// A peer that answers every request of every connection with the same bytes.
    pub fn answering(wire: AnyWire, answer: &'static str) -> Self {
        Self::start(wire, move |mut talk| {
            while talk.request().is_some() {
                talk.say(answer);
            }
        })
    }

    /// A peer that agrees to HTTP/2, where the wire has a handshake.
    pub fn asked_for_http2(wire: AnyWire, script: impl Fn(Talk) + Send + Sync + 'static) -> Self {
        Self::start_with(&Loops::start(1).expect("loops start"), wire, &["h2"], script)
    }

    /// A peer that speaks HTTP/2, frame by frame, and has no settings.
    pub fn of_http2(wire: AnyWire, script: impl Fn(Frames, usize) + Send + Sync + 'static) -> Self {
        Self::of_http2_with(wire, &[], script)
    }

    /// As [`of_http2`](Self::of_http2), with the payload of its SETTINGS.
    pub fn of_http2_with(
        wire: AnyWire,
        settings: &'static [u8],
        script: impl Fn(Frames, usize) + Send + Sync + 'static,
    ) -> Self {
        Self::asked_for_http2(wire, move |talk| {
            let number = talk.number;
            if let Some(frames) = Frames::accept(talk, settings) {
                script(frames, number);
            }
        })
    }

    /// The URL of a path. Over TCP it leads to the peer; on the other wires [`via`](Self::via) does.
    pub fn url(&self, path: &str) -> String {
        match self.via().scheme() {
            "tcp" => format!("http://{}{path}", self.via().location()),
            "tls" => format!("https://{}{path}", self.via().location()),
            _ => format!("http://peer.example{path}"),
        }
    }

    pub fn via(&self) -> &Address {
        self.listening.local()
    }

    /// Stops listening; open connections go on.
    pub fn stop_listening(&self) {
        self.listening.stop();
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The most connections that were open at a time.
    pub fn most_open(&self) -> usize {
        self.most_open.load(Ordering::SeqCst)
    }
}

/// How to listen on any wire: with a certificate for those that need one.
pub fn listening() -> ListenOptions {
    ListenOptions {
        #[cfg(feature = "tls")]
        tls: Some(trial::server()),
        ..ListenOptions::default()
    }
}

/// A client that trusts the peers, and makes one attempt: most tests are about that one.
pub fn builder() -> ClientBuilder {
    let builder = Client::builder().retries(0);
    #[cfg(feature = "tls")]
    let builder = builder.tls(trial::client());
    builder
}

/// A client on loops of its own test.
pub fn client(loops: usize, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Loops, Client) {
    let loops = Loops::start(loops).expect("loops start");
    let client = options(builder().on(&loops)).build();
    (loops, client)
}

/// A client that speaks HTTP/2 without asking.
pub fn client_of_http2(options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Loops, Client) {
    client(1, |builder| options(builder.http2_prior_knowledge()))
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
