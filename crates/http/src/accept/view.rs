//! Media types read where they lie.

use std::iter;

use super::media_type::InvalidMediaType;
use crate::headers::is_token;

/// A media type or a media range, checked, in the text that it was found in.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'t> {
    kind: &'t str,
    subtype: &'t str,
    params: Params<'t>,
}

/// How much a range says of what it includes: a more specific one is greater.
pub(super) type Specificity = (Breadth, usize);

/// Which types a range includes, apart from parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Breadth {
    /// `*/*`.
    All,
    /// `type/*`.
    OneType,
    /// `type/*+suffix`.
    OneSuffix,
    /// `type/subtype`.
    One,
}

impl<'t> View<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, InvalidMediaType> {
        if text.len() > InvalidMediaType::LENGTH_MAX {
            return Err(InvalidMediaType::TooLong { length: text.len() });
        }
        let text = text.trim_matches(OWS);
        let (essence, params) = text.split_at(text.find(';').unwrap_or(text.len()));
        let essence = essence.trim_end_matches(OWS);
        let (kind, subtype) = match essence.split_once('/') {
            Some(parts) => parts,
            None if essence == "*" => ("*", "*"),
            None => return Err(InvalidMediaType::essence(essence)),
        };
        if !is_token(kind.as_bytes()) || !is_token(subtype.as_bytes()) || (kind == "*" && subtype != "*") {
            return Err(InvalidMediaType::essence(essence));
        }
        let view = Self { kind, subtype, params: Params { rest: params } };
        let mut params = view.params;
        let mut before = 0;
        while let Some(param) = params.advance() {
            let (name, _) = param.ok_or_else(|| InvalidMediaType::parameter(text))?;
            if view.params().take(before).any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                return Err(InvalidMediaType::ParameterTwice { name: name.to_ascii_lowercase() });
            }
            before += 1;
            if before > InvalidMediaType::PARAMETERS_MAX {
                return Err(InvalidMediaType::TooManyParameters);
            }
        }
        Ok(view)
    }

    /// Of parts that were read before. A normal form may be longer than what is read.
    pub(super) fn of_checked(kind: &'t str, subtype: &'t str, params: &'t str) -> Self {
        Self { kind, subtype, params: Params { rest: params } }
    }

    pub(super) fn kind(self) -> &'t str {
        self.kind
    }

    pub(super) fn subtype(self) -> &'t str {
        self.subtype
    }

    /// In order.
    pub(super) fn params(self) -> impl Iterator<Item = (&'t str, Value<'t>)> {
        let mut params = self.params;
        iter::from_fn(move || params.advance().flatten())
    }

    pub(super) fn param(self, name: &str) -> Option<Value<'t>> {
        self.params().find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
    }

    pub(super) fn breadth(self) -> Breadth {
        match (self.kind, self.subtype) {
            ("*", _) => Breadth::All,
            (_, "*") => Breadth::OneType,
            (_, subtype) if subtype.starts_with("*+") => Breadth::OneSuffix,
            _ => Breadth::One,
        }
    }

    pub(super) fn specificity(self) -> Specificity {
        (self.breadth(), self.params().filter(|(name, _)| !is_weight(name)).count())
    }

    /// Whether what this says holds for the other one.
    pub(super) fn includes(self, other: Self) -> bool {
        let is_kind = || self.kind.eq_ignore_ascii_case(other.kind);
        let fits = match self.breadth() {
            Breadth::All => true,
            Breadth::OneType => is_kind(),
            Breadth::OneSuffix => is_kind() && ends_with(other.subtype, &self.subtype[1..]),
            Breadth::One => is_kind() && self.subtype.eq_ignore_ascii_case(other.subtype),
        };
        fits && self.params().all(|(name, value)| match other.param(name) {
            _ if is_weight(name) => true,
            Some(found) if is_charset(name) => value.eq_ignore_ascii_case(found),
            Some(found) => value.bytes().eq(found.bytes()),
            // Text is UTF-8 unless it says otherwise.
            None => is_charset(name) && value.raw().eq_ignore_ascii_case("utf-8"),
        })
    }
}

fn is_weight(name: &str) -> bool {
    name.eq_ignore_ascii_case("q")
}

fn is_charset(name: &str) -> bool {
    name.eq_ignore_ascii_case("charset")
}

fn ends_with(subtype: &str, suffix: &str) -> bool {
    let end = subtype.len().checked_sub(suffix.len()).and_then(|at| subtype.get(at..));
    end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

/// What is left of the parameters, with the `;` before each.
#[derive(Debug, Clone, Copy)]
struct Params<'t> {
    rest: &'t str,
}

impl<'t> Params<'t> {
    /// The next one. Within, `None` if the text goes on without one.
    fn advance(&mut self) -> Option<Option<(&'t str, Value<'t>)>> {
        loop {
            let rest = self.rest.trim_start_matches(OWS);
            if rest.is_empty() {
                return None;
            }
            let Some(rest) = rest.strip_prefix(';') else {
                self.rest = "";
                return Some(None);
            };
            self.rest = rest.trim_start_matches(OWS);
            // A semicolon may stand alone (RFC 9110 section 5.6.6).
            if !self.rest.is_empty() && !self.rest.starts_with(';') {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> Option<(&'t str, Value<'t>)> {
        let (name, after) = std::mem::take(&mut self.rest).split_once('=')?;
        let (value, rest) = match after.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted_end(quoted.as_bytes())?;
                (&quoted[..end], &quoted[end + 1..])
            }
            None => after.split_at(after.find([';', ' ', '\t']).unwrap_or(after.len())),
        };
        let is_quoted = after.starts_with('"');
        if !is_token(name.as_bytes()) || (!is_quoted && !is_token(value.as_bytes())) {
            return None;
        }
        self.rest = rest;
        Some((name, Value(value)))
    }
}

/// The value of a parameter: a token, or what stands between two quotes, with its backslashes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'t>(&'t str);

impl<'t> Value<'t> {
    /// As it stands there.
    pub(super) fn raw(self) -> &'t str {
        self.0
    }

    /// What it means. No token has a backslash.
    pub(super) fn bytes(self) -> impl Iterator<Item = u8> {
        let mut rest = self.0.bytes();
        iter::from_fn(move || match rest.next()? {
            b'\\' => rest.next(),
            byte => Some(byte),
        })
    }

    fn eq_ignore_ascii_case(self, other: Value<'_>) -> bool {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        self.bytes().map(lower).eq(other.bytes().map(lower))
    }
}

/// Where the quote stands that ends a quoted string (RFC 9110 section 5.6.4). `None` if there is none, or if a byte before it
/// may not stand there. No media type has one that is not ASCII.
fn quoted_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' if matches!(text.get(at + 1)?, b'\t' | b' '..=b'~') => at += 2,
            b'\t' | b' '..=b'[' | b']'..=b'~' => at += 1,
            _ => return None,
        }
    }
}

/// The first member of a list, and what stands behind its comma (RFC 9110 section 5.6.1). A comma within quotes divides nothing.
pub(super) fn next_member(list: &[u8]) -> Option<(&[u8], &[u8])> {
    if list.is_empty() {
        return None;
    }
    let mut is_quoted = false;
    let mut at = 0;
    while let Some(byte) = list.get(at) {
        match byte {
            b',' if !is_quoted => return Some((&list[..at], &list[at + 1..])),
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => at += 1,
            _ => {}
        }
        at += 1;
    }
    Some((list, &[]))
}

/// Optional white space (RFC 9110 section 5.6.3).
const OWS: [char; 2] = [' ', '\t'];
