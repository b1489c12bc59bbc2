//! A request of HTTP/2 that is on its way, and what has come of its response.

use std::time::{Duration, Instant};

use anywire_http::StatusCode;
use bytes::Bytes;

use crate::engine::stream_script::StreamCall;
use crate::engine::tally::Batch;

/// A request that is on its way, and what has come of its response.
pub(super) struct Call {
    /// Of one request.
    pub(super) batch: Batch,
    /// When something of its response came first.
    pub(super) first_byte: Option<Instant>,
    pub(super) server_time: Option<Duration>,
    /// Once its head has come.
    pub(super) status: Option<StatusCode>,
    pub(super) bytes: u64,
    pub(super) body_bytes: u64,
    /// The request's body.
    pub(super) body: Bytes,
    /// Bytes of it that have left.
    pub(super) body_sent: usize,
    /// Of a script: the request, and its answer as it is looked at.
    pub(super) scripted: Option<Box<StreamCall>>,
}

/// What has come for a stream.
#[derive(Clone, Copy, Default)]
pub(super) struct Came {
    pub(super) status: Option<StatusCode>,
    pub(super) body_bytes: usize,
    pub(super) end: bool,
    pub(super) server_time: Option<Duration>,
}

impl Call {
    /// Since when nothing has come of which the timeout is.
    pub(super) fn waiting_since(&self) -> Instant {
        let heard_at = self.scripted.as_ref().and_then(|scripted| scripted.heard_at());
        heard_at.unwrap_or(self.batch.sent_at)
    }
}
