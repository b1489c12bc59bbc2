//! Why a call by datagrams has no response, and whose fault it is.

use std::io;
use std::time::Duration;

use anywire_advice::Advice;
use anywire_http::StatusCode;
use anywire_wire::udp::{Cut, DatagramAddress};

/// Why a call has no response. The peer may have acted on it, unless the variant says that nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UdpCallError {
    /// The client has no socket; nothing was sent.
    #[error(transparent)]
    Connect(#[from] anywire_wire::udp::UdpError),
    /// The request has no tag to know its response by; the caller's fault, and nothing was sent.
    #[error(
        "the request of {bytes} bytes has no tag to know its response by{help}",
        help = Advice("make it longer, or match otherwise")
    )]
    NoTag {
        /// Length of the request.
        bytes: usize,
    },
    /// A call with this tag is under way; the caller's fault, and nothing was sent.
    #[error("a request with the tag {tag:#x} is under way{help}", help = Advice("give each its own"))]
    TagInUse {
        /// The tag.
        tag: u64,
    },
    /// As many calls are under way as there may be; nothing was sent.
    #[error(
        "{under_way} calls are under way, which is the limit{help}",
        help = Advice("wait for some, or raise UdpClientOptions::calls_max")
    )]
    Full {
        /// How many are.
        under_way: usize,
    },
    /// No response came in time: request or response was lost, or the peer is slow.
    #[error(
        "no response from {peer} within {after:?}, in {attempts} attempts{help}",
        help = Advice("see what it does, or wait longer")
    )]
    Timeout {
        /// The peer.
        peer: DatagramAddress,
        /// How long each attempt waited.
        after: Duration,
        /// How often the request was sent.
        attempts: u32,
    },
    /// The peer's system says that nobody receives at this port. It does not say which datagram it means.
    #[error("nobody receives at {peer}{help}", help = Advice("check the address, or start the service"))]
    Refused {
        /// The peer.
        peer: DatagramAddress,
        /// Whether it can only mean this request, because no other datagram was without a response. Else the peer may have
        /// taken this one before it left.
        is_certain: bool,
    },
    /// The request is larger than the way to the peer takes, and datagrams are not fragmented; the caller's fault.
    #[error(
        "a request of {bytes} bytes is larger than the way to {peer} takes{help}",
        help = Advice("send less at once")
    )]
    TooLarge {
        /// The peer.
        peer: DatagramAddress,
        /// Length of the request.
        bytes: usize,
    },
    /// The response was longer than [`UdpOptions::datagram_bytes_max`](super::UdpOptions::datagram_bytes_max).
    #[error(transparent)]
    Cut(#[from] Cut),
    /// The client's loop has ended.
    #[error("the client's loop has ended{help}", help = Advice("make the call on one that runs"))]
    Ended,
    /// Any other error of the system.
    #[error("calling {peer} failed: {cause}{help}", help = Advice("check the network"))]
    System {
        /// The peer.
        peer: DatagramAddress,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
}

impl UdpCallError {
    /// Whether the deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    /// Whether the peer may have acted on the request. Without it the call may be made again whatever it does.
    pub fn may_have_been_processed(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Cut(_) | Self::Ended | Self::System { .. } => true,
            Self::Refused { is_certain, .. } => !is_certain,
            _ => false,
        }
    }

    /// What it is worth as a gateway's response.
    pub(crate) fn gateway_status(&self) -> StatusCode {
        match self {
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Full { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Refused { .. } | Self::Cut(_) | Self::System { .. } => StatusCode::BAD_GATEWAY,
            Self::Connect(_)
            | Self::NoTag { .. }
            | Self::TagInUse { .. }
            | Self::TooLarge { .. }
            | Self::Ended => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
