//! The rungs of the ladder as candidates, and one of them as the limit: a raw epoll loop in C style that parses nothing. Its
//! cost is the kernel's share.

use std::rc::Rc;

use anywire::advice::Message;
use anywire::load::Protocol;
use anywire::load::compare::{Candidate, CandidateError, RunningServer, Settings};
use anywire::load::rounds::ServerThreads;
use anywire::wire::Address;
use anywire_ladder::{Options, RUNGS, Rung};

use super::service;

/// Every rung. The epoll loop is what the others are divided by.
pub(super) fn all() -> impl Iterator<Item = Candidate> {
    RUNGS.iter().map(|rung| Candidate { is_limit: rung.name == LIMIT, ..candidate(rung) })
}

/// The epoll loop as the limit of this machine.
pub(super) fn limit() -> Candidate {
    let rung = Rung::named(LIMIT).expect("the ladder has an epoll rung");
    Candidate {
        name: "limit".to_owned(),
        note:
            "a raw epoll loop in C style on TCP: it parses nothing, so it shows what the kernel alone costs"
                .to_owned(),
        is_limit: true,
        ..candidate(rung)
    }
}

fn candidate(rung: &'static Rung) -> Candidate {
    Candidate {
        name: rung.name.to_owned(),
        wire: "tcp".to_owned(),
        protocol: Protocol::Http1,
        note: String::new(),
        is_limit: false,
        runs_by_itself: false,
        start: Box::new(move |settings| start(rung, settings)),
    }
}

fn start(rung: &'static Rung, settings: &Settings) -> Result<RunningServer, CandidateError> {
    if let Some(most) = rung.connections_max.filter(|most| settings.connections > *most) {
        let asked = settings.connections;
        let found = format!(
            "{asked} connections do not fit: {} watches descriptors below 1024 alone (FD_SETSIZE), so about {most} beside the \
             other files of the process",
            rung.name
        );
        let help = "choose fewer --connections, or a rung without that limit";
        return Err(Message::new(found).with_help(help).into());
    }
    let server = rung.start(Options { core: settings.core, body_bytes: settings.body_bytes })?;
    let address = server.address();
    let server = Rc::new(server);
    let loaded = Rc::clone(&server);
    Ok(RunningServer {
        // The same request, byte for byte, that the service gets.
        url: service::URL.to_owned(),
        via: Some(Address::from_host(&address.ip().to_string(), address.port())?),
        tls: None,
        threads: ServerThreads::Here(Box::new(move || server.threads())),
        remark: Box::new(move || {
            let refused = loaded.refused();
            refused.reason.map(|reason| format!("{} connections were closed: {reason}", refused.connections))
        }),
    })
}

/// The rung that is the limit.
const LIMIT: &str = "epoll";
