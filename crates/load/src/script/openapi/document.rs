//! The document as a tree: how it is read, and where its references lead.

use std::io::Read;

use serde_json::{Map, Value};

use super::error::{Lack, LackReason, OpenApiError};

/// A document of OpenAPI, and its parts by reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'d> {
    root: &'d Value,
}

/// Reads the tree of a file of at most so many bytes.
pub(super) fn read(file: impl Read, file_bytes: u64) -> Result<Value, OpenApiError> {
    let mut bytes = Vec::new();
    // One more, to see whether there is more.
    file.take(file_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(OpenApiError::Read)?;
    if bytes.len() as u64 > file_bytes {
        return Err(OpenApiError::Limit { what: "bytes", most: file_bytes });
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let is_json = text.trim_ascii_start().first().is_none_or(|first| matches!(first, b'{' | b'['));
    if is_json { json(text) } else { yaml(text) }
}

fn json(text: &[u8]) -> Result<Value, OpenApiError> {
    serde_json::from_slice(text).map_err(|error| {
        let found = error.to_string();
        // Its place stands apart.
        let found = found.rsplit_once(" at line ").map_or(&*found, |(found, _)| found).to_owned();
        OpenApiError::Syntax { syntax: "JSON", line: error.line(), column: error.column(), found }
    })
}

#[cfg(feature = "yaml")]
use super::yaml::yaml;

#[cfg(not(feature = "yaml"))]
fn yaml(_text: &[u8]) -> Result<Value, OpenApiError> {
    Err(OpenApiError::NoYaml)
}

impl<'d> Document<'d> {
    /// The document whose tree this is.
    pub(super) fn new(root: &'d Value) -> Result<Self, OpenApiError> {
        let wrong = |found: String| OpenApiError::Document { found };
        let Some(object) = root.as_object() else { return Err(wrong("it is no object".to_owned())) };
        if let Some(version) = object.get("swagger") {
            return Err(wrong(format!("it is one of Swagger {version}")));
        }
        let version = object.get("openapi").ok_or_else(|| wrong("it has no key openapi".to_owned()))?;
        let known = ["3.0", "3.1", "3.2"];
        // Some write the number without quotation marks.
        let text = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
        match known.iter().any(|known| text == **known || text.starts_with(&format!("{known}."))) {
            true => Ok(Self { root }),
            false => Err(wrong(format!("its version is {version}"))),
        }
    }

    /// Its paths; none if it describes something else.
    pub(super) fn paths(self) -> Result<impl Iterator<Item = (&'d str, &'d Value)>, OpenApiError> {
        let paths = match self.root.get("paths") {
            None => None,
            Some(Value::Object(paths)) => Some(paths),
            Some(_) => return Err(OpenApiError::Document { found: "its paths are no object".to_owned() }),
        };
        // Extensions stand among them.
        let is_path = |(path, _): &(&str, _)| !path.starts_with("x-");
        Ok(paths.into_iter().flatten().map(|(path, item)| (path.as_str(), item)).filter(is_path))
    }

    /// What all operations have to prove, unless they say it themselves.
    pub(super) fn security(self) -> Option<&'d Value> {
        self.root.get("security")
    }

    /// A security scheme.
    pub(super) fn scheme(self, name: &str) -> Option<&'d Value> {
        self.resolve(self.root.get("components")?.get("securitySchemes")?.get(name)?).ok()
    }

    /// All security schemes.
    pub(super) fn schemes(self) -> impl Iterator<Item = &'d Value> {
        let schemes =
            self.root.get("components").and_then(|components| components.get("securitySchemes")?.as_object());
        schemes.into_iter().flat_map(Map::values).filter_map(move |scheme| self.resolve(scheme).ok())
    }

    /// What stands there, or where its reference leads.
    pub(super) fn resolve(self, mut value: &'d Value) -> Result<&'d Value, Lack> {
        for _ in 0..REFERENCES_MAX {
            match value.get("$ref") {
                None => return Ok(value),
                Some(Value::String(reference)) => value = self.target(reference)?,
                Some(_) => return Err(LackReason::Malformed.into()),
            }
        }
        Err(LackReason::Endless.into())
    }

    /// What a reference leads to; itself may be a reference.
    pub(super) fn target(self, reference: &str) -> Result<&'d Value, Lack> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(LackReason::Elsewhere(reference.to_owned()).into());
        };
        let pointer = percent_decoded(pointer);
        let target = pointer.and_then(|pointer| self.root.pointer(&pointer));
        target.ok_or_else(|| LackReason::Dangling(reference.to_owned()).into())
    }

    /// The path of the first server, without a slash at its end.
    pub(super) fn server_path(self) -> Option<String> {
        let server = self.root.get("servers")?.get(0)?;
        let mut url = server.get("url")?.as_str().filter(|url| url.len() <= SERVER_BYTES_MAX)?.to_owned();
        let variables = server.get("variables").and_then(Value::as_object).map(Map::iter);
        for (name, variable) in variables.into_iter().flatten().take(SERVER_VARIABLES_MAX) {
            let value = variable.get("default").and_then(Value::as_str);
            if let Some(value) = value.filter(|value| url.len() + value.len() <= SERVER_BYTES_MAX) {
                url = url.replacen(&format!("{{{name}}}"), value, 1);
            }
        }
        let path = match url.split_once("://") {
            Some((_, rest)) => &rest[rest.find('/')?..],
            None => &url,
        };
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        path.starts_with('/').then(|| path.to_owned())
    }
}

/// The text of a fragment; `None` if it is none in UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits =
            after.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// References that may follow each other before there is something else: one is usual.
const REFERENCES_MAX: usize = 32;
/// No server has a longer URL.
const SERVER_BYTES_MAX: usize = 2048;
const SERVER_VARIABLES_MAX: usize = 16;
