//! hyper-util's legacy client: the pooled client of the hyper world, on tokio's current-thread runtime.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Uri;
use hyper_util::client::legacy::Client as LegacyClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::{Client, Cores, Meter, Plan, Protocol, Tally, WARM_UP};
use crate::versions;

pub(super) const CLIENT: Client = Client {
    name: "hyper-util",
    version: || versions::locked("hyper-util"),
    settings: "legacy client, pool_max_idle_per_host = in flight; over HTTP/2 one client a connection, http2_only; TCP_NODELAY, tokio current-thread runtime",
    protocols: &[Protocol::Http1, Protocol::Http2],
    warm_up: WARM_UP,
    cores: Cores::One,
    call,
    bursts: None,
};

fn call(plan: &Plan) -> Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        // Over HTTP/2 a client has one connection for each origin.
        let count = if plan.http2 { plan.connections } else { 1 };
        let clients: Vec<LegacyClient<_, Empty<Bytes>>> = (0..count)
            .map(|_| {
                LegacyClient::builder(TokioExecutor::new())
                    .pool_max_idle_per_host(plan.in_flight)
                    .http2_only(plan.http2)
                    .build(connector.clone())
            })
            .collect();
        let uri: Uri = format!("http://{}/", plan.address).parse()?;
        let meter = Arc::new(Meter::default());
        for client in clients.iter().cycle().take(plan.in_flight) {
            let (client, uri, meter) = (client.clone(), uri.clone(), meter.clone());
            tokio::spawn(async move {
                loop {
                    meter.count(get(&client, &uri).await);
                }
            });
        }
        meter.interval(plan).await
    })
}

async fn get(client: &LegacyClient<HttpConnector, Empty<Bytes>>, uri: &Uri) -> Result<(u16, usize)> {
    let response = client.get(uri.clone()).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, body.len()))
}
