//! Why a query, a form or path parameters do not fit, with the name of the field.

use std::fmt::{self, Display};

use crate::extract::shown;

/// What is wrong with a field of a query or a form, or with a path parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    // A pointer, so that the value that is there at the end of most calls is cheap to return.
    fault: Box<Fault>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    field: String,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::extract) enum Reason {
    /// Its text is not that of the type.
    Value(String),
    Missing,
    Unknown,
    /// There are several of its name, and it is no list.
    Repeated,
    /// It is not UTF-8 after percent-decoding.
    NotText,
    /// There are more fields than so many.
    TooMany(usize),
    /// The route has so many parameters, and the handler takes another number of them.
    Parameters {
        found: usize,
        taken: usize,
    },
}

impl FieldError {
    /// The name of the field, as the peer knows it: 128 bytes of it at most. `None` if all of it is wrong.
    pub fn field(&self) -> Option<&str> {
        Some(&*self.fault.field).filter(|field| !field.is_empty())
    }

    /// What is wrong with the field, without its name. Of a long value the beginning is in it.
    pub fn reason(&self) -> String {
        self.fault.reason.to_string()
    }

    pub(in crate::extract) fn of(mut self, field: &str) -> Self {
        if self.fault.field.is_empty() {
            self.fault.field = shown::name(field).into_owned();
        }
        self
    }

    pub(in crate::extract) fn is_too_many(&self) -> bool {
        matches!(self.fault.reason, Reason::TooMany(_))
    }

    pub(in crate::extract) fn is_no_text(&self) -> bool {
        self.fault.reason == Reason::NotText
    }

    pub(in crate::extract) fn kind(&self) -> &Reason {
        &self.fault.reason
    }
}

impl From<Reason> for FieldError {
    fn from(reason: Reason) -> Self {
        Self { fault: Box::new(Fault { field: String::new(), reason }) }
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field() {
            Some(field) => write!(f, "{field}: {}", self.fault.reason),
            None => Display::fmt(&self.fault.reason, f),
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(text) => f.write_str(text),
            Self::Missing => f.write_str("it is missing"),
            Self::Unknown => f.write_str("it is not known here"),
            Self::Repeated => f.write_str("it stands more than once"),
            Self::NotText => f.write_str("it is not UTF-8 after percent-decoding"),
            Self::Parameters { found, taken } => {
                write!(f, "the route has {found} parameters, the handler takes {taken}")
            }
            Self::TooMany(max) => write!(f, "there are more than {max} fields"),
        }
    }
}

impl std::error::Error for FieldError {}

impl serde::de::Error for FieldError {
    fn custom<T: Display>(message: T) -> Self {
        Reason::Value(shown::message(message.to_string()).into_owned()).into()
    }

    fn missing_field(field: &'static str) -> Self {
        Self::from(Reason::Missing).of(field)
    }

    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Self::from(Reason::Unknown).of(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::from(Reason::Repeated).of(field)
    }
}
