//! One operation as a request.

use std::cell::Cell;

use anywire_http::{Headers, Method};
use serde_json::Value;

use super::super::set::{Step, Text};
use super::document::Document;
use super::error::{Lack, LackReason, Omission};
use super::name::Names;
use super::parameter::{self, Given, Parameter};
use super::schema::Values;
use super::style::{percent, percent_around};
use super::{OpenApiOptions, body};

/// An operation of the document.
#[derive(Debug)]
pub(super) struct Operation<'d> {
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    /// What describes the path.
    pub(super) item: &'d Value,
    /// What describes the operation.
    pub(super) described: &'d Value,
    pub(super) document: Document<'d>,
    pub(super) options: &'d OpenApiOptions,
    /// What the values of all operations may still take.
    pub(super) left_in_all: &'d Cell<usize>,
}

/// The parts of a request so far, beside its path.
#[derive(Debug, Default)]
struct Parts {
    query: Vec<String>,
    headers: Vec<(String, Text)>,
    cookies: Vec<String>,
    has_template: bool,
}

impl<'d> Operation<'d> {
    /// The request, or why there is none.
    pub(super) fn step(&self, names: &mut Names<'d>) -> Result<Step, Omission> {
        let no_method = || Omission::NoMethod { method: self.method.to_owned() };
        if self.method == "*" {
            return Err(no_method());
        }
        let method: Method = self.method.parse().map_err(|_| no_method())?;
        if !self.options.methods.contains(&method) {
            return Err(Omission::Method { method: self.method.to_owned() });
        }
        if !self.path.starts_with('/') {
            return Err(Omission::Path);
        }
        let mut values = Values::new(self.document, &self.options.limits, self.left_in_all);
        let (mut parts, mut of_path) = (Parts::default(), Vec::new());
        self.credentials(&mut parts, names)?;
        for parameter in parameter::of(self.document, self.item, self.described)? {
            if parameter.is_given_elsewhere(self.options) {
                continue;
            }
            let missing = |lack| Omission::Parameter {
                place: parameter.place.to_owned(),
                name: parameter.name.to_owned(),
                lack,
            };
            let Some(given) = parameter.value(&mut values, names).map_err(missing)? else { continue };
            let written = parameter.write(&given);
            let is_template = matches!(given, Given::Text(text) if text.is_template());
            match parameter.place {
                "path" => {
                    parts.has_template |= is_template;
                    of_path.push((parameter, written));
                }
                _ => parts.add(parameter, written, is_template).map_err(missing)?,
            }
        }
        let target = self.target(&of_path, &mut parts, names)?;
        let body = body::of(
            self.document,
            self.described,
            !matches!(self.method, "GET" | "HEAD" | "DELETE"),
            &mut values,
        );
        let body = body.map_err(Omission::Body)?;
        let cookies = parts.cookies.join("; ");
        if !cookies.is_empty() {
            parts.headers.push(("cookie".to_owned(), written(cookies, parts.has_template)));
        }
        let (mut headers, mut bytes) = (parts.headers, String::new());
        if let Some((media, body)) = body {
            bytes = body;
            let is_there = self.options.fields.iter().any(|field| field.eq_ignore_ascii_case("content-type"));
            if !is_there {
                headers.push(("content-type".to_owned(), Text::from(media)));
            }
        }
        let name = format!("{} {}", self.method, self.path);
        Ok(Step { name, method, headers, body: Text::from(bytes), ..Step::get(target) })
    }

    /// Its path with its values, and its query.
    fn target(
        &self,
        values: &[(Parameter<'_>, String)],
        parts: &mut Parts,
        names: &mut Names<'d>,
    ) -> Result<Text, Omission> {
        let mut target = percent(&self.options.base_path, OF_PATH);
        let mut rest = self.path;
        while let Some((before, (name, after))) =
            rest.split_once('{').and_then(|(before, inside)| Some((before, inside.split_once('}')?)))
        {
            target.push_str(&percent(before, OF_PATH));
            match (values.iter().find(|(parameter, _)| parameter.name == name), names.value(name)) {
                (Some((_, written)), _) => target.push_str(written),
                (None, Some(text)) => {
                    parts.has_template |= text.is_template();
                    target.push_str(&percent_around(text, b""));
                }
                (None, None) => {
                    let (place, name) = ("path".to_owned(), name.to_owned());
                    return Err(Omission::Parameter { place, name, lack: LackReason::Undescribed.into() });
                }
            }
            rest = after;
        }
        target.push_str(&percent(rest, OF_PATH));
        for part in parts.query.iter().filter(|part| !part.is_empty()) {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(part);
        }
        Ok(written(target, parts.has_template))
    }

    /// Sees to it that it has what it asks callers to prove.
    fn credentials(&self, parts: &mut Parts, names: &mut Names<'d>) -> Result<(), Omission> {
        let asked = self.described.get("security").or(self.document.security());
        let ways = asked.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
        let mut missing = None;
        for way in ways {
            match way.keys().try_for_each(|name| self.credential(name, parts, names)) {
                Ok(()) => return Ok(()),
                Err(omission) => drop(missing.get_or_insert(omission)),
            }
        }
        missing.map_or(Ok(()), Err)
    }

    fn credential(&self, scheme: &str, parts: &mut Parts, names: &mut Names<'d>) -> Result<(), Omission> {
        let described = self.document.scheme(scheme);
        let text =
            |key: &str| described.and_then(|described| described.get(key)?.as_str()).unwrap_or_default();
        let missing = |wanted: String| Err(Omission::Credentials { scheme: scheme.to_owned(), wanted });
        let is_there = |name: &str| self.options.fields.iter().any(|field| field.eq_ignore_ascii_case(name));
        let field = |name: &str, value: &str| match is_there(name) {
            true => Ok(()),
            false => missing(format!("-H '{name}: {value}'")),
        };
        let name = text("name");
        match (text("type"), text("in"), text("scheme").to_ascii_lowercase().as_str()) {
            // It is part of the connection.
            ("mutualTLS", ..) => Ok(()),
            ("apiKey", "header", _) => field(name, "KEY"),
            ("apiKey", "cookie", _) if is_there("cookie") => Ok(()),
            ("apiKey", "cookie" | "query", _) => {
                let Some(value) = names.value(name) else {
                    return missing(format!("--openapi-value '{name}=KEY'"));
                };
                let pair = format!("{}={}", percent(name, b""), percent_around(value, b""));
                parts.has_template |= value.is_template();
                if text("in") == "cookie" {
                    parts.cookies.push(pair)
                } else {
                    parts.query.push(pair)
                }
                Ok(())
            }
            ("http", _, "basic") => field("authorization", "Basic BASE64"),
            _ => field("authorization", "Bearer TOKEN"),
        }
    }
}

impl Parts {
    /// A parameter of another place than the path.
    fn add(&mut self, parameter: Parameter<'_>, text: String, is_template: bool) -> Result<(), Lack> {
        match parameter.place {
            "header" => {
                let sample = if is_template { "" } else { &text };
                Headers::new().append(parameter.name, sample).map_err(|_| LackReason::Field)?;
                self.headers.push((parameter.name.to_owned(), written(text, is_template)));
                return Ok(());
            }
            "cookie" => self.cookies.push(text),
            // `querystring` of 3.2 is the whole of it.
            _ => self.query.push(text),
        }
        self.has_template |= is_template;
        Ok(())
    }
}

fn written(text: String, is_template: bool) -> Text {
    if is_template { Text::template(text) } else { Text::from(text) }
}

/// What is held of a request for the whole run.
pub(super) fn held_bytes(step: &Step) -> usize {
    let fields = step.headers.iter().map(|(name, value)| name.len() + value.as_bytes().len());
    step.name.len() + step.target.as_bytes().len() + step.body.as_bytes().len() + fields.sum::<usize>()
}

/// What stays as it is in a path that the document writes: what may stand there, and what is encoded already.
const OF_PATH: &[u8] = b"!$&'()*+,;=:@/%?";
