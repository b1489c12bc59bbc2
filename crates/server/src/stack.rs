//! What operators ask of a service on `stack:` devices, as routes: its connections and counters, and the frames that pass.
//!
//! | route | answers |
//! | --- | --- |
//! | `GET /stat?connections=N` | all hosts as JSON, with at most so many connections each (100,000; default 1,000) |
//! | `GET /metrics` | the counters as Prometheus scrapes them |
//! | `GET /capture?device=D&filter=F&bytes=N` | a pcapng file that goes on until the caller leaves |
//!
//! They tell who is connected and what is said, so they belong on an address that only operators reach. `anywire serve` has them on
//! a Unix socket of mode 600, where `anywire stack` finds them.
//!
//! ```
//! use anywire_server::{Router, Server};
//!
//! let service = Router::new().get("/", async || "hello");
//! let running = Server::new(service).listen("memory:service").start()?;
//! let operators = Server::new(anywire_server::stack::routes()).on(running.loops());
//! let operators = operators.listen("memory:operators").start()?;
//! # operators.shutdown(std::time::Duration::ZERO).wait();
//! # running.shutdown(std::time::Duration::ZERO).wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use anywire_http::{Body, Response, StatusCode};
use anywire_wire::stack::{Capture, CaptureOptions, HostSnapshot, Snapshot, snapshot};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::extract::{Json, Query};
use crate::router::Router;

/// The routes, to be served on an address of their own or [nested](Router::nest) behind a check of who asks.
pub fn routes() -> Router {
    Router::new().get("/stat", stat).get("/metrics", metrics).get("/capture", capture)
}

/// The counters of all hosts as Prometheus scrapes them: a handler for a route of the service itself.
pub async fn metrics() -> Response {
    let text = snapshot(0).await.prometheus();
    Response::new(StatusCode::OK).header("content-type", "text/plain; version=0.0.4").body(text)
}

#[derive(Deserialize)]
struct StatQuery {
    connections: Option<usize>,
}

async fn stat(Query(query): Query<StatQuery>) -> Json<Value> {
    let connections_max = query.connections.unwrap_or(CONNECTIONS).min(CONNECTIONS_MAX);
    Json(described(&snapshot(connections_max).await))
}

#[derive(Deserialize)]
struct CaptureQuery {
    device: Option<String>,
    filter: Option<String>,
    bytes: Option<u32>,
}

async fn capture(Query(query): Query<CaptureQuery>) -> Response {
    let mut options = CaptureOptions { device: query.device, ..CaptureOptions::default() };
    if let Some(text) = query.filter.filter(|text| !text.trim().is_empty()) {
        match text.parse() {
            Ok(filter) => options.filter = Some(filter),
            Err(wrong) => return refused(StatusCode::BAD_REQUEST, &wrong),
        }
    }
    options.frame_bytes = query.bytes.unwrap_or(options.frame_bytes);
    let mut capture = match Capture::start(options).await {
        Ok(capture) => capture,
        Err(error) => {
            let status = match error.kind() {
                io::ErrorKind::NotFound => StatusCode::NOT_FOUND,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            return refused(status, &error);
        }
    };
    let (mut sender, body) = Body::channel(AHEAD_BYTES);
    drop(anywire_loops::spawn(async move {
        // While no frame passes, a caller that has left is noticed by looking.
        while !sender.is_closed() {
            let Ok(piece) = timeout(LOOK_EVERY, capture.next()).await else { continue };
            let Some(piece) = piece else { return };
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    }));
    Response::new(StatusCode::OK).header("content-type", "application/x-pcapng").body(body)
}

fn refused(status: StatusCode, why: &dyn std::error::Error) -> Response {
    Response::new(status).header("content-type", "text/plain; charset=utf-8").body(why.to_string())
}

fn described(snapshot: &Snapshot) -> Value {
    let silent = snapshot.silent.iter().map(|(device, number)| json!({ "device": device, "loop": number }));
    json!({
        "schema": "anywire.stack/1",
        "pid": std::process::id(),
        "hosts": snapshot.hosts.iter().map(host).collect::<Vec<_>>(),
        "silent": silent.collect::<Vec<_>>(),
    })
}

fn host(host: &HostSnapshot) -> Value {
    let addresses =
        host.addresses.iter().map(|(address, is_ready)| json!({ "address": address, "ready": is_ready }));
    let neighbours = host.neighbours.iter().map(|neighbour| {
        json!({
            "address": neighbour.address,
            "lladdr": neighbour.mac.map(|mac| mac.to_string()),
            "state": neighbour.state.to_string(),
        })
    });
    let counters: BTreeMap<_, _> = host.counters().iter().map(|one| (one.nstat, one.value)).collect();
    json!({
        "device": host.device,
        "loop": host.loop_number,
        "loops": host.loops_number,
        "lladdr": host.mac.to_string(),
        "mtu": host.mtu,
        "addresses": addresses.collect::<Vec<_>>(),
        "neighbours": neighbours.collect::<Vec<_>>(),
        "inuse": host.open,
        "synrecv": host.half_open,
        "tw": host.time_wait,
        "memory_bytes": host.memory.total(),
        "counters": counters,
        "connections": host.connections.iter().map(connection).collect::<Vec<_>>(),
        "connections_omitted": host.connections_omitted,
    })
}

/// Under the names that `ss -ti` prints. Times are in milliseconds.
fn connection(one: &anywire_wire::stack::ConnectionInfo) -> Value {
    let tcp = &one.tcp;
    let millis = |time: Duration| time.as_micros() as f64 / 1000.0;
    json!({
        "state": tcp.state.to_string(),
        "recv_q": tcp.recv_q,
        "send_q": tcp.send_q,
        "local": tcp.local,
        "peer": tcp.peer,
        "orphan": tcp.is_orphan,
        "ts": tcp.ts,
        "sack": tcp.sack,
        "ecn": tcp.ecn,
        "algorithm": format!("{:?}", tcp.algorithm).to_lowercase(),
        "wscale": [tcp.wscale.0, tcp.wscale.1],
        "rto": millis(tcp.rto),
        "rtt": millis(tcp.rtt),
        "rttvar": millis(tcp.rttvar),
        "mss": tcp.mss,
        "cwnd": tcp.cwnd,
        "ssthresh": tcp.ssthresh,
        "bytes_sent": one.bytes_sent,
        "bytes_retrans": tcp.bytes_retrans,
        "bytes_acked": one.bytes_acked,
        "bytes_received": one.bytes_received,
        "notsent": tcp.notsent,
        "unacked": tcp.unacked,
        "sacked": tcp.sacked,
        "lost": tcp.lost,
        "retrans": tcp.retrans,
        "backoff": tcp.backoff,
        "snd_wnd": tcp.snd_wnd,
        "rcv_wnd": tcp.rcv_wnd,
    })
}

/// Connections of each host, unless the query says how many, and at most.
const CONNECTIONS: usize = 1000;
const CONNECTIONS_MAX: usize = 100_000;

/// Bytes of a capture that are sent ahead of its reader. More wait in the capture, within its own limit.
const AHEAD_BYTES: usize = 256 << 10;

/// How often a capture without frames looks whether somebody still reads.
const LOOK_EVERY: Duration = Duration::from_secs(1);
