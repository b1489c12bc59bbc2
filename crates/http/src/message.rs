//! Requests and responses: their heads, and heads with bodies.

mod content;
mod request;
mod response;
mod target;

pub use content::{BodyLength, Content, forbids_body};
pub use request::{InvalidRequest, InvalidTarget, Request, RequestHead};
pub use response::{Response, ResponseHead};

pub(crate) use request::RequestHeadInner;
pub(crate) use response::ResponseHeadInner;
pub(crate) use target::{Target, has_fragment, is_host, is_host_and_port, is_scheme, is_target, is_visible};
