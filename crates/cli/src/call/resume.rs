//! A download that goes on where an earlier one ended (`--continue-at -`).
//!
//! While a file is written it carries the validator of its response (RFC 9110 section 8.8) as an extended attribute. What is
//! asked for later is the rest of that very representation: `Range` with `If-Range`. A file without one, such as from another
//! program, is continued by `Range` alone.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anywire::http::{Headers, StatusCode};
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};

use crate::failure::{Code, Failure};

/// Where a file ends so far.
#[derive(Debug, Clone)]
pub(super) struct Resume {
    from: u64,
    validator: Option<String>,
    written: Option<SystemTime>,
}

/// What is to be done with a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its body goes behind what is there.
    Append,
    /// Its body takes the place of what is there.
    Anew,
}

impl Resume {
    /// Where a file ends; `None` if there is none, or if it is empty.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() > 0)?;
        let mut value = [0; VALIDATOR_BYTES_MAX];
        let length = fgetxattr(&file, ATTRIBUTE, &mut value[..]).ok();
        let validator = length.and_then(|length| String::from_utf8(value.get(..length)?.to_vec()).ok());
        Some(Self { from: metadata.len(), validator, written: metadata.modified().ok() })
    }

    /// How much is there.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// The fields that ask for the rest.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let range = ("range", format!("bytes={}-", self.from));
        [Some(range), self.validator.clone().map(|validator| ("if-range", validator))]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Whether the response says that nothing is missing (RFC 9110 section 15.5.17).
    pub(super) fn is_whole(&self, status: StatusCode, headers: &Headers) -> bool {
        let range = headers.get("content-range").and_then(ContentRange::parse);
        status == StatusCode::RANGE_NOT_SATISFIABLE
            && range == Some(ContentRange::Unsatisfied { whole: self.from })
    }

    /// Whether the response to a file that is not whole has the rest, or what else.
    pub(super) fn judge(
        &self,
        status: StatusCode,
        headers: &Headers,
        length: Option<u64>,
    ) -> Result<Verdict, Failure> {
        let range = headers.get("content-range").and_then(ContentRange::parse);
        match status {
            StatusCode::PARTIAL_CONTENT => {
                let Some(ContentRange::Part { first, last, whole }) = range else {
                    return Err(refused("the response is a part, and does not say which (Content-Range)"));
                };
                let is_the_rest = first == self.from
                    && length.is_none_or(|length| length == last - first + 1)
                    && whole.is_none_or(|whole| whole == last + 1);
                if !is_the_rest {
                    let said = headers.get("content-range").unwrap_or_default();
                    return Err(refused(&format!(
                        "the rest begins at {}, and the response has {said:?}",
                        self.from
                    )));
                }
                if self.validator.is_none() && self.is_older(headers) {
                    return Err(refused("it has changed there since this file was written"));
                }
                Ok(Verdict::Append)
            }
            StatusCode::OK if self.validator.is_some() => Ok(Verdict::Anew),
            StatusCode::OK => Err(refused("the server sends no parts")),
            StatusCode::RANGE_NOT_SATISFIABLE => match range {
                Some(ContentRange::Unsatisfied { whole }) => {
                    Err(refused(&format!("the file has {} bytes, and there it has {whole}", self.from)))
                }
                _ => Err(refused(&format!("there is nothing from byte {} on", self.from))),
            },
            status => Err(refused(&format!("the status of the response is {status}"))),
        }
    }

    /// Whether it was changed there after the file was written here.
    fn is_older(&self, headers: &Headers) -> bool {
        let modified = headers.get("last-modified").and_then(|date| httpdate::parse_http_date(date).ok());
        modified.zip(self.written).is_some_and(|(modified, written)| modified > written)
    }
}

/// Marks a file with the validator of what is written into it.
pub(super) fn begin(file: &File, headers: &Headers) {
    if let Some(validator) = validator(headers).filter(|validator| validator.len() <= VALIDATOR_BYTES_MAX) {
        // Some file systems have no attributes: then the rest is asked for without a condition.
        let _ = fsetxattr(file, ATTRIBUTE, validator.as_bytes(), XattrFlags::empty());
    }
}

/// The file is whole.
pub(super) fn end(file: &File) {
    // Mostly there is one; if not, nothing has to be removed.
    let _ = fremovexattr(file, ATTRIBUTE);
}

/// A strong validator: an entity tag that is not weak, else a date that is a second old (RFC 9110 section 8.8.2.2).
fn validator(headers: &Headers) -> Option<String> {
    if let Some(tag) = headers.get("etag") {
        return tag.starts_with('"').then(|| tag.to_owned());
    }
    let modified = headers.get("last-modified")?;
    let date = |text| httpdate::parse_http_date(text).ok();
    let age = date(headers.get("date")?)?.duration_since(date(modified)?).ok()?;
    (age >= Duration::from_secs(1)).then(|| modified.to_owned())
}

fn refused(found: &str) -> Failure {
    Failure::new(Code::Range, format_args!("continuing a download: {found}"))
        .help("leave out --continue-at to fetch it anew")
}

/// A field of RFC 9110 section 14.4.
#[derive(Debug, PartialEq, Eq)]
enum ContentRange {
    Part { first: u64, last: u64, whole: Option<u64> },
    Unsatisfied { whole: u64 },
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let number =
            |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?;
        let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
        if range == "*" {
            return Some(Self::Unsatisfied { whole: number(whole)? });
        }
        let (first, last) = range.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        let whole = if whole == "*" { None } else { Some(number(whole)?) };
        (first <= last && last < u64::MAX && whole.is_none_or(|whole| last < whole)).then_some(Self::Part {
            first,
            last,
            whole,
        })
    }
}

const ATTRIBUTE: &str = "user.anywire.validator";

/// Longer tags are not kept.
const VALIDATOR_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.append(name, value).expect("valid"));
        headers
    }

    #[test]
    fn a_part_is_taken_only_where_the_file_ends() {
        let written = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").ok();
        let resume =
            |validator: Option<&str>| Resume { from: 10, validator: validator.map(str::to_owned), written };
        let judged = |status, fields: &[(&str, &str)], length| {
            let known = resume(Some("\"a\"")).judge(status, &headers(fields), length).ok();
            let unknown = resume(None).judge(status, &headers(fields), length).ok();
            (known, unknown)
        };
        let (part, ok, beyond) =
            (StatusCode::PARTIAL_CONTENT, StatusCode::OK, StatusCode::RANGE_NOT_SATISFIABLE);
        let both = |verdict: fn() -> Verdict| (Some(verdict()), Some(verdict()));
        assert_eq!(judged(part, &[("content-range", "bytes 10-14/15")], Some(5)), both(|| Verdict::Append));
        assert_eq!(judged(part, &[("content-range", "bytes 10-14/*")], None), both(|| Verdict::Append));
        for field in [
            "bytes 9-14/15",
            "bytes 10-14/20",
            "bytes 10-14/14",
            "bytes 14-10/15",
            "bytes +10-14/15",
            "items 10-14/15",
            "",
        ] {
            assert_eq!(judged(part, &[("content-range", field)], None), (None, None), "{field}");
        }
        assert_eq!(judged(part, &[("content-range", "bytes 10-14/15")], Some(6)), (None, None));
        assert_eq!(judged(part, &[], None), (None, None));
        assert_eq!(judged(ok, &[], None), (Some(Verdict::Anew), None));
        for (status, field, is_whole) in [
            (beyond, "bytes */10", true),
            (beyond, "bytes */11", false),
            (beyond, "items */10", false),
            (StatusCode::NOT_FOUND, "bytes */10", false),
        ] {
            let fields = [("content-range", field)];
            for validator in [None, Some("\"a\"")] {
                let found = resume(validator).is_whole(status, &headers(&fields));
                assert_eq!(found, is_whole, "{status} {field}");
            }
            if !is_whole {
                assert_eq!(judged(status, &fields, None), (None, None), "{status} {field}");
            }
        }
        assert!(!resume(None).is_whole(beyond, &headers(&[])));
        assert_eq!(judged(StatusCode::NOT_FOUND, &[], None), (None, None));
        let later =
            &[("content-range", "bytes 10-14/15"), ("last-modified", "Sun, 06 Nov 1994 08:49:38 GMT")];
        assert_eq!(judged(part, later, None), (Some(Verdict::Append), None));
    }

    #[test]
    fn validators_are_strong() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let found = |fields: &[(&str, &str)]| validator(&headers(fields));
        let (earlier, same) = ("Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(found(&[date, ("etag", "\"a\""), ("last-modified", earlier)]).as_deref(), Some("\"a\""));
        assert_eq!(found(&[date, ("etag", "W/\"a\""), ("last-modified", earlier)]), None);
        assert_eq!(found(&[date, ("last-modified", earlier)]).as_deref(), Some(earlier));
        assert_eq!(found(&[date, ("last-modified", same)]), None);
        assert_eq!(found(&[("last-modified", earlier)]), None);
    }
}
