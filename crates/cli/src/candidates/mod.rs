//! What `compare` compares. Adding one: a file here with a function that makes a [`Candidate`], and a line in [`all`].

mod limit;
mod service;

use std::iter;

use anywire::load::compare::Candidate;

use crate::failure::{Code, Failure};

/// Every candidate, in the order of the table.
fn all() -> Vec<Candidate> {
    iter::once(limit::limit()).chain(service::over_each_wire()).collect()
}

/// The candidates with these names; without names, the default ones.
pub(crate) fn named(names: Option<&[String]>) -> Result<Vec<Candidate>, Failure> {
    let Some(names) = names else {
        return Ok(all().into_iter().filter(|one| service::by_default(&one.wire)).collect());
    };
    let find = |name: &String| {
        all().into_iter().find(|candidate| candidate.name == *name).ok_or_else(|| {
            let known: Vec<String> = all().into_iter().map(|candidate| candidate.name).collect();
            let message = format!("comparing {name:?}: there is no such candidate");
            Failure::new(Code::Usage, message).help(format_args!("choose from {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}
