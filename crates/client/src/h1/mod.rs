//! HTTP/1 on a client's connection: one request at a time, in step with its response.

mod exchange;
mod session;
mod upload;

pub(crate) use exchange::{is_tls_alert, may_reuse};
pub(crate) use session::Session;
pub(crate) use upload::Upload;
