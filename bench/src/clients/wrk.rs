//! The limit: wrk, which writes one prebuilt request and only looks for the end of each answer.
//!
//! It has no warm-up and counts from its start to its end, so opening the connections is in its figures; with some tens of
//! connections and three seconds of load that is below a hundredth.

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};

use super::{Client, Cores, Plan, Protocol, Tally, WARM_UP, system_us, user_us};
use crate::generators::wrk;
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "wrk",
    version: versions::wrk,
    settings: "-t1 -c = in flight, no script",
    protocols: &[Protocol::Http1],
    warm_up: WARM_UP,
    cores: Cores::One,
    call,
    bursts: None,
};

fn call(plan: &Plan) -> Result<Tally> {
    let url = format!("http://{}/", plan.address);
    let report = wrk::run_to_end(&mut wrk::command(plan.in_flight, plan.duration, &url))?;
    // wrk is the only child this process ever had.
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Tally {
        requests: report.requests,
        errors: report.errors,
        seconds: report.seconds,
        user_us: user_us(&usage),
        system_us: system_us(&usage),
        p99_us: None,
    })
}
