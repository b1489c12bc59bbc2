//! Looks at an answer as it comes: whether it is as expected, and what of it is kept for later requests.
//!
//! A body is searched and summed piece by piece. Only a value that is kept from a body needs the whole of it, which is held
//! up to a limit.

use anywire_http::StatusCode;
use memchr::memmem::Finder;
use regex::bytes::Regex;
use ring::digest;

use super::error::ScriptError;
use super::set::{Keep, Origin};
use crate::errors::ErrorKind;
use crate::expect::{Expect, ExpectedField, Sha256};

/// What is looked at in the answers to one request.
#[derive(Debug)]
pub(crate) struct Checks {
    expect: Expect,
    finders: Vec<Finder<'static>>,
    /// The longest text that is searched for, in bytes.
    longest: usize,
    keepers: Vec<Keeper>,
    /// Most bytes of a body that are held.
    held_bytes_max: usize,
}

/// A value that is kept.
#[derive(Debug)]
struct Keeper {
    /// The number of the variable.
    variable: usize,
    name: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Header(String, Option<Regex>),
    Json(String),
    Body(Regex),
}

/// What an answer is worth.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What is wrong with it.
    pub(crate) fault: Option<(ErrorKind, String)>,
    /// The values that were kept, with the numbers of their variables; `None` if one of them is missing.
    pub(crate) values: Option<Vec<(usize, Vec<u8>)>>,
}

/// One answer being looked at.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// The first thing that is wrong.
    fault: Option<String>,
    /// The first value that is missing.
    missing: Option<String>,
    values: Vec<(usize, Vec<u8>)>,
    /// Which texts have been found.
    found: Vec<bool>,
    /// The end of what has come, which may be the beginning of a text.
    tail: Vec<u8>,
    sum: Option<Sum>,
    held: Vec<u8>,
    /// The body is longer than what is held of one.
    is_cut: bool,
}

struct Sum(digest::Context);

impl std::fmt::Debug for Sum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Sum")
    }
}

impl Checks {
    /// Understands the checks and the values kept of a request, whose variables have these numbers.
    pub(super) fn new(
        request: &str,
        expect: &Expect,
        keep: &[Keep],
        held_bytes_max: usize,
        numbers: &[usize],
    ) -> Result<Self, ScriptError> {
        let regex = |keep: &Keep, text: &str| {
            Regex::new(text).map_err(|error| ScriptError::Keep {
                request: request.to_owned(),
                variable: keep.variable.clone(),
                // The whole is a drawing of the expression; its last line says what is wrong.
                found: error.to_string().lines().last().unwrap_or_default().trim().to_owned(),
            })
        };
        let mut keepers = Vec::with_capacity(keep.len());
        for (one, number) in keep.iter().zip(numbers) {
            let place = match &one.from {
                Origin::Header { name, regex: None } => Place::Header(name.clone(), None),
                Origin::Header { name, regex: Some(text) } => {
                    Place::Header(name.clone(), Some(regex(one, text)?))
                }
                Origin::Json(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                    Place::Json(pointer.clone())
                }
                Origin::Json(pointer) => {
                    return Err(ScriptError::Keep {
                        request: request.to_owned(),
                        variable: one.variable.clone(),
                        found: format!(
                            "{pointer:?} is no JSON pointer: it begins with a slash, such as /items/0/id"
                        ),
                    });
                }
                Origin::Regex(text) => Place::Body(regex(one, text)?),
            };
            keepers.push(Keeper { variable: *number, name: one.variable.clone(), place });
        }
        Ok(Self {
            finders: expect.contains.iter().map(|text| Finder::new(text.as_bytes()).into_owned()).collect(),
            longest: expect.contains.iter().map(String::len).max().unwrap_or_default(),
            expect: expect.clone(),
            keepers,
            held_bytes_max,
        })
    }

    /// Whether the status and the length of the body say it all, so that no answer need be looked at.
    pub(crate) fn are_by_numbers(&self) -> bool {
        self.expect.is_by_numbers() && self.keepers.is_empty()
    }

    fn holds_body(&self) -> bool {
        self.keepers.iter().any(|keeper| !matches!(keeper.place, Place::Header(..)))
    }

    /// What is wrong with the status or the length of a body.
    #[inline]
    pub(crate) fn by_numbers(&self, status: StatusCode, body_bytes: u64) -> Option<(ErrorKind, String)> {
        by_numbers(&self.expect, status, body_bytes)
    }
}

/// What is wrong with the status or the length of a body.
#[inline]
pub(crate) fn by_numbers(
    expect: &Expect,
    status: StatusCode,
    body_bytes: u64,
) -> Option<(ErrorKind, String)> {
    let is_good = match expect.status {
        None => status.as_u16() < 400,
        Some(expected) => status == expected,
    };
    if is_good && expect.body_bytes.is_none_or(|expected| expected == body_bytes) {
        return None;
    }
    Some(bad_numbers(expect, is_good, status, body_bytes))
}

#[cold]
fn bad_numbers(expect: &Expect, is_good: bool, status: StatusCode, body_bytes: u64) -> (ErrorKind, String) {
    if !is_good {
        return (ErrorKind::Status, format!("an answer had the status {status}"));
    }
    let expected = expect.body_bytes.unwrap_or_default();
    (ErrorKind::Check, format!("an answer's body had {body_bytes} bytes, the plan expects {expected}"))
}

impl Look {
    /// Looks at the head, in which `field` gives the first value of a name.
    pub(crate) fn head<'h>(checks: &Checks, field: impl Fn(&str) -> Option<&'h [u8]>) -> Box<Self> {
        let found = checks.expect.contains.iter().map(String::is_empty).collect();
        let mut look = Self { found, ..Self::default() };
        if checks.expect.sha256.is_some() {
            look.sum = Some(Sum(digest::Context::new(&digest::SHA256)));
        }
        for ExpectedField { name, value } in &checks.expect.headers {
            let found = field(name);
            let is_good = match (found, value) {
                (Some(found), Some(value)) => found == value.as_bytes(),
                (found, None) => found.is_some(),
                (None, Some(_)) => false,
            };
            if !is_good {
                look.fault.get_or_insert_with(|| match found {
                    None => format!("an answer had no header {name}"),
                    Some(found) => {
                        let (found, value) = (shortened(found), value.as_deref().unwrap_or_default());
                        format!("an answer had the header {name}: {found}, the plan expects {value}")
                    }
                });
            }
        }
        for keeper in &checks.keepers {
            let Place::Header(name, regex) = &keeper.place else { continue };
            let value = field(name).and_then(|value| match regex {
                None => Some(value.to_vec()),
                Some(regex) => first_group(regex, value),
            });
            look.keep(keeper, value.ok_or_else(|| format!("in its header {name}")));
        }
        Box::new(look)
    }

    fn keep(&mut self, keeper: &Keeper, value: Result<Vec<u8>, String>) {
        match value {
            Ok(value) => self.values.push((keeper.variable, value)),
            Err(place) => {
                let name = &keeper.name;
                self.missing.get_or_insert_with(|| format!("an answer had no value for {name} {place}"));
            }
        }
    }

    /// Looks at a piece of the body.
    pub(crate) fn data(&mut self, checks: &Checks, data: &[u8]) {
        if let Some(Sum(sum)) = &mut self.sum {
            sum.update(data);
        }
        if self.found.contains(&false) {
            self.search(checks, data);
        }
        if checks.holds_body() && !self.is_cut {
            self.is_cut = self.held.len() + data.len() > checks.held_bytes_max;
            if self.is_cut {
                self.held = Vec::new();
            } else {
                self.held.extend_from_slice(data);
            }
        }
    }

    fn search(&mut self, checks: &Checks, data: &[u8]) {
        // A text may begin in what came before and end in this piece.
        let overlap = checks.longest - 1;
        self.tail.extend_from_slice(&data[..data.len().min(overlap)]);
        for (found, finder) in self.found.iter_mut().zip(&checks.finders) {
            *found = *found || finder.find(&self.tail).is_some() || finder.find(data).is_some();
        }
        if data.len() >= overlap {
            self.tail.clear();
            self.tail.extend_from_slice(&data[data.len() - overlap..]);
        } else {
            self.tail.drain(..self.tail.len().saturating_sub(overlap));
        }
    }

    /// The answer has ended.
    pub(crate) fn end(mut self, checks: &Checks, status: StatusCode, body_bytes: u64) -> Verdict {
        let numbers = checks.by_numbers(status, body_bytes);
        if self.fault.is_none()
            && let Some(absent) = self.found.iter().position(|found| !found)
            && let Some(text) = checks.expect.contains.get(absent)
        {
            self.fault = Some(format!("an answer's body did not contain {:?}", shortened(text.as_bytes())));
        }
        if let (Some(Sum(sum)), Some(expected)) = (self.sum.take(), checks.expect.sha256) {
            let found = sum.finish();
            if found.as_ref() != expected.0 {
                let found =
                    found.as_ref().try_into().map_or_else(|_| String::new(), |sum| Sha256(sum).to_string());
                let fault = format!("an answer's body had the SHA-256 {found}, the plan expects {expected}");
                self.fault.get_or_insert(fault);
            }
        }
        self.keep_of_body(checks);
        let missing = self.missing.take();
        let values = missing.is_none().then_some(self.values);
        let fault = self.fault.or(missing).map(|message| (ErrorKind::Check, message));
        Verdict { fault: numbers.or(fault), values }
    }

    fn keep_of_body(&mut self, checks: &Checks) {
        if !checks.holds_body() || self.missing.is_some() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        let mut json = None;
        for keeper in &checks.keepers {
            let value = match &keeper.place {
                Place::Header(..) => continue,
                _ if self.is_cut => Err(format!(
                    "in the first {} bytes of its body, which are all that is held",
                    checks.held_bytes_max
                )),
                Place::Body(regex) => first_group(regex, &held)
                    .ok_or_else(|| "in its body, where the expression matches nothing".to_owned()),
                Place::Json(pointer) => {
                    let json = json.get_or_insert_with(|| serde_json::from_slice::<serde_json::Value>(&held));
                    match json {
                        Ok(json) => json
                            .pointer(pointer)
                            .map(text_of)
                            .ok_or_else(|| format!("at {pointer} of its body")),
                        Err(_) => Err("in its body, which is no JSON".to_owned()),
                    }
                }
            };
            self.keep(keeper, value);
        }
    }
}

/// The first group of a match, or the whole of it.
fn first_group(regex: &Regex, bytes: &[u8]) -> Option<Vec<u8>> {
    let groups = regex.captures(bytes)?;
    Some(groups.get(1).or(groups.get(0))?.as_bytes().to_vec())
}

/// A JSON value as it is carried on: a string without its quotation marks, all else as JSON.
fn text_of(value: &serde_json::Value) -> Vec<u8> {
    match value {
        serde_json::Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

/// So much of a text as fits into a message.
fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

const SHOWN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checks(expect: &Expect, keep: &[Keep]) -> Checks {
        Checks::new("r", expect, keep, 100, &[0]).unwrap()
    }

    fn verdict(checks: &Checks, fields: &[(&str, &str)], pieces: &[&[u8]]) -> Verdict {
        let field = |name: &str| {
            let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_bytes())
        };
        let mut look = Look::head(checks, field);
        pieces.iter().for_each(|piece| look.data(checks, piece));
        look.end(checks, StatusCode::OK, pieces.iter().map(|piece| piece.len() as u64).sum())
    }

    fn kept(from: Origin, fields: &[(&str, &str)], pieces: &[&[u8]]) -> Result<String, String> {
        let checks = checks(&Expect::default(), &[Keep { variable: "v".to_owned(), from }]);
        let Verdict { fault, values } = verdict(&checks, fields, pieces);
        match values {
            Some(values) => Ok(String::from_utf8(values[0].1.clone()).unwrap()),
            None => Err(fault.unwrap().1),
        }
    }

    #[test]
    fn the_first_thing_that_is_wrong_is_said() {
        let expect = Expect {
            headers: vec!["x-a: 1".parse().unwrap(), "x-b".parse().unwrap()],
            contains: vec!["needle".to_owned()],
            ..Expect::default()
        };
        let checks = checks(&expect, &[]);
        let said = |fields: &[(&str, &str)], pieces: &[&[u8]]| {
            verdict(&checks, fields, pieces).fault.map(|(kind, text)| format!("{kind}: {text}"))
        };
        let good = [("X-A", "1"), ("x-b", "")];
        assert_eq!(said(&good, &[b"a nee", b"dl", b"e"]), None);
        assert_eq!(
            said(&good, &[b"a nee", b"l", b"e"]).unwrap(),
            "check: an answer's body did not contain \"needle\""
        );
        assert_eq!(said(&[("x-b", "")], &[b"needle"]).unwrap(), "check: an answer had no header x-a");
        assert_eq!(
            said(&[("x-a", "2"), ("x-b", "")], &[]).unwrap(),
            "check: an answer had the header x-a: 2, the plan expects 1"
        );
    }

    #[test]
    fn a_status_comes_before_the_rest() {
        let expect = Expect { contains: vec!["x".to_owned()], body_bytes: Some(3), ..Expect::default() };
        let checks = checks(&expect, &[]);
        let fault = |status, bytes| {
            let look = Look::head(&checks, |_| None);
            look.end(&checks, StatusCode::from_u16(status).unwrap(), bytes).fault.unwrap()
        };
        assert_eq!(fault(500, 3).0, ErrorKind::Status);
        assert!(fault(200, 4).1.contains("had 4 bytes"));
        assert!(fault(200, 3).1.contains("did not contain"));
    }

    #[test]
    fn a_sum_is_that_of_all_pieces() {
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let checks = checks(&Expect { sha256: Some(sum.parse().unwrap()), ..Expect::default() }, &[]);
        assert!(verdict(&checks, &[], &[b"a", b"bc"]).fault.is_none());
        assert!(verdict(&checks, &[], &[b"a", b"b"]).fault.unwrap().1.contains(sum));
    }

    #[test]
    fn values_are_kept_of_heads_and_bodies() {
        let header = |regex: Option<&str>| Origin::Header {
            name: "set-cookie".to_owned(),
            regex: regex.map(str::to_owned),
        };
        let fields = [("Set-Cookie", "sid=42; Path=/")];
        assert_eq!(kept(header(None), &fields, &[]).unwrap(), "sid=42; Path=/");
        assert_eq!(kept(header(Some("sid=([^;]+)")), &fields, &[]).unwrap(), "42");
        assert!(
            kept(header(Some("other=")), &fields, &[])
                .unwrap_err()
                .contains("no value for v in its header set-cookie")
        );
        let json = |pointer: &str| {
            kept(Origin::Json(pointer.to_owned()), &[], &[b"{\"a\":[{\"b\":\"x\\n\"}", b",7]}"])
        };
        assert_eq!(json("/a/0/b").unwrap(), "x\n");
        assert_eq!(json("/a/1").unwrap(), "7");
        assert_eq!(json("/a/0").unwrap(), "{\"b\":\"x\\n\"}");
        assert!(json("/c").unwrap_err().contains("at /c"));
        let regex = |text: &str| kept(Origin::Regex(text.to_owned()), &[], &[b"id=1", b"2;"]);
        assert_eq!(regex("id=(\\d+)").unwrap(), "12");
        assert_eq!(regex("\\d").unwrap(), "1");
        assert!(regex("z").unwrap_err().contains("matches nothing"));
    }

    #[test]
    fn a_body_is_held_up_to_its_limit() {
        let found = kept(Origin::Regex("a".to_owned()), &[], &[&[b'a'; 60], &[b'a'; 41]]);
        assert!(found.unwrap_err().contains("first 100 bytes"));
    }

    #[test]
    fn an_expression_or_pointer_that_is_none_is_refused() {
        for from in [Origin::Regex("(".to_owned()), Origin::Json("a".to_owned())] {
            let keep = [Keep { variable: "v".to_owned(), from }];
            let error = Checks::new("log in", &Expect::default(), &keep, 100, &[0]).unwrap_err();
            let text = anywire_advice::Chain(&error).to_string();
            assert!(text.contains("\"log in\"") && text.contains("\"v\""), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_is_found_however_the_body_is_cut(body in "[ab]{0,40}", text in "[ab]{1,6}", cuts in prop::collection::vec(0_usize..40, 0..5)) {
            let checks = checks(&Expect { contains: vec![text.clone(), "b".to_owned()], ..Expect::default() }, &[]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &body.as_bytes()[pair[0]..pair[1]]).collect();
            let is_good = verdict(&checks, &[], &pieces).fault.is_none();
            prop_assert_eq!(is_good, body.contains(&text) && body.contains('b'));
        }
    }
}
