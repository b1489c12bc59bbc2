//! Requests and responses: their heads, and heads with bodies.

mod request;
mod response;
mod target;

pub use request::{InvalidRequest, InvalidTarget, Request, RequestHead};
pub use response::{Response, ResponseHead};

pub(crate) use request::RequestParts;
pub(crate) use response::ResponseParts;
pub(crate) use target::{Target, has_fragment, is_host, is_scheme, is_target, is_visible};
