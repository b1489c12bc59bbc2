//! The plan of a run: what to send, where, over how many connections, how deep and for how long.

use std::sync::Arc;
use std::time::Duration;

use anywire_http::url::{Url, redact};
use anywire_http::{Headers, Method};
use anywire_wire::{Address, AddressTurns, DialOptions};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::errors::LoadError;
use crate::expect::Expect;
use crate::handles::Handles;
use crate::limits::Limits;
use crate::pacer::Part;
use crate::plan_data;
use crate::protocol::Protocol;
use crate::request::Request;
use crate::schedule::{Schedule, Shape};
use crate::script::{Common, Compiled, Script};

/// The plan of a run. Set the fields that differ from the defaults of [`Plan::new`]; [`run`](crate::run) checks them.
///
/// A plan is data: it can be kept, compared and sent to another machine as JSON. It holds the headers and the body as they are,
/// with any secret in them. What is no data is in [`Handles`].
///
/// ```
/// use std::time::Duration;
/// use anywire_load::{Amount, Plan};
///
/// let plan = Plan {
///     connections: 128,
///     depth: 16,
///     amount: Amount::Duration(Duration::from_secs(30)),
///     via: Some("unix:/run/app.sock".parse().unwrap()),
///     ..Plan::new("http://localhost/")
/// };
/// assert_eq!(plan.warm_up, Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The URL. TLS is spoken if its scheme is `https`, or if the address has it.
    pub url: String,
    /// The address that is dialled instead of the URL's host and port (`None`: those).
    #[serde(with = "plan_data::optional_text")]
    pub via: Option<Address>,
    /// The name that the server has to prove over TLS (`None`: the host of the URL).
    pub server_name: Option<String>,
    /// Connections in all, spread evenly over the loops (64).
    pub connections: usize,
    /// The version of HTTP (1.1).
    pub protocol: Protocol,
    /// Requests in flight on each connection (1: no pipelining). Over HTTP/2 each has a stream, and there are fewer if the
    /// server allows fewer.
    pub depth: usize,
    /// When requests leave (`None`: when responses come, the closed mode). With a schedule latencies count from when a request
    /// should have left, so that no stall of the server hides any.
    pub schedule: Option<Schedule>,
    /// With a schedule: requests that are later than this when a connection could take them are not sent, and counted as
    /// [`shed`](crate::Requests::shed) (`None`: each is sent, however late).
    pub deadline: Option<Duration>,
    /// With a schedule: which of the connections that have room takes the next request ([`Reuse::Lru`]).
    pub reuse: Reuse,
    /// With a schedule: how long before a request is due the loop begins to spin instead of sleeping (50 us, about as long as it
    /// takes to wake up); zero spares the CPU time, and requests leave so much later.
    pub spin: Duration,
    /// Requests on one connection, which is then closed and opened anew (`None`: any number).
    pub requests_per_connection: Option<u64>,
    /// When the measured part ends (after 10 s).
    pub amount: Amount,
    /// Load before the measured part, which is in no figure (1 s).
    pub warm_up: Duration,
    /// The method (`GET`).
    #[serde(with = "plan_data::text")]
    pub method: Method,
    /// Header fields of each request beside `host` and the framing, which the encoder writes; a `host` here
    /// replaces the URL's.
    #[serde(with = "plan_data::headers")]
    pub headers: Headers,
    /// The body of each request (empty).
    #[serde(with = "plan_data::bytes")]
    pub body: Bytes,
    /// What is sent instead of that one request (`None`: it). The headers are those of each of its requests, too.
    #[serde(default)]
    pub script: Option<Script>,
    /// What the values of its templates and the order of its requests are drawn by (0).
    #[serde(default)]
    pub seed: u64,
    /// Which of several generators of one load this is, from 0, and how many there are (0 of 1): those of one script count
    /// different numbers and take different rows.
    #[serde(default = "alone")]
    pub place: (u64, u64),
    /// The connections of all these generators together (`None`: this is the only one). The requests of a schedule, which is that of all, are
    /// dealt to them in turn: even gaps stay even, and no two generators send at the same time.
    #[serde(default)]
    pub connections_together: Option<usize>,
    /// Whether the events of streamed bodies are timed (no): how long the first one takes, and the gaps between them. Then an answer
    /// may last as long as it likes; the timeout is for the time in which nothing of it comes.
    #[serde(default)]
    pub events: bool,
    /// Longest wait for a response, from the sending of its request (10 s). Then the connection is aborted and opened anew;
    /// over HTTP/2 the stream ends alone, unless the whole connection was silent for so long. A response that comes later is
    /// none, though a busy loop may come to look for it before it ends the wait.
    pub timeout: Duration,
    /// Longest wait for a connection, all addresses of a name together (3 s: a lost SYN is sent again after one second,
    /// and again after two more).
    pub connect_timeout: Duration,
    /// Longest handshake of TLS on a new connection (5 s).
    pub handshake_timeout: Duration,
    /// The field of a response that tells the server's own time (`None`: `Server-Timing`): milliseconds, or a number with its unit.
    pub server_time_header: Option<String>,
    /// Whether the system calls of the loops are counted by name (no: it costs time at each of them).
    pub count_system_calls: bool,
    /// How a good answer looks.
    pub expect: Expect,
    /// Limits of the run.
    pub limits: Limits,
}

impl Plan {
    /// `GET url` over 64 connections at depth 1 for 10 s after 1 s of warm-up.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            via: None,
            server_name: None,
            connections: 64,
            protocol: Protocol::default(),
            depth: 1,
            schedule: None,
            deadline: None,
            reuse: Reuse::Lru,
            spin: Duration::from_micros(50),
            requests_per_connection: None,
            amount: Amount::Duration(Duration::from_secs(10)),
            warm_up: Duration::from_secs(1),
            method: Method::GET,
            headers: Headers::new(),
            body: Bytes::new(),
            script: None,
            seed: 0,
            place: alone(),
            connections_together: None,
            events: false,
            timeout: Duration::from_secs(10),
            connect_timeout: DialOptions::default().connect_timeout,
            handshake_timeout: DialOptions::default().handshake_timeout,
            server_time_header: None,
            count_system_calls: false,
            expect: Expect::default(),
            limits: Limits::default(),
        }
    }

    /// Checks the plan and encodes its request.
    pub(crate) fn prepare(&self, handles: &Handles) -> Result<Prepared, LoadError> {
        let limits = &self.limits;
        within("connections", self.connections as u64, 1, limits.connections as u64)?;
        within("requests in flight on a connection (depth)", self.depth as u64, 1, limits.depth as u64)?;
        let (least, longest) = (1, millis(limits.time));
        within("ms of timeout", millis(self.timeout), least, longest)?;
        within("ms of connect timeout", millis(self.connect_timeout), least, longest)?;
        within("ms of handshake timeout", millis(self.handshake_timeout), least, longest)?;
        within("ms of warm-up", millis(self.warm_up), 0, longest)?;
        match self.amount {
            Amount::Duration(time) => within("ms of duration", millis(time), least, longest)?,
            Amount::Requests(requests) => within("requests", requests, 1, u64::MAX)?,
        }
        self.check_place()?;
        self.check_schedule()?;
        if self.method == Method::CONNECT {
            return Err(LoadError::Method { method: self.method.to_string() });
        }
        let url =
            Url::parse(&self.url).map_err(|source| LoadError::Url { url: redact(&self.url), source })?;
        let request = Request::of(self, &url)?;
        let script = self.compiled(&url)?;
        let bytes = script.as_ref().map_or(request.bytes(), Compiled::request_bytes);
        within("bytes of one request", bytes as u64, 1, limits.request_bytes as u64)?;
        let mut address = match &self.via {
            Some(address) => address.clone(),
            None => Address::from_host(url.host_with_zone(), url.port())
                .map_err(|source| LoadError::Address { url: url.to_string(), source })?,
        };
        if url.is_https() {
            address = address.with_tls().ok_or_else(|| LoadError::NoTls { address: address.clone() })?;
        }
        let server_name = self.server_name.clone().unwrap_or_else(|| url.host().to_owned());
        Ok(Prepared {
            address,
            request,
            request_bytes: bytes,
            script: script.map(Arc::new),
            dial: self.dial_options(server_name, handles),
        })
    }

    /// What is sent in place of the one request; also if its answers have to be looked at more closely than by their numbers.
    fn compiled(&self, url: &Url) -> Result<Option<Compiled>, LoadError> {
        let is_usual = self.expect.is_by_numbers() && !self.events;
        let own;
        let script = match &self.script {
            Some(script) => script,
            None if is_usual => return Ok(None),
            None => {
                own = Script::of_request(&self.method, url.path_and_query(), &self.body);
                &own
            }
        };
        let common = Common {
            host: url.authority(),
            is_https: url.is_https(),
            headers: &self.headers,
            expect: &self.expect,
            limits: &self.limits,
        };
        Compiled::new(script, &common).map(Some).map_err(|source| LoadError::Script { source: source.into() })
    }

    /// Which part of a load this is, and whether its connections are those of that part.
    fn check_place(&self) -> Result<(), LoadError> {
        let (index, of) = self.place;
        within("as the place of the generator", index, 0, of.max(1) - 1)?;
        let Some(together) = self.connections_together else { return Ok(()) };
        let own = portion(together as u64, index, of.max(1));
        within("connections of this part", self.connections as u64, own, own)
    }

    /// Which of the connections of all generators are those of one loop of `loops` here.
    pub(crate) fn part_of_loop(&self, index: usize, loops: usize) -> Part {
        // Checked: the place is one of so many as there are connections at least, so that both are small.
        let (place, of) = self.place;
        let (place, of) = (place as usize, (of as usize).max(1));
        match self.connections_together {
            Some(together) => Part::every(loops * of, place + of * index, together),
            None => Part::every(loops, index, self.connections),
        }
    }

    /// The share of the whole load that is this one's.
    pub(crate) fn share(&self) -> f64 {
        self.connections_together.map_or(1.0, |together| self.connections as f64 / together as f64)
    }

    fn check_schedule(&self) -> Result<(), LoadError> {
        let longest = millis(self.limits.time);
        within("ms of deadline", self.deadline.map_or(0, millis), 0, longest)?;
        within("us of spin", millis(self.spin.saturating_mul(1000)), 0, SPIN_US_MAX)?;
        within("requests on a connection", self.requests_per_connection.unwrap_or(1), 1, u64::MAX)?;
        let Some(schedule) = &self.schedule else {
            return if self.deadline.is_some() { Err(LoadError::NeedsRate) } else { Ok(()) };
        };
        schedule.check()?;
        match (schedule.shape, self.amount) {
            (Shape::Ramp { .. } | Shape::Steps { .. }, Amount::Requests(_)) => Err(LoadError::NeedsDuration),
            _ => Ok(()),
        }
    }

    /// Connections of the parts before this one, if several agents carry out the plan.
    fn connections_before(&self) -> usize {
        let ((index, of), together) = (self.place, self.connections_together.unwrap_or_default() as u64);
        let before =
            index.saturating_mul(together / of.max(1)).saturating_add(index.min(together % of.max(1)));
        usize::try_from(before).unwrap_or_default()
    }

    fn dial_options(&self, server_name: String, handles: &Handles) -> DialOptions {
        DialOptions {
            connect_timeout: self.connect_timeout,
            // As one generator would spread them: each part begins behind the connections of the parts before it.
            in_turn: Some(AddressTurns::starting_at(self.connections_before())),
            handshake_timeout: self.handshake_timeout,
            server_name: Some(server_name),
            protocols: vec![self.protocol.alpn().to_owned()],
            ..handles.dial_options()
        }
    }
}

/// The place of a generator without others.
fn alone() -> (u64, u64) {
    (0, 1)
}

/// The part of the whole that is the place of one of `of`; the first ones have one more, if it does not divide evenly.
pub(crate) fn portion(whole: u64, index: u64, of: u64) -> u64 {
    whole / of + u64::from(index < whole % of)
}

/// When the measured part of a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// After this time.
    Duration(Duration),
    /// When this many requests have been sent and each was answered or lost.
    Requests(u64),
}

impl Amount {
    /// The time, if it is one.
    pub(crate) fn time(self) -> Option<Duration> {
        match self {
            Self::Duration(time) => Some(time),
            Self::Requests(_) => None,
        }
    }
}

/// Which of the connections that have room takes the next request of a schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// The one that has waited longest, so that all are used evenly and stay warm.
    #[default]
    Lru,
    /// The one that was used last, so that as few are used as the rate needs.
    Mru,
}

/// A checked plan, as the connections need it.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// The address to dial.
    pub(crate) address: Address,
    /// The plan's own request.
    pub(crate) request: Request,
    /// The length of the longest encoded request.
    pub(crate) request_bytes: usize,
    /// What is sent instead.
    pub(crate) script: Option<Arc<Compiled>>,
    /// How it is dialled.
    pub(crate) dial: DialOptions,
}

fn within(what: &'static str, asked: u64, least: u64, most: u64) -> Result<(), LoadError> {
    if (least..=most).contains(&asked) {
        return Ok(());
    }
    Err(LoadError::Limit { what, asked, least, most })
}

/// Longer spins are mostly sleep that costs CPU time.
const SPIN_US_MAX: u64 = 10_000;

/// As many as there are, or the most that the type has.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use anywire_advice::Chain;

    use super::*;
    use crate::request::Window;

    fn window(plan: &Plan) -> Window {
        match plan.prepare(&Handles::default()).unwrap().request {
            Request::Http1(window) => window,
            Request::Http2(_) => panic!("the plan is one of HTTP/1"),
        }
    }

    #[test]
    fn the_request_is_encoded_as_often_as_the_depth() {
        let plan = Plan { depth: 3, ..Plan::new("http://example.test:8080/a/b?c=d#e") };
        let window = window(&plan);
        let one = "GET /a/b?c=d HTTP/1.1\r\nhost: example.test:8080\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&window.bytes).to_lowercase(), one.repeat(3).to_lowercase());
        assert_eq!(window.request_bytes, one.len());
        assert_eq!(
            plan.prepare(&Handles::default()).unwrap().address,
            "tcp:example.test:8080".parse().unwrap()
        );
    }

    #[cfg(feature = "tls")]
    #[test]
    fn https_goes_over_tls_by_any_wire() {
        let prepared = Plan::new("https://example.test/").prepare(&Handles::default()).unwrap();
        assert_eq!(prepared.address, "tls:example.test:443".parse().unwrap());
        assert_eq!(prepared.dial.server_name.as_deref(), Some("example.test"));
        let via = Some("unix:/run/app.sock".parse().unwrap());
        let server_name = Some("other.test".to_owned());
        let plan = Plan { via, server_name, protocol: Protocol::Http2, ..Plan::new("https://example.test/") };
        let prepared = plan.prepare(&Handles::default()).unwrap();
        assert_eq!(prepared.address, "tls+unix:/run/app.sock".parse().unwrap());
        assert_eq!(prepared.dial.server_name.as_deref(), Some("other.test"));
        assert_eq!(prepared.dial.protocols, ["h2"]);
    }

    #[test]
    fn a_body_brings_its_length_and_a_host_header_replaces_the_url() {
        let mut headers = Headers::new();
        headers.insert("host", "other").unwrap();
        headers.insert("x-a", "1").unwrap();
        let body = Bytes::from_static(b"hello");
        let plan = Plan { method: Method::POST, headers, body, ..Plan::new("http://h/") };
        let text = String::from_utf8_lossy(&window(&plan).bytes).to_lowercase();
        assert!(text.contains("host: other\r\n") && !text.contains("host: h\r\n"), "{text}");
        assert!(text.contains("content-length: 5\r\n") && text.ends_with("\r\n\r\nhello"), "{text}");
    }

    #[test]
    fn a_window_larger_than_its_limit_is_cut() {
        let plan = Plan {
            depth: 100,
            body: Bytes::from(vec![0; 100 * 1024]),
            method: Method::POST,
            ..Plan::new("http://h/")
        };
        let window = window(&plan);
        assert_eq!(window.bytes.len(), 2 * window.request_bytes);
    }

    #[test]
    fn what_is_wrong_with_a_plan_is_said() {
        let refused = |plan: Plan| Chain(&plan.prepare(&Handles::default()).unwrap_err()).to_string();
        assert!(refused(Plan::new("nonsense")).contains("nonsense"));
        #[cfg(not(feature = "tls"))]
        assert!(refused(Plan::new("https://h/")).contains("no TLS"));
        assert!(refused(Plan::new("http://me:secret@h/")).contains("user-info"));
        assert!(refused(Plan { connections: 0, ..Plan::new("http://h/") }).contains("0 connections"));
        assert!(refused(Plan { depth: 5000, ..Plan::new("http://h/") }).contains("1 to 4096"));
        assert!(
            refused(Plan { amount: Amount::Requests(0), ..Plan::new("http://h/") }).contains("0 requests")
        );
        assert!(refused(Plan { method: Method::CONNECT, ..Plan::new("http://h/") }).contains("CONNECT"));
        let mut headers = Headers::new();
        headers.insert("host", "not a host").unwrap();
        assert!(refused(Plan { headers, ..Plan::new("http://h/") }).contains("cannot be written"));
        // The milliseconds of the second one are 10 if only 64 bits of them are looked at.
        for forever in [Duration::from_secs(u64::MAX), Duration::new(1 << 63, 10_000_000)] {
            assert!(refused(Plan { timeout: forever, ..Plan::new("http://h/") }).contains("timeout"));
        }
    }
}
