//! Why a document, an operation of it or one of its values cannot be sent, each with what would help.

use std::fmt;
use std::io;

use anywire_advice::Advice;

/// A document of OpenAPI that cannot be sent (the caller's fault).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// It cannot be read to its end.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// It is no JSON, or no YAML.
    #[error(
        "line {line}, column {column}: it is no {syntax}: {found}{}",
        Advice("save it anew, and look there")
    )]
    Syntax {
        /// `JSON` or `YAML`.
        syntax: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column in the line, from 1.
        column: usize,
        /// What is wrong there.
        found: String,
    },
    /// It is no JSON, and this build reads no YAML.
    #[error(
        "it does not begin as JSON does, and this program was built without YAML{}",
        Advice("build it with the feature yaml, or make JSON of it")
    )]
    NoYaml,
    /// It is written as one may be, and is no document of OpenAPI.
    #[error("it is no document of OpenAPI: {found}{}", Advice("name one of OpenAPI 3.0, 3.1 or 3.2"))]
    Document {
        /// What is wrong with it.
        found: String,
    },
    /// None of its operations can be sent.
    #[error(
        "none of its operations can be sent{}{}",
        First(left_out),
        Advice("mend the document, or write the requests into a file for --script")
    )]
    Nothing {
        /// Each of them, with the reason.
        left_out: Vec<LeftOutOperation>,
    },
    /// A value or a weight was given for something that the document does not have.
    #[error("there is no {what} {name:?} in it{}", Advice(known(others)))]
    Unknown {
        /// `parameter` or `operation`.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// Names that there are.
        others: Vec<String>,
    },
    /// It is over a limit.
    #[error("it has more than {most} {what}{}", Advice("load with a part of it"))]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        most: u64,
    },
}

fn known(others: &[String]) -> String {
    match others {
        [] => "leave it out: there is none".to_owned(),
        others => format!("there are {}", others.join(", ")),
    }
}

/// Why the first of them is not sent.
struct First<'l>(&'l [LeftOutOperation]);

impl fmt::Display for First<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => formatter.write_str(": it has none, or all of the weight 0"),
            [one] => write!(formatter, ": {one}"),
            [first, rest @ ..] => write!(formatter, ": {first}; and {} more", rest.len()),
        }
    }
}

/// An operation that is not sent. It prints as `POST /items: ` and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutOperation {
    /// Its method and path: `POST /items`.
    pub operation: String,
    /// Why it is not sent.
    pub why: Omission,
}

impl fmt::Display for LeftOutOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.operation, self.why)
    }
}

/// Why an operation is not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Omission {
    /// Its method is not one of those to send.
    #[error("operations of {method} are not sent{}", Advice(format_args!("if they may be, write --openapi-methods {method}")))]
    Method {
        /// The method.
        method: String,
    },
    /// It is for any method, or the method is none.
    #[error("{method:?} names no one method{}", Advice(SCRIPT))]
    NoMethod {
        /// What stands there.
        method: String,
    },
    /// Its path cannot be one.
    #[error("its path does not begin with /{}", Advice("mend the document"))]
    Path,
    /// The object that describes it, or its path, cannot be found.
    #[error("its description cannot be read: {0}{help}", help = Advice("mend the document"))]
    PathItem(Lack),
    /// A parameter has no value.
    #[error("{}{}", NoValue { place, name, lack }, Advice(format_args!("give it by --openapi-value '{name}=VALUE', or as an example in the document")))]
    Parameter {
        /// Where it stands: `path`, `query`, `header` or `cookie`.
        place: String,
        /// Its name.
        name: String,
        /// What is missing.
        lack: Lack,
    },
    /// A body cannot be made.
    #[error("its body cannot be made: {0}{help}", help = Advice("write an example of it into the document, or the request into a file for --script"))]
    Body(Lack),
    /// It takes credentials, and none are given.
    #[error("it takes credentials ({scheme}){}", Advice(format_args!("give them by {wanted}")))]
    Credentials {
        /// The name of the security scheme.
        scheme: String,
        /// The option that gives them.
        wanted: String,
    },
}

/// A parameter without a value, in words.
struct NoValue<'o> {
    place: &'o str,
    name: &'o str,
    lack: &'o Lack,
}

impl fmt::Display for NoValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, name, lack } = self;
        write!(formatter, "the {place} parameter {name:?} has no value: {lack}")
    }
}

/// What a value lacks, and where within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The place within the value, such as `customer/name`; empty if it is the value itself.
    pub at: String,
    /// What is missing.
    pub reason: LackReason,
}

impl Lack {
    /// The same of the value around it.
    pub(super) fn within(self, name: &str) -> Self {
        let at = if self.at.is_empty() { name.to_owned() } else { format!("{name}/{}", self.at) };
        Self { at, ..self }
    }
}

impl From<LackReason> for Lack {
    fn from(reason: LackReason) -> Self {
        Self { at: String::new(), reason }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.at {
            "" => self.reason.fmt(formatter),
            at => write!(formatter, "at {at}, {}", self.reason),
        }
    }
}

/// What a value lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LackReason {
    /// Nothing describes it.
    #[error("nothing describes it")]
    Undescribed,
    /// It is described by something else than an object.
    #[error("what describes it is no object")]
    Malformed,
    /// A reference leads out of the document; nothing else is opened.
    #[error("its reference {0:?} leads to another document")]
    Elsewhere(String),
    /// A reference leads to nothing.
    #[error("its reference {0:?} leads to nothing")]
    Dangling(String),
    /// It holds itself without an end.
    #[error("its type holds itself without an end")]
    Endless,
    /// Its schema is deeper than [`OpenApiLimits::depth`](super::OpenApiLimits::depth).
    #[error("its schema is more than {0} deep")]
    Deep(usize),
    /// It is larger than [`OpenApiLimits::value_bytes`](super::OpenApiLimits::value_bytes).
    #[error("it takes more than {0} bytes")]
    Large(usize),
    /// No text that was tried has this pattern.
    #[error("no text that was tried has the pattern {0:?}")]
    Pattern(String),
    /// No value that was tried is within its bounds.
    #[error("no value that was tried is within its bounds")]
    Bounds,
    /// No value fits the schema.
    #[error("no value fits its schema")]
    Never,
    /// Its type is none of OpenAPI.
    #[error("its type {0:?} is unknown")]
    Type(String),
    /// Its example is elsewhere; nothing else is opened.
    #[error("its example stands elsewhere, at {0:?}")]
    Example(String),
    /// Bodies of these media types are made of examples alone, and there is none.
    #[error("bodies of {0} are made of examples alone, and there is none")]
    Media(String),
    /// What it is cannot be written as a field.
    #[error("it cannot stand in a header field")]
    Field,
}

/// What helps where the document does not say enough.
const SCRIPT: &str = "write the request into a file for --script";
