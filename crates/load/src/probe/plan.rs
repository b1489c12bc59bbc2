//! The plan of a probe: which service, how many requests of each pattern, and how long anything may take.

use std::time::Duration;

use anywire_http::{HeadLimits, Headers};
#[cfg(feature = "tls")]
use anywire_wire::tls::ClientTls;
use anywire_wire::{Address, DialOptions};

use crate::protocol::Protocol;
use crate::stop::Stop;

/// The plan of a probe. Set the fields that differ from the defaults of [`Plan::new`]; [`run`](super::run) checks them.
///
/// All requests are GET and HEAD, so that they change nothing in the service.
///
/// ```
/// use anywire_load::probe::Plan;
///
/// let plan = Plan { pid: Some(4711), slow_path: Some("/report".to_owned()), ..Plan::new("http://localhost:8080/") };
/// assert_eq!((plan.requests, plan.pipeline, plan.connections), (200, 16, 32));
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    /// The URL. TLS is spoken if its scheme is `https`, or if the address has it.
    pub url: String,
    /// The address that is dialled instead of the URL's host and port (`None`: those).
    pub via: Option<Address>,
    /// How TLS is spoken (`None`: as the platform has it).
    #[cfg(feature = "tls")]
    pub tls: Option<ClientTls>,
    /// The name that the server has to prove over TLS (`None`: the host of the URL).
    pub server_name: Option<String>,
    /// The version of HTTP (1.1). With HTTP/2 the patterns of HTTP/1 are left out.
    pub protocol: Protocol,
    /// Header fields of each request beside `host`; a `host` here replaces the URL's.
    pub headers: Headers,
    /// Single requests on one connection (200).
    pub requests: usize,
    /// Requests in one write (16).
    pub pipeline: usize,
    /// Connections at once (32).
    pub connections: usize,
    /// The server's process, on this machine (`None`: the server's side is not known).
    pub pid: Option<i32>,
    /// A path on the same server whose answer takes long, to see whether others wait for it (`None`: not known).
    pub slow_path: Option<String>,
    /// Longest wait for one answer, from the sending of its request to its last byte (5 s).
    pub timeout: Duration,
    /// Longest wait for a connection (3 s).
    pub connect_timeout: Duration,
    /// Longest handshake of TLS (5 s).
    pub handshake_timeout: Duration,
    /// How long one pattern may last, apart from the answer that it waits for at its end (5 s).
    pub pattern_time: Duration,
    /// Limits of the probe.
    pub limits: Limits,
    /// The handle that ends the probe early; keep a clone of it.
    pub stop: Stop,
}

impl Plan {
    /// 200 single requests, 16 in one write, 32 connections; at most 5 s for each pattern and each answer.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            via: None,
            #[cfg(feature = "tls")]
            tls: None,
            server_name: None,
            protocol: Protocol::default(),
            headers: Headers::new(),
            requests: 200,
            pipeline: 16,
            connections: 32,
            pid: None,
            slow_path: None,
            timeout: Duration::from_secs(5),
            connect_timeout: DialOptions::default().connect_timeout,
            handshake_timeout: DialOptions::default().handshake_timeout,
            pattern_time: Duration::from_secs(5),
            limits: Limits::default(),
            stop: Stop::new(),
        }
    }
}

/// How much a probe may ask for, and how much of an answer it takes. A plan beyond it is a
/// [`LoadError::Limit`](crate::LoadError::Limit); an answer beyond it ends its pattern, and the outcome says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Heads of answers.
    pub head: HeadLimits,
    /// One body, in bytes (64 MiB: enough to fill any window, and an end for a body without one).
    pub body_bytes: u64,
    /// Single requests (100,000: each of them is kept until the end).
    pub requests: usize,
    /// Requests in one write (1024: far beyond what servers read ahead).
    pub pipeline: usize,
    /// Connections at once (1024: a probe is no load test).
    pub connections: usize,
    /// Longest timeout and pattern (1 h: beyond it the plan has a typing error).
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            body_bytes: 64 << 20,
            requests: 100_000,
            pipeline: 1024,
            connections: 1024,
            time: Duration::from_secs(3600),
        }
    }
}
