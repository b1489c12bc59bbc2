//! The limit of this machine: a raw epoll loop in C style that parses nothing. Its cost is the kernel's share.

use anywire::load::Protocol;
use anywire::load::compare::{Candidate, CandidateError, RunningServer, Settings};
use anywire::wire::Address;
use anywire_sys::epoll_limit::{EpollLimit, Options};

use super::service;

/// The raw epoll loop.
pub(super) fn limit() -> Candidate {
    Candidate {
        name: "limit".to_owned(),
        wire: "tcp".to_owned(),
        protocol: Protocol::Http1,
        note:
            "a raw epoll loop in C style on TCP: it parses nothing, so it shows what the kernel alone costs"
                .to_owned(),
        is_limit: true,
        start: Box::new(start),
    }
}

fn start(settings: &Settings) -> Result<RunningServer, CandidateError> {
    let limit = EpollLimit::start(Options { core: settings.core, body_bytes: settings.body_bytes })?;
    let address = limit.address();
    Ok(RunningServer {
        // The same request, byte for byte, that the service gets.
        url: service::URL.to_owned(),
        via: Some(Address::from_host(&address.ip().to_string(), address.port())?),
        tls: None,
        thread: limit.thread_id(),
        cpu: Box::new(move || limit.sample()),
    })
}
