//! The limits on heads as options: how long a start line, how many fields and how many bytes in all are accepted.

use anywire::http;
use clap::Args;

use crate::values;

/// Limits on the heads that are received: of requests in `serve`, of answers in `get`, `post` and `load`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits on heads")]
pub(crate) struct HeadLimits {
    /// Longest head that is accepted, start line and fields together
    #[arg(long, hide_short_help = true, value_name = "BYTES", default_value_t = http::HeadLimits::default().bytes, value_parser = values::up_to(1, BYTES_MAX))]
    max_head: usize,
    /// Most header fields that are accepted
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = http::HeadLimits::default().fields, value_parser = values::up_to(1, FIELDS_MAX))]
    max_fields: usize,
    /// Longest request line or status line that is accepted
    #[arg(long, hide_short_help = true, value_name = "BYTES", default_value_t = http::HeadLimits::default().target_bytes, value_parser = values::up_to(1, BYTES_MAX))]
    max_start_line: usize,
}

impl HeadLimits {
    /// The limits of a decoder; a limit without an option has its default.
    pub(crate) fn limits(&self) -> http::HeadLimits {
        http::HeadLimits {
            bytes: self.max_head,
            fields: self.max_fields,
            target_bytes: self.max_start_line,
            ..http::HeadLimits::default()
        }
    }
}

/// 16 MiB: a head is held in memory, once for each connection that is busy with one.
const BYTES_MAX: u64 = 16 << 20;
/// What a parse makes room for at most.
const FIELDS_MAX: u64 = 10_000;
