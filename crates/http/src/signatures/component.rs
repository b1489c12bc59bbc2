//! The parts of a message that a signature covers.

use std::fmt;

use super::SignatureError;
use super::structured::{Bare, Item, Parameters, Shown, parameters};

/// A part of a message (RFC 9421 section 2): a field by its name, such as `content-type`, or one of `@method`, `@target-uri`,
/// `@authority`, `@scheme`, `@request-target`, `@path`, `@query`, `@query-param;name="a"` and `@status`. In a response `;req` takes it from the
/// request that is responded to. `;bs` takes the fields of a name apart as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    pub(super) name: String,
    pub(super) parameters: Parameters,
}

impl Component {
    /// Reads a component.
    ///
    /// # Errors
    /// [`Component`](SignatureError::Component).
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let end = text.find(';').unwrap_or(text.len());
        let parameters = parameters(&text[end..]);
        let read = parameters.map(|parameters| Self { name: text[..end].to_ascii_lowercase(), parameters });
        read.filter(Self::is_known).ok_or_else(|| SignatureError::Component { component: text.to_owned() })
    }

    pub(super) fn of_item((name, parameters): Item) -> Result<Self, SignatureError> {
        let Bare::Text(name) = name else {
            return Err(SignatureError::Malformed { field: "signature-input" });
        };
        let component = Self { name, parameters };
        match component.is_known() {
            true => Ok(component),
            false => Err(SignatureError::Component { component: component.to_string() }),
        }
    }

    fn is_known(&self) -> bool {
        let Self { name, parameters } = self;
        let is_query_param = name == "@query-param";
        let is_known = |(parameter, value): &(String, Bare)| match (&**parameter, value) {
            ("req", Bare::Boolean(true)) => name != "@status",
            ("bs", Bare::Boolean(true)) => !name.starts_with('@'),
            ("name", Bare::Text(_)) => is_query_param,
            _ => false,
        };
        let is_name = match name.strip_prefix('@') {
            Some(_) => DERIVED.contains(&&**name),
            None => {
                crate::headers::is_token(name.as_bytes())
                    && !name.bytes().any(|byte| byte.is_ascii_uppercase())
            }
        };
        is_name && parameters.iter().all(is_known) && (self.query_name().is_some() == is_query_param)
    }

    pub(super) fn has(&self, parameter: &str) -> bool {
        self.parameters.iter().any(|(name, _)| name == parameter)
    }

    /// The name of `@query-param`.
    pub(super) fn query_name(&self) -> Option<&str> {
        self.parameters.iter().find_map(|(name, value)| match value {
            Bare::Text(text) if name == "name" => Some(&**text),
            _ => None,
        })
    }

    /// Whether both are the same part, in whatever order their parameters are.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.parameters.len() == other.parameters.len()
            && self.parameters.iter().all(|parameter| other.parameters.contains(parameter))
    }
}

/// As signatures have it: `"@method";req`.
impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"{}", self.name, Shown(&self.parameters))
    }
}

const DERIVED: [&str; 9] = [
    "@method",
    "@target-uri",
    "@authority",
    "@scheme",
    "@request-target",
    "@path",
    "@query",
    "@query-param",
    "@status",
];
