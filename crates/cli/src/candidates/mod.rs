//! What `compare` compares. Adding one: a file here whose type is a [`Candidate`], and a line in [`all`].

mod limit;
mod service;

use anywire::load::compare::Candidate;

use crate::failure::{Code, Failure};

/// Every candidate, in the order of the table.
fn all() -> Vec<Box<dyn Candidate>> {
    let mut all: Vec<Box<dyn Candidate>> = vec![Box::new(limit::Limit)];
    all.extend(service::over_each_wire());
    all
}

/// The candidates with these names; without names, the default ones.
pub(crate) fn named(names: Option<&[String]>) -> Result<Vec<Box<dyn Candidate>>, Failure> {
    let Some(names) = names else {
        return Ok(all().into_iter().filter(|one| service::by_default(one.wire())).collect());
    };
    let mut chosen: Vec<Box<dyn Candidate>> = Vec::new();
    for name in names {
        let Some(candidate) = all().into_iter().find(|candidate| candidate.name() == name) else {
            let known: Vec<String> = all().iter().map(|candidate| candidate.name().to_owned()).collect();
            let message = format!("comparing {name:?}: there is no such candidate");
            return Err(
                Failure::new(Code::Usage, message).help(format_args!("choose from {}", known.join(", ")))
            );
        };
        chosen.push(candidate);
    }
    Ok(chosen)
}
