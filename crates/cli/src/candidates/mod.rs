//! What `compare` compares and `ladder` climbs. Adding one: a file here with a function that makes a [`Candidate`], and a line
//! in [`all`] or [`ladder`].

mod rung;
mod service;
mod url;

use std::iter;

use anywire::load::Protocol;
use anywire::load::compare::Candidate;
use anywire_ladder::Rung;

pub(crate) use self::url::Target;
use crate::failure::{Code, Failure};

/// Every candidate that speaks one of these protocols, in the order of the table. The limit parses nothing, so that it
/// stands beside either.
fn all(protocols: &[Protocol]) -> Vec<Candidate> {
    let services = protocols.iter().flat_map(|protocol| service::over_each_wire(*protocol));
    let mut all: Vec<Candidate> = iter::once(rung::limit()).chain(services).collect();
    // What differs by its protocol alone stands together.
    let wires: Vec<String> = all.iter().map(|candidate| candidate.wire.clone()).collect();
    all[1..].sort_by_key(|candidate| wires[1..].iter().position(|wire| *wire == candidate.wire));
    all
}

/// The rungs of the ladder: the I/O models, and the service over each wire that is meant for more than tests.
pub(crate) fn ladder() -> Vec<Candidate> {
    let own = service::over_each_wire(Protocol::Http1).filter(|one| service::by_default(&one.wire));
    rung::all().chain(own).collect()
}

/// What the kernel does on the rung of this name, in a paragraph.
pub(crate) fn story(name: &str) -> &'static str {
    Rung::named(name).map_or_else(|| service::story(name), |rung| rung.story)
}

/// The candidates of these wires, and the limit by its name; without names, the default ones.
pub(crate) fn named(names: Option<&[String]>, protocols: &[Protocol]) -> Result<Vec<Candidate>, Failure> {
    let Some(names) = names else {
        return Ok(all(protocols).into_iter().filter(|one| service::by_default(&one.wire)).collect());
    };
    let asked =
        |candidate: &Candidate| if candidate.is_limit { &candidate.name } else { &candidate.wire }.clone();
    let mut found = Vec::new();
    for name in names {
        let before = found.len();
        found.extend(all(protocols).into_iter().filter(|candidate| asked(candidate) == *name));
        if found.len() == before {
            let mut known: Vec<String> = all(protocols).iter().map(asked).collect();
            known.dedup();
            let message = format!("comparing {name:?}: there is no such candidate");
            return Err(
                Failure::new(Code::Usage, message).help(format_args!("choose from {}", known.join(", ")))
            );
        }
    }
    Ok(found)
}
