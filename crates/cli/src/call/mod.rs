//! Calls in the manner of curl, over any wire: `get`, `post` and the other methods, of one URL or several.
//!
//! The way of a call: [`verbs`] has the commands, [`arguments`] their options and the checks before the first call, [`sequence`]
//! one URL behind the other within their time, [`exchange`] one request and its response, [`place`] where a body goes.

mod arguments;
mod connection;
mod cookies;
mod data;
mod deadline;
mod exchange;
mod facts;
mod help;
mod json;
mod password;
mod place;
mod request;
mod response;
mod resume;
mod rules;
mod sequence;
mod shown;
mod trace;
mod verbs;
mod watch;
mod write_out;
mod writer;

pub(crate) use verbs::Verb;
