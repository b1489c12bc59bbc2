//! What would help against an error, apart from what was found.
//!
//! A message has three parts: what was tried, what was found, what would help. An error writes the last one as [`Advice`],
//! which prints `; ` before itself, so that the message of one error is whole. An error with causes is shown as one line by
//! [`Chain`]: what each of them found, then the advice of all. [`Help`] gives the advice alone. A [`Message`] is both as plain
//! text, for an error without a type of its own.
//!
//! ```
//! use std::{error::Error, fmt, io};
//!
//! use anywire_advice::{Advice, Chain, Help};
//!
//! #[derive(Debug)]
//! struct OpenError {
//!     name: &'static str,
//!     cause: io::Error,
//! }
//!
//! impl fmt::Display for OpenError {
//!     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
//!         write!(f, "opening {:?}{}", self.name, Advice("check its name"))
//!     }
//! }
//!
//! impl Error for OpenError {
//!     fn source(&self) -> Option<&(dyn Error + 'static)> {
//!         Some(&self.cause)
//!     }
//! }
//!
//! let error = OpenError { name: "a; b", cause: io::Error::other("it is not there") };
//! assert_eq!(error.to_string(), r#"opening "a; b"; check its name"#);
//! assert_eq!(Chain(&error).to_string(), r#"opening "a; b": it is not there; check its name"#);
//! assert_eq!(Chain(&error).message().found, r#"opening "a; b": it is not there"#);
//! assert_eq!(error.help().as_deref(), Some("check its name"));
//! ```

mod advice;
mod chain;
mod message;

pub use advice::{Advice, MORE_PORTS, OrRaise};
pub use chain::{Chain, Help};
pub use message::Message;
