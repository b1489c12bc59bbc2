//! anywire's load engine on one loop, in a process of its own: this program, started again with `generate PLAN`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use anywire_load::{Amount, Expect, Handles, Outcome, Plan};
use anywire_loops::Loops;

use super::tools::{Report, Tool};
use crate::servers::BODY;
use crate::versions;

pub(super) const TOOL: Tool = Tool {
    name: "anywire",
    version: || versions::locked("anywire-load"),
    settings: "1 loop, no warm-up, each answer checked",
    server: "limit",
    command: |case, _| {
        let plan = Plan {
            protocol: case.http,
            connections: case.connections,
            depth: case.depth,
            // As the others have it, opening the connections is within the time.
            warm_up: Duration::ZERO,
            amount: Amount::Duration(case.duration),
            expect: Expect { body_bytes: Some(BODY.len() as u64), ..Expect::default() },
            ..Plan::new(case.url())
        };
        command(&plan)
    },
    read: |text| {
        let outcome: Outcome = serde_json::from_str(text)?;
        let measured = &outcome.totals.measured;
        Ok(Report { requests: measured.answered, errors: measured.errors.total() })
    },
};

/// This program, which makes the load of a plan.
pub(super) fn command(plan: &Plan) -> Result<Command> {
    let mut command =
        Command::new(std::env::current_exe().context("this program does not know its own path")?);
    command.arg("generate").arg(serde_json::to_string(plan)?);
    Ok(command)
}

/// Body of `bench generate PLAN`: makes the load and prints its outcome as JSON.
///
/// # Errors
/// The plan is none, or cannot be carried out.
pub fn generate(plan: &str) -> Result<()> {
    let plan = serde_json::from_str(plan).context("the plan is none")?;
    let loops = Loops::start(1).context("the load's loop did not start")?;
    println!("{}", anywire_load::start(&loops, plan, Handles::default())?.wait()?.to_json());
    Ok(())
}
