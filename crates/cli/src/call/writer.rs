//! The way of a response to its place: formatted and without control characters at a terminal, as it came elsewhere, with a bar
//! while a file grows.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anywire::client::Response;

use super::json::Formatter;
use super::place::Place;
use super::response::ResponseOptions;
use super::resume;
use super::shown;
use crate::failure::{Code, Failure};
use crate::output;
use crate::progress::Progress;

/// Takes a response while it comes.
pub(super) struct Writer {
    to: File,
    name: String,
    kind: Kind,
}

/// What a place is.
enum Kind {
    /// Bytes go as they came.
    Plain,
    /// A person reads.
    Terminal { coloured: bool, json: Option<Formatter> },
    /// A file, and how much it has and will have.
    File { length: u64, whole: Option<u64>, progress: Shown },
}

/// Whether there is a bar.
enum Shown {
    Never,
    /// If it takes longer.
    Later(Instant),
    Now(Progress),
}

impl Writer {
    /// Opens the place of a response. A file that has `from` bytes of it goes on behind them.
    pub(super) fn open(
        place: &Place,
        from: Option<u64>,
        response: &Response,
        options: &ResponseOptions,
    ) -> Result<Self, Failure> {
        let to = place.open(from.is_some())?;
        let kind = match place {
            Place::Stdout if to.is_terminal() => {
                let coloured = output::is_coloured(&to);
                let is_formatted = !options.no_buffer && is_json(response);
                Kind::Terminal { coloured, json: is_formatted.then(|| Formatter::new(coloured)) }
            }
            Place::Stdout | Place::RawStdout => Kind::Plain,
            Place::File(_) => {
                resume::begin(&to, response.headers());
                let length = from.unwrap_or(0);
                let whole = response.length().map(|rest| length + rest);
                let progress = if options.silent { Shown::Never } else { Shown::Later(Instant::now()) };
                Kind::File { length, whole, progress }
            }
        };
        Ok(Self { to, name: place.name(), kind })
    }

    /// Writes the head.
    pub(super) fn head(&mut self, head: &[u8]) -> Result<(), Failure> {
        match self.kind {
            Kind::Terminal { coloured, .. } => {
                let shown = shown::at_terminal(head, coloured);
                self.write(&shown)
            }
            _ => self.write(head),
        }
    }

    /// Writes more of the body.
    pub(super) fn body(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Plain => self.write(chunk),
            Kind::Terminal { json: Some(formatter), .. } => {
                let shown = formatter.piece(chunk);
                self.write(&shown)
            }
            Kind::Terminal { .. } if chunk.contains(&0) => {
                let message = "writing stdout: the body is binary, which would disturb the terminal";
                Err(Failure::new(Code::Write, message)
                    .help("write it to a file with --output FILE, or print it all the same with --output -"))
            }
            Kind::Terminal { .. } => self.write(chunk),
            Kind::File { length, whole, progress } => {
                *length += chunk.len() as u64;
                if let Shown::Later(since) = progress
                    && since.elapsed() > SHOWN_AFTER
                {
                    *progress = Shown::Now(Progress::of_bytes(*whole, &self.name));
                }
                if let Shown::Now(progress) = progress {
                    progress.show(*length, String::new);
                }
                self.write(chunk)
            }
        }
    }

    /// The response is whole.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Plain => {}
            Kind::Terminal { json, .. } => {
                if let Some(end) = json.as_mut().map(Formatter::end) {
                    self.write(&end)?;
                }
            }
            Kind::File { .. } => resume::end(&self.to),
        }
        self.to.flush().map_err(|cause| self.unwritten(&cause))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.to.write_all(bytes).map_err(|cause| self.unwritten(&cause))
    }

    fn unwritten(&self, cause: &io::Error) -> Failure {
        output::unwritten(&self.name, cause)
    }
}

/// Whether a body is text of JSON (RFC 8259, RFC 6839).
fn is_json(response: &Response) -> bool {
    let headers = response.headers();
    let media = headers.get("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let media = media.to_ascii_lowercase();
    let is_whole = response.length() != Some(0) && headers.content_coding().is_none();
    is_whole && (media == "application/json" || media.ends_with("+json"))
}

/// What is over sooner needs no bar: it would only flicker.
const SHOWN_AFTER: Duration = Duration::from_millis(300);
