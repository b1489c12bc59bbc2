//! A checked plan: where to dial, and the bytes of its requests.

use std::time::{Duration, Instant};

use anywire_http::h1::{self, Framing};
use anywire_http::url::{Url, redact};
use anywire_http::{Headers, Method};
use anywire_loops::clock::{after, precise};
use anywire_wire::{Address, DialError, DialLog, DialOptions, Dialer};

use super::error::ProbeError;
use super::line::Line;
use super::link::{Fault, Link};
use super::plan::Plan;
use super::question::Question;
use super::session::Session;
use crate::errors::LoadError;
use crate::protocol::Protocol;
use crate::request::asks_to_close;

/// The service that is probed.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) plan: Plan,
    pub(super) url: Url,
    pub(super) address: Address,
    /// The same without the TLS that the URL asks for; `None` if the address itself has it.
    pub(super) clear_address: Option<Address>,
    /// What the `Host` of each request says.
    pub(super) host: String,
    pub(super) headers: Headers,
    dial: DialOptions,
}

impl Target {
    /// Checks a plan.
    pub(super) fn new(plan: Plan) -> Result<Self, ProbeError> {
        check(&plan).map_err(ProbeError::Plan)?;
        if asks_to_close(&plan.headers) {
            return Err(ProbeError::Closes);
        }
        let wrong_url = |source| LoadError::Url { url: redact(&plan.url), source };
        let url = Url::parse(&plan.url).map_err(wrong_url).map_err(ProbeError::Plan)?;
        let inner = address(&plan, &url).map_err(ProbeError::Plan)?;
        let address = if url.is_https() {
            let no_tls = || ProbeError::Plan(LoadError::NoTls { address: inner.clone() });
            inner.with_tls().ok_or_else(no_tls)?
        } else {
            inner.clone()
        };
        let clear_address = (!inner.has_tls()).then_some(inner);
        let mut headers = plan.headers.clone();
        let host = headers.get("host").map_or_else(|| url.authority().to_owned(), str::to_owned);
        headers.remove("host");
        let dial = DialOptions {
            connect_timeout: plan.connect_timeout,
            handshake_timeout: plan.handshake_timeout,
            server_name: Some(plan.server_name.clone().unwrap_or_else(|| url.host().to_owned())),
            protocols: vec![plan.protocol.alpn().to_owned()],
            #[cfg(feature = "tls")]
            tls: plan.tls.clone(),
            ..DialOptions::default()
        };
        let target = Self { plan, url, address, clear_address, host, headers, dial };
        let path = target.url.path_and_query().to_owned();
        target
            .head(&Method::GET, &path, &[], Framing::None)
            .map_err(|source| ProbeError::Plan(LoadError::Request { source }))?;
        if let Some(path) = &target.plan.slow_path {
            let refused = || ProbeError::SlowPath { path: path.clone() };
            let written = target.head(&Method::GET, path, &[], Framing::None);
            written.ok().filter(|_| path.starts_with('/')).ok_or_else(refused)?;
        }
        Ok(target)
    }

    /// The path of the URL.
    pub(super) fn path(&self) -> &str {
        self.url.path_and_query()
    }

    /// A request without a body.
    pub(super) fn question(&self, method: &Method, path: &str, fields: &[(&str, &str)]) -> Question {
        Question {
            method: method.clone(),
            path: path.to_owned(),
            headers: self.headers_with(fields),
            host: self.host.clone(),
            scheme: if self.url.is_https() { "https" } else { "http" },
            // Paths and host were tried when the plan was checked, and the fields are ours.
            bytes: self.head(method, path, fields, Framing::None).unwrap_or_default(),
        }
    }

    fn headers_with(&self, fields: &[(&str, &str)]) -> Headers {
        let mut headers = self.headers.clone();
        for (name, value) in fields {
            // Names and values of ours are always valid.
            let _ = headers.insert(name, value);
        }
        headers
    }

    /// The head of a request.
    pub(super) fn head(
        &self,
        method: &Method,
        path: &str,
        fields: &[(&str, &str)],
        framing: Framing,
    ) -> Result<Vec<u8>, h1::encode::EncodeError> {
        let headers = self.headers_with(fields);
        let mut request = Vec::new();
        h1::encode::request_head(&mut request, method, path, &self.host, &headers, framing)?;
        Ok(request)
    }

    /// How it is dialled.
    pub(super) fn dial_options(&self) -> &DialOptions {
        &self.dial
    }

    /// The name that the server has to prove.
    pub(super) fn server_name(&self) -> &str {
        self.dial.server_name.as_deref().unwrap_or_default()
    }

    /// A new connection, by the protocol of the plan or another one.
    pub(super) async fn dial(&self, protocol: Option<&str>) -> Result<Dialled, DialError> {
        let mut options = self.dial.clone();
        if let Some(protocol) = protocol {
            options.protocols = vec![protocol.to_owned()];
        }
        let dialer = Dialer::new(options);
        let (connection, log) = DialLog::of(dialer.dial(&self.address)).await;
        Ok(Dialled::new(connection?, &log))
    }

    /// A new connection that speaks HTTP/1.
    pub(super) async fn open_http1(&self) -> Result<Link, Fault> {
        let dialled = self.dial(None).await.map_err(|error| Fault::of_dial(&self.address, &error))?;
        Ok(Link::new(dialled, &self.plan.limits))
    }

    /// A new connection that speaks the version of the plan.
    pub(super) async fn open(&self) -> Result<Line, Fault> {
        if self.plan.protocol == Protocol::Http1 {
            return Ok(Line::Http1(Box::new(self.open_http1().await?)));
        }
        let dialled = self.dial(None).await.map_err(|error| Fault::of_dial(&self.address, &error))?;
        let mut session = Session::new(dialled, &self.plan.limits);
        session.greeted(self.patience()).await?;
        Ok(Line::Http2(Box::new(session)))
    }

    /// A new connection with one exchange of the URL on it.
    pub(super) async fn open_and_get(&self) -> Result<Line, Fault> {
        let mut line = self.open().await?;
        line.exchange(&self.get(), self.patience()).await?;
        Ok(line)
    }

    /// `GET` of the URL.
    pub(super) fn get(&self) -> Question {
        self.question(&Method::GET, self.path(), &[])
    }

    /// The end of the wait for an answer that is asked for now.
    pub(super) fn patience(&self) -> Instant {
        after(precise(), self.plan.timeout)
    }

    /// Whether a pattern that began then has to end.
    pub(super) fn is_over(&self, begun: Instant) -> bool {
        self.plan.stop.is_stopped() || begun.elapsed() >= self.plan.pattern_time
    }
}

/// A connection with the times of its making.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) connection: anywire_wire::Connection,
    /// Resolving and connecting.
    pub(super) connect: Duration,
    /// The handshake of TLS, if there was one.
    pub(super) tls: Option<Duration>,
}

impl Dialled {
    fn new(connection: anywire_wire::Connection, log: &DialLog) -> Self {
        use anywire_wire::DialStep;

        let at = |wanted| log.steps().iter().find(|(step, _)| *step == wanted).map(|(_, at)| *at);
        let connected = at(DialStep::Connected).unwrap_or_else(precise);
        let tls = at(DialStep::Secured).map(|secured| secured.saturating_duration_since(connected));
        Self { connection, connect: connected.saturating_duration_since(log.begun()), tls }
    }
}

fn check(plan: &Plan) -> Result<(), LoadError> {
    let limits = &plan.limits;
    let within = |what, asked: usize, least: usize, most: usize| {
        let (asked, least, most) = (asked as u64, least as u64, most as u64);
        if (least..=most).contains(&asked) {
            Ok(())
        } else {
            Err(LoadError::Limit { what, asked, least, most })
        }
    };
    within("requests", plan.requests, REQUESTS_MIN, limits.requests)?;
    within("requests in one write (pipeline)", plan.pipeline, 2, limits.pipeline)?;
    within("connections", plan.connections, 1, limits.connections)?;
    let millis = |time: Duration| usize::try_from(time.as_millis()).unwrap_or(usize::MAX);
    let longest = millis(limits.time);
    within("ms of timeout", millis(plan.timeout), 1, longest)?;
    within("ms of connect timeout", millis(plan.connect_timeout), 1, longest)?;
    within("ms of handshake timeout", millis(plan.handshake_timeout), 1, longest)?;
    within("ms of one pattern", millis(plan.pattern_time), 1, longest)
}

/// That of the plan or of the URL, without the TLS that the URL asks for.
fn address(plan: &Plan, url: &Url) -> Result<Address, LoadError> {
    match &plan.via {
        Some(address) => Ok(address.clone()),
        None => Address::from_host(url.host_with_zone(), url.port())
            .map_err(|source| LoadError::Address { url: url.to_string(), source }),
    }
}

/// Fewer tell nothing of a share.
const REQUESTS_MIN: usize = 8;
