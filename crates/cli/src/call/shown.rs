//! Heads as they are shown: with `-i` before a body, with `-v` on stderr, without what a terminal would act on.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anywire::http::h1::{Framing, encode};
use anywire::http::{Body, Headers, Method, ResponseHead, Url, Version};
use clap::builder::styling::{AnsiColor, Style};

use crate::output;

/// The head of the request as the client's encoder writes it; `None` where the URL or a field is wrong, which the call
/// itself then says.
pub(super) fn request_head(method: &Method, url: &Url, headers: &Headers, body: &Body) -> Option<Vec<u8>> {
    let framing = Framing::of_request(method, body);
    let mut head = Vec::new();
    encode::request_head(&mut head, method, url.path_and_query(), url.authority(), headers, framing).ok()?;
    Some(head)
}

/// The head with another version in its first line. Over HTTP/2 the line is in pseudo-header fields, which say the same.
pub(super) fn in_version(head: &[u8], version: &str) -> Vec<u8> {
    String::from_utf8_lossy(head).replacen("HTTP/1.1", version, 1).into_bytes()
}

/// The head of an answer as it came, up to the empty line at its end.
pub(super) fn head(answer: &ResponseHead) -> Vec<u8> {
    let status = answer.status().as_u16();
    let mut head = match answer.version() {
        // It has no reason, and no minor version (RFC 9113 section 8.3.2).
        Version::HTTP_2 => format!("HTTP/2 {status}").into_bytes(),
        version => [format!("{version:?} {status} ").as_bytes(), answer.reason_bytes()].concat(),
    };
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(answer.headers().wire_bytes());
    head.extend_from_slice(b"\r\n");
    head
}

/// Shows a head on stderr, each line behind `mark`, as curl does.
pub(super) fn show(mark: &[u8], head: &[u8]) {
    let head = match io::stderr().is_terminal() {
        true => at_terminal(head, output::is_coloured(&io::stderr())).into(),
        false => Cow::Borrowed(head),
    };
    let mut shown = Vec::new();
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        shown.extend_from_slice(mark);
        shown.extend_from_slice(line.trim_ascii_end());
        shown.push(b'\n');
    }
    // Where that cannot be written the result matters more.
    let _ = io::stderr().write_all(&shown);
}

/// A head as a terminal shows it: the status by its class, names of fields apart from their values.
pub(super) fn at_terminal(head: &[u8], coloured: bool) -> Vec<u8> {
    let head = for_terminal(head);
    if !coloured {
        return head.into_owned();
    }
    let mut shown = Vec::with_capacity(2 * head.len());
    for (at, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let style = |colour: AnsiColor| colour.on_default();
        let (style, length) = match (at, line.iter().position(|byte| *byte == b':')) {
            (0, _) => (start_line(line), line.trim_ascii_end().len()),
            (_, Some(colon)) => (style(AnsiColor::Cyan), colon),
            (_, None) => (Style::new(), 0),
        };
        let (first, rest) = line.split_at(length);
        shown.extend_from_slice(style.render().to_string().as_bytes());
        shown.extend_from_slice(first);
        shown.extend_from_slice(style.render_reset().to_string().as_bytes());
        shown.extend_from_slice(rest);
    }
    shown
}

/// The style of a status line by its class, of a request line, or of a line about the connection.
fn start_line(line: &[u8]) -> Style {
    let status =
        line.strip_prefix(b"HTTP/").and_then(|line| line.split(|byte| *byte == b' ').nth(1)?.first());
    let colour = match status {
        Some(b'1' | b'2') => AnsiColor::Green,
        Some(b'3') => AnsiColor::Yellow,
        Some(_) => AnsiColor::Red,
        None => return Style::new().bold(),
    };
    colour.on_default().bold()
}

/// The same without what a terminal acts on: a reason and the values of fields may hold the control characters beyond ASCII
/// (`obs-text`, RFC 9110 section 5.5). What is no UTF-8 is shown as such.
fn for_terminal(head: &[u8]) -> Cow<'_, [u8]> {
    if head.is_ascii() {
        return head.into();
    }
    let mut shown = String::with_capacity(head.len());
    for letter in String::from_utf8_lossy(head).chars() {
        match letter {
            letter if letter.is_control() && !letter.is_ascii() => shown.extend(letter.escape_default()),
            letter => shown.push(letter),
        }
    }
    shown.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_colour_of_its_class() {
        let shown =
            |head: &[u8]| String::from_utf8(at_terminal(head, true)).expect("UTF-8").replace('\u{1b}', "^");
        let head = shown(b"HTTP/1.1 200 OK\r\na: b:c\r\n\r\n");
        assert_eq!(head, "^[1m^[32mHTTP/1.1 200 OK^[0m\r\n^[36ma^[0m: b:c\r\n\r\n");
        assert!(shown(b"HTTP/2 301\r\n").starts_with("^[1m^[33m"));
        assert!(shown(b"HTTP/1.1 404 No\r\n").starts_with("^[1m^[31m"));
        assert_eq!(shown(b"GET / HTTP/1.1\r\n"), "^[1mGET / HTTP/1.1^[0m\r\n");
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        let shown = |head: &[u8]| String::from_utf8(for_terminal(head).into_owned()).expect("UTF-8");
        assert_eq!(shown(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"), "HTTP/1.1 200 OK\r\na: b\r\n\r\n");
        assert_eq!(
            shown("HTTP/1.1 200 D\u{e1}ccord \u{4f60}\r\n".as_bytes()),
            "HTTP/1.1 200 D\u{e1}ccord \u{4f60}\r\n"
        );
        // The start of an escape sequence, in Latin-1 and in UTF-8.
        assert_eq!(shown(b"HTTP/1.1 200 \x9b2J\xc2\x9b2J\r\n"), "HTTP/1.1 200 \u{fffd}2J\\u{9b}2J\r\n");
    }
}
