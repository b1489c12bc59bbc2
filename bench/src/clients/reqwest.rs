//! reqwest, on tokio's current-thread runtime.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use reqwest::Url;

use super::{BURST_MAX, Bursts, Client, Cores, Meter, Plan, Protocol, Tally, WARM_UP};
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "reqwest",
    version: || versions::locked("reqwest"),
    settings: "http1_only, pool_max_idle_per_host = in flight, no proxy, no redirects, TCP_NODELAY, no default features, \
               tokio current-thread runtime",
    protocols: &[Protocol::Http1],
    warm_up: WARM_UP,
    cores: Cores::One,
    call,
    bursts: Some(bursts),
};

fn call(plan: &Plan) -> Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder()
            .http1_only()
            .pool_max_idle_per_host(plan.in_flight)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .build()?;
        let url: Url = format!("http://{}/", plan.address).parse()?;
        let meter = Arc::new(Meter::default());
        for _ in 0..plan.in_flight {
            let (client, url, meter) = (client.clone(), url.clone(), meter.clone());
            tokio::spawn(async move {
                loop {
                    meter.count(get(&client, &url).await);
                }
            });
        }
        meter.interval(plan).await
    })
}

/// From a thread outside the runtime, which has a worker for each core.
fn bursts(plan: &Bursts) -> Result<Vec<Tally>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let client = reqwest::Client::builder()
        .http1_only()
        .pool_max_idle_per_host(BURST_MAX)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .build()?;
    let url: Url = format!("http://{}/", plan.address).parse()?;
    let call = |meter: &Arc<Meter>| {
        let (client, url, meter) = (client.clone(), url.clone(), Arc::clone(meter));
        let start = Instant::now();
        runtime.spawn(async move {
            meter.took(start, post(&client, &url).await);
        });
    };
    plan.run(call, || runtime.block_on(post(&client, &url)))
}

async fn post(client: &reqwest::Client, url: &Url) -> Result<(u16, usize)> {
    let response = client.post(url.clone()).body("OK").send().await?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await?.len()))
}

async fn get(client: &reqwest::Client, url: &Url) -> Result<(u16, usize)> {
    let response = client.get(url.clone()).send().await?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await?.len()))
}
