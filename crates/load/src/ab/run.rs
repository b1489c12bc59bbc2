//! The turns of both sides, and the rounds that they make.

use std::time::Duration;

use anywire_advice::{Chain, Message};
use anywire_loops::Loops;

use crate::ab::outcome::{self, AbOutcome, AbPlan, AbSide, SCHEMA};
use crate::ab::settings::{Options, Side};
use crate::errors::LoadError;
use crate::host::{Host, Tool};
use crate::outcome::{Outcome, PlanFacts};
use crate::plan::{Amount, Plan};
use crate::rounds::{FixedRate, Order, Part, Parts, ServerThreads, Turn, interleaved};
use crate::schedule::{Schedule, Shape, gap_seed};

/// Loads both sides in turns; blocks the thread for about [`Options::time`].
///
/// `progress` is called before each turn. A side that does not come up again, or is not there, ends the comparison; the
/// rounds before it stay.
///
/// # Errors
///
/// The plan is wrong, such as a schedule whose rate changes; the loops ended, or this thread is an event loop.
pub fn ab(
    loops: &Loops,
    sides: &[Side; 2],
    options: &Options,
    mut progress: impl FnMut(&Step<'_>),
) -> Result<AbOutcome, LoadError> {
    if options.plan.schedule.is_some_and(|schedule| !matches!(schedule.shape, Shape::Constant { .. })) {
        return Err(LoadError::NeedsOneRate);
    }
    options.check()?;
    let turns = options.turns();
    let seed = options.seed.unwrap_or_else(Order::random_seed);
    let mut order = Order::mirrored(seed);
    let mut results = sides.each_ref().map(|side| AbSide::new(&side.name));
    let mut threads = [ServerThreads::Unknown, ServerThreads::Unknown];
    let mut failed: Option<Message> = None;
    let mut facts = None;
    let measured = interleaved(2, options.rounds * turns, &mut order, &options.stop, |turn| {
        let Turn { side, .. } = turn;
        let (round, of_round) = ((turn.round - 1) / turns + 1, (turn.round - 1) % turns);
        if failed.is_some() {
            return Ok(None);
        }
        progress(&Step { round, rounds: options.rounds, side: &sides[side].name });
        if of_round == 0 {
            match begin(&sides[side], &mut results[side]) {
                Ok(of_round) => threads[side] = of_round,
                Err(message) => {
                    failed = Some(Message {
                        found: format!("round {round}: {}: {}", sides[side].name, message.found),
                        ..message
                    });
                    return Ok(None);
                }
            }
        }
        let warm_up = if of_round == 0 { options.plan.warm_up } else { options.warm_up_between() };
        let plan = plan(&sides[side], options, warm_up, gap_seed(seed, turn.round));
        let part = Part::measure(loops, plan, sides[side].handles(&options.stop), &threads[side])?;
        results[side].add(&part);
        if let Some(why) = why_not_there(&part) {
            let found = format!("round {round}: {}: {}", sides[side].name, why.found);
            failed = Some(Message { found, ..why });
        }
        facts.get_or_insert_with(|| part.outcome.plan.clone());
        Ok::<_, LoadError>(Some(part))
    })?;
    // A round without all turns of both sides would tilt the medians.
    let is_whole = |of_round: &[Vec<Option<Part>>]| of_round.iter().flatten().all(Option::is_some);
    let whole: Vec<_> =
        (1..).zip(measured.rounds.chunks_exact(turns)).filter(|(_, of_round)| is_whole(of_round)).collect();
    for (side, result) in results.iter_mut().enumerate() {
        let rounds = whole.iter().map(|&(number, of_round)| Parts::of(parts(of_round, side)).round(number));
        result.summarise(rounds.collect());
        let all = whole.iter().flat_map(|&(_, of_round)| parts(of_round, side));
        result.rate = FixedRate::of(all.map(|part| &part.outcome));
    }
    let contrast = outcome::judged(&results, &options.noise, seed);
    Ok(AbOutcome {
        schema: SCHEMA.to_owned(),
        tool: Tool::this(),
        host: Host::of(loops),
        plan: AbPlan {
            load: facts.map(|facts| PlanFacts {
                duration_seconds: Some(options.duration.as_secs_f64()),
                warm_up_seconds: options.plan.warm_up.as_secs_f64(),
                // Without the seed of a turn.
                schedule: options.plan.schedule,
                ..facts
            }),
            rounds: options.rounds,
            turns,
            seed,
        },
        is_trial: sides[0].url == sides[1].url && sides[0].via == sides[1].via,
        sides: results,
        contrast,
        interrupted: measured.interrupted,
        failed: failed.map(|message| message.to_string()),
    })
}

/// What is about to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// The round, from 1.
    pub round: usize,
    /// Of so many.
    pub rounds: usize,
    /// The name of the side.
    pub side: &'a str,
}

/// The turns of one side in a round.
fn parts(of_round: &[Vec<Option<Part>>], side: usize) -> impl Iterator<Item = &Part> {
    of_round.iter().filter_map(move |turn| turn[side].as_ref())
}

/// Starts a server anew, if it is to be, and finds its process.
fn begin(side: &Side, result: &mut AbSide) -> Result<ServerThreads, Message> {
    if let Some(restart) = &side.restart {
        restart().map_err(|error| Chain(error.as_ref()).message())?;
    }
    let Some(process) = &side.process else { return Ok(ServerThreads::Unknown) };
    Ok(process().map(ServerThreads::Of).unwrap_or_else(|error| {
        result.note(format!("server_cpu_us_per_request is unknown: {error}"));
        ServerThreads::Unknown
    }))
}

/// Why a server is not there. One that is only slower than its turn is no failure.
fn why_not_there(part: &Part) -> Option<Message> {
    let Outcome { totals, rate, .. } = &part.outcome;
    let nobody_answered = totals.measured.answered + totals.warm_up.answered == 0;
    part.outcome.no_good_answer().filter(|_| rate.given_up && nobody_answered)
}

fn plan(side: &Side, options: &Options, warm_up: Duration, seed: u64) -> Plan {
    let turns = u32::try_from(options.turns()).unwrap_or(u32::MAX);
    Plan {
        schedule: options.plan.schedule.map(|schedule| Schedule { seed, ..schedule }),
        url: side.url.clone(),
        via: side.via.clone(),
        server_name: side.server_name.clone(),
        warm_up,
        amount: Amount::Duration(options.duration / turns),
        ..options.plan.clone()
    }
}
