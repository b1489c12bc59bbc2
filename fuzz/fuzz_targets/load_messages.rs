//! What an agent and its leader may say, of any bytes: no message makes the other end panic, and results of agents are merged or lost.

#![no_main]

use anywire_load::Plan;
use anywire_load::agents::alone::{framed, heard_by_agent, heard_by_leader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // As they come on a connection.
    for message in framed(data, 1 << 16) {
        assert!(message.len() <= 1 << 16);
        heard_by_agent(message);
    }
    // A line each, which is easier to change.
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    for line in &lines {
        heard_by_agent(line);
    }
    let plan = Plan { connections: lines.len(), ..Plan::new("http://test/") };
    if let Some(outcome) = heard_by_leader(&plan, lines) {
        let _ = (outcome.to_string(), serde_json::to_string(&outcome).expect("it is data"));
    }
});
