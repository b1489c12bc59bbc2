//! The rounds: every candidate once a round, in an order that is drawn anew, each started anew.
//!
//! A candidate is started for each of its rounds and stopped after it. If it ran on, its memory layout and the order of
//! its connections would stay the same for all rounds, and good or bad luck in them would look like a difference between
//! candidates. Started anew, luck is part of the spread. And no idle server of another candidate shares the core.

use std::collections::HashSet;

use anywire_advice::Advice;
use anywire_loops::{Loops, Pinning, StartError};
use anywire_sys::cpu;

use crate::compare::candidate::{Candidate, Settings};
use crate::compare::result::{ComparePlan, Comparison, Placement, Row, SCHEMA};
use crate::compare::round::{self, Bench, Measured};
use crate::compare::settings::Options;
use crate::errors::LoadError;
use crate::host::{Host, Tool};
use crate::rounds::{FixedRate, Order, Turn, interleaved};

/// Measures the candidates against each other; blocks the thread for about [`Options::time`].
///
/// `progress` is called before each candidate of a round. A candidate that does not start, or fails, has its errors in its
/// row, and the others go on.
///
/// # Errors
///
/// Nothing could be measured at all: see [`CompareError`].
pub fn compare(
    candidates: &[Candidate],
    options: &Options,
    mut progress: impl FnMut(&Step<'_>),
) -> Result<Comparison, CompareError> {
    check(candidates, options)?;
    let mut placement = place(&cpu::available_cores());
    let is_one_core = placement.server_core.is_none();
    if candidates.iter().all(|candidate| candidate.runs_by_itself) {
        // Nobody here could pin them.
        placement.server_core = None;
    }
    let pinning = placement.client_core.map_or(Pinning::None, |core| Pinning::Cores(vec![core]));
    let loops = Loops::builder().count(1).pinning(pinning).name("load").start()?;
    // What is opened to see its memory is closed before the load.
    let connections = options.connections.max(options.memory_connections);
    let settings = Settings { core: placement.server_core, connections, body_bytes: options.body_bytes };
    let seed = options.seed.unwrap_or_else(Order::random_seed);
    let bench = Bench { loops: &loops, options, settings, seed };

    let mut rows: Vec<Row> = candidates.iter().map(empty_row).collect();
    let mut order = Order::of_seed(seed);
    let mut measured = interleaved(candidates.len(), options.rounds, &mut order, &options.stop, |turn| {
        let Turn { round, rounds, side } = turn;
        progress(&Step { round, rounds, candidate: &candidates[side].name });
        round::measure(&bench, &candidates[side], round, &mut rows[side])
    })?;
    let interrupted = measured.interrupted;
    measured.rounds.iter_mut().for_each(|of_round| add_ratios(candidates, of_round));
    for (row, of_candidate) in rows.iter_mut().zip(measured.into_sides()) {
        of_candidate.iter().for_each(|one| row.errors.merge(&one.part.errors()));
        row.rate = FixedRate::of(of_candidate.iter().map(|one| &one.part.outcome));
        row.summarise(of_candidate.into_iter().map(|one| one.round).collect());
    }
    Ok(Comparison {
        schema: SCHEMA.to_owned(),
        tool: Tool::this(),
        host: Host::of(&loops),
        placement,
        plan: ComparePlan {
            mode: if options.rate.is_some() { "open" } else { "closed" }.to_owned(),
            rate: options.rate,
            gaps: options.gaps,
            connections: options.connections,
            active: options.loaded(),
            depth: options.depth,
            body_bytes: options.body_bytes,
            rounds: options.rounds,
            duration_seconds: options.duration.as_secs_f64(),
            warm_up_seconds: options.warm_up.as_secs_f64(),
            seed,
        },
        notes: notes(is_one_core, candidates, options),
        candidates: rows,
        interrupted,
    })
}

/// What a comparison is about to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// The round, from 1.
    pub round: usize,
    /// Of so many.
    pub rounds: usize,
    /// The candidate's name.
    pub candidate: &'a str,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// There is no candidate (the caller's fault).
    #[error("comparing needs at least one candidate, there is none{help}", help = Advice("name one"))]
    NoCandidate,
    /// No rounds were asked for (the caller's fault).
    #[error("comparing needs at least one round, 0 were asked for")]
    NoRound,
    /// Two candidates have one name, or both are the limit (the caller's fault).
    #[error("two candidates cannot both be {0:?}{help}", help = Advice("rename one, or leave one out"))]
    Twice(String),
    /// The client's loop did not start.
    #[error("starting the client's loop failed")]
    Loop(#[from] StartError),
    /// The load itself is not possible, for any candidate.
    #[error("the load is not possible")]
    Load(#[from] LoadError),
}

fn check(candidates: &[Candidate], options: &Options) -> Result<(), CompareError> {
    if anywire_loops::current().is_some() {
        return Err(LoadError::OnLoop.into());
    }
    if candidates.is_empty() {
        return Err(CompareError::NoCandidate);
    }
    if options.rounds == 0 {
        return Err(CompareError::NoRound);
    }
    let mut names = HashSet::new();
    if let Some(twice) = candidates.iter().find(|candidate| !names.insert(&candidate.name)) {
        return Err(CompareError::Twice(twice.name.clone()));
    }
    if candidates.iter().filter(|candidate| candidate.is_limit).count() > 1 {
        return Err(CompareError::Twice("limit".to_owned()));
    }
    Ok(())
}

/// The server has a core for itself: the last, since the system's own work likes the first.
fn place(cores: &[usize]) -> Placement {
    match cores {
        [first, .., last] => Placement { server_core: Some(*last), client_core: Some(*first) },
        _ => Placement { server_core: None, client_core: None },
    }
}

fn notes(is_one_core: bool, candidates: &[Candidate], options: &Options) -> Vec<String> {
    let of_mode = match options.rate {
        None => "closed: stalls hide requests, so the tail of the latencies is better than users see",
        Some(_) => "open: all candidates have the same rate, so compare their CPU time and their latencies",
    };
    let mut notes = vec![of_mode.to_owned()];
    if is_one_core {
        notes.push(
            "one core only: server and client share it, nothing is pinned, rates are about halved".to_owned(),
        );
    }
    let by_itself: Vec<&str> =
        candidates.iter().filter(|one| one.runs_by_itself).map(|one| one.name.as_str()).collect();
    if !by_itself.is_empty() {
        notes.push(format!(
            "{}: runs by itself, so it is neither started anew for each round nor pinned to a core",
            by_itself.join(", ")
        ));
    }
    if !candidates.iter().any(|candidate| candidate.is_limit) {
        notes
            .push("no limit among the candidates, so x limit (ratio_to_limit in JSON) is unknown".to_owned());
    }
    notes
}

fn empty_row(candidate: &Candidate) -> Row {
    let Candidate { name, wire, protocol, note, .. } = candidate;
    let protocol = protocol.to_string();
    let mut row = Row { name: name.clone(), wire: wire.clone(), protocol, ..Row::default() };
    row.note(note.clone());
    row
}

/// The ratio is taken within a round, where all candidates met the same machine, and its median over the rounds.
fn add_ratios(candidates: &[Candidate], of_round: &mut [Option<Measured>]) {
    let limit = candidates.iter().position(|candidate| candidate.is_limit);
    let cost = |measured: &Measured| measured.round.figures.server_cpu_us_per_request;
    let Some(limit) = limit.and_then(|index| of_round[index].as_ref().and_then(cost)) else { return };
    for measured in of_round.iter_mut().flatten() {
        measured.round.figures.ratio_to_limit = cost(measured).map(|own| own / limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_client_never_share_a_core_where_there_are_two() {
        assert_eq!(place(&[0, 1]), Placement { server_core: Some(1), client_core: Some(0) });
        assert_eq!(place(&[2, 4, 6]), Placement { server_core: Some(6), client_core: Some(2) });
        assert_eq!(place(&[3]), Placement { server_core: None, client_core: None });
    }
}
