//! Parsers for the values of arguments, with messages that say how to write a value that is wrong.

use std::fs::File;
use std::io::{self, Read};

use anywire::http::Headers;
use anywire::loops::Builder;
use anywire::wire::{self, Address, AddressError};
use bytes::Bytes;
use clap::builder::RangedU64ValueParser;

use crate::failure::{Code, Failure};

/// An address at which this process and others meet: the only ones of use to a command, which has one end only.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    let wires = wire::wires().filter(|wire| wire.reaches_other_processes()).map(wire::Wire::scheme);
    let wires = wires.collect::<Vec<_>>().join(", ");
    // The name of a wire alone: what is missing is the place.
    let place = wire::wires().any(|wire| wire.scheme() == text).then(|| format!("{text}:"));
    let text = place.as_deref().unwrap_or(text);
    let address: Address = text.parse().map_err(|error| match (meant(text), error) {
        (Some(meant), _) => format!("it names no wire; write {meant}"),
        (None, AddressError::UnknownWire { wire, .. }) => {
            format!("there is no wire {wire:?}; take one of {wires}")
        }
        (None, error) => error.to_string(),
    })?;
    if address.reaches_other_processes() {
        return Ok(address);
    }
    Err(format!(
        "{address} leads nowhere but within one process, and its other end would have to be in this one; take another \
         wire ({wires}), or both ends into a program of yours with the anywire crate"
    ))
}

/// The address that a text without a wire most likely stands for: what curl, nginx or ss would call one.
fn meant(text: &str) -> Option<Address> {
    if wire::wires().any(|wire| text.starts_with(&format!("{}:", wire.scheme()))) {
        return None;
    }
    let (scheme, location) = match text {
        _ if text.starts_with('@') => ("unix", text.to_owned()),
        _ if text.contains("://") => {
            let authority = text.split("://").nth(1)?.split('/').next()?;
            ("tcp", authority.to_owned())
        }
        _ if text.contains('/') || text.ends_with(".sock") => ("unix", text.to_owned()),
        _ if text.parse::<u16>().is_ok() => ("tcp", format!("127.0.0.1:{text}")),
        _ if text.starts_with(':') => ("tcp", format!("0.0.0.0{text}")),
        _ => ("tcp", text.to_owned()),
    };
    format!("{scheme}:{location}").parse().or_else(|_| format!("{scheme}:{location}:8080").parse()).ok()
}

/// A URL as curl takes it: without a scheme it is `http://`. With `--via` a path alone is enough.
pub(crate) fn url(text: &str, via: Option<&Address>) -> Result<String, Failure> {
    if let Some(wire) = wire::wires().find(|wire| text.starts_with(&format!("{}:", wire.scheme()))) {
        let message = format!("calling {text:?}: it is an address on the wire {}, not a URL", wire.scheme());
        let failure = Failure::new(Code::Usage, message);
        return Err(match text.strip_prefix("tcp:") {
            // The path behind the port belongs to the URL.
            Some(rest) => failure.help(format_args!("write it as http://{}", rest.trim_start_matches('/'))),
            None => failure.help(format_args!(
                "write the URL, and the address beside it: http://localhost/ --via {text}"
            )),
        });
    }
    if let Some(space) = text.find(char::is_whitespace) {
        let message = format!("calling {text:?}: a space stands at its byte {space}, and no URL holds one");
        return Err(Failure::new(Code::Usage, message).help("leave it out, or write %20 for it"));
    }
    let of_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    if text.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(of_scheme)) {
        return Ok(text.to_owned());
    }
    if !text.starts_with('/') {
        return Ok(format!("http://{text}"));
    }
    if via.is_some() {
        return Ok(format!("http://localhost{text}"));
    }
    let message = format!("calling {text:?}: it names no host");
    Err(Failure::new(Code::Usage, message).help(format_args!(
        "write localhost:8080{text}, or say where with --via, such as --via unix:/run/app.sock"
    )))
}

/// A number within its bounds.
pub(crate) fn up_to(least: u64, most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=most)
}

/// A number of event loops.
pub(crate) fn loops() -> RangedU64ValueParser<usize> {
    up_to(1, Builder::COUNT_MAX as u64)
}

/// A header field as curl takes it: `Name: value`, `Name;` for one that is empty, `Name:` for one that a command leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
    is_left_out: bool,
}

impl Field {
    /// Whether a call leaves it out, where it would have added it.
    pub(crate) fn is_left_out(&self) -> bool {
        self.is_left_out
    }
}

impl std::str::FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value, is_left_out) = match (text.split_once(':'), text.strip_suffix(';')) {
            (Some((name, value)), _) => (name, value.trim(), value.trim().is_empty()),
            (None, Some(name)) => (name, "", false),
            (None, None) => return Err("there is no colon in it; write it as 'Name: value'".to_owned()),
        };
        let field = Self { name: name.trim().to_owned(), value: value.to_owned(), is_left_out };
        let checked = Headers::new().append(&field.name, &field.value).map(|_| ());
        checked.map(|()| field).map_err(|invalid| invalid.to_string())
    }
}

/// All fields of a command line as one block.
pub(crate) fn headers(fields: &[Field]) -> Result<Headers, Failure> {
    let mut headers = Headers::new();
    for field in fields {
        if field.name.eq_ignore_ascii_case("host") && headers.contains("host") {
            let message = format!("the header Host is given twice, the second time as {:?}", field.value);
            return Err(Failure::new(Code::Usage, message).help("name one host; a request has one"));
        }
        headers.append(&field.name, &field.value).map_err(|invalid| Failure::of(Code::Usage, &invalid))?;
    }
    Ok(headers)
}

/// The body of a request: text, or the bytes of `@FILE`.
pub(crate) fn data(data: &str) -> Result<Bytes, Failure> {
    let Some(name) = data.strip_prefix('@') else { return Ok(Bytes::from(data.to_owned())) };
    let read = File::open(name).and_then(|file| whole(file, FILE_BYTES_MAX));
    read.map(Bytes::from).map_err(|cause| {
        let message = format!("reading the data of {name:?} failed: {cause}");
        Failure::new(Code::Read, message).help("name a file that this user can read")
    })
}

/// 64 MiB: what a file of requests, rows or a body may have.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// All that a file has, or stdin, if that is no more than so many bytes.
pub(crate) fn whole(mut input: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if input.by_ref().take(bytes_max + 1).read_to_end(&mut read)? as u64 > bytes_max {
        let most = if bytes_max < 1 << 20 {
            format!("{bytes_max} bytes")
        } else {
            format!("{} MiB", bytes_max >> 20)
        };
        let message = format!("it is longer than {most}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(read)
}

/// As [`whole`], of text.
pub(crate) fn whole_text(input: impl Read, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(whole(input, bytes_max)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_out_of_the_process() {
        for wire in wire::wires() {
            let Some(scratch) = wire.scratch() else { continue };
            let found = address(&scratch.to_string());
            assert_eq!(found.is_ok(), scratch.reaches_other_processes(), "{scratch}: {found:?}");
        }
        assert!(address("telepathy:you").is_err_and(|said| said.contains("there is no wire")));
    }

    #[test]
    fn an_address_without_a_wire_is_answered_with_the_one_that_is_meant() {
        for (text, meant) in [
            ("127.0.0.1:8080", "write tcp:127.0.0.1:8080"),
            ("[::1]:8080", "write tcp:[::1]:8080"),
            ("localhost:80", "write tcp:localhost:80"),
            ("localhost", "write tcp:localhost:8080"),
            ("8080", "write tcp:127.0.0.1:8080"),
            (":8080", "write tcp:0.0.0.0:8080"),
            ("/run/app.sock", "write unix:/run/app.sock"),
            ("app.sock", "write unix:app.sock"),
            ("@name", "write unix:@name"),
            ("http://127.0.0.1:8080/", "write tcp:127.0.0.1:8080"),
        ] {
            let said = address(text).unwrap_err();
            assert!(said.ends_with(meant), "{text}: {said}");
        }
        // Where the wire is named, the part that is wrong is.
        assert!(address("tcp").is_err_and(|said| said.contains("no port; expected HOST:PORT")));
        assert!(address("tcp:127.0.0.1:80800").is_err_and(|said| said.contains("80800\" is no port")));
    }

    #[test]
    fn a_url_needs_no_scheme_and_beside_a_wire_no_host() {
        let via: Address = "unix:/run/app.sock".parse().expect("an address");
        let read = |text, via| url(text, via).expect("a URL");
        assert_eq!(read("localhost:8080/json", None), "http://localhost:8080/json");
        assert_eq!(read("example.com", None), "http://example.com");
        assert_eq!(read("[::1]:80/", None), "http://[::1]:80/");
        assert_eq!(read("https://h/", None), "https://h/");
        assert_eq!(read("h/?to=http://other/", Some(&via)), "http://h/?to=http://other/");
        assert_eq!(read("/json", Some(&via)), "http://localhost/json");
        assert!(url("/json", None).is_err());
        assert!(url("unix:/run/app.sock", None).is_err());
    }

    #[test]
    fn a_file_without_end_is_no_data() {
        let refused = data("@/dev/zero").expect_err("it has no end");
        assert_eq!((refused.code(), refused.message().contains("longer than 64 MiB")), (Code::Read, true));
        assert_eq!(data("@/dev/null").ok(), Some(Bytes::new()));
    }

    #[test]
    fn fields_are_checked_where_they_are_read() {
        let field: Result<Field, String> = "X-Token:  a: b ".parse();
        assert_eq!(field, Ok(Field { name: "X-Token".into(), value: "a: b".into(), is_left_out: false }));
        for wrong in ["no colon", ": value", "a b: c", "a: b\r\nc: d"] {
            assert!(wrong.parse::<Field>().is_err(), "{wrong:?}");
        }
    }
}
