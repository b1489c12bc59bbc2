//! HTTP/1 on a client's connection: one request at a time, in step with its response.

mod exchange;
mod session;
mod upload;

pub(crate) use exchange::{Exchange, is_tls_alert, may_reuse};
pub(crate) use session::{Session, Slot};
pub(crate) use upload::Upload;
