//! What the other end may say, without a connection: for the fuzz target, built with `--cfg fuzzing` alone.

use crate::agents::link::whole;
use crate::agents::member::Slot;
use crate::agents::merge::{Agent, Part, merged};
use crate::agents::message::{ToAgent, ToLeader};
use crate::handles::Handles;
use crate::outcome::Outcome;
use crate::plan::Plan;

/// The messages in these bytes, as one end finds them.
pub fn framed(mut bytes: &[u8], limit_bytes: usize) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let Ok(Some(length)) = whole(bytes, limit_bytes) {
        let (message, rest) = bytes.split_at(length);
        messages.push(&message[4..]);
        bytes = rest;
    }
    messages
}

/// What an agent does with a message of a leader: it checks the plan. Gives whether it was a message.
pub fn heard_by_agent(message: &[u8]) -> bool {
    let Ok(heard) = serde_json::from_slice::<ToAgent>(message) else { return false };
    if let ToAgent::Job { plan } = &heard {
        // It says what is wrong with it.
        let _ = plan.prepare(&Handles::default());
    }
    let again = serde_json::to_vec(&heard).expect("it is data");
    serde_json::from_slice::<ToAgent>(&again).expect("what was written is read");
    true
}

/// What a leader does with the messages of its agents, one result for each: it merges them. Agents whose histograms are none are lost.
pub fn heard_by_leader<'m>(plan: &Plan, messages: impl IntoIterator<Item = &'m [u8]>) -> Option<Outcome> {
    let slot = Slot::new();
    let mut parts = Vec::new();
    for message in messages {
        match serde_json::from_slice::<ToLeader>(message) {
            Ok(ToLeader::Progress(progress)) => {
                let _ = slot.take(&progress);
            }
            Ok(ToLeader::Done { outcome }) => parts.push(part(parts.len(), *outcome)),
            Ok(ToLeader::Welcome { greeting, .. }) => {
                let _ = (greeting.other_version(), greeting.knows(Some("token")));
            }
            _ => {}
        }
    }
    let _ = slot.seen();
    loop {
        match merged(plan, &parts) {
            Ok(outcome) => return outcome,
            Err((index, _)) => parts.retain(|part| part.agent.index != index),
        }
    }
}

fn part(index: usize, outcome: Outcome) -> Part<Outcome> {
    let agent = Agent {
        index,
        address: "tcp:10.0.0.1:7117".to_owned(),
        host: None,
        lost: None,
        clock_ahead_seconds: 0.0,
        round_trip_us: 50.0,
    };
    Part { agent, outcome: Some(outcome) }
}
