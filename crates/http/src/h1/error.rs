//! Why a message was refused, who is at fault, and the status to answer with.

use anywire_advice::{Advice, OrRaise};
use http::StatusCode;

use crate::Fault;

/// A message that cannot be decoded. Nothing that follows it on the connection can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The start line is not a request line or status line (RFC 9112 sections 3 and 4). Fault of the peer.
    #[error(
        "reading the start line: found no `METHOD target HTTP/1.1` or `HTTP/1.1 status reason`{help}",
        help = Advice("end a request line with the version, which has one digit a part; or does the peer speak TLS, or no HTTP/1?")
    )]
    StartLine,
    /// The version is not one of HTTP/1. One later than 1.1 is read as 1.1 (RFC 9110 section 2.5). Fault of the peer.
    #[error(
        "reading the start line: found another version than HTTP/1.0 and 1.1{help}",
        help = Advice("use one of these")
    )]
    Version,
    /// The request target has none of the four forms (RFC 9112 section 3.2). Fault of the peer.
    #[error(
        "reading the request target: found none of /path, http://host/path, host:port (CONNECT), * (OPTIONS){help}",
        help = Advice("send one of these")
    )]
    Target,
    /// A line does not end in CR LF: a bare LF or a bare CR (RFC 9112 section 2.2). Fault of the peer.
    #[error(
        "reading a line: found a bare LF or a bare CR{help}",
        help = Advice("end each line with CR LF (RFC 9112 2.2)")
    )]
    LineEnding,
    /// A field name is no token, has white space before its colon, or the line is folded (RFC 9112 section 5). Folds in
    /// responses are read as spaces, except in the first line, in `Content-Length` and in `Transfer-Encoding`. Fault of
    /// the peer.
    #[error(
        "reading a header: found no `name: value`{help}",
        help = Advice("use a token as the name, no space before the colon, no folded lines (RFC 9112 5)")
    )]
    HeaderName,
    /// A field value holds a control character (RFC 9110 section 5.5). Fault of the peer.
    #[error(
        "reading a header: found a control character in its value{help}",
        help = Advice("encode or remove it (RFC 9110 5.5)")
    )]
    HeaderValue,
    /// The start line is longer than [`crate::HeadLimits::target_bytes`]. Fault: limit.
    #[error(
        "reading the start line: found more than {limit} bytes{help}",
        help = Advice(format_args!("use a shorter target{}", OrRaise("HeadLimits::target_bytes")))
    )]
    StartLineTooLong {
        /// The limit that was reached.
        limit: usize,
    },
    /// The head is larger than [`crate::HeadLimits::bytes`]. Fault: limit.
    #[error(
        "reading the head: found more than {limit} bytes{help}",
        help = Advice(format_args!("send fewer or shorter headers{}", OrRaise("HeadLimits::bytes")))
    )]
    HeadTooLarge {
        /// The limit that was reached.
        limit: usize,
    },
    /// There are more fields than [`crate::HeadLimits::fields`]. Fault: limit.
    #[error(
        "reading the head: found more than {limit} headers{help}",
        help = Advice(format_args!("send fewer{}", OrRaise("HeadLimits::fields")))
    )]
    TooManyHeaders {
        /// The limit that was reached.
        limit: usize,
    },
    /// A 1.1 request without `Host` (RFC 9112 section 3.2). Fault of the peer.
    #[error(
        "reading a request: found no Host header{help}",
        help = Advice("HTTP/1.1 needs exactly one (RFC 9112 3.2)")
    )]
    MissingHost,
    /// More than one `Host`. Fault of the peer.
    #[error(
        "reading a request: found more than one Host header{help}",
        help = Advice("send exactly one (RFC 9112 3.2)")
    )]
    DuplicateHost,
    /// `Host` is not a host with an optional port. Fault of the peer.
    #[error(
        "reading a request: found a Host header that is no `host` or `host:port`{help}",
        help = Advice("correct it (RFC 9110 7.2)")
    )]
    InvalidHost,
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112 section 6.1). Fault of the peer.
    #[error(
        "finding the body's length: found both Content-Length and Transfer-Encoding{help}",
        help = Advice("send one of them (RFC 9112 6.1)")
    )]
    BothLengths,
    /// `Content-Length` is not a number of plain digits below 2^64. Fault of the peer.
    #[error(
        "finding the body's length: found a Content-Length that is no decimal number{help}",
        help = Advice("send plain digits (RFC 9110 8.6)")
    )]
    ContentLength,
    /// More than one `Content-Length`, be they equal. Fault of the peer.
    #[error(
        "finding the body's length: found more than one Content-Length{help}",
        help = Advice("send it once (RFC 9112 6.3)")
    )]
    DuplicateContentLength,
    /// `Transfer-Encoding` in an HTTP/1.0 message (RFC 9112 section 6.1). Fault of the peer.
    #[error(
        "finding the body's length: found Transfer-Encoding in HTTP/1.0, which has none{help}",
        help = Advice("use HTTP/1.1 (RFC 9112 6.1)")
    )]
    TransferEncodingInHttp10,
    /// More than one `Transfer-Encoding` field. Fault of the peer.
    #[error(
        "finding the body's length: found more than one Transfer-Encoding{help}",
        help = Advice("send it once (RFC 9112 6.1)")
    )]
    DuplicateTransferEncoding,
    /// A transfer coding other than exactly `chunked`. Fault of the peer; answered with 501.
    #[error(
        "finding the body's length: found a transfer coding other than `chunked`{help}",
        help = Advice("send chunked alone (RFC 9112 6.1)")
    )]
    TransferCoding,
    /// A chunk size is not 1 to 16 hexadecimal digits, or the line has other characters (RFC 9112 section
    /// 7.1). Fault of the peer.
    #[error(
        "reading a chunk: found no size of 1 to 16 hexadecimal digits{help}",
        help = Advice("send digits, CR LF (RFC 9112 7.1)")
    )]
    ChunkSize,
    /// A chunk's data is not followed by CR LF. Fault of the peer.
    #[error(
        "reading a chunk: found no CR LF after its data{help}",
        help = Advice("send as many bytes as the size says (RFC 9112 7.1)")
    )]
    ChunkEnd,
    /// Chunk extensions are longer than their limits. Fault: limit.
    #[error("reading a chunk: found more than {limit} bytes of extensions{help}", help = Advice("send none"))]
    ChunkExtensions {
        /// The limit that was reached.
        limit: usize,
    },
    /// The trailer section is larger than [`crate::HeadLimits::trailer_bytes`]. Fault: limit.
    #[error(
        "reading the trailers: found more than {limit} bytes{help}",
        help = Advice(format_args!("send fewer{}", OrRaise("HeadLimits::trailer_bytes")))
    )]
    TrailersTooLarge {
        /// The limit that was reached.
        limit: usize,
    },
    /// There are more trailer fields than [`crate::HeadLimits::trailer_fields`]. Fault: limit.
    #[error(
        "reading the trailers: found more than {limit}{help}",
        help = Advice(format_args!("send fewer{}", OrRaise("HeadLimits::trailer_fields")))
    )]
    TooManyTrailers {
        /// The limit that was reached.
        limit: usize,
    },
    /// A trailer that would change the framing or the routing of its message (RFC 9110 section 6.5.1). Fault
    /// of the peer.
    #[error(
        "reading the trailers: found Content-Length, Transfer-Encoding or Host{help}",
        help = Advice("send these in the head (RFC 9110 6.5.1)")
    )]
    ForbiddenTrailer,
    /// The peer closed in the middle of a head. Fault of the peer, or of the wire.
    #[error(
        "reading a head: found the end of the connection before the head's end{help}",
        help = Advice("see why its sender closed")
    )]
    HeadCutShort,
    /// The peer closed in the middle of a body. Fault of the peer, or of the wire.
    #[error(
        "reading a body: found the end of the connection before the body's end{help}",
        help = Advice("see why its sender closed")
    )]
    BodyCutShort,
}

impl DecodeError {
    /// The status that a server answers with before it closes: 400, 414, 431, 501 or 505.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::StartLineTooLong { .. } => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge { .. }
            | Self::TooManyHeaders { .. }
            | Self::TrailersTooLarge { .. }
            | Self::TooManyTrailers { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::StartLineTooLong { .. }
            | Self::HeadTooLarge { .. }
            | Self::TooManyHeaders { .. }
            | Self::ChunkExtensions { .. }
            | Self::TrailersTooLarge { .. }
            | Self::TooManyTrailers { .. } => Fault::Limit,
            _ => Fault::Peer,
        }
    }

    /// Whether it is wrong with a body or with trailers, so that the head before them was read.
    pub fn is_in_body(&self) -> bool {
        matches!(
            self,
            Self::ChunkSize
                | Self::ChunkEnd
                | Self::ChunkExtensions { .. }
                | Self::TrailersTooLarge { .. }
                | Self::TooManyTrailers { .. }
                | Self::ForbiddenTrailer
                | Self::BodyCutShort
        )
    }

    /// Whether the peer closed in the middle of a message. It may not read a response any more.
    pub fn is_cut_short(&self) -> bool {
        matches!(self, Self::HeadCutShort | Self::BodyCutShort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_faults_fit_their_cause() {
        assert_eq!(DecodeError::BothLengths.status(), StatusCode::BAD_REQUEST);
        assert_eq!(DecodeError::TransferCoding.status(), StatusCode::NOT_IMPLEMENTED);
        assert_eq!(DecodeError::Version.status().as_u16(), 505);
        assert_eq!(DecodeError::StartLineTooLong { limit: 1 }.status().as_u16(), 414);
        assert_eq!(DecodeError::HeadTooLarge { limit: 1 }.status().as_u16(), 431);
        assert_eq!(DecodeError::HeadTooLarge { limit: 1 }.fault(), Fault::Limit);
        assert_eq!(DecodeError::BothLengths.fault(), Fault::Peer);
        assert!(DecodeError::ChunkEnd.is_in_body() && !DecodeError::HeadCutShort.is_in_body());
        assert!(DecodeError::BodyCutShort.is_cut_short() && !DecodeError::Version.is_cut_short());
    }

    #[test]
    fn errors_are_small() {
        assert!(size_of::<DecodeError>() <= 16);
    }
}
