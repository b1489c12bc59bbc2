//! One line of the log an exchange.

use std::time::Duration;

use super::{Begun, Ended, Observer};

/// Logs each exchange once it has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestLog;

impl Observer for RequestLog {
    type Exchange = ();

    fn begin(&mut self, _: &Begun<'_>) {}

    fn end(&mut self, (): (), ended: &Ended<'_>) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "anywire::access",
            method = ended.method.map_or("-", |method| method.as_str()),
            route = ended.route.unwrap_or("-"),
            status = ended.status.map(|status| status.as_u16()),
            bytes = ended.sent_bytes,
            received = ended.received_bytes,
            time_us = micros(ended.duration),
            queue_us = ended.queue_time.map(micros),
            end = ended.end.name(),
            request_id = ended.request_id,
            peer = %ended.peer,
            "request"
        );
    }
}
