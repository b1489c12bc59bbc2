//! A media type in normal form.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use anywire_advice::Advice;

use super::view::{Breadth, Value, View};
use crate::headers::is_token;

/// A media type such as `text/html; charset=utf-8`, or a range of them: `text/*`, `application/*+json`, `*/*`.
///
/// Type, subtype and names of parameters are kept in lower case. Two are equal if they have the same parameters, in whatever order.
///
/// ```
/// use anywire_http::accept::MediaType;
///
/// let html: MediaType = "Text/HTML; Charset=\"utf-8\"".parse()?;
/// assert_eq!(html.as_str(), "text/html; charset=utf-8");
/// assert_eq!((html.essence(), html.param("charset").as_deref()), ("text/html", Some("utf-8")));
/// assert!(MediaType::parse("text/*")?.includes(&html));
/// # Ok::<(), anywire_http::accept::InvalidMediaType>(())
/// ```
#[derive(Clone)]
pub struct MediaType {
    /// In normal form.
    text: Box<str>,
    /// Where the `/` stands.
    slash: usize,
    /// Where the parameters begin.
    essence: usize,
}

impl MediaType {
    /// Reads a media type, or a range.
    ///
    /// # Errors
    /// [`InvalidMediaType`] if it is malformed or too long.
    pub fn parse(text: &str) -> Result<Self, InvalidMediaType> {
        let view = View::parse(text)?;
        let mut normal = format!("{}/{}", view.kind(), view.subtype()).to_ascii_lowercase();
        let (slash, essence) = (view.kind().len(), normal.len());
        for (name, value) in view.params() {
            normal.push_str("; ");
            normal.push_str(&name.to_ascii_lowercase());
            normal.push('=');
            push_value(&mut normal, value);
        }
        Ok(Self { text: normal.into(), slash, essence })
    }

    /// The whole, as it is sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Type and subtype without parameters, such as `text/html`.
    pub fn essence(&self) -> &str {
        &self.text[..self.essence]
    }

    /// What stands before the `/`.
    pub fn kind(&self) -> &str {
        self.view().kind()
    }

    /// What stands behind the `/`.
    pub fn subtype(&self) -> &str {
        self.view().subtype()
    }

    /// What stands behind the last `+` of the subtype: `json` of `application/problem+json`.
    pub fn suffix(&self) -> Option<&str> {
        self.subtype().rsplit_once('+').map(|(_, suffix)| suffix)
    }

    /// The value of a parameter, whatever the case of its name.
    pub fn param(&self, name: &str) -> Option<String> {
        let value = self.view().param(name)?;
        Some(value.bytes().map(char::from).collect())
    }

    /// Whether it is a range: its type or subtype has a `*`.
    pub fn is_range(&self) -> bool {
        self.view().breadth() != Breadth::One
    }

    /// Whether the other one is this type, or within this range, and has all parameters of it. A parameter `q` is a weight and does
    /// not count. The other one may lack `charset=utf-8`.
    pub fn includes(&self, other: &Self) -> bool {
        self.view().includes(other.view())
    }

    /// The same for the value of a field `Content-Type`, which is read in place. One that is malformed is not included.
    pub fn includes_text(&self, content_type: &str) -> bool {
        View::parse(content_type).is_ok_and(|other| self.view().includes(other))
    }

    /// How much it says of what it includes. Of two ranges that include the same type, the greater one is the more precise: one type before
    /// `type/*+suffix` before `type/*` before `*/*`, and of these one with more parameters.
    ///
    /// ```
    /// use anywire_http::accept::MediaType;
    ///
    /// let precision = |text| MediaType::parse(text).expect("a media type").precision();
    /// assert!(precision("application/json") > precision("application/*"));
    /// assert!(precision("text/plain; charset=utf-8") > precision("text/plain"));
    /// ```
    pub fn precision(&self) -> impl Ord + Copy + fmt::Debug + use<> {
        self.view().specificity()
    }

    /// As a member of a list of structured fields (RFC 9651), which `Accept-Query` is (RFC 10008 section 3). `None` if a parameter cannot be
    /// written in that.
    ///
    /// ```
    /// use anywire_http::accept::MediaType;
    ///
    /// let sql: MediaType = "application/sql; version=3; charset=utf-8".parse()?;
    /// assert_eq!(sql.to_structured().as_deref(), Some("application/sql;version=\"3\";charset=utf-8"));
    /// # Ok::<(), anywire_http::accept::InvalidMediaType>(())
    /// ```
    pub fn to_structured(&self) -> Option<String> {
        let begins = |text: &str| text.starts_with(|first: char| first == '*' || first.is_ascii_alphabetic());
        let mut member = String::new();
        match self.essence() {
            token if begins(token) => member.push_str(token),
            other => push_quoted(&mut member, other.bytes()),
        }
        for (name, value) in self.view().params() {
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'*');
            let value: Vec<u8> = value.bytes().collect();
            if !begins(name)
                || !name.bytes().all(is_key)
                || !value.iter().all(|byte| matches!(byte, 0x20..0x7f))
            {
                return None;
            }
            member.push(';');
            member.push_str(name);
            member.push('=');
            match std::str::from_utf8(&value).ok().filter(|text| begins(text) && is_token(text.as_bytes())) {
                Some(token) => member.push_str(token),
                None => push_quoted(&mut member, value.into_iter()),
            }
        }
        Some(member)
    }

    pub(super) fn view(&self) -> View<'_> {
        let (essence, params) = self.text.split_at(self.essence);
        let (kind, subtype) = essence.split_at(self.slash);
        View::of_checked(kind, &subtype[1..], params)
    }
}

/// As a token, or in quotes if it is none.
fn push_value(text: &mut String, value: Value<'_>) {
    if value.bytes().all(|byte| is_token(&[byte])) && !value.raw().is_empty() {
        text.extend(value.bytes().map(char::from));
        return;
    }
    push_quoted(text, value.bytes());
}

fn push_quoted(text: &mut String, value: impl Iterator<Item = u8>) {
    text.push('"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            text.push('\\');
        }
        text.push(char::from(byte));
    }
    text.push('"');
}

impl FromStr for MediaType {
    type Err = InvalidMediaType;

    fn from_str(text: &str) -> Result<Self, InvalidMediaType> {
        Self::parse(text)
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MediaType({})", self.text)
    }
}

impl PartialEq for MediaType {
    fn eq(&self, other: &Self) -> bool {
        let has_all = |one: &Self, other: &Self| {
            let has = |(name, value): (&str, Value<'_>)| {
                other.view().param(name).is_some_and(|found| found.bytes().eq(value.bytes()))
            };
            one.view().params().all(has)
        };
        self.essence() == other.essence() && has_all(self, other) && has_all(other, self)
    }
}

impl Eq for MediaType {}

impl Hash for MediaType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.essence().hash(state);
    }
}

/// A text that is no media type. Whoever wrote it is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMediaType {
    /// It is not `type/subtype`, both tokens, or it has a `*` as its type alone.
    #[error(
        "reading a media type: {found:?} is none{help}",
        help = Advice("write it as `type/subtype`, `type/*` or `*/*` (RFC 9110 8.3.1)")
    )]
    Essence {
        /// What was found, made printable, at most 64 characters of it.
        found: String,
    },
    /// A parameter is not `name=value`, or its value is neither a token nor in quotes.
    #[error(
        "reading a media type: a parameter of {found:?} is malformed{help}",
        help = Advice("write each as `; name=value` without spaces around the `=`, and put other values than tokens into quotes")
    )]
    Parameter {
        /// The whole, made printable, at most 64 characters of it.
        found: String,
    },
    /// A parameter stands there twice.
    #[error("reading a media type: it has two parameters `{name}`{help}", help = Advice("remove one of them"))]
    ParameterTwice {
        /// Its name.
        name: String,
    },
    /// More than [`PARAMETERS_MAX`](Self::PARAMETERS_MAX) parameters.
    #[error("reading a media type: it has more than {max} parameters", max = Self::PARAMETERS_MAX)]
    TooManyParameters,
    /// Longer than [`LENGTH_MAX`](Self::LENGTH_MAX).
    #[error("reading a media type: it is {length} bytes long, at most {max} are read", max = Self::LENGTH_MAX)]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
}

impl InvalidMediaType {
    /// The longest media type that is read, in bytes. The longest registered ones are below 150.
    pub const LENGTH_MAX: usize = 1024;

    /// The most parameters that one has. Registered ones have up to five.
    pub const PARAMETERS_MAX: usize = 16;

    #[cold]
    pub(super) fn essence(found: &str) -> Self {
        Self::Essence { found: printable(found) }
    }

    #[cold]
    pub(super) fn parameter(found: &str) -> Self {
        Self::Parameter { found: printable(found) }
    }
}

fn printable(found: &str) -> String {
    found.chars().take(64).collect()
}
