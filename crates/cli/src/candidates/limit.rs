//! The limit of this machine: a raw epoll loop in C style that parses nothing. What it costs is the kernel's part.

use std::io;

use anywire::load::compare::{Candidate, CandidateError, RunningServer, Settings};
use anywire::wire::Address;
use anywire_sys::cpu::CpuTime;
use anywire_sys::epoll_limit::{EpollLimit, Options};

use super::service;

/// The raw epoll loop.
pub(super) struct Limit;

impl Candidate for Limit {
    fn name(&self) -> &str {
        "limit"
    }

    fn wire(&self) -> &str {
        "tcp"
    }

    fn note(&self) -> String {
        "a raw epoll loop in C style on TCP: it parses nothing, so it shows what the kernel alone costs"
            .to_owned()
    }

    fn is_limit(&self) -> bool {
        true
    }

    fn start(&self, settings: &Settings) -> Result<Box<dyn RunningServer>, CandidateError> {
        let options = Options { core: settings.core, body_bytes: settings.body_bytes };
        let limit = EpollLimit::start(options)?;
        let address = limit.address();
        let address = Address::from_host(&address.ip().to_string(), address.port())?;
        Ok(Box::new(RunningLimit { limit, address }))
    }
}

struct RunningLimit {
    limit: EpollLimit,
    address: Address,
}

impl RunningServer for RunningLimit {
    fn url(&self) -> String {
        // The same request, byte for byte, that the service gets.
        service::URL.to_owned()
    }

    fn via(&self) -> Option<Address> {
        Some(self.address.clone())
    }

    fn server_thread(&self) -> i32 {
        self.limit.thread_id()
    }

    fn server_cpu(&self) -> io::Result<CpuTime> {
        self.limit.sample()
    }
}
