//! Rules as a person writes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A rule: which requests it is for, and what becomes of them.
///
/// ```
/// use anywire_client::rules::{Destination, Pattern, Rule, When};
///
/// let beta = Rule {
///     name: "beta".to_owned(),
///     when: When { query: [("beta".to_owned(), Pattern::Present(true))].into(), ..When::default() },
///     to: vec![Destination { authority: Some("beta.example".to_owned()), ..Destination::default() }],
/// };
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// What errors and counters call it. Names differ.
    pub name: String,
    /// Which requests it is for. Default: all that no rule before it was for.
    #[serde(skip_serializing_if = "is_default")]
    pub when: When,
    /// Where they go. One at least: an empty one leaves a request as it is.
    pub to: Vec<Destination>,
}

/// A condition. All that it says has to hold; an empty one always does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// One of these methods, if there are any. Upper and lower case differ.
    #[serde(skip_serializing_if = "is_default")]
    pub methods: Vec<String>,
    /// Host and port of the URL. The port is there only if it is not the one of the scheme; an IPv6 address is in brackets.
    #[serde(skip_serializing_if = "is_default")]
    pub authority: Option<Pattern>,
    /// The path of the URL, without its query, as it is sent: percent-encoded.
    #[serde(skip_serializing_if = "is_default")]
    pub path: Option<Pattern>,
    /// Header fields by their names. Of several with one name any may fit.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: BTreeMap<String, Pattern>,
    /// Parameters of the query by their names, decoded. Of several with one name any may fit.
    #[serde(skip_serializing_if = "is_default")]
    pub query: BTreeMap<String, Pattern>,
    /// All of these hold.
    #[serde(skip_serializing_if = "is_default")]
    pub all: Vec<Self>,
    /// At least one of these holds, if there are any.
    #[serde(skip_serializing_if = "is_default")]
    pub any: Vec<Self>,
    /// This does not hold.
    #[serde(skip_serializing_if = "is_default")]
    pub not: Option<Box<Self>>,
}

/// How a text has to look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// It is this.
    Exact(String),
    /// It begins with this.
    Prefix(String),
    /// The whole of it fits this regular expression of the crate `regex`.
    Regex(String),
    /// There is one, or with `false` none: of header fields and parameters.
    Present(bool),
}

/// Where requests go, and how they are changed. What is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Destination {
    /// Its part of the requests, of the sum of the weights of its rule. Default 1. With 0 it gets none.
    pub weight: u32,
    /// Another host and port, `host` or `host:port`, in the place of the URL's. The scheme stays, so a call of `https` goes over TLS, and the
    /// new host has to prove its own name.
    ///
    /// It is another origin, as for a redirect: the call's fields `authorization`, `proxy-authorization` and `cookie` stay behind, and
    /// those of [`Redirects::sensitive`](crate::Redirects::sensitive), too. The client's own cookies and credentials are
    /// those for the new origin.
    #[serde(skip_serializing_if = "is_default")]
    pub authority: Option<String>,
    /// With an `authority`: the `host` field stays what it was before.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_host: bool,
    /// With an `authority`: the credentials of the call go there, too. For hosts that you trust as you trust the first one.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_credentials: bool,
    /// The wire to go by, such as `tcp:10.0.0.7:8443` or `unix:/run/shop.sock`: see [`Call::via`](crate::Call::via). The URL stays, with its
    /// `host`, its credentials, and the name that TLS checks. A call that has a wire of its own keeps it.
    #[serde(skip_serializing_if = "is_default")]
    pub via: Option<String>,
    /// Another path.
    #[serde(skip_serializing_if = "is_default")]
    pub path: Option<PathRewrite>,
    /// Header fields that are removed, first of the changes to fields.
    #[serde(skip_serializing_if = "is_default")]
    pub remove_headers: Vec<String>,
    /// Header fields in the place of those with their names.
    #[serde(skip_serializing_if = "is_default")]
    pub set_headers: BTreeMap<String, String>,
    /// Further header fields.
    #[serde(skip_serializing_if = "is_default")]
    pub add_headers: BTreeMap<String, String>,
    /// Parameters that are removed from the query, first of the changes to it. Names and values of parameters are encoded when they are
    /// sent; those that stay keep their bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub remove_query: Vec<String>,
    /// Parameters in the place of those with their names.
    #[serde(skip_serializing_if = "is_default")]
    pub set_query: BTreeMap<String, String>,
    /// Further parameters.
    #[serde(skip_serializing_if = "is_default")]
    pub add_query: BTreeMap<String, String>,
}

impl Default for Destination {
    fn default() -> Self {
        Self {
            weight: 1,
            authority: None,
            keep_host: false,
            keep_credentials: false,
            via: None,
            path: None,
            remove_headers: Vec::new(),
            set_headers: BTreeMap::new(),
            add_headers: BTreeMap::new(),
            remove_query: Vec::new(),
            set_query: BTreeMap::new(),
            add_query: BTreeMap::new(),
        }
    }
}

/// Another path: in the place of a prefix, of what fits a regular expression, or of the whole path if neither is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathRewrite {
    /// The beginning that is replaced. It is text: `/v1` is the beginning of `/v10`, too. Other paths stay.
    #[serde(skip_serializing_if = "is_default")]
    pub prefix: Option<String>,
    /// What the whole path has to fit to be replaced. Other paths stay.
    #[serde(skip_serializing_if = "is_default")]
    pub regex: Option<String>,
    /// What stands there then. It begins with `/`. Behind a `regex`, `$1` or `${name}` is what a group has found.
    pub with: String,
}

/// The file of a set of rules.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) rule: Vec<Rule>,
}

/// How much a set of rules may hold. One that holds more is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Rules. Default 1,000: they are looked at one after the other.
    pub rules: usize,
    /// Conditions and changes of all rules: patterns, methods, fields, parameters, destinations. Default 10,000.
    pub parts: usize,
    /// Conditions within conditions. Default 16, more than a person reads.
    pub depth: usize,
    /// Memory of one compiled regular expression. Default 256 KiB. They need no more time than in proportion to the text, whatever they are.
    pub regex_bytes: usize,
    /// The text of a file. Default 1 MiB.
    pub file_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rules: 1_000, parts: 10_000, depth: 16, regex_bytes: 256 << 10, file_bytes: 1 << 20 }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
