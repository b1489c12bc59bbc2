//! What was found and what would help, as plain text.

use std::error::Error;
use std::fmt::{self, Display};

use crate::Advice;
use crate::advice::read;

/// A message in its two parts. It is an error, too: that of an [`io::Error`](std::io::Error), for instance.
///
/// ```
/// use std::io;
///
/// use anywire_advice::{Help, Message};
///
/// let message = Message::new("core 9 is not there").with_help("choose one from 0 to 7");
/// let error = io::Error::new(io::ErrorKind::InvalidInput, message);
/// assert_eq!(error.to_string(), "core 9 is not there; choose one from 0 to 7");
/// assert_eq!(error.help().as_deref(), Some("choose one from 0 to 7"));
///
/// let message = Message::read(format_args!("pinning failed: {error}"));
/// assert_eq!(message.found, "pinning failed: core 9 is not there");
/// assert_eq!(message.help, error.help());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// What was tried, and what was found.
    pub found: String,
    /// What would help.
    pub help: Option<String>,
}

impl Message {
    /// What was found.
    pub fn new(found: impl Into<String>) -> Self {
        Self { found: found.into(), help: None }
    }

    /// The parts of what prints a message, such as `format_args!("reading failed: {error}")`.
    pub fn read(message: impl Display) -> Self {
        let (found, advice) = read(&message, false);
        Self { found, help: Some(advice.join("; ")).filter(|help| !help.is_empty()) }
    }

    /// Says what would help.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// What was found, and the help as [`Advice`].
impl Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        self.help.as_ref().map_or(Ok(()), |help| Advice(help).fmt(f))
    }
}

impl Error for Message {}

impl<T: Into<String>> From<T> for Message {
    fn from(found: T) -> Self {
        Self::new(found)
    }
}
