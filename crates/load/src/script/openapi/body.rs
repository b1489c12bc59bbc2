//! The body of a request, and its media type.

use anywire_http::Headers;
use serde_json::Value;

use super::super::form::form_encoded;
use super::document::Document;
use super::error::{Lack, LackReason};
use super::schema::Values;
use super::style::text;

/// The media type and the bytes of a request's body; `None` if it needs none. Without need there is one if its method usually has one.
pub(super) fn of<'d>(
    document: Document<'d>,
    operation: &'d Value,
    has_usually_one: bool,
    values: &mut Values<'d>,
) -> Result<Option<(String, String)>, Lack> {
    let Some(described) = operation.get("requestBody") else { return Ok(None) };
    let described = document.resolve(described)?;
    let is_required = described.get("required") == Some(&Value::Bool(true));
    if !is_required && !has_usually_one {
        return Ok(None);
    }
    let content = described.get("content").and_then(Value::as_object);
    let mut content: Vec<(&String, &Value)> = content.into_iter().flatten().take(MEDIA_TYPES_MAX).collect();
    // The first of the best; the sort keeps the order of equals.
    content.sort_by_key(|(name, _)| Kind::of(name));
    let mut lack = None;
    for (name, media) in content {
        match bytes(name, media, values) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(other) => drop(lack.get_or_insert(other)),
        }
    }
    match lack {
        _ if !is_required => Ok(None),
        Some(lack) => Err(lack),
        None => Err(LackReason::Undescribed.into()),
    }
}

/// What is made of a media type, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Json,
    Form,
    Plain,
    /// Made of examples alone.
    Other,
}

impl Kind {
    fn of(name: &str) -> Self {
        let essence = name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*essence {
            "application/json" | "application/*" | "*/*" => Self::Json,
            "application/x-www-form-urlencoded" => Self::Form,
            "text/plain" | "text/*" | "application/octet-stream" => Self::Plain,
            essence if essence.ends_with("+json") => Self::Json,
            _ => Self::Other,
        }
    }
}

/// The media type as it is sent, and the body.
fn bytes<'d>(name: &'d str, media: &'d Value, values: &mut Values<'d>) -> Result<(String, String), Lack> {
    let kind = Kind::of(name);
    let sent = match (name, kind) {
        _ if !name.contains('*') => name,
        (_, Kind::Json) => "application/json",
        (_, Kind::Plain) => "text/plain",
        _ => return Err(LackReason::Media(name.to_owned()).into()),
    };
    Headers::new()
        .append("content-type", sent)
        .map_err(|_| Lack::from(LackReason::Media(name.to_owned())))?;
    let schema = media.get("schema");
    let example = values.example(media)?;
    let body = match (kind, example, schema) {
        (Kind::Other, Some(Value::String(example)), _) => example,
        (Kind::Other, None, Some(schema)) => match values.offered(schema)? {
            Some(Value::String(example)) => example,
            _ => return Err(LackReason::Media(name.to_owned()).into()),
        },
        (Kind::Other, ..) => return Err(LackReason::Media(name.to_owned()).into()),
        (Kind::Plain, None, None) => "text".to_owned(),
        (_, None, None) => return Err(LackReason::Undescribed.into()),
        // Many write the text of the JSON instead of its value.
        (Kind::Json, Some(Value::String(example)), _) if is_json_object(&example) => example,
        (kind, Some(value), _) => written(kind, &value),
        (kind, None, Some(schema)) => written(kind, &values.of(schema)?),
    };
    Ok((sent.to_owned(), body))
}

fn is_json_object(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn written(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (Kind::Form, Value::Object(members)) => {
            let pairs = members.iter().flat_map(|(name, value)| {
                let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                values.iter().map(|value| format!("{}={}", form_encoded(name), form_encoded(&text(value))))
            });
            pairs.collect::<Vec<_>>().join("&")
        }
        (Kind::Form | Kind::Plain, value) => text(value),
        (_, value) => value.to_string(),
    }
}

/// Media types of one body that are looked at.
const MEDIA_TYPES_MAX: usize = 16;
