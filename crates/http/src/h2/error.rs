//! Error codes, and why a connection ends (RFC 9113 sections 5.4 and 7).

use std::fmt;

use anywire_advice::Advice;

use super::hpack::HpackError;
use super::{FrameFault, MessageFault, StreamId, frame, settings};
use crate::Fault;
use crate::h1::DecodeError;

/// An error code of HTTP/2, as `RST_STREAM` and `GOAWAY` carry it (RFC 9113 section 7).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        impl Code {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// The name of the RFC; `None` for a code that it does not have.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// No error: a graceful end.
    NO_ERROR = 0x0,
    /// The peer broke the protocol, in a way that no other code names.
    PROTOCOL_ERROR = 0x1,
    /// The fault is our own.
    INTERNAL_ERROR = 0x2,
    /// The peer sent more than a window allows.
    FLOW_CONTROL_ERROR = 0x3,
    /// Our settings were not acknowledged in time.
    SETTINGS_TIMEOUT = 0x4,
    /// A frame came for a half of a stream that had ended.
    STREAM_CLOSED = 0x5,
    /// A frame has an impossible size.
    FRAME_SIZE_ERROR = 0x6,
    /// The stream was refused before anything of it was processed: the request may be sent again.
    REFUSED_STREAM = 0x7,
    /// The stream is not wanted any more.
    CANCEL = 0x8,
    /// A header block cannot be decoded.
    COMPRESSION_ERROR = 0x9,
    /// The connection made for CONNECT broke.
    CONNECT_ERROR = 0xa,
    /// The peer causes too much load.
    ENHANCE_YOUR_CALM = 0xb,
    /// The transport is not safe enough.
    INADEQUATE_SECURITY = 0xc,
    /// HTTP/1.1 is wanted for this request.
    HTTP_1_1_REQUIRED = 0xd,
}

impl Code {
    /// What a server sends to a client that it refuses before it has an engine for it: empty settings, and a `GOAWAY` with
    /// this code and a reason that a person can read.
    ///
    /// ```
    /// use anywire_http::h2::Code;
    ///
    /// let refusal = Code::INADEQUATE_SECURITY.refusal("this port speaks TLS");
    /// assert!(refusal.ends_with(b"this port speaks TLS"));
    /// ```
    pub fn refusal(self, reason: &str) -> Vec<u8> {
        let mut out = Vec::new();
        settings::write(&mut out, &[]);
        let at = out.len();
        frame::go_away(&mut out, 0, self);
        out.extend_from_slice(reason.as_bytes());
        frame::patch_length(&mut out, at);
        out
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a peer says when it ends the connection, by a `GOAWAY` (RFC 9113 section 6.8).
///
/// It is shown as the code with the text behind it. Nothing in the text acts on a terminal then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// The last stream that the peer may have processed.
    pub last: StreamId,
    /// Why.
    pub code: Code,
    /// What the peer adds for a person, as it came. Mostly empty, and cut after 256 bytes.
    pub text: Box<str>,
}

impl GoAway {
    pub(super) fn new(last: StreamId, code: Code, text: &[u8]) -> Self {
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        Self { last, code, text: String::from_utf8_lossy(text).into() }
    }
}

impl fmt::Display for GoAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.text {
            "" => write!(f, "{}", self.code),
            // Escapes what is not printable.
            text => write!(f, "{} ({text:?})", self.code),
        }
    }
}

/// What is wrong with a message or a frame of the peer, so that its stream was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// It breaks a rule. Fault of the peer.
    #[error(transparent)]
    Malformed(#[from] MessageFault),
    /// It is above one of the [limits of heads](crate::HeadLimits), as over HTTP/1. Fault: limit.
    #[error(transparent)]
    Limit(DecodeError),
}

/// What a peer may do too much of. Each ends the connection at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Abuse {
    /// Streams that end too early ([`Limits::resets`](super::Limits::resets)).
    Resets,
    /// Frames that move nothing ([`Limits::idle_frames`](super::Limits::idle_frames)).
    IdleFrames,
    /// `CONTINUATION` frames of one header block ([`Limits::continuations`](super::Limits::continuations)).
    Continuations,
    /// Bytes of one head, far above [`EngineLimits::head`](super::EngineLimits::head).
    HeadBytes,
}

impl fmt::Display for Abuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resets => "streams that end too early",
            Self::IdleFrames => "frames that move nothing",
            Self::Continuations => "CONTINUATION frames of a head",
            Self::HeadBytes => "bytes of a head",
        })
    }
}

/// What a peer has to acknowledge in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unacknowledged {
    /// Our settings ([`Limits::settings_deadline`](super::Limits::settings_deadline)).
    Settings,
    /// A ping ([`Limits::ping_deadline`](super::Limits::ping_deadline)).
    Ping,
}

impl fmt::Display for Unacknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settings => "SETTINGS",
            Self::Ping => "ping",
        })
    }
}

/// Why the whole connection has to end. The engine has written the `GOAWAY` that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes of a client are not the preface (RFC 9113 section 3.4). The peer is at fault.
    #[error(
        "reading the start of an HTTP/2 connection: found no preface{help}",
        help = Advice("does the peer speak HTTP/2?")
    )]
    Preface,
    /// A server answers with HTTP/1 where it has to send SETTINGS (RFC 9113 section 3.4): it speaks no HTTP/2 on this port,
    /// or only over TLS. The caller is at fault, who asked for HTTP/2.
    #[error(
        "reading the start of an HTTP/2 connection: the peer answers with HTTP/1{help}",
        help = Advice("call it without prior knowledge of HTTP/2, or check the port")
    )]
    SpeaksHttp1,
    /// A frame, or its place, breaks a rule. The peer is at fault.
    #[error("reading a frame: {0} ({code})", code = .0.code())]
    Frame(FrameFault),
    /// A header block cannot be decoded. The peer is at fault.
    #[error("reading a header block: {0}")]
    Compression(#[from] HpackError),
    /// A limit was reached that protects this end. Fault: limit.
    #[error("reading frames: the peer sends too many {what} (the limit is {limit})")]
    Excess {
        /// What there is too much of.
        what: Abuse,
        /// The limit that was reached.
        limit: usize,
    },
    /// The peer did not acknowledge our settings, or a ping, in time. The peer is at fault.
    #[error("waiting for the peer: it has not acknowledged a {what} in time")]
    Silent {
        /// What was not acknowledged.
        what: Unacknowledged,
    },
}

impl Error {
    /// The code that the `GOAWAY` carries.
    pub fn code(&self) -> Code {
        match self {
            Self::Preface | Self::SpeaksHttp1 => Code::PROTOCOL_ERROR,
            Self::Frame(fault) => fault.code(),
            Self::Compression(_) => Code::COMPRESSION_ERROR,
            Self::Excess { .. } => Code::ENHANCE_YOUR_CALM,
            Self::Silent { what: Unacknowledged::Settings } => Code::SETTINGS_TIMEOUT,
            // No code is for that.
            Self::Silent { what: Unacknowledged::Ping } => Code::NO_ERROR,
        }
    }

    /// Who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::SpeaksHttp1 => Fault::Caller,
            Self::Excess { .. } => Fault::Limit,
            _ => Fault::Peer,
        }
    }
}

/// The longest text of a `GOAWAY` that is kept: as much as a person reads. A frame may hold 16 KiB.
const TEXT_BYTES_MAX: usize = 256;
