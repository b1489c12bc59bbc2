//! Why a call failed: one enum that says who is at fault, in which phase, and whether the peer may have acted.

mod earlier;
pub(crate) mod gateway;
pub(crate) mod phase;
mod questions;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anywire_advice::Advice;
use anywire_http::body::{BodyError, BoxError};
use anywire_http::h1::DecodeError;
use anywire_http::h1::encode::EncodeError;
use anywire_http::h2::{self, Code, MessageError};
use anywire_http::url::{UrlError, redact};
use anywire_http::{ConvertError, InvalidHeader, InvalidRequest, InvalidTarget, StatusCode};
use anywire_loops::{StartError, TaskError};
#[cfg(feature = "tls")]
use anywire_wire::tls::TlsError;
use anywire_wire::{Address, AddressError, DialError};

use crate::Phase;
#[cfg(feature = "signatures")]
use crate::SignatureFault;
use crate::chain::RedirectFault;
use crate::proxy::{ProxyError, ProxyUrlError};

/// A failed call.
///
/// Ask [`fault`](Self::fault) who can mend it, [`is_connect`](Self::is_connect) and
/// [`is_timeout`](Self::is_timeout) what kind it is, and
/// [`may_have_been_processed`](Self::may_have_been_processed) before sending the same again. A message does not repeat
/// its cause: print both with [`Chain`](anywire_advice::Chain).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not one that can be called. Fault of the caller.
    #[error("cannot call {url:?}")]
    Url {
        /// The URL as it was given.
        url: String,
        /// The part that is wrong.
        source: UrlError,
    },
    /// The address given to [`via`](crate::Call::via) is none. Fault of the caller.
    #[error("cannot call by way of {:?}", source.text())]
    Via {
        /// The part that is wrong.
        source: AddressError,
    },
    /// The URL's host cannot be written as an address. Fault of the caller.
    #[error("cannot find an address for {origin}")]
    Host {
        /// The origin of the URL.
        origin: String,
        /// The part that is wrong.
        source: AddressError,
    },
    /// The URL's scheme is `https`, and no wire of this build is TLS around the one given to
    /// [`via`](crate::Call::via). Fault of the caller.
    #[error(
        "cannot speak TLS over {address}: this build has no TLS around that wire{help}",
        help = Advice("put `anywire_wire::tls::Tls` around it")
    )]
    NoTls {
        /// The address.
        address: Address,
    },
    /// The options of TLS that the client was built with cannot be used. Fault of the caller.
    #[cfg(feature = "tls")]
    #[error("cannot speak TLS with the options of this client")]
    Tls {
        /// What is wrong with them.
        source: Arc<TlsError>,
    },
    /// A header name or value holds bytes that may not be sent (RFC 9110 section 5). Fault of the caller.
    #[error(transparent)]
    Header(#[from] InvalidHeader),
    /// The header is one that the client writes itself. Fault of the caller.
    #[error(
        "cannot set the header {name:?}: the client writes it itself, from the body{help}",
        help = Advice("set the body")
    )]
    ReservedHeader {
        /// The name of the field.
        name: &'static str,
    },
    /// The `host` is none (RFC 9110 section 7.2), or the target is none. Fault of the caller.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The request given to [`send`](crate::Client::send) is none that can be sent. Fault of the caller.
    #[error(transparent)]
    Request(#[from] InvalidRequest),
    /// The request given to [`send`](crate::Client::send) cannot be converted. Fault of the caller.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The value given to [`json`](crate::Call::json) does not serialise. Fault of the caller.
    #[error("cannot send the value as JSON")]
    JsonBody(#[source] serde_json::Error),
    /// The value given to [`query`](crate::Call::query) does not serialise. Fault of the caller.
    #[error("cannot send the value as a query{help}", help = Advice("a struct or a list of pairs is wanted"))]
    Query(#[source] serde_urlencoded::ser::Error),
    /// The body that was to be sent ended with an error, or not at its declared length. Fault of the caller.
    #[error("cannot send the request to {origin}")]
    RequestBody {
        /// The origin of the URL.
        origin: String,
        /// What the body reported.
        source: BodyError,
        /// Whether any byte of the request had been sent.
        sent: bool,
    },
    /// The head of the request is larger than its peer takes over HTTP/2. Fault of the caller.
    #[error("cannot send the request to {origin}")]
    RequestHead {
        /// The origin of the URL.
        origin: String,
        /// How large it is, and how large it may be.
        source: h2::Refused,
        /// Whether any byte of the request had been sent, on another connection.
        sent: bool,
    },
    /// The method is `CONNECT`, which asks for a tunnel, not for a response. Fault of the caller.
    #[error(
        "cannot send CONNECT as a call: it asks for a tunnel{help}",
        help = Advice("dial the address with anywire-wire")
    )]
    Tunnel,
    /// The client was shut down before the call was answered. Fault of the caller.
    #[error(
        "the call was not answered: the client was shut down{help}",
        help = Advice(format_args!("make a new one, or give shutdown() more time; {}", advice_when_lost(*sent)))
    )]
    Shutdown {
        /// Whether any byte of the request had been sent.
        sent: bool,
    },
    /// No loop could be started for the client. Fault of the system.
    #[error("cannot start the client's loops")]
    Start(#[from] StartError),
    /// The loop that was to carry the call stopped, or takes no more. Fault of the caller, or a limit of the loop.
    #[error("the call was cut")]
    Loop {
        /// What happened to the loop.
        source: TaskError,
        /// Whether any byte of the request may have been sent.
        sent: bool,
    },
    /// Every connection is busy and the queue is full. A limit; nothing was sent.
    #[error(
        "cannot call {origin}: a loop has used up its share of connections_per_origin ({connections}) and of queue_per_origin ({queue}){help}",
        help = Advice("call less at a time, or raise these limits")
    )]
    QueueFull {
        /// The origin of the URL.
        origin: String,
        /// [`Limits::connections_per_origin`](crate::Limits::connections_per_origin).
        connections: usize,
        /// [`Limits::queue_per_origin`](crate::Limits::queue_per_origin).
        queue: usize,
    },
    /// A loop of the client has as many pools as it may, and all of them have calls. An origin with several routes or addresses has a pool for
    /// each of them. A limit; nothing was sent.
    #[error(
        "cannot call {origin}: calls to {origins} origins, or addresses of them, are in flight already{help}",
        help = Advice("raise the limit `origins`")
    )]
    TooManyOrigins {
        /// The origin of the URL.
        origin: String,
        /// [`Limits::origins`](crate::Limits::origins).
        origins: usize,
    },
    /// A deadline passed. Fault of the peer or the wire, or a limit that is too tight.
    #[error("the call to {origin} took too long: {phase} lasted over {limit:?}{help}", help = Advice(phase.advice()))]
    Timeout {
        /// The origin of the URL.
        origin: String,
        /// The phase that took too long.
        phase: Phase,
        /// How long it may last.
        limit: Duration,
        /// Whether any byte of the request had been sent.
        sent: bool,
    },
    /// No connection could be made. Fault of the peer or the wire. Nothing was sent, unless the call was on a reused
    /// connection before, which turned out dead.
    #[error("cannot connect to {origin}")]
    Connect {
        /// The origin of the URL.
        origin: String,
        /// What the wire found.
        #[source]
        source: DialError,
        /// Whether any byte of the request had been sent, on an earlier connection.
        sent: bool,
    },
    /// A proxy made no connection: its URL is in the message, user and password are not. Fault as
    /// [`ProxyError::fault`] says. Nothing was sent, as with [`Connect`](Self::Connect).
    #[error("cannot connect to {origin}")]
    Proxy {
        /// The origin of the URL.
        origin: String,
        /// Which proxy, and what it did.
        source: ProxyError,
        /// Whether any byte of the request had been sent, on an earlier connection.
        sent: bool,
    },
    /// The URL of a proxy is none: of the client, of the call, or in the environment. Fault of the caller.
    #[error("cannot call through the proxy that is set")]
    ProxyUrl {
        /// The part that is wrong.
        source: Arc<ProxyUrlError>,
    },
    /// The peer closed the connection before the end of its response's head. Fault of the peer.
    #[error(
        "the call to {origin} got no response: the peer closed the connection while {phase}{help}",
        help = Advice(advice_when_lost(*sent))
    )]
    ClosedByPeer {
        /// The origin of the URL.
        origin: String,
        /// The phase in which it failed.
        phase: Phase,
        /// Whether any byte of the request had been sent.
        sent: bool,
    },
    /// The connection broke. Fault of the wire.
    #[error("the call to {origin} failed while {phase}{help}", help = Advice(advice_when_lost(*sent)))]
    Io {
        /// The origin of the URL.
        origin: String,
        /// The phase in which it failed.
        phase: Phase,
        /// What the system reported.
        source: io::Error,
        /// Whether any byte of the request had been sent.
        sent: bool,
    },
    /// The response is not HTTP, is over a limit, or was cut short. Fault of the peer.
    #[error("cannot read the response of {origin}")]
    Response {
        /// The origin of the URL.
        origin: String,
        /// The first thing that is wrong with it.
        source: DecodeError,
    },
    /// The peer answered an `http` request with a record of TLS, or said over HTTP/2 that it wants TLS. Fault of the caller.
    #[error(
        "cannot read the response of {origin}: the peer speaks TLS on this port{help}",
        help = Advice("use an https URL, or another port")
    )]
    SpeaksTls {
        /// The origin of the URL.
        origin: String,
    },
    /// The call's HTTP/2 stream ended before the response: the peer reset it, or broke a rule on it. Other calls on the
    /// connection go on. Fault of the peer.
    #[error(
        "the call to {origin} {}{help}",
        Cut { code: *code, phase: *phase, why: *why },
        help = Advice(advice_when_lost(*sent))
    )]
    Stream {
        /// The origin of the URL.
        origin: String,
        /// Why.
        code: Code,
        /// The phase in which it failed.
        phase: Phase,
        /// Whether the peer may have processed a part of the request. Not if it refused the stream (RFC 9113 section 8.7).
        sent: bool,
        /// The rule that the peer broke on the stream, if that is why. `None`: the peer reset it.
        why: Option<MessageError>,
    },
    /// The peer ended the HTTP/2 connection before the response, and said so (RFC 9113 section 6.8). Fault of the peer.
    #[error(
        "the call to {origin} failed while {phase}: the peer ended the connection by GOAWAY, {said}{help}",
        help = Advice(advice_when_left(*sent))
    )]
    GoAway {
        /// The origin of the URL.
        origin: String,
        /// The phase in which it failed.
        phase: Phase,
        /// What the peer said.
        said: h2::GoAway,
        /// Whether the peer may have processed a part of the request.
        sent: bool,
    },
    /// The HTTP/2 connection ended, with all calls on it. Fault of the peer, or a limit.
    #[error(
        "the call to {origin} failed with its connection while {phase}{help}",
        help = Advice(advice_when_lost(*sent))
    )]
    Http2 {
        /// The origin of the URL.
        origin: String,
        /// The phase in which it failed.
        phase: Phase,
        /// What is wrong with the connection.
        source: h2::Error,
        /// Whether any byte of the request had been sent.
        sent: bool,
    },
    /// The call asks for another protocol on a connection that speaks HTTP/2, where the server allows no extended CONNECT (RFC 8441).
    /// Fault of the caller.
    #[error(
        "cannot upgrade the connection to {origin}: it speaks HTTP/2, where the server allows none{help}",
        help = Advice("build the client with http1_only()")
    )]
    NoUpgrade {
        /// The origin of the URL.
        origin: String,
    },
    /// The peer sent more interim responses (1xx) than [`Limits::interim_responses`](crate::Limits::interim_responses), and
    /// none that is final. Fault of the peer.
    #[error(
        "cannot read the response of {origin}: {count} interim responses came and no final one{help}",
        help = Advice("mend the peer, or raise interim_responses")
    )]
    Interim {
        /// The origin of the URL.
        origin: String,
        /// How many came.
        count: usize,
    },
    /// The peer answered 101 to a request that asked for no other protocol. Fault of the peer.
    #[error(
        "cannot read the response of {origin}: it switches to another protocol, which the call did not ask for"
    )]
    Switched {
        /// The origin of the URL.
        origin: String,
    },
    /// The status is one of an error, by [`error_for_status`](crate::Response::error_for_status), or not 101, by
    /// [`upgrade`](crate::Response::upgrade). Fault of the caller if it is 4xx, else of the peer.
    #[error("{url} answered {status}")]
    Status {
        /// The URL that was called.
        url: String,
        /// The status.
        status: StatusCode,
    },
    /// A redirect is not followed. Fault of the peer as a rule: see [`RedirectFault`].
    #[error("cannot follow the redirect ({status}) of {url} to {location:?}")]
    Redirect {
        /// The URL that answered.
        url: String,
        /// The status.
        status: StatusCode,
        /// What the response says where to go.
        location: String,
        /// Why not.
        #[source]
        fault: RedirectFault,
    },
    /// The call was [sent again](crate::Retries), by its options or by an interceptor of its attempts, and failed again. Fault as that of the
    /// last attempt.
    #[error(
        "gave up after {attempts} attempt{s}{help}",
        s = if *attempts == 1 { "" } else { "s" },
        help = Advice(advice_when_spent(*is_budget_spent))
    )]
    Retried {
        /// The number of attempts.
        attempts: u32,
        /// There would have been more, if so many calls to this origin had not been repeated before:
        /// [`Retries::budget_percent`](crate::Retries::budget_percent).
        is_budget_spent: bool,
        /// The peer may have acted on an attempt before the last one.
        was_sent: bool,
        /// The error of the last one.
        source: Box<Self>,
    },
    /// The call was [led on](crate::Redirects), so a peer has acted on it, and nothing was sent to where it was led. An error that knows
    /// itself whether something was sent stands alone, and says so. Fault as that of the source.
    #[error("could not go on behind a redirect{help}", help = Advice(advice_when_lost(true)))]
    Redirected {
        /// The hops that were answered.
        hops: usize,
        /// Why it could not go on.
        source: Box<Self>,
    },
    /// The request cannot be signed, which is the fault of the caller, or the signature or digest of its response does not count,
    /// which is the fault of the peer.
    #[cfg(feature = "signatures")]
    #[error("the signatures of the call to {origin} do not count")]
    Signature {
        /// The origin of the URL.
        origin: String,
        /// What is wrong.
        source: SignatureFault,
        /// Whether it is the response's, so that the request was sent.
        sent: bool,
    },
    /// No codec of the call can write the value given to [`encode`](crate::Call::encode). Fault of the caller.
    #[error("cannot write the value as a body")]
    Unwritable(#[source] BoxError),
    /// No codec of the call can read the response, or it is not what the caller wants. Fault of the peer, or of the type.
    #[error(
        "cannot read the response of {url}: its status is {status}, its type {content_type:?}, and it starts with {start:?}"
    )]
    Unreadable {
        /// The URL that was called.
        url: String,
        /// The status of the response. An error status often explains why the body has another format.
        status: StatusCode,
        /// Its `content-type`.
        content_type: String,
        /// The first bytes, as text.
        start: String,
        /// What the codec says.
        source: BoxError,
    },
    /// A call of [`blocking`](crate::blocking) was made on the thread of a loop, where all other tasks would wait. Fault of the caller.
    #[error("cannot block on a loop: all its other tasks would wait{help}", help = Advice("await the call there"))]
    OnLoop,
    /// An error of an [interceptor](crate::Interceptor). Fault of the caller.
    #[error("an interceptor failed")]
    Custom(#[source] BoxError),
    /// The response's body failed on its way to the caller, or is not the text that the caller wants. Fault as
    /// [`BodyError::fault`] says.
    #[error("cannot read the response's body")]
    Body(#[source] BodyError),
    /// The response's body is larger than the limit for collected bodies. A limit.
    #[error(
        "the response's body is over {limit_bytes} bytes{help}",
        help = Advice("read it with chunk(), or raise the limit `body_bytes`")
    )]
    BodyTooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The response's body was to be read as text or JSON, and is coded, such as by gzip. The client undoes no coding. Fault of
    /// the peer, unless the call asked for the coding.
    #[error(
        "cannot read the response of {url} as text: its body is coded ({coding}){help}",
        help = Advice("ask for no `accept-encoding`, or read it with bytes() and decode it")
    )]
    Coded {
        /// The URL that was called.
        url: String,
        /// The codings, in the order in which they were applied.
        coding: String,
    },
    /// The response's body is not the JSON that the caller wants. Fault of the peer, or of the type.
    #[error(
        "cannot read the response of {url} as JSON: its status is {status}, and it starts with {start:?}"
    )]
    JsonResponse {
        /// The URL that was called.
        url: String,
        /// The status of the response. An error status often explains why the body is not the expected JSON.
        status: StatusCode,
        /// Where it differs.
        source: serde_json::Error,
        /// The first bytes, as text.
        start: String,
    },
}

impl Error {
    /// The error of an interceptor that gives up on a call.
    pub fn custom(error: impl Into<BoxError>) -> Self {
        Self::Custom(error.into())
    }

    /// The error for a bad URL of a call.
    pub(crate) fn of_url(url: &str, source: UrlError) -> Self {
        Self::Url { url: redact(url), source }
    }
}

/// For a handler that changes a request before it sends it on.
impl From<InvalidTarget> for Error {
    fn from(invalid: InvalidTarget) -> Self {
        Self::Request(invalid.into())
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Who ended a stream, and why.
struct Cut {
    code: Code,
    phase: Phase,
    why: Option<MessageError>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, phase, why } = self;
        match why {
            None => write!(f, "was reset by the peer with {code} while {phase}"),
            Some(why) => write!(f, "was ended with {code} while {phase}: {why}"),
        }
    }
}

fn advice_when_spent(is_budget_spent: bool) -> &'static str {
    match is_budget_spent {
        true => {
            "too many calls to this origin were repeated of late: let it recover, or raise budget_percent"
        }
        false => "see that the peer runs, or raise the number of retries",
    }
}

/// A request that was refused may have left; what counts is that nothing was done for it (RFC 9113 section 6.8).
fn advice_when_left(sent: bool) -> &'static str {
    match sent {
        true => advice_when_lost(true),
        false => "the peer has not acted on it, so it can be sent again",
    }
}

fn advice_when_lost(sent: bool) -> &'static str {
    match sent {
        true => "it may have been processed, so send it again only if that does no harm",
        false => "nothing was sent, so it can be sent again",
    }
}

#[cfg(test)]
mod tests {
    use anywire_http::Fault;

    use super::*;

    #[test]
    fn a_lost_request_says_whether_it_may_be_repeated() {
        let lost = |sent| Error::ClosedByPeer { origin: "http://h".into(), phase: Phase::Read, sent };
        assert!(lost(true).may_have_been_processed());
        assert!(lost(true).to_string().contains("may have been processed"));
        assert!(!lost(false).may_have_been_processed());
        assert!(lost(false).to_string().contains("nothing was sent"));
    }

    #[test]
    fn a_timeout_names_its_phase_and_limit() {
        let error = Error::Timeout {
            origin: "http://h".into(),
            phase: Phase::Acquire,
            limit: Duration::from_secs(1),
            sent: false,
        };
        assert!(error.is_timeout() && !error.is_connect());
        assert_eq!(error.fault(), Fault::Limit);
        assert!(error.to_string().contains("waiting for a connection lasted over 1s"));
    }
}
