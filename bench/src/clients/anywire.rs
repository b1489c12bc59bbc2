//! anywire's own client, on one loop.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};
use anywire_client::{Client as AnywireClient, Limits, blocking};
use anywire_loops::Loops;

use super::{BURST_MAX, Bursts, Client, Cores, Counted, Meter, Plan, Protocol, Tally, WARM_UP};
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

/// Over HTTP/2 if it has a number of streams for each connection.
fn client_on(loops: &Loops, streams: Option<usize>) -> AnywireClient {
    let builder = AnywireClient::builder().on(loops);
    let Some(streams) = streams else { return builder.build() };
    let mut limits = Limits::default();
    limits.http2.streams = streams;
    builder.limits(limits).http2_prior_knowledge().build()
}

fn call(plan: &Plan) -> Result<Tally> {
    let loops = Loops::start(1)?;
    let client = client_on(&loops, plan.http2.then(|| plan.in_flight / plan.connections));
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

/// Makes so many calls.
pub(super) fn count(plan: &Counted) -> Result<()> {
    let loops = Loops::start(1)?;
    let client = client_on(&loops, plan.http2.then(|| plan.in_flight / plan.connections));
    let url = format!("http://{}/", plan.address);
    let plan = plan.clone();
    let called = loops.get(0).spawn(move || async move {
        let (meter, left) = (Rc::new(Meter::default()), Rc::new(Cell::new(plan.requests)));
        let tasks: Vec<_> = (0..plan.in_flight)
            .map(|_| {
                let (client, url) = (client.clone(), url.clone());
                let (meter, left) = (Rc::clone(&meter), Rc::clone(&left));
                anywire_loops::spawn(async move {
                    while let Some(fewer) = left.get().checked_sub(1) {
                        left.set(fewer);
                        meter.count(get(&client, &url).await);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await?;
        }
        ensure!(meter.requests() == plan.requests, "{} calls failed", meter.errors());
        Ok(())
    });
    called.wait()?
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
