//! The data of a call: parts of `--data` and its relatives in the order in which they were typed, as a body or as a query.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use anywire::http::{Body, BodyError};
use bytes::Bytes;
use clap::parser::ArgMatches;
use clap::{Arg, ArgAction, Command, FromArgMatches};
use futures_core::Stream;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};

use super::deadline::SoFar;
use crate::blocks::Blocks;
use crate::failure::{Code, Failure};

/// All parts, and what is done with them.
#[derive(Debug, Clone)]
pub(super) struct Data {
    parts: Vec<Part>,
    /// They are JSON, and JSON is wanted.
    json: bool,
    /// They go into the URL.
    in_query: bool,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// What stands before it: a `&` between pairs.
    before: &'static str,
    /// The name of a pair, with its `=`.
    name: String,
    source: Source,
    is_encoded: bool,
}

/// Where a part comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Held(Bytes),
    File(String),
    Stdin,
}

impl Source {
    /// As curl reads it, apart from `-`, which is stdin, too.
    fn of(text: &str) -> Self {
        match text.strip_prefix('@').unwrap_or(text) {
            "-" => Self::Stdin,
            name if text.starts_with('@') => Self::File(name.to_owned()),
            text => Self::held(text),
        }
    }

    fn held(text: &str) -> Self {
        Self::Held(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl Data {
    /// Whether there are any.
    pub(super) fn is_some(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Whether a request has them as its body.
    pub(super) fn is_body(&self) -> bool {
        self.is_some() && !self.in_query
    }

    /// The fields of a head that they ask for.
    pub(super) fn fields(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self { json: true, .. } => &[("content-type", JSON), ("accept", JSON)],
            // What a form sends, as with curl.
            _ if self.is_body() => &[("content-type", FORM)],
            _ => &[],
        }
    }

    /// Whether this file is one that they are read from.
    pub(super) fn are_read_from(&self, is_it: impl Fn(&fs::Metadata) -> bool) -> bool {
        self.parts.iter().any(|part| {
            let metadata = match &part.source {
                Source::Held(_) => return false,
                Source::File(name) => fs::metadata(name),
                Source::Stdin => stdin().and_then(|stdin| stdin.metadata()),
            };
            // Whether they can be read is said later.
            metadata.is_ok_and(|metadata| metadata.is_file() && is_it(&metadata))
        })
    }

    /// Reads what can be read only once, so that each of several calls has it; and files that memory has room for, if so,
    /// because a redirect and another attempt need a body that is there as a whole.
    pub(super) fn keep(&mut self, files_too: bool) -> Result<(), Failure> {
        for part in &mut self.parts {
            let has_room = |name: &String| {
                fs::metadata(name).is_ok_and(|file| file.is_file() && file.len() <= HELD_BYTES_MAX)
            };
            let is_kept = match &part.source {
                Source::Held(_) => false,
                Source::File(name) => files_too && has_room(name),
                Source::Stdin => true,
            };
            if is_kept {
                part.source = Source::Held(part.read()?.into());
            }
        }
        Ok(())
    }

    /// The body of a request. Files and stdin are read while they are sent.
    pub(super) fn body(&self, so_far: &SoFar) -> Result<Body, Failure> {
        if !self.is_body() {
            return Ok(Body::empty());
        }
        let mut pieces = VecDeque::new();
        for part in &self.parts {
            push_text(&mut pieces, format!("{}{}", part.before, part.name).as_bytes());
            match &part.source {
                _ if part.is_encoded => push_text(&mut pieces, encoded(&part.read()?).as_bytes()),
                Source::Held(held) => push_text(&mut pieces, held),
                _ => pieces.push_back(Piece::Blocks(so_far.sends(part.blocks()?))),
            }
        }
        Ok(Pieces { pieces, taken: so_far.counts() }.into_body())
    }

    /// A URL with the data in its query, if that is where they belong.
    pub(super) fn url(&self, url: String) -> Result<String, Failure> {
        if !self.in_query || !self.is_some() {
            return Ok(url);
        }
        let (before, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
        let mut query = Vec::new();
        for part in &self.parts {
            query.extend_from_slice(part.before.as_bytes());
            query.extend_from_slice(part.name.as_bytes());
            let read = part.read()?;
            query.extend(if part.is_encoded { encoded(&read).into_bytes() } else { read });
            if query.len() > QUERY_BYTES_MAX {
                let message = format!("writing the data into the URL: they are over {QUERY_BYTES_MAX} bytes");
                return Err(
                    Failure::new(Code::Usage, message).help("leave out --get to send them as the body")
                );
            }
        }
        // What no URL holds, such as a space.
        let query = percent_encode(&query, NOT_IN_QUERY);
        let between = match before.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        Ok(format!("{before}{between}{query}{fragment}"))
    }
}

impl Part {
    /// The whole of it.
    fn read(&self) -> Result<Vec<u8>, Failure> {
        match &self.source {
            Source::Held(held) => Ok(held.to_vec()),
            Source::File(name) => whole(name, &mut File::open(name).map_err(|cause| unread(name, &cause))?),
            Source::Stdin => whole("stdin", &mut stdin().map_err(|cause| unread("-", &cause))?),
        }
    }

    fn blocks(&self) -> Result<Blocks, Failure> {
        let Source::File(name) = &self.source else {
            return Ok(Blocks::of(stdin().map_err(|cause| unread("-", &cause))?, None, "stdin"));
        };
        let file = File::open(name).map_err(|cause| unread(name, &cause))?;
        let metadata = file.metadata().map_err(|cause| unread(name, &cause))?;
        if metadata.is_dir() {
            return Err(unread(name, &io::ErrorKind::IsADirectory.into()));
        }
        // A pipe or a device has no length that would be known. Nor has a file of the kernel, whose size is said to be 0.
        let size = Some(metadata.len()).filter(|size| metadata.is_file() && *size > 0);
        Ok(Blocks::of(file, size, name))
    }
}

fn stdin() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// All that a file has, up to the limit for what is held in memory.
fn whole(name: &str, file: &mut File) -> Result<Vec<u8>, Failure> {
    let mut read = Vec::new();
    let count = file.take(HELD_BYTES_MAX + 1).read_to_end(&mut read).map_err(|cause| unread(name, &cause))?;
    if count as u64 > HELD_BYTES_MAX {
        let message = format!(
            "reading the data of {name:?}: they are over {} MiB, and have to be held in memory",
            HELD_BYTES_MAX >> 20
        );
        return Err(
            Failure::new(Code::Read, message).help("send a file as it is, by --data @FILE, with one URL")
        );
    }
    Ok(read)
}

fn unread(name: &str, cause: &io::Error) -> Failure {
    let message = format!("reading the data of {name:?} failed: {cause}");
    Failure::new(Code::Read, message).help("name a file that this user can read, or write '@-' for stdin")
}

/// As forms are encoded, a space as `+`.
fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, NOT_IN_PAIR).to_string().replace("%20", "+")
}

/// Text behind text is one piece.
fn push_text(pieces: &mut VecDeque<Piece>, text: &[u8]) {
    match pieces.back_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(before)) => before.extend_from_slice(text),
        _ => pieces.push_back(Piece::Text(text.to_vec())),
    }
}

/// A part of a body.
enum Piece {
    Text(Vec<u8>),
    Blocks(Blocks),
}

/// Pieces behind each other as one body.
struct Pieces {
    pieces: VecDeque<Piece>,
    /// Bytes that were taken.
    taken: Arc<AtomicU64>,
}

impl Pieces {
    fn into_body(mut self) -> Body {
        if self.pieces.is_empty() {
            return Body::empty();
        }
        if let [Piece::Text(text)] = self.pieces.make_contiguous() {
            return std::mem::take(text).into();
        }
        let length = self.pieces.iter().try_fold(0_u64, |sum, piece| {
            sum.checked_add(match piece {
                Piece::Text(text) => text.len() as u64,
                Piece::Blocks(blocks) => blocks.length()?,
            })
        });
        let body = Body::stream(self);
        match length {
            Some(length) => body.with_length(length),
            None => body,
        }
    }
}

impl Stream for Pieces {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let item = match self.pieces.front_mut() {
                None => return Poll::Ready(None),
                Some(Piece::Text(text)) => {
                    let text = std::mem::take(text);
                    self.pieces.pop_front();
                    Some(Ok(text.into()))
                }
                Some(Piece::Blocks(blocks)) => ready!(Pin::new(blocks).poll_next(cx)),
            };
            match item {
                Some(item) => {
                    let bytes = item.as_ref().map_or(0, Bytes::len);
                    self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Poll::Ready(Some(item));
                }
                None => self.pieces.pop_front(),
            };
        }
    }
}

/// By hand, because the order counts in which parts of different options were typed.
impl FromArgMatches for Data {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut parts = Vec::new();
        for (option, ..) in OPTIONS {
            let values = matches.get_many::<String>(option).into_iter().flatten();
            parts.extend(
                matches.indices_of(option).into_iter().flatten().zip(values.map(|value| (option, value))),
            );
        }
        parts.sort_by_key(|(at, _)| *at);
        let parts =
            parts.into_iter().enumerate().map(|(at, (_, (option, value)))| part(option, value, at == 0));
        Ok(Self {
            parts: parts.collect(),
            json: matches.contains_id("json"),
            in_query: matches.get_flag("in-query"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Data {
    fn augment_args(command: Command) -> Command {
        let options = OPTIONS.map(|(name, value, help, is_rare)| {
            let option = Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append);
            let option = option.allow_hyphen_values(true).hide_short_help(is_rare).help_heading(HEADING);
            if name == "data" { option.short('d') } else { option }
        });
        let in_query = Arg::new("in-query").short('G').long("get").action(ArgAction::SetTrue);
        let in_query = in_query.help("Send the data in the query of the URL").help_heading(HEADING);
        command.args(options).arg(in_query)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A part by its option and its value.
fn part(option: &str, value: &str, is_first: bool) -> Part {
    // Those of JSON are one text, as with curl.
    let before = if is_first || option == "json" { "" } else { "&" };
    let plain = |source| Part { before, name: String::new(), source, is_encoded: false };
    match option {
        "data-raw" => plain(Source::held(value)),
        "data-urlencode" => {
            let at = value.find(['=', '@']);
            let (name, source) = match at.map(|at| (at, value.as_bytes()[at])) {
                Some((at, b'=')) => (&value[..at], Source::held(&value[at + 1..])),
                Some((at, _)) => (&value[..at], Source::of(&value[at..])),
                None => ("", Source::held(value)),
            };
            let name = if name.is_empty() { String::new() } else { format!("{name}=") };
            Part { name, is_encoded: true, ..plain(source) }
        }
        _ => plain(Source::of(value)),
    }
}

const HEADING: &str = "Request";

/// Name, value, help, and whether the help on a screen leaves it out.
const OPTIONS: [(&str, &str, &str, bool); 5] = [
    ("data", "DATA", "The body: text, @FILE, or - for stdin; several are joined by '&'", false),
    ("json", "DATA", "The body as JSON, which is also what is wanted back; as --data", false),
    ("data-urlencode", "DATA", "A pair of a form, NAME=TEXT or NAME@FILE, which is encoded", false),
    ("data-binary", "DATA", "The same as --data", true),
    ("data-raw", "TEXT", "As --data, without a meaning for @ and -", true),
];

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// Of data that have to be held in memory: those of stdin for several calls, and those that are encoded.
const HELD_BYTES_MAX: u64 = 64 << 20;
/// More than servers take.
const QUERY_BYTES_MAX: usize = 1 << 20;

const NOT_IN_PAIR: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const NOT_IN_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

#[cfg(test)]
mod tests {
    use super::*;

    fn url(parts: &[(&str, &str)], url: &str) -> String {
        let parts =
            parts.iter().enumerate().map(|(at, (option, value))| part(option, value, at == 0)).collect();
        Data { parts, json: false, in_query: true }.url(url.to_owned()).expect("text")
    }

    #[test]
    fn data_join_the_query_that_is_there() {
        let pairs = &[("data", "a=1"), ("data-urlencode", "b=x y&z"), ("data", "c d")];
        assert_eq!(url(pairs, "http://h"), "http://h?a=1&b=x+y%26z&c%20d");
        assert_eq!(url(pairs, "http://h/p?q#f"), "http://h/p?q&a=1&b=x+y%26z&c%20d#f");
        assert_eq!(url(pairs, "http://h/p?"), "http://h/p?a=1&b=x+y%26z&c%20d");
        assert_eq!(url(&[], "http://h/p?q#f"), "http://h/p?q#f");
    }

    #[test]
    fn a_pair_that_is_encoded_has_curls_forms() {
        let found = |text: &str| {
            let Part { name, source, .. } = part("data-urlencode", text, true);
            (name, source)
        };
        assert_eq!(found("a b"), (String::new(), Source::held("a b")));
        assert_eq!(found("=a=b"), (String::new(), Source::held("a=b")));
        assert_eq!(found("n=a@b"), ("n=".to_owned(), Source::held("a@b")));
        assert_eq!(found("n@f=g"), ("n=".to_owned(), Source::File("f=g".to_owned())));
        assert_eq!(found("@-"), (String::new(), Source::Stdin));
        assert_eq!(encoded("a b~é/+".as_bytes()), "a+b~%C3%A9%2F%2B");
    }
}
