//! How a command fails: two lines for the person (`error: what was tried: what was found`, `help: what would help`)
//! and an exit code for the script.

use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, Write};

use anywire::Chain;
use anywire::advice::Message;
use clap::builder::styling::{AnsiColor, Style};

use crate::output;

/// Why a command ends without having done its work.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
    help: Option<String>,
}

/// The exit codes, the same for all commands. Calls use curl's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// It could not be done.
    Failed = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// A threshold broke.
    Threshold = 3,
    /// The load generator was the limit: no verdict.
    Saturated = 4,
    /// The name of the proxy could not be resolved.
    ResolveProxy = 5,
    /// The name of the host could not be resolved.
    Resolve = 6,
    /// No connection could be made.
    Connect = 7,
    /// The connection of HTTP/2 ended by an error.
    Http2 = 16,
    /// The response was cut short, or a load fell short of its plan. What has come was printed.
    Partial = 18,
    /// The answer's status is 400 or more, and `--fail` was given.
    Status = 22,
    /// The result could not be written.
    Write = 23,
    /// The data to send could not be read.
    Read = 26,
    /// It took too long.
    Timeout = 28,
    /// A download cannot go on where it ended.
    Range = 33,
    /// The handshake of TLS failed.
    Handshake = 35,
    /// There are too many redirects.
    Redirects = 47,
    /// The server closed the connection without a response.
    Empty = 52,
    /// The connection broke, or the response is no good: not HTTP, or over a limit.
    Answer = 56,
    /// The own certificate, or its key, cannot be used.
    OwnCertificate = 58,
    /// The server's certificate is not acceptable.
    Certificate = 60,
    /// The file of roots cannot be used.
    Roots = 77,
    /// The data would have to be sent again, and cannot be.
    Rewind = 65,
    /// The server's key is none of those that are pinned.
    Pinned = 90,
    /// The stream of HTTP/2 ended by an error.
    Stream = 92,
    /// A proxy of SOCKS made no connection.
    Socks = 97,
    /// Interrupted (SIGINT). The result so far was printed.
    Interrupted = 130,
    /// Terminated (SIGTERM). The result so far was printed.
    Terminated = 143,
}

impl Failure {
    /// A failure with its message: `what was tried: what was found`.
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        Self { code, message: message.to_string(), help: None }
    }

    /// A failure without a message: the user knows already, or the reader of stdout has gone.
    pub(crate) fn silent(code: Code) -> Self {
        Self::new(code, "")
    }

    /// The same with another exit code.
    pub(crate) fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// The same without a message.
    pub(crate) fn silenced(self) -> Self {
        Self::silent(self.code)
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// What was tried and found, in a line.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// An error of one of the crates. What would help becomes the second line.
    pub(crate) fn of(code: Code, error: &dyn Error) -> Self {
        Self::of_message(code, Chain(error).message())
    }

    /// A message of one of the crates.
    pub(crate) fn of_message(code: Code, message: Message) -> Self {
        Self { code, message: message.found, help: message.help }
    }

    /// Adds to what was found.
    pub(crate) fn after(mut self, more: impl Display) -> Self {
        self.message.push_str(&more.to_string());
        self
    }

    /// Says what would help, unless that has been said.
    pub(crate) fn or_help(self, help: impl Display) -> Self {
        if self.help.is_some() { self } else { self.help(help) }
    }

    /// Says what would help.
    pub(crate) fn help(mut self, help: impl Display) -> Self {
        self.help = Some(help.to_string());
        self
    }

    /// Prints it to stderr, coloured on a terminal, and gives the exit code.
    pub(crate) fn report(&self) -> u8 {
        let coloured = output::is_coloured(&io::stderr());
        if !self.message.is_empty() {
            // If stderr is closed, the exit code still tells.
            let _ = write!(io::stderr(), "{}", Report { failure: self, coloured });
        }
        self.code as u8
    }
}

/// The two lines.
struct Report<'f> {
    failure: &'f Failure,
    coloured: bool,
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = |colour: AnsiColor| if self.coloured { colour.on_default().bold() } else { Style::new() };
        let (red, green) = (style(AnsiColor::Red), style(AnsiColor::Green));
        writeln!(f, "{red}error:{red:#} {}", output::tamed(&self.failure.message))?;
        match &self.failure.help {
            Some(help) => writeln!(f, "{green}help:{green:#} {}", output::tamed(help)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use anywire::http::BodyError;

    use super::*;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("listening on tcp:h:1 failed")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_becomes_two_lines_with_its_cause() {
        let failure = Failure::of(
            Code::Failed,
            &Outer(io::Error::other(Message::new("it is in use; so").with_help("stop who holds it; now"))),
        );
        let lines = Report { failure: &failure, coloured: false }.to_string();
        assert_eq!(
            lines,
            "error: listening on tcp:h:1 failed: it is in use; so\nhelp: stop who holds it; now\n"
        );
        let broke = BodyError::Wire(io::Error::other("it broke"));
        let lines = Report { failure: &Failure::of(Code::Read, &broke), coloured: false }.to_string();
        let help = "try again if the request may be repeated";
        assert_eq!(lines, format!("error: reading a body: the connection broke: it broke\nhelp: {help}\n"));
    }

    #[test]
    fn colours_surround_the_first_word_only() {
        let failure = Failure::new(Code::Usage, "no").help("yes");
        let lines = Report { failure: &failure, coloured: true }.to_string();
        assert_eq!(lines, "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m no\n\u{1b}[1m\u{1b}[32mhelp:\u{1b}[0m yes\n");
    }
}
