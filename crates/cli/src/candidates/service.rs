//! The demo service over a wire: one candidate for each wire that there is, none of them known by name, and each protocol.

use std::time::Duration;

use anywire::load::Protocol;
use anywire::load::compare::{Candidate, CandidateError, RunningServer, Settings};
use anywire::load::rounds::ServerThreads;
use anywire::loops::{Loops, Pinning};
use anywire::server::{self, Server};
use anywire::wire::tls::{ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions};
use anywire::wire::{self, Wire};

use crate::certificates::speaks_tls;
use crate::demo;

/// The demo service over each wire that can listen on an address of its own, by this protocol.
pub(super) fn over_each_wire(protocol: Protocol) -> impl Iterator<Item = Candidate> {
    wire::wires().filter(|wire| wire.scratch().is_some()).map(move |wire| Candidate {
        name: match protocol {
            Protocol::Http2 => format!("{}/h2", wire.scheme()),
            _ => wire.scheme().to_owned(),
        },
        wire: wire.scheme().to_owned(),
        protocol,
        note: String::new(),
        is_limit: false,
        runs_by_itself: false,
        start: Box::new(move |settings| start(wire, settings)),
    })
}

/// Whether `compare` measures a wire without being asked to. Those with TLS would double its time.
pub(super) fn by_default(scheme: &str) -> bool {
    scheme != FOR_TESTS && !scheme.starts_with("tls")
}

/// What happens over this wire, in a paragraph.
pub(super) fn story(scheme: &str) -> &'static str {
    match scheme {
        "tcp" => {
            "anywire's server on one event loop, which waits by tokio's epoll. It makes the calls of the rung epoll. What it takes \
             beyond that rung is HTTP itself: parsing, routing, a handler, encoding."
        }
        "unix" => {
            "The same server over a Unix socket. The kernel copies the bytes from one socket's queue to the other's, with no \
             segments, no acknowledgments, no checksums and no loopback device in between. The calls are the same; each does less."
        }
        "stack" => {
            "The same server over TCP in user space. Segments go through a switch in this process, from core to core in shared \
             memory, and the kernel sees none of them. A call is left only for waiting, when nothing is there to do."
        }
        "shm" => {
            "The same server over two rings of bytes in memory that both processes share. A request and its answer are copied \
             in and out, with no socket and no protocol in between. A call is left only to wake a side that sleeps, and to sleep."
        }
        other => wire::wires().find(|wire| wire.scheme() == other).map_or("", Wire::summary),
    }
}

fn start(wire: &'static dyn Wire, settings: &Settings) -> Result<RunningServer, CandidateError> {
    let address = wire.scratch().ok_or("this wire has no address for a trial")?;
    let pinning = settings.core.map_or(Pinning::None, |core| Pinning::Cores(vec![core]));
    let loops = Loops::builder().count(1).pinning(pinning).name("service").start()?;
    let mut server = Server::new(demo::router(greeting(settings.body_bytes))).listen(&address).on(&loops);
    let tls = speaks_tls(&address).then(trial).transpose()?;
    if let Some((of_server, _)) = &tls {
        server = server.tls(of_server);
    }
    let running = server.start()?;
    let local = running.addresses().next().cloned().ok_or("the server listens nowhere")?;
    let service = Service { running: Some(running), loops };
    Ok(RunningServer {
        url: URL.to_owned(),
        via: Some(local),
        tls: tls.map(|(_, of_client)| of_client),
        threads: ServerThreads::Here(Box::new(move || {
            service.loops.iter().map(|one| one.thread_id()).collect()
        })),
        remark: Box::new(|| None),
    })
}

/// A certificate for this run, and trust in it.
fn trial() -> Result<(ServerTls, ClientTls), CandidateError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identities = vec![Identity::from_pem(chain.as_bytes(), key.as_bytes())?];
    let roots = Roots::only_pem(chain.as_bytes())?;
    let of_server = ServerTls::new(ServerTlsOptions { identities, ..ServerTlsOptions::default() })?;
    let of_client = ClientTls::new(ClientTlsOptions { roots, ..ClientTlsOptions::default() })?;
    Ok((of_server, of_client))
}

/// The text of so many bytes that `/` answers.
fn greeting(bytes: usize) -> &'static str {
    if bytes == demo::GREETING.len() {
        return demo::GREETING;
    }
    // Leaked, so that every length is served by the same code as the constant.
    demo::GREETING.chars().cycle().take(bytes).collect::<String>().leak()
}

struct Service {
    /// `None` once stopped.
    running: Option<server::ServerHandle>,
    loops: Loops,
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // The load has ended, so only idle connections are left.
            running.shutdown(STOP_WITHIN).wait();
        }
        // Its thread must be gone before the next candidate gets its core; a loop that hangs has said so in the log.
        let _ = self.loops.shutdown(STOP_WITHIN);
    }
}

/// The request is the same over every wire. The address of the wire is passed separately.
pub(super) const URL: &str = "http://localhost/";
/// The wire for tests inside a program. Its speed matters little.
const FOR_TESTS: &str = "memory";
const STOP_WITHIN: Duration = Duration::from_millis(500);
