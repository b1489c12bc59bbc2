//! anywire's own client, on one loop.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use anywire_client::{Client as AnywireClient, Limits, blocking};
use anywire_loops::Loops;

use super::{BURST_MAX, Bursts, Client, Cores, Meter, Plan, Protocol, Tally, WARM_UP};
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "anywire",
    version: || versions::locked("anywire-client"),
    settings: "1 loop, calls made on it, default limits, all deadlines on; over HTTP/2 as many streams a connection as the plan has",
    protocols: &[Protocol::Http1, Protocol::Http2],
    warm_up: WARM_UP,
    cores: Cores::One,
    call,
    bursts: Some(bursts),
};

fn call(plan: &Plan) -> Result<Tally> {
    let loops = Loops::start(1)?;
    let mut limits = Limits::default();
    let mut builder = AnywireClient::builder().on(&loops);
    if plan.http2 {
        limits.http2.streams = plan.in_flight / plan.connections;
        builder = builder.limits(limits).http2_prior_knowledge();
    }
    let client = builder.build();
    let url = format!("http://{}/", plan.address);
    let plan = plan.clone();
    let tally = loops.get(0).spawn(move || async move {
        let meter = Arc::new(Meter::default());
        for _ in 0..plan.in_flight {
            let (client, url, meter) = (client.clone(), url.clone(), meter.clone());
            // A task that is not waited for runs on.
            drop(anywire_loops::spawn(async move {
                loop {
                    meter.count(get(&client, &url).await);
                }
            }));
        }
        meter.interval(&plan).await
    });
    tally.wait()?
}

/// From a thread outside the loops: calls at once as tasks of the loops, and the one that is waited for by the blocking face.
fn bursts(plan: &Bursts) -> Result<Vec<Tally>> {
    let loops = Loops::start(thread::available_parallelism()?.get())?;
    // Each loop has its share of the queue, and a call that is waited for says nothing of those on the other loops: any of them may
    // have all calls of two bursts.
    let limits = Limits { queue_per_origin: BURST_MAX * loops.iter().count(), ..Limits::default() };
    let client = AnywireClient::builder().on(&loops).limits(limits).build();
    let waited = blocking::Client::from(client.clone());
    let url: Arc<str> = format!("http://{}/", plan.address).into();
    let post = |meter: &Arc<Meter>| {
        let (client, url, meter) = (client.clone(), Arc::clone(&url), Arc::clone(meter));
        let start = Instant::now();
        drop(loops.next_in_turn().spawn(move || async move {
            meter.took(start, post(&client, &url).await);
        }));
    };
    let post_and_wait = || {
        let response = waited.post(&*url).body("OK").send()?;
        Ok((response.status().as_u16(), response.bytes()?.len()))
    };
    plan.run(post, post_and_wait)
}

async fn post(client: &AnywireClient, url: &str) -> Result<(u16, usize)> {
    let response = client.post(url).body("OK").send().await?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await?.len()))
}

pub(super) async fn get(client: &AnywireClient, url: &str) -> Result<(u16, usize)> {
    let response = client.get(url).send().await?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await?.len()))
}
