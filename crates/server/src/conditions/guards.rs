//! Guards: conditions beyond method and path that a request must meet for a route.
//!
//! A handler has guards by [`Handler::when`](crate::Handler::when), all routes of a router by [`Router::when`](crate::Router::when).
//! A request must pass all of them. Several handlers may share a path and a method if their guards differ: the one with the most
//! guards that all pass answers. Of two with as many the narrower one answers, whose requests the other would take as well: an exact host
//! comes before `*.example.com`, and `query("a").equals("1")` before `query("a")`. Else the one answers that was added first. What no handler
//! takes is a 404, as if the path were unknown, or a 405 if another method would be answered.
//!
//! ```
//! use anywire_server::guards::{header, host, query};
//! use anywire_server::{Handler, Router};
//!
//! let second = async || "orders, version 2";
//! let admin = Router::new().get("/", async || "administration").when(host("admin.shop.example"));
//! let router = Router::new()
//!     .get("/orders", second.when(header("x-version").equals("2")))
//!     .get("/orders", (async || "one order").when(query("id")))
//!     .get("/orders", async || "orders")
//!     .get("/", async || "the shop")
//!     .merge(admin);
//! # drop(router);
//! ```
//!
//! The responses of a path with a guard by [`header`] say so to caches: their `Vary` names the field.

mod host;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use anywire_advice::Advice;
use http::HeaderName;

use self::host::Host;
use crate::extract::fields;
#[cfg(feature = "regex")]
use crate::extract::fields::Plus;
use crate::layer::name_of;
use crate::request::Parts;

/// A condition that a request meets or not. Made by the functions of this module.
#[derive(Clone)]
#[must_use = "a guard guards nothing until a handler or a router gets it"]
pub struct Guard(Kind);

#[derive(Clone)]
enum Kind {
    Host(Host),
    Header(Field),
    Query(Field),
    #[cfg(feature = "regex")]
    Param {
        name: Box<str>,
        expression: regex::Regex,
    },
    Own {
        name: &'static str,
        takes: Arc<dyn Fn(&Parts) -> bool + Send + Sync>,
    },
    Faulty {
        text: String,
        fault: GuardFault,
    },
}

/// The host that the request asks for: `api.example.com`, `*.example.com`, or either with a port.
///
/// A `*.` stands for one label or several, not for none. Without a port any port is right. With one the request must name it, or have
/// it by default: 443 over TLS, else 80. Case does not count, nor does a dot at the end.
pub fn host(pattern: &str) -> Guard {
    let fault = |fault| Kind::Faulty { text: format!("host {pattern:?}"), fault };
    Guard(Host::parse(pattern).map_or_else(|| fault(GuardFault::Host), Kind::Host))
}

/// A header field that is there; [`equals`](Named::equals) also looks at its value.
pub fn header(name: &str) -> Named {
    Named { is_header: true, name: name.to_owned(), value: None }
}

/// A parameter of the query that is there, with or without a value; [`equals`](Named::equals) also looks at its value.
pub fn query(name: &str) -> Named {
    Named { is_header: false, name: name.to_owned(), value: None }
}

/// A variable of the path whose value, decoded, matches this regular expression as a whole.
///
/// The expression is compiled here, and a mistake in it is an error at start. The syntax is that of the crate `regex`, which takes
/// linear time. A value that is no UTF-8 does not match.
///
/// ```
/// use anywire_server::guards::param_matches;
/// use anywire_server::{Handler, Path, Router};
///
/// let by_number = async |Path(id): Path<u64>| format!("order {id}");
/// let by_name = async |Path(name): Path<String>| format!("orders of {name}");
/// let router = Router::new()
///     .get("/orders/{key}", by_number.when(param_matches("key", "[0-9]{1,9}")))
///     .get("/orders/{key}", by_name);
/// # drop(router);
/// ```
#[cfg(feature = "regex")]
pub fn param_matches(name: &str, expression: &str) -> Guard {
    // Alone it must be right, too: `a)|(?:b` would leave its group.
    let alone = regex::Regex::new(expression);
    Guard(match alone.and_then(|_| regex::Regex::new(&format!("{}{expression}{}", WHOLE.0, WHOLE.1))) {
        Ok(expression) => Kind::Param { name: name.into(), expression },
        Err(cause) => {
            let fault = GuardFault::Expression { cause: cause.to_string() };
            Kind::Faulty { text: format!("{{{name}}} matches {expression:?}"), fault }
        }
    })
}

/// What an expression stands between to match a whole value.
#[cfg(feature = "regex")]
const WHOLE: (&str, &str) = ("^(?:", ")$");

/// A function of the program. It runs on the loop of the connection, so it must not block. A panic is a 500, as of a handler, within the layers
/// of the innermost router around all handlers of the path.
///
/// ```
/// use anywire_server::{Handler, Parts, Router, guards};
///
/// fn is_local(parts: &Parts) -> bool {
///     parts.peer().ip().is_none_or(|ip| ip.is_loopback())
/// }
///
/// let counters = async || "42 requests";
/// let router = Router::new().get("/counters", counters.when(guards::of(is_local)));
/// # drop(router);
/// ```
pub fn of<F: Fn(&Parts) -> bool + Send + Sync + 'static>(takes: F) -> Guard {
    Guard(Kind::Own { name: name_of::<F>(), takes: Arc::new(takes) })
}

/// A guard by a name: what [`header`] and [`query`] make.
#[derive(Debug, Clone)]
#[must_use = "a guard guards nothing until a handler or a router gets it"]
pub struct Named {
    is_header: bool,
    name: String,
    value: Option<String>,
}

impl Named {
    /// It must be there once, with exactly this value. That of a query is decoded.
    pub fn equals(mut self, value: &str) -> Self {
        self.value = Some(value.to_owned());
        self
    }
}

impl From<Named> for Guard {
    fn from(named: Named) -> Self {
        let Named { is_header, name, value } = named;
        let field = Field { name: name.into(), value: value.map(Into::into) };
        Self(match is_header {
            false => Kind::Query(field),
            true if HeaderName::from_bytes(field.name.as_bytes()).is_err() => {
                Kind::Faulty { text: format!("header {:?}", field.name), fault: GuardFault::Name }
            }
            true if OF_HTTP1.iter().any(|name| field.name.eq_ignore_ascii_case(name)) => {
                Kind::Faulty { text: format!("header {}", field.name), fault: GuardFault::Field }
            }
            true => match field.value.as_deref().filter(|value| !is_field_value(value)) {
                Some(value) => {
                    let text = format!("header {} = {value:?}", field.name);
                    Kind::Faulty { text, fault: GuardFault::Value }
                }
                None => Kind::Header(Field { name: field.name.to_ascii_lowercase().into(), ..field }),
            },
        })
    }
}

/// Whether a field may come with this value (RFC 9110 section 5.5).
fn is_field_value(value: &str) -> bool {
    value.trim_matches([' ', '\t']) == value
        && value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control())
}

/// The fields that requests over HTTP/2 never have (RFC 9113 sections 8.2.2 and 8.3.1): a route must not depend on the version.
const OF_HTTP1: [&str; 6] =
    ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A name and perhaps a value.
#[derive(Clone, PartialEq, Eq)]
struct Field {
    name: Box<str>,
    value: Option<Box<str>>,
}

impl Field {
    /// Whether the values that a request has of this name pass. One that is no text is `None`.
    fn takes<'p>(&self, mut values: impl Iterator<Item = Option<Cow<'p, str>>>) -> bool {
        match (values.next(), &self.value) {
            (Some(found), Some(value)) => {
                found.is_some_and(|found| *found == **value) && values.next().is_none()
            }
            (found, None) => found.is_some(),
            (None, Some(_)) => false,
        }
    }

    fn implies(&self, other: &Self) -> bool {
        self.name == other.name && (other.value.is_none() || self.value == other.value)
    }

    fn contradicts(&self, other: &Self) -> bool {
        self.name == other.name && self.value.is_some() && other.value.is_some() && self.value != other.value
    }
}

impl Guard {
    /// Whether a request passes.
    pub(crate) fn takes(&self, parts: &Parts) -> bool {
        match &self.0 {
            Kind::Host(host) => host.takes(parts),
            Kind::Header(field) => {
                let text = |value| str::from_utf8(value).ok().map(Cow::Borrowed);
                field.takes(parts.headers().get_all(&field.name).map(text))
            }
            Kind::Query(field) => {
                let named = fields::each(parts.query().unwrap_or_default());
                let named = named.filter(|(name, _)| **name == *field.name);
                field.takes(named.map(|(_, value)| value))
            }
            #[cfg(feature = "regex")]
            Kind::Param { name, expression } => {
                let value = parts.param(name).unwrap_or_default();
                fields::decoded(value, Plus::IsPlus).is_some_and(|value| expression.is_match(&value))
            }
            Kind::Own { takes, .. } => takes(parts),
            Kind::Faulty { .. } => false,
        }
    }

    pub(crate) fn fault(&self) -> Option<&GuardFault> {
        match &self.0 {
            Kind::Faulty { fault, .. } => Some(fault),
            _ => None,
        }
    }

    /// Whether a request passes about which this one asks for permission (a preflight of CORS). That has no fields of its own yet.
    pub(crate) fn takes_after(&self, preflight: &Parts) -> bool {
        matches!(self.0, Kind::Header(_)) || self.takes(preflight)
    }

    /// The field of the request that it looks at, in lower case.
    pub(crate) fn field(&self) -> Option<&str> {
        match &self.0 {
            Kind::Header(field) => Some(&field.name),
            _ => None,
        }
    }

    /// If it looks at a field of the head or of the query: whether it is one of the head, its name, and the value that it must have.
    #[cfg(feature = "openapi")]
    pub(crate) fn named(&self) -> Option<(bool, &str, Option<&str>)> {
        let (is_header, field) = match &self.0 {
            Kind::Header(field) => (true, field),
            Kind::Query(field) => (false, field),
            _ => return None,
        };
        Some((is_header, &field.name, field.value.as_deref()))
    }

    /// If it looks at a variable of the path: the name, and the expression that matches the whole value.
    #[cfg(feature = "openapi")]
    pub(crate) fn pattern(&self) -> Option<(&str, &str)> {
        match &self.0 {
            #[cfg(feature = "regex")]
            Kind::Param { name, expression } => Some((name, expression.as_str())),
            _ => None,
        }
    }

    /// The variable of the path that it looks at.
    pub(crate) fn param(&self) -> Option<&str> {
        match &self.0 {
            #[cfg(feature = "regex")]
            Kind::Param { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether no request passes both.
    pub(crate) fn contradicts(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Host(one), Kind::Host(other)) => one.contradicts(other),
            (Kind::Header(one), Kind::Header(other)) | (Kind::Query(one), Kind::Query(other)) => {
                one.contradicts(other)
            }
            _ => false,
        }
    }

    /// Whether each request that passes this one is known to pass the other.
    pub(crate) fn implies(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Host(one), Kind::Host(other)) => one.implies(other),
            (Kind::Header(one), Kind::Header(other)) | (Kind::Query(one), Kind::Query(other)) => {
                one.implies(other)
            }
            (Kind::Own { takes: one, .. }, Kind::Own { takes: other, .. }) => Arc::ptr_eq(one, other),
            #[cfg(feature = "regex")]
            (Kind::Param { .. }, Kind::Param { .. }) => self.to_string() == other.to_string(),
            _ => false,
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = |kind, Field { name, value }: &Field| match value {
            Some(value) => write!(f, "{kind} {name} = {value:?}"),
            None => write!(f, "{kind} {name}"),
        };
        match &self.0 {
            Kind::Header(field) => named("header", field),
            Kind::Query(field) => named("query", field),
            Kind::Host(host) => write!(f, "host {host}"),
            #[cfg(feature = "regex")]
            Kind::Param { name, expression } => {
                let given =
                    expression.as_str().strip_prefix(WHOLE.0).and_then(|text| text.strip_suffix(WHOLE.1));
                write!(f, "{{{name}}} matches {:?}", given.unwrap_or_default())
            }
            Kind::Own { name, .. } => f.write_str(name),
            Kind::Faulty { text, .. } => f.write_str(text),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({self})")
    }
}

/// What is wrong with a guard; its author's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardFault {
    /// The pattern of a host is neither a name nor an address, or its port is no number.
    #[error(
        "names no host{help}",
        help = Advice("write it as `api.example.com`, `*.example.com` or `[::1]`, each with or without `:PORT`; a name of other letters in its form `xn--..`")
    )]
    Host,
    /// The name of a header field is no token.
    #[error("names no header field{help}", help = Advice("use letters, digits and any of !#$%&'*+-.^_`|~"))]
    Name,
    /// Requests over HTTP/2 do not have this field: `host`, which only HTTP/1 needs, or a field of the connection (RFC 9113 sections 8.2.2 and
    /// 8.3.1).
    #[error(
        "looks at a field that no request over HTTP/2 has{help}",
        help = Advice("for the host take guards::host(..); other fields of the connection are no matter of a route")
    )]
    Field,
    /// No header field comes with this value.
    #[error("asks for a value that no field has{help}", help = Advice("leave out control characters, and white space at its ends"))]
    Value,
    /// The regular expression is malformed, or too large.
    #[error("has a malformed expression: {cause}")]
    Expression {
        /// Why.
        cause: String,
    },
}
