//! What `--write-out` prints after a call, in curl's words.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anywire::client::{Timeline, TracedAttempt, TracedConnection};
use anywire::http::Version;
use anywire::wire::{Address, DialStep};
use serde_json::{Map, Value};

use super::deadline::SoFar;
use super::facts::Facts;
use crate::failure::{Code, Failure};
use crate::output;
use crate::trust;
use crate::values::whole_text;

/// A call that is over.
struct Over<'a> {
    facts: &'a Facts,
    timeline: Timeline,
    /// The URL as it was typed.
    url: &'a str,
    method: &'a str,
    /// Its place among the URLs.
    at: usize,
    total: Duration,
    failure: Option<&'a Failure>,
    /// Bytes that were taken of data which are read while they are sent.
    taken: u64,
    /// Certificates are not verified.
    is_insecure: bool,
}

/// The value of a word.
enum Told {
    Text(String),
    Number(u64),
    /// Of three digits.
    Status(u16),
    Time(Duration),
    /// A number that there is none of: -1.
    None,
}

impl Told {
    fn ip(at: Option<SocketAddr>) -> Self {
        Self::Text(at.map(|at| at.ip().to_string()).unwrap_or_default())
    }

    fn port(at: Option<SocketAddr>) -> Self {
        Self::Number(at.map_or(0, |at| at.port().into()))
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Status(status) => format!("{status:03}"),
            Self::Time(time) => format!("{:.6}", time.as_secs_f64()),
            Self::None => "-1".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) if text.is_empty() => Value::Null,
            Self::Text(text) => text.as_str().into(),
            Self::Number(number) => (*number).into(),
            Self::Status(status) => (*status).into(),
            // To the microsecond, as in the text.
            Self::Time(time) => (time.as_micros() as f64 / 1e6).into(),
            Self::None => (-1).into(),
        }
    }
}

/// How the value of a word is found.
type Telling = fn(&Over<'_>) -> Told;

/// The words that are values, by their names.
const WORDS: &[(&str, Telling)] = &[
    ("certs", |over| Told::Text(over.facts.tls.as_ref().map(trust::certificates).unwrap_or_default())),
    ("conn_id", |over| over.connection(|connection| connection.id)),
    ("content_type", |over| {
        Told::Text(over.facts.headers.get("content-type").unwrap_or_default().to_owned())
    }),
    ("errormsg", |over| Told::Text(over.failure.map(Failure::message).unwrap_or_default().to_owned())),
    ("exitcode", |over| Told::Number(over.failure.map_or(0, |failure| failure.code() as u64))),
    ("filename_effective", |over| Told::Text(over.facts.file.clone().unwrap_or_default())),
    ("http_code", |over| Told::Status(over.facts.status)),
    ("http_version", |over| {
        Told::Text(
            match over.facts.version {
                None => "0",
                Some(Version::HTTP_10) => "1.0",
                Some(Version::HTTP_2) => "2",
                Some(_) => "1.1",
            }
            .to_owned(),
        )
    }),
    ("local_ip", |over| Told::ip(over.end(|connection| &connection.local))),
    ("local_port", |over| Told::port(over.end(|connection| &connection.local))),
    ("method", |over| Told::Text(over.method.to_owned())),
    ("num_certs", |over| {
        Told::Number(over.facts.tls.as_ref().map_or(0, |tls| tls.peer_certificates.len()) as u64)
    }),
    ("num_connects", |over| {
        Told::Number(
            over.timeline.attempts.iter().filter(|it| it.dial.is_some() && it.acquired.is_some()).count()
                as u64,
        )
    }),
    ("num_headers", |over| Told::Number(over.facts.headers.len() as u64)),
    ("num_redirects", |over| Told::Number(over.facts.redirects as u64)),
    ("num_retries", |over| Told::Number(over.timeline.retries() as u64)),
    ("proxy_used", |over| Told::Number(over.facts.sent.is_proxied.into())),
    ("redirect_url", |over| Told::Text(over.facts.location.clone().unwrap_or_default())),
    ("referer", |over| Told::Text(over.facts.sent.referer.clone().unwrap_or_default())),
    ("remote_ip", |over| Told::ip(over.end(|connection| &connection.peer))),
    ("remote_port", |over| Told::port(over.end(|connection| &connection.peer))),
    ("response_code", |over| Told::Status(over.facts.status)),
    ("scheme", |over| Told::Text(over.effective().split(':').next().unwrap_or_default().to_owned())),
    ("size_download", |over| Told::Number(over.facts.bytes)),
    ("size_header", |over| Told::Number(over.facts.head_bytes as u64)),
    ("size_request", |over| Told::Number(over.facts.request_bytes as u64)),
    ("size_upload", |over| Told::Number(over.uploaded())),
    ("speed_download", |over| over.speed(over.facts.bytes)),
    ("speed_upload", |over| over.speed(over.uploaded())),
    // As OpenSSL counts: 0 is that all is well, or that there was nothing to verify; 1 that it is not, or that nobody looked.
    ("ssl_verify_result", |over| {
        let is_refused = over.failure.is_some_and(|failure| failure.code() == Code::Certificate);
        Told::Number((is_refused || over.is_insecure && over.facts.tls.is_some()).into())
    }),
    ("time_appconnect", |over| over.dialed(DialStep::Secured)),
    ("time_connect", |over| over.dialed(DialStep::Connected)),
    ("time_namelookup", |over| over.named()),
    ("time_posttransfer", |over| over.at(|last| last.written)),
    ("time_pretransfer", |over| over.at(|last| last.acquired)),
    ("time_queue", |over| over.at(|last| last.dial.as_ref().map(|dial| dial.begun).or(last.acquired))),
    ("time_redirect", |over| over.redirected()),
    ("time_starttransfer", |over| over.at(|last| last.first_byte)),
    ("time_total", |over| Told::Time(over.total)),
    ("url", |over| Told::Text(over.url.to_owned())),
    ("url_effective", |over| Told::Text(over.effective().to_owned())),
    ("urlnum", |over| Told::Number(over.at as u64)),
];

impl Over<'_> {
    /// The last attempt.
    fn last(&self) -> Option<&TracedAttempt> {
        self.timeline.attempts.last()
    }

    /// A time of the last attempt, counted from the begin of all.
    fn at(&self, time: impl Fn(&TracedAttempt) -> Option<Duration>) -> Told {
        Told::Time(self.facts.since_begun(self.last().and_then(time)))
    }

    /// When its dial had done a step. As with curl 0 if there was none.
    fn dialed(&self, step: DialStep) -> Told {
        self.at(|last| last.dial.as_ref()?.done(step))
    }

    /// When its name had an address, which one that is a number has from the start.
    fn named(&self) -> Told {
        self.at(|last| last.dial.as_ref().map(|dial| dial.done(DialStep::Resolved).unwrap_or(dial.begun)))
    }

    /// When the last URL was begun with, if it is not the first.
    fn redirected(&self) -> Told {
        let hop = self.timeline.redirects();
        let first = self.timeline.attempts.iter().find(|attempt| attempt.hop == hop && hop > 0);
        Told::Time(self.facts.since_begun(first.map(|first| first.queued)))
    }

    /// Bytes of the body of the last request.
    fn uploaded(&self) -> u64 {
        let is_written = || self.last().is_some_and(|last| last.written.is_some());
        match self.facts.sent.body_bytes {
            None => self.taken,
            Some(bytes) if is_written() => bytes,
            Some(_) => 0,
        }
    }

    /// So many bytes in the time of the call.
    fn speed(&self, bytes: u64) -> Told {
        // Casting saturates, and makes a time of 0 an end.
        Told::Number((bytes as f64 / self.total.as_secs_f64().max(1e-6)) as u64)
    }

    /// A number of its connection; -1 if it has had none, as with curl.
    fn connection(&self, number: impl Fn(&TracedConnection) -> u64) -> Told {
        match self.last().and_then(|last| last.connection.as_ref()) {
            Some(connection) => Told::Number(number(connection)),
            None => Told::None,
        }
    }

    /// An end of its connection.
    fn end(&self, end: impl Fn(&TracedConnection) -> &Address) -> Option<SocketAddr> {
        end(self.last()?.connection.as_ref()?).location().parse().ok()
    }

    fn effective(&self) -> &str {
        if self.facts.url.is_empty() { self.url } else { &self.facts.url }
    }

    fn json(&self) -> Value {
        WORDS.iter().map(|(name, told)| ((*name).to_owned(), told(self).json())).collect::<Map<_, _>>().into()
    }

    fn headers(&self) -> Value {
        let mut all = Map::new();
        for (name, value) in self.facts.headers.iter() {
            let values = all.entry(name.to_ascii_lowercase()).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(values) = values {
                values.push(String::from_utf8_lossy(value).into());
            }
        }
        all.into()
    }
}

/// What is to be printed, with words in it.
#[derive(Debug, Clone)]
pub(super) struct Format(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// By its place in [`WORDS`].
    Word(usize),
    Json,
    HeaderJson,
    Header(String),
    /// What follows goes there.
    Stdout,
    Stderr,
    /// What follows is for calls that failed.
    OnError,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unread = |cause: io::Error| format!("it cannot be read: {cause}");
        match text.strip_prefix('@') {
            None => Self::parse(text),
            Some("-") => Self::parse(&whole_text(io::stdin(), FORMAT_BYTES_MAX).map_err(unread)?),
            Some(name) => {
                let read = File::open(name).and_then(|file| whole_text(file, FORMAT_BYTES_MAX));
                Self::parse(&read.map_err(unread)?)
            }
        }
    }
}

impl Format {
    fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['%', '\\']) {
            push(&mut pieces, &rest[..at]);
            let (piece, length) = piece(&rest[at..])?;
            match piece {
                Piece::Text(text) => push(&mut pieces, &text),
                piece => pieces.push(piece),
            }
            rest = &rest[at + length..];
        }
        push(&mut pieces, rest);
        Ok(Self(pieces))
    }

    /// Prints it for a call that is over.
    pub(super) fn print(
        &self,
        so_far: &SoFar,
        (at, url, method): (usize, &str, &str),
        failure: Option<&Failure>,
        is_insecure: bool,
    ) -> Result<(), Failure> {
        let facts = so_far.facts();
        let (total, timeline) = (facts.elapsed(), facts.timeline());
        let taken = so_far.taken();
        let over = Over { total, timeline, facts: &facts, url, method, at, failure, taken, is_insecure };
        let (mut printed, mut said, mut to_stderr) = (String::new(), String::new(), false);
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => text.clone(),
                Piece::Word(at) => WORDS[*at].1(&over).text(),
                Piece::Json => over.json().to_string(),
                Piece::HeaderJson => over.headers().to_string(),
                Piece::Header(name) => over.facts.headers.get(name).unwrap_or_default().to_owned(),
                Piece::OnError if failure.is_none() => break,
                Piece::OnError => continue,
                Piece::Stdout | Piece::Stderr => {
                    to_stderr = *piece == Piece::Stderr;
                    continue;
                }
            };
            if to_stderr { &mut said } else { &mut printed }.push_str(&text);
        }
        // Where that cannot be written the result matters more.
        let _ = io::stderr().write_all(said.as_bytes());
        if printed.is_empty() { Ok(()) } else { output::print(printed.as_bytes()) }
    }
}

/// Text behind text is one piece.
fn push(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(before)) => before.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

/// The piece at the begin of this text, which is a `%` or a `\`, and how long it is.
fn piece(text: &str) -> Result<(Piece, usize), String> {
    let literal = |text: &str, length| Ok((Piece::Text(text.to_owned()), length));
    for (escape, meant) in [("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ("%%", "%")] {
        if text.starts_with(escape) {
            return literal(meant, escape.len());
        }
    }
    let named =
        |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.split_once('}')).map(|(name, _)| name);
    if let Some(name) = named("%header{") {
        return Ok((Piece::Header(name.to_owned()), "%header{}".len() + name.len()));
    }
    let Some(name) = named("%{") else { return literal(&text[..1], 1) };
    let piece = match name {
        "json" => Piece::Json,
        "header_json" => Piece::HeaderJson,
        "stdout" => Piece::Stdout,
        "stderr" => Piece::Stderr,
        "onerror" => Piece::OnError,
        name => Piece::Word(WORDS.iter().position(|(word, _)| *word == name).ok_or_else(|| unknown(name))?),
    };
    Ok((piece, "%{}".len() + name.len()))
}

fn unknown(name: &str) -> String {
    let words: Vec<_> = WORDS.iter().map(|(word, _)| *word).collect();
    format!(
        "%{{{name}}} is no word of it; the words are {}, json, header_json, stdout, stderr, onerror, and %header{{NAME}}",
        words.join(", ")
    )
}

/// Of a format in a file.
const FORMAT_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_within_text() {
        let Format(pieces) =
            Format::parse("a%{http_code}\\n\\t%%%{json}%header{X-A}100% {b} \\x").expect("known words");
        let text = |text: &str| Piece::Text(text.to_owned());
        let code = WORDS.iter().position(|(word, _)| *word == "http_code").expect("it is a word");
        let expected = [
            text("a"),
            Piece::Word(code),
            text("\n\t%"),
            Piece::Json,
            Piece::Header("X-A".to_owned()),
            text("100% {b} \\x"),
        ];
        assert_eq!(pieces, expected);
        let said = Format::parse("%{http_cod}").expect_err("no such word");
        assert!(said.contains("%{http_cod} is no word") && said.contains("http_code, "), "{said}");
    }

    #[test]
    fn words_are_in_order() {
        assert!(WORDS.is_sorted_by_key(|(word, _)| *word));
    }
}
