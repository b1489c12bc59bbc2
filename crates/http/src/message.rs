//! Requests and responses: their heads, and heads with bodies.

mod request;
mod response;

pub use request::{InvalidTarget, Request, RequestHead};
pub use response::{Response, ResponseHead};

pub(crate) use request::RequestParts;
pub(crate) use response::ResponseParts;
