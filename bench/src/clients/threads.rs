//! anywire's own client, called by eight threads outside its loop.

use std::sync::Arc;

use anyhow::{Context, Result};
use anywire_client::Client as AnywireClient;
use anywire_loops::Loops;

use super::{Client, Cores, Meter, Plan, Protocol, Tally, WARM_UP};
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "anywire-threads",
    version: || versions::locked("anywire-client"),
    settings: "1 loop, calls made by 8 threads outside it, each a tokio current-thread runtime with its share of those in flight",
    protocols: &[Protocol::Http1],
    warm_up: WARM_UP,
    cores: Cores::One,
    call,
    bursts: None,
};

fn call(plan: &Plan) -> Result<Tally> {
    let loops = Loops::start(1)?;
    let client = AnywireClient::builder().on(&loops).build();
    let meter = Arc::new(Meter::default());
    for _ in 0..THREADS {
        let (client, meter) = (client.clone(), Arc::clone(&meter));
        let (url, calls) = (format!("http://{}/", plan.address), plan.in_flight / THREADS);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        // It ends with the process.
        std::thread::spawn(move || {
            let tasks = tokio::task::LocalSet::new();
            for _ in 0..calls {
                let (client, url, meter) = (client.clone(), url.clone(), Arc::clone(&meter));
                tasks.spawn_local(async move {
                    loop {
                        meter.count(super::anywire::get(&client, &url).await);
                    }
                });
            }
            runtime.block_on(tasks);
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(meter.interval(plan)).context("measuring failed")
}

const THREADS: usize = 8;
