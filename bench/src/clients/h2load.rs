//! The limit over HTTP/2: h2load, which encodes each request and parses each answer with nghttp2.

use anyhow::Result;
use nix::sys::resource::{Usage, UsageWho, getrusage};

use super::{Client, Cores, Plan, Protocol, Tally, WARM_UP, system_us, user_us};
use crate::generators::{Window, h2load};
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "h2load",
    version: versions::h2load,
    settings: "-t1 -c -m as the plan has them, windows of 2^30 bytes",
    protocols: &[Protocol::Http2],
    warm_up: WARM_UP,
    cores: Cores::One,
    call,
    bursts: None,
};

fn call(plan: &Plan) -> Result<Tally> {
    let url = format!("http://{}/", plan.address);
    let streams = plan.in_flight / plan.connections;
    let mut command = h2load::command(plan.connections, streams, plan.warm_up, plan.duration, &url);
    let report = h2load::run_to_end(&mut command, &mut Nothing)?;
    // Its usage is known only at its end, and has the warm-up in it: the same rate is assumed of both.
    let usage: Usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let (seconds, all) = (plan.duration.as_secs_f64(), (plan.duration + plan.warm_up).as_secs_f64());
    Ok(Tally {
        requests: report.requests,
        errors: report.errors,
        seconds,
        user_us: user_us(&usage) * seconds / all,
        system_us: system_us(&usage) * seconds / all,
        p99_us: None,
    })
}

struct Nothing;

impl Window for Nothing {
    fn open(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
