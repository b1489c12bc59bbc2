//! The response for a value that breaks rules.

use std::fmt::{self, Display};

use anywire_http::{IntoResponse, Response, StatusCode};
use serde_json::{Value, json};

use super::rules::{Violation, Violations};
use crate::extract::Rejection;
use crate::layers::Problem;

/// Why [`Valid`](crate::Valid) refused a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidRejection<R> {
    /// The extractor within refused it.
    #[error(transparent)]
    Extractor(R),
    /// 422, the peer's fault: the value breaks rules.
    #[error(transparent)]
    Invalid(InvalidValue),
    /// 500, the server's fault: the context of the rules was not given as a state. This is an error at start.
    #[error(transparent)]
    NoContext(Rejection),
}

impl<R: IntoResponse> IntoResponse for ValidRejection<R> {
    fn into_response(self) -> Response {
        match self {
            Self::Extractor(rejection) => rejection.into_response(),
            Self::Invalid(invalid) => invalid.into_response(),
            Self::NoContext(rejection) => rejection.into_response(),
        }
    }
}

/// A value that breaks rules. As a response it is a 422 with a problem document (RFC 9457) that lists the first
/// [`Violations::MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    violations: Violations,
}

impl InvalidValue {
    /// What is wrong.
    pub fn violations(&self) -> &Violations {
        &self.violations
    }

    /// The document, to be changed.
    pub fn to_problem(&self) -> Problem {
        let errors: Vec<Value> = self.violations.iter().map(document).collect();
        let detail = match (errors.len(), self.violations.left_out()) {
            (1, 0) => "a value breaks a rule".to_owned(),
            (several, 0) => format!("{several} rules are broken"),
            (listed, left_out) => {
                format!("{} rules are broken, the first {listed} are listed", listed + left_out)
            }
        };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY).detail(detail).member("errors", errors)
    }
}

fn document(violation: &Violation) -> Value {
    let Violation { field, rule, limit: _, message } = violation;
    json!({ "field": field, "rule": rule, "message": message })
}

impl From<Violations> for InvalidValue {
    fn from(violations: Violations) -> Self {
        Self { violations }
    }
}

impl Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request breaks rules")?;
        for (index, Violation { field, message, .. }) in self.violations.iter().enumerate() {
            f.write_str(if index == 0 { ": " } else { "; " })?;
            match field.is_empty() {
                true => f.write_str(message)?,
                false => write!(f, "{field}: {message}")?,
            }
        }
        match self.violations.left_out() {
            0 => Ok(()),
            left_out => write!(f, "; and {left_out} more"),
        }
    }
}

impl std::error::Error for InvalidValue {}

impl IntoResponse for InvalidValue {
    fn into_response(self) -> Response {
        self.to_problem().into_response().caused_by(&self)
    }
}
