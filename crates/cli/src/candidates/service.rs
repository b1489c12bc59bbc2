//! The demo service over a wire: one candidate for each wire that there is, none of them known by name.

use std::io;
use std::time::Duration;

use anywire::load::compare::{Candidate, CandidateError, RunningServer, Settings};
use anywire::loops::{LoopHandle, Loops, Pinning};
use anywire::server::{self, Server};
use anywire::wire::{self, Address, Wire};
use anywire_sys::cpu::{self, CpuTime};

use crate::demo;

/// The demo service over each wire that can listen on an address of its own.
pub(super) fn over_each_wire() -> impl Iterator<Item = Box<dyn Candidate>> {
    wire::wires()
        .filter(|wire| wire.scratch().is_some())
        .map(|wire| Box::new(Service { wire }) as Box<dyn Candidate>)
}

/// Whether `compare` measures a wire without being asked to.
pub(super) fn by_default(scheme: &str) -> bool {
    scheme != FOR_TESTS
}

/// The demo service over one wire.
struct Service {
    wire: &'static dyn Wire,
}

impl Candidate for Service {
    fn name(&self) -> &str {
        self.wire.scheme()
    }

    fn wire(&self) -> &str {
        self.wire.scheme()
    }

    fn start(&self, settings: &Settings) -> Result<Box<dyn RunningServer>, CandidateError> {
        let address = self.wire.scratch().ok_or("this wire has no address for a trial")?;
        let pinning = settings.core.map_or(Pinning::None, |core| Pinning::Cores(vec![core]));
        let loops = Loops::builder().count(1).pinning(pinning).name("service").start()?;
        let server = Server::new(demo::router(greeting(settings.body_bytes)));
        let running = server.listen(&address).on(&loops).start()?;
        let local = running.addresses().next().cloned().ok_or("the server listens nowhere")?;
        Ok(Box::new(RunningService { serving: loops.get(0), local, running: Some(running), loops }))
    }
}

/// The text of so many bytes that `/` answers.
fn greeting(bytes: usize) -> &'static str {
    if bytes == demo::GREETING.len() {
        return demo::GREETING;
    }
    // Leaked, so that it is served like the constant that it stands for: the same code for every length.
    demo::GREETING.chars().cycle().take(bytes).collect::<String>().leak()
}

struct RunningService {
    serving: LoopHandle,
    local: Address,
    /// `None` once stopped.
    running: Option<server::ServerHandle>,
    loops: Loops,
}

impl RunningServer for RunningService {
    fn url(&self) -> String {
        URL.to_owned()
    }

    fn via(&self) -> Option<Address> {
        Some(self.local.clone())
    }

    fn server_thread(&self) -> i32 {
        self.serving.thread_id()
    }

    fn server_cpu(&self) -> io::Result<CpuTime> {
        let sample = self.serving.spawn(|| async { cpu::current_thread_cpu() });
        sample.wait().map_err(io::Error::other)?
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // The load has ended: what is left is idle connections.
            running.shutdown(STOP_WITHIN).wait();
        }
        // Its thread must be gone before the next candidate gets its core; a loop that hangs has said so in the log.
        let _ = self.loops.shutdown(STOP_WITHIN);
    }
}

/// The request is the same over every wire; the wire's own address is said beside it.
pub(super) const URL: &str = "http://localhost/";
/// The wire that programs use in their tests: its speed matters to nobody.
const FOR_TESTS: &str = "memory";
const STOP_WITHIN: Duration = Duration::from_millis(500);
