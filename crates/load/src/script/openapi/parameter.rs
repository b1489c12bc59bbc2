//! The parameters of an operation: which there are, what their values are, and where they are written.

use serde_json::Value;

use super::super::fields::is_of_connection;
use super::super::set::Text;
use super::OpenApiOptions;
use super::document::Document;
use super::error::{Lack, LackReason, Omission};
use super::name::Names;
use super::schema::Values;
use super::style::{Style, percent, percent_around};

/// A parameter of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter<'d> {
    pub(super) name: &'d str,
    /// `path`, `query`, `header` or `cookie`.
    pub(super) place: &'d str,
    described: &'d Value,
}

/// What a parameter becomes.
#[derive(Debug)]
pub(super) enum Given<'d> {
    /// What the user gave.
    Text(&'d Text),
    /// What the document has.
    Value(Value),
}

/// The parameters of an operation, with those of its path that it does not replace.
pub(super) fn of<'d>(
    document: Document<'d>,
    path: &'d Value,
    operation: &'d Value,
) -> Result<Vec<Parameter<'d>>, Omission> {
    let mut found: Vec<Parameter<'d>> = Vec::new();
    let lists =
        [operation, path].map(|of| of.get("parameters").and_then(Value::as_array).into_iter().flatten());
    for parameter in lists.into_iter().flatten() {
        let described = document.resolve(parameter).map_err(Omission::PathItem)?;
        let [name, place] = ["name", "in"].map(|key| described.get(key).and_then(Value::as_str));
        let (Some(name), Some(place)) = (name, place) else {
            return Err(Omission::PathItem(Lack::from(LackReason::Malformed).within("parameters")));
        };
        if found.len() >= PARAMETERS_MAX {
            return Err(Omission::PathItem(
                Lack::from(LackReason::Large(PARAMETERS_MAX)).within("parameters"),
            ));
        }
        let is_same = |known: &Parameter<'_>| (known.name, known.place) == (name, place);
        if !found.iter().any(is_same) {
            found.push(Parameter { name, place, described });
        }
    }
    // Those of the path come first, as people write them.
    found.sort_by_key(|parameter| parameter.place != "path");
    Ok(found)
}

impl<'d> Parameter<'d> {
    /// Whether it is left to the connection or to the options of the command.
    pub(super) fn is_given_elsewhere(&self, options: &OpenApiOptions) -> bool {
        let is = |other: &str| self.name.eq_ignore_ascii_case(other);
        let is_there = |name: &str| options.fields.iter().any(|field| field.eq_ignore_ascii_case(name));
        match self.place {
            "header" => {
                let is_no_parameter = DESCRIBED_ELSEWHERE.iter().any(|other| is(other));
                is_no_parameter || is_of_connection(self.name) || is_there(self.name)
            }
            "cookie" => is_there("cookie"),
            _ => false,
        }
    }

    /// Its value; `None` if it need not be there, and nothing gives it one.
    pub(super) fn value(
        &self,
        values: &mut Values<'d>,
        names: &mut Names<'d>,
    ) -> Result<Option<Given<'d>>, Lack> {
        if let Some(text) = names.value(self.name) {
            return Ok(Some(Given::Text(text)));
        }
        let content = self
            .described
            .get("content")
            .and_then(Value::as_object)
            .and_then(|content| content.iter().next());
        let (of, schema) = match content {
            Some((_, of)) => (of, of.get("schema")),
            None => (self.described, self.described.get("schema")),
        };
        let is_required = self.place == "path" || self.described.get("required") == Some(&Value::Bool(true));
        let found = match (values.example(of)?, schema) {
            (Some(example), _) => Some(example),
            (None, Some(schema)) if is_required => Some(values.of(schema)?),
            // Without it the request is as good.
            (None, Some(schema)) => values.offered(schema).unwrap_or_default(),
            (None, None) if is_required => return Err(LackReason::Undescribed.into()),
            (None, None) => None,
        };
        // Other media types are written by nobody.
        let is_text = content.is_some();
        Ok(found.map(|value| Given::Value(if is_text { Value::String(value.to_string()) } else { value })))
    }

    /// Its text in a request, with its name where the style has it.
    pub(super) fn write(&self, given: &Given<'_>) -> String {
        let says = |key: &str| self.described.get(key).and_then(Value::as_bool);
        let usual = if matches!(self.place, "path" | "header") { Style::Simple } else { Style::Form };
        let style =
            self.described.get("style").and_then(Value::as_str).and_then(Style::named).unwrap_or(usual);
        let explode = says("explode").unwrap_or(style == Style::Form);
        let kept: &[u8] = match self.place {
            "query" if says("allowReserved") == Some(true) => b":/?@!$'()*,;",
            "cookie" => b"!#$&'()*+/:<=>?@[]^`|",
            _ => b"",
        };
        let value = match given {
            Given::Value(value) => value,
            Given::Text(text) => {
                let value = if self.place == "header" {
                    String::from_utf8_lossy(text.as_bytes()).into_owned()
                } else {
                    percent_around(text, kept)
                };
                return match style {
                    Style::Simple => value,
                    Style::Label => format!(".{value}"),
                    Style::Matrix => format!(";{}={value}", percent(self.name, kept)),
                    _ => format!("{}={value}", percent(self.name, kept)),
                };
            }
        };
        match self.place {
            "header" => style.write(self.name, value, explode, str::to_owned),
            // Between the pairs of a cookie stands something else.
            "cookie" => style.write(self.name, value, false, |word| percent(word, kept)),
            _ => style.write(self.name, value, explode, |word| percent(word, kept)),
        }
    }
}

impl<'d> Values<'d> {
    /// The example that a parameter or a media type has beside its schema.
    pub(super) fn example(&mut self, of: &'d Value) -> Result<Option<Value>, Lack> {
        if let Some(example) = of.get("example").filter(|example| !example.is_null()) {
            return self.copy(example).map(Some);
        }
        let examples =
            of.get("examples").and_then(Value::as_object).into_iter().flat_map(|examples| examples.values());
        let mut elsewhere = None;
        for example in examples {
            let example = self.document.resolve(example)?;
            if let Some(value) = ["value", "dataValue"].iter().find_map(|key| example.get(*key)) {
                return self.copy(value).map(Some);
            }
            elsewhere = elsewhere.or(example.get("externalValue").and_then(Value::as_str));
        }
        match elsewhere {
            // A schema may do without it.
            Some(place) if of.get("schema").is_none() => Err(LackReason::Example(place.to_owned()).into()),
            _ => Ok(None),
        }
    }
}

/// Parameters of one operation: each is compared with all.
const PARAMETERS_MAX: usize = 128;

/// Fields that are no parameters: the specification has them described elsewhere.
const DESCRIBED_ELSEWHERE: [&str; 3] = ["accept", "authorization", "content-type"];
