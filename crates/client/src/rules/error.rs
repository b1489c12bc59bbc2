//! Why a set of rules is refused: which rule, which field, and what is wrong with it.

use std::fmt;

use anywire_advice::Advice;
use anywire_http::InvalidHeader;
use anywire_http::h1::encode::EncodeError;
use anywire_http::url::UrlError;
use anywire_wire::AddressError;

/// Why a set of rules is refused. Those that were in force stay so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The file is no TOML, or has a field that is none, or one of another type.
    #[error("cannot read the rules: line {line}, column {column}{}: {found}", Within(field))]
    Toml {
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
        /// The field, such as `rule 1, when.path`. Empty if the text is no TOML.
        field: String,
        /// What is wrong there.
        found: String,
    },
    /// A field of a rule holds what it cannot.
    #[error("cannot use rule {number}{}: {field}", Named(name))]
    Rule {
        /// Which one, from 1.
        number: usize,
        /// Its name.
        name: String,
        /// The field, such as `to[0].authority`.
        field: String,
        /// What is wrong with it.
        #[source]
        fault: Box<RuleFault>,
    },
    /// A [limit](super::Limits) was reached.
    #[error("cannot use the rules: they hold more than {limit} {what}{help}", help = Advice("raise the limit of the rules"))]
    TooMuch {
        /// Of what: rules, parts, bytes.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// What is wrong with a field of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleFault {
    /// A rule before it has this name.
    #[error("a rule before has this name")]
    NameTaken,
    /// There is none.
    #[error("there is none{help}", help = Advice("an empty one, `to = [{}]`, leaves requests as they are"))]
    NoDestination,
    /// All weights are 0.
    #[error("all weights are 0")]
    NoWeight,
    /// It is no method (RFC 9110 section 9.1).
    #[error("{0:?} is no method")]
    Method(String),
    /// There always is one.
    #[error("there always is one{help}", help = Advice("`exact`, `prefix` or `regex` is wanted"))]
    AlwaysPresent,
    /// It is no regular expression, or too large a one: [`Limits::regex_bytes`](super::Limits::regex_bytes).
    #[error("it is no regular expression: {0}")]
    Regex(String),
    /// Conditions are within conditions within conditions: [`Limits::depth`](super::Limits::depth).
    #[error("there are more than {0} conditions within one another")]
    Depth(usize),
    /// It is no host, or no port.
    #[error("{authority:?} is no `host` or `host:port`")]
    Authority {
        /// The text.
        authority: String,
        /// Why, if a URL with it tells.
        source: Option<UrlError>,
    },
    /// It is no address of a wire.
    #[error(transparent)]
    Via(AddressError),
    /// It changes nothing without an `authority`.
    #[error("it says nothing without an `authority`")]
    NeedsAuthority,
    /// Both are set, where one is wanted.
    #[error("`{0}` is set, too, and only one can be")]
    Both(&'static str),
    /// A path begins with `/`, and has no `?`, no `#` and nothing that is to be percent-encoded.
    #[error("{0:?} is no path{help}", help = Advice("it begins with `/`, and has no `?`, no `#`, and what is not ASCII is percent-encoded"))]
    Path(String),
    /// The expression has no such group.
    #[error("the expression has no group {0:?}{help}", help = Advice("write `${1}a` where `$1a` would be another name"))]
    Group(String),
    /// The field has a name or a value that cannot be sent.
    #[error(transparent)]
    Header(InvalidHeader),
    /// The client writes this field itself.
    #[error("the client writes {0:?} itself")]
    Reserved(&'static str),
    /// It is no value of a `host` field.
    #[error(transparent)]
    Host(EncodeError),
}

/// A field, if there is one.
struct Within<'a>(&'a str);

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ", {}", self.0) }
    }
}

/// The name of a rule, if it has one.
struct Named<'a>(&'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({:?})", self.0) }
    }
}
