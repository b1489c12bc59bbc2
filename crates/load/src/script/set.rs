//! What a run sends, as data: requests with weights, or sequences of requests that one user makes after each other.

use std::time::Duration;

use anywire_http::Method;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::table::{Order, Table};
use crate::expect::Expect;
use crate::plan_data;

/// What a run sends instead of the one request of its plan.
///
/// A sequence with one step is a request of the set; one with several is the way of a user, who carries values of an answer on
/// to later requests. Each place in flight (`depth`) of each connection is a user: it draws a sequence by its weight, makes
/// its requests in order, and draws the next.
///
/// ```
/// use anywire_load::Plan;
/// use anywire_load::script::{Script, Sequence, Step, Text};
///
/// let read = Step::get(Text::template("/items/{{int 1 500}}"));
/// let write = Step { method: anywire_http::Method::POST, body: Text::template("item {{n}}"), ..Step::get("/items") };
/// let script = Script {
///     sequences: vec![Sequence { weight: 9, ..Sequence::one(read) }, Sequence::one(write)],
///     ..Script::default()
/// };
/// let plan = Plan { script: Some(script), ..Plan::new("http://localhost:8080/") };
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The sequences; at least one.
    pub sequences: Vec<Sequence>,
    /// Data for templates.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// How the next sequence is drawn (at random, by its weight). In turn, a weight is not heeded.
    #[serde(default = "random")]
    pub order: Order,
}

fn random() -> Order {
    Order::Random
}

/// No sequence, no table; drawn at random.
impl Default for Script {
    fn default() -> Self {
        Self { sequences: Vec::new(), tables: Vec::new(), order: random() }
    }
}

impl Script {
    /// The one request of a plan.
    pub(crate) fn of_request(method: &Method, target: &str, body: &Bytes) -> Self {
        let step = Step { method: method.clone(), body: Text::plain(body.clone()), ..Step::get(target) };
        Self { sequences: vec![Sequence::one(step)], ..Self::default() }
    }

    /// How many requests it has, in all sequences.
    pub fn requests(&self) -> usize {
        self.sequences.iter().map(|sequence| sequence.steps.len()).sum()
    }
}

/// Requests that one user makes in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Its name, for errors (may be empty).
    #[serde(default)]
    pub name: String,
    /// How often it is drawn, compared with the others (1); never with 0.
    pub weight: u32,
    /// Whether its user keeps the cookies that answers set, and sends them with the later requests of the sequence (no). Each sequence
    /// begins without any. At most [`ScriptLimits::cookies`](super::ScriptLimits::cookies) are kept.
    #[serde(default)]
    pub cookies: bool,
    /// Variables that are set when it begins, and are the same in all its requests.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// Its requests; at least one.
    pub steps: Vec<Step>,
}

impl Sequence {
    /// A request alone, of the weight 1.
    pub fn one(step: Step) -> Self {
        Self { name: String::new(), weight: 1, cookies: false, variables: Vec::new(), steps: vec![step] }
    }
}

/// A variable of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: Text,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name in results; if it is empty, the method and the target.
    #[serde(default)]
    pub name: String,
    /// The method.
    #[serde(with = "plan_data::text")]
    pub method: Method,
    /// The path and query.
    pub target: Text,
    /// Header fields. Those of the plan are sent too, unless one of the same name is here.
    #[serde(default)]
    pub headers: Vec<(String, Text)>,
    /// The body.
    #[serde(default)]
    pub body: Text,
    /// How long the user waits after the answer, before the next request (no time).
    #[serde(default)]
    pub think: Duration,
    /// How a good answer looks (`None`: as the plan has it).
    #[serde(default)]
    pub expect: Option<Expect>,
    /// What is kept of the answer for later requests of the sequence.
    #[serde(default)]
    pub keep: Vec<Keep>,
}

impl Step {
    /// Its name in results and thresholds: its own, or its method and target.
    pub fn name_in_results(&self) -> String {
        match self.name.is_empty() {
            true => format!("{} {}", self.method, String::from_utf8_lossy(self.target.as_bytes())),
            false => self.name.clone(),
        }
    }

    /// `GET target`.
    pub fn get(target: impl Into<Text>) -> Self {
        Self {
            name: String::new(),
            method: Method::GET,
            target: target.into(),
            headers: Vec::new(),
            body: Text::default(),
            think: Duration::ZERO,
            expect: None,
            keep: Vec::new(),
        }
    }
}

/// A value of an answer that is kept for later requests. If an answer does not have it, that is an error of the kind `check`,
/// and the sequence ends: its other requests would not be what was meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// The variable that gets it.
    pub variable: String,
    /// Where it stands.
    pub from: Origin,
}

/// Where in an answer a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// The value of a header field, or the first group of a regular expression in it; the whole match without a group.
    Header {
        /// The name of the field.
        name: String,
        /// A regular expression.
        regex: Option<String>,
    },
    /// The place of a JSON body that a pointer names (RFC 6901), such as `/items/0/id`.
    Json(String),
    /// The first group of a regular expression in the body; the whole match without a group.
    Regex(String),
}

/// Text of a request: as it is, or a template in which `{{...}}` stands for a value.
///
/// ```
/// use anywire_load::script::Text;
///
/// assert_eq!(Text::from("a {{b}}").as_bytes(), b"a {{b}}");
/// assert!(Text::template("{{n}}").is_template());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    #[serde(with = "plan_data::bytes")]
    bytes: Bytes,
    #[serde(default)]
    template: bool,
}

impl Text {
    /// A template.
    pub fn template(text: impl Into<Bytes>) -> Self {
        Self { bytes: text.into(), template: true }
    }

    /// Bytes that are sent as they are.
    pub fn plain(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), template: false }
    }

    /// The bytes as they were given.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether `{{...}}` stands for a value in it.
    pub fn is_template(&self) -> bool {
        self.template
    }

    /// Whether there is nothing of it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// As it is.
impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::plain(text.to_owned())
    }
}

/// As it is.
impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::plain(text)
    }
}
