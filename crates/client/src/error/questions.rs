//! What can be asked of a failed call.

use anywire_http::{Fault, StatusCode};
use anywire_loops::TaskError;
use anywire_wire::DialError;
#[cfg(feature = "tls")]
use anywire_wire::tls::HandshakeError;

use super::Error;
use crate::Phase;
use crate::chain::RedirectFault;

impl Error {
    /// Who can mend it.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Retried { source, .. } | Self::Redirected { source, .. } => source.fault(),
            Self::Redirect { fault: RedirectFault::TooMany(_), .. } => Fault::Limit,
            Self::Redirect { fault: RedirectFault::BodyIsGone, .. } | Self::Custom(_) => Fault::Caller,
            Self::Redirect { .. } => Fault::Peer,
            Self::Loop { source: TaskError::Full, .. } => Fault::Limit,
            Self::Url { .. }
            | Self::Via { .. }
            | Self::ProxyUrl { .. }
            | Self::Host { .. }
            | Self::Header(_)
            | Self::ReservedHeader { .. }
            | Self::Encode(_)
            | Self::Request(_)
            | Self::Convert(_)
            | Self::JsonBody(_)
            | Self::Unwritable(_)
            | Self::OnLoop
            | Self::Query(_)
            | Self::RequestBody { .. }
            | Self::RequestHead { .. }
            | Self::Tunnel
            | Self::NoTls { .. }
            | Self::SpeaksTls { .. }
            | Self::NoUpgrade { .. }
            | Self::Shutdown { .. }
            | Self::Loop { .. } => Fault::Caller,
            Self::QueueFull { .. } | Self::TooManyOrigins { .. } | Self::BodyTooLarge { .. } => Fault::Limit,
            Self::Timeout { phase: Phase::Acquire, .. } => Fault::Limit,
            Self::Timeout { phase: Phase::Connect, .. } => Fault::Wire,
            #[cfg(feature = "tls")]
            Self::Tls { .. } => Fault::Caller,
            #[cfg(feature = "tls")]
            Self::Connect { .. } | Self::Io { .. }
                if self.handshake().is_some_and(HandshakeError::is_own_certificate) =>
            {
                Fault::Caller
            }
            Self::Proxy { source, .. } => source.fault(),
            Self::Connect { source: DialError::Address(_), .. } => Fault::Caller,
            Self::Connect { source: DialError::Handshake { .. }, .. } => Fault::Peer,
            Self::Connect { source, .. } if source.is_limit() => Fault::Limit,
            Self::Start(_) | Self::Connect { .. } | Self::Io { .. } => Fault::Wire,
            Self::Status { status, .. } if status.is_client_error() => Fault::Caller,
            Self::Response { source, .. } if source.fault() == Fault::Limit => Fault::Limit,
            Self::Http2 { source, .. } => source.fault(),
            Self::Body(source) => source.fault(),
            Self::Timeout { .. }
            | Self::Interim { .. }
            | Self::Switched { .. }
            | Self::Status { .. }
            | Self::ClosedByPeer { .. }
            | Self::Stream { .. }
            | Self::GoAway { .. }
            | Self::Response { .. }
            | Self::Coded { .. }
            | Self::Unreadable { .. }
            | Self::JsonResponse { .. } => Fault::Peer,
            #[cfg(feature = "signatures")]
            Self::Signature { sent, .. } => {
                if *sent {
                    Fault::Peer
                } else {
                    Fault::Caller
                }
            }
        }
    }

    /// Whether it counts against the address that was called, if that is one of several: the peer or the wire is at fault. The deadline of a
    /// whole call is its caller's, and may have passed while the call waited for a connection, or its caller for itself.
    pub(crate) fn is_of_address(&self) -> bool {
        !matches!(self, Self::Timeout { phase: Phase::Total, .. })
            && matches!(self.fault(), Fault::Peer | Fault::Wire)
    }

    /// The origin that was called, where the error is about one.
    pub fn origin(&self) -> Option<&str> {
        match self.last() {
            Self::Host { origin, .. }
            | Self::RequestBody { origin, .. }
            | Self::RequestHead { origin, .. }
            | Self::QueueFull { origin, .. }
            | Self::TooManyOrigins { origin, .. }
            | Self::Timeout { origin, .. }
            | Self::Connect { origin, .. }
            | Self::Proxy { origin, .. }
            | Self::ClosedByPeer { origin, .. }
            | Self::Io { origin, .. }
            | Self::Response { origin, .. }
            | Self::SpeaksTls { origin, .. }
            | Self::Stream { origin, .. }
            | Self::GoAway { origin, .. }
            | Self::Http2 { origin, .. }
            | Self::NoUpgrade { origin, .. }
            | Self::Interim { origin, .. }
            | Self::Switched { origin, .. } => Some(origin),
            #[cfg(feature = "signatures")]
            Self::Signature { origin, .. } => Some(origin),
            _ => None,
        }
    }

    /// What kind of error it is, in a word for counters and spans:
    ///
    /// | word | is |
    /// | --- | --- |
    /// | `timeout` | a [deadline](Self::is_timeout), of whatever [phase](Self::phase) |
    /// | `resolve`, `connect`, `handshake`, `proxy` | no connection: no address, nobody reached, no TLS, none by the proxy |
    /// | `connection`, `reset` | the connection broke or was closed; the peer ended the stream, or all of HTTP/2 |
    /// | `protocol` | the response is none of HTTP, over a limit, or cut short |
    /// | `body` | its body is not what the caller wants: text, JSON, uncoded |
    /// | `status`, `redirect` | [`error_for_status`](crate::Response::error_for_status); a redirect that is not followed |
    /// | `limit` | a full queue, too many origins, a body that is too large to collect |
    /// | `shutdown` | the client or its loops have ended |
    /// | `request` | all else: the request cannot be sent, or an interceptor gave up |
    pub fn kind(&self) -> &'static str {
        match self {
            _ if self.is_timeout() => "timeout",
            Self::Retried { .. } | Self::Redirected { .. } => self.last().kind(),
            Self::Connect { .. } if self.phase() == Some(Phase::Resolve) => "resolve",
            Self::Connect { .. } if self.is_handshake() => "handshake",
            Self::Connect { .. } => "connect",
            Self::Proxy { .. } => "proxy",
            Self::QueueFull { .. } | Self::TooManyOrigins { .. } | Self::BodyTooLarge { .. } => "limit",
            Self::ClosedByPeer { .. } | Self::Io { .. } => "connection",
            Self::Stream { .. } | Self::GoAway { .. } => "reset",
            Self::Status { .. } => "status",
            Self::Redirect { .. } => "redirect",
            Self::Shutdown { .. } | Self::Loop { .. } | Self::Start(_) => "shutdown",
            Self::Body(_) | Self::Coded { .. } | Self::Unreadable { .. } | Self::JsonResponse { .. } => {
                "body"
            }
            _ if self.is_protocol() => "protocol",
            _ => "request",
        }
    }

    /// The attempts that were made: 1 without [retries](crate::Retries).
    pub fn attempts(&self) -> u32 {
        match self {
            Self::Retried { attempts, .. } => *attempts,
            Self::Redirected { source, .. } => source.attempts(),
            _ => 1,
        }
    }

    /// The error of the last attempt: itself without [retries](crate::Retries) and [hops](Self::Redirected).
    pub fn last(&self) -> &Self {
        match self {
            Self::Retried { source, .. } | Self::Redirected { source, .. } => source.last(),
            _ => self,
        }
    }

    /// Whether no connection could be made: another origin, or another time, may do. If
    /// [its handshake](Self::is_handshake) failed, rather another origin.
    pub fn is_connect(&self) -> bool {
        matches!(
            self.last(),
            Self::Connect { .. } | Self::Proxy { .. } | Self::Timeout { phase: Phase::Connect, .. }
        )
    }

    /// Whether the connection was made, and its handshake failed or took too long. No byte of the request was sent on it.
    /// Another try at the same place most likely ends alike, other than with plain connects: see
    /// [`handshake`](Self::handshake).
    pub fn is_handshake(&self) -> bool {
        match self.last() {
            Self::Connect { source, .. } => matches!(source, DialError::Handshake { .. }),
            Self::Proxy { source, .. } => source.is_handshake(),
            _ => false,
        }
    }

    /// What TLS found, if that is why the call failed: whether the peer's certificate is
    /// [not acceptable](anywire_wire::tls::HandshakeError::is_certificate), whether it speaks
    /// [no TLS](anywire_wire::tls::HandshakeError::is_clear_text), and more such questions.
    ///
    /// With TLS 1.3 a peer that refuses the client's certificate says so after the handshake: then the call has failed with
    /// [`Io`](Self::Io), and this is `Some`, too.
    #[cfg(feature = "tls")]
    pub fn handshake(&self) -> Option<&HandshakeError> {
        match self.last() {
            Self::Connect { source, .. } => source.handshake(),
            Self::Proxy { source, .. } => source.handshake(),
            Self::Io { source, .. } => HandshakeError::of(source),
            _ => None,
        }
    }

    /// Whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        match self.last() {
            Self::Timeout { .. } => true,
            Self::Connect { source, .. } => source.is_timeout(),
            Self::Proxy { source, .. } => source.is_timeout(),
            _ => false,
        }
    }

    /// Whether the peer broke the protocol: its response was malformed, cut short or over a limit, it sent too many
    /// interim responses, or it switched protocols unasked.
    pub fn is_protocol(&self) -> bool {
        matches!(
            self.last(),
            Self::Response { .. }
                | Self::SpeaksTls { .. }
                | Self::Interim { .. }
                | Self::Switched { .. }
                | Self::Http2 { .. }
        )
    }

    /// The status of the response, if the call failed because of it, or because its JSON does not fit.
    pub fn status(&self) -> Option<StatusCode> {
        match self.last() {
            Self::Redirect { status, .. }
            | Self::Status { status, .. }
            | Self::Unreadable { status, .. }
            | Self::JsonResponse { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether a peer may have acted on the call, because a byte of it was sent: in the last attempt or an earlier one, or in a hop whose
    /// redirect led to another URL. If so, sending it again is safe only if doing it twice is. Nobody knows what an [interceptor](Self::Custom) has done before it failed, so it may have.
    pub fn may_have_been_processed(&self) -> bool {
        match self {
            Self::Retried { was_sent, source, .. } => *was_sent || source.may_have_been_processed(),
            Self::Redirected { .. } => true,
            Self::RequestBody { sent, .. }
            | Self::RequestHead { sent, .. }
            | Self::Shutdown { sent }
            | Self::Connect { sent, .. }
            | Self::Proxy { sent, .. }
            | Self::Loop { sent, .. }
            | Self::Timeout { sent, .. }
            | Self::ClosedByPeer { sent, .. }
            | Self::Stream { sent, .. }
            | Self::GoAway { sent, .. }
            | Self::Http2 { sent, .. }
            | Self::Io { sent, .. } => *sent,
            Self::Redirect { .. }
            | Self::Response { .. }
            | Self::Interim { .. }
            | Self::Body(_)
            | Self::BodyTooLarge { .. }
            | Self::Switched { .. }
            | Self::Status { .. }
            | Self::Coded { .. }
            | Self::Unreadable { .. }
            | Self::JsonResponse { .. }
            | Self::Custom(_) => true,
            #[cfg(feature = "signatures")]
            Self::Signature { sent, .. } => *sent,
            // No wildcard: what a new error means has to be said here.
            #[cfg(feature = "tls")]
            Self::Tls { .. } => false,
            Self::Url { .. }
            | Self::Via { .. }
            | Self::ProxyUrl { .. }
            | Self::Host { .. }
            | Self::NoTls { .. }
            | Self::Header(_)
            | Self::ReservedHeader { .. }
            | Self::Encode(_)
            | Self::Request(_)
            | Self::Convert(_)
            | Self::JsonBody(_)
            | Self::Unwritable(_)
            | Self::Query(_)
            | Self::Tunnel
            | Self::Start(_)
            | Self::OnLoop
            | Self::QueueFull { .. }
            | Self::TooManyOrigins { .. }
            | Self::NoUpgrade { .. }
            | Self::SpeaksTls { .. } => false,
        }
    }

    /// The phase in which it failed, where there is one.
    pub fn phase(&self) -> Option<Phase> {
        match self.last() {
            Self::Timeout { phase, .. }
            | Self::ClosedByPeer { phase, .. }
            | Self::Stream { phase, .. }
            | Self::GoAway { phase, .. }
            | Self::Http2 { phase, .. }
            | Self::Io { phase, .. } => Some(*phase),
            Self::QueueFull { .. } | Self::TooManyOrigins { .. } => Some(Phase::Acquire),
            Self::Connect { source: DialError::Handshake { .. }, .. } => Some(Phase::Handshake),
            Self::Proxy { source, .. } if source.is_handshake() => Some(Phase::Handshake),
            Self::Proxy { source, .. } if source.is_resolve() => Some(Phase::Resolve),
            Self::Connect { source: DialError::Resolve { .. }, .. } => Some(Phase::Resolve),
            Self::Connect { .. } | Self::Proxy { .. } => Some(Phase::Connect),
            Self::RequestBody { .. } | Self::RequestHead { .. } => Some(Phase::Write),
            Self::Response { source, .. } if source.is_in_body() => Some(Phase::Body),
            Self::Response { .. } | Self::SpeaksTls { .. } | Self::Interim { .. } | Self::Switched { .. } => {
                Some(Phase::Read)
            }
            Self::Body(_) | Self::BodyTooLarge { .. } | Self::Coded { .. } => Some(Phase::Body),
            _ => None,
        }
    }
}
