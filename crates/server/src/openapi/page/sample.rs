//! Values that fit a schema, for examples.

use serde_json::{Map, Value, json};

/// The schemas of a document, by their reference.
#[derive(Clone, Copy)]
pub(super) struct Components<'d>(pub(super) Option<&'d Map<String, Value>>);

impl<'d> Components<'d> {
    /// The name and the schema that a reference leads to.
    pub(super) fn find(self, reference: &'d str) -> Option<(&'d str, &'d Value)> {
        let name = reference.strip_prefix("#/components/schemas/")?;
        Some((name, self.0?.get(name)?))
    }

    /// A value that fits. Where a type holds itself it ends.
    pub(super) fn sample(self, schema: &Value) -> Value {
        self.value(schema, &mut Vec::new()).unwrap_or(Value::Null)
    }

    /// `None` if it is within itself, or too deep.
    fn value<'s>(self, schema: &'s Value, within: &mut Vec<&'s str>) -> Option<Value>
    where
        'd: 's,
    {
        let object = schema.as_object()?;
        let given =
            [object.get("const"), object.get("default"), first(object, "examples"), first(object, "enum")];
        if let Some(given) = given.into_iter().flatten().find(|given| !given.is_null()) {
            return Some(given.clone());
        }
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            if within.contains(&reference) || within.len() >= DEPTH_MAX {
                return None;
            }
            within.push(reference);
            let found = self.0.and_then(|all| all.get(reference.strip_prefix("#/components/schemas/")?));
            let value = found.and_then(|schema| self.value(schema, within));
            within.pop();
            return value;
        }
        for keyword in ["oneOf", "anyOf"] {
            let variants = object.get(keyword).and_then(Value::as_array).into_iter().flatten();
            let mut variants = variants.filter(|variant| variant.get("type").is_none_or(|of| of != "null"));
            if let Some(value) = variants.find_map(|variant| self.value(variant, within)) {
                return Some(self.with_properties(value, object, within));
            }
        }
        let parts = object.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let parts = parts.filter_map(|part| self.value(part, within));
        if let Some(value) = parts.reduce(merged) {
            return Some(self.with_properties(value, object, within));
        }
        Some(match type_of(object) {
            Some("integer") => {
                object.get("minimum").filter(|least| **least != 0).cloned().unwrap_or(json!(1))
            }
            Some("number") => object.get("minimum").cloned().unwrap_or(json!(1.5)),
            Some("boolean") => json!(true),
            Some("null") => Value::Null,
            Some("array") => match object.get("prefixItems").and_then(Value::as_array) {
                Some(items) => items.iter().filter_map(|item| self.value(item, within)).collect(),
                None => object.get("items").and_then(|item| self.value(item, within)).into_iter().collect(),
            },
            Some("string") => text(object).into(),
            Some("object") | None if object.contains_key("properties") => {
                self.with_properties(json!({}), object, within)
            }
            Some("object") => match object.get("additionalProperties").filter(|of| of.is_object()) {
                Some(of) => {
                    self.value(of, within).map_or_else(|| json!({}), |value| json!({ "name": value }))
                }
                None => json!({}),
            },
            _ => json!("text"),
        })
    }

    fn with_properties<'s>(
        self,
        mut value: Value,
        object: &'s Map<String, Value>,
        within: &mut Vec<&'s str>,
    ) -> Value
    where
        'd: 's,
    {
        let Some(members) = value.as_object_mut() else { return value };
        for (name, schema) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(value) = self.value(schema, within) {
                members.insert(name.clone(), value);
            }
        }
        value
    }
}

/// The type, or the first of several that is not `null`.
pub(super) fn type_of(object: &Map<String, Value>) -> Option<&str> {
    match object.get("type")? {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|of| *of != "null"),
        of => of.as_str(),
    }
}

fn first<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    object.get(name)?.as_array()?.first()
}

fn text(object: &Map<String, Value>) -> &str {
    match object.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("date") => "2026-01-31",
        Some("time" | "partial-time") => "12:00:00",
        Some("uuid") => "0190b0f2-6a44-7c3e-9d2b-3f1f6c1d8a55",
        Some("email") => "ada@example.com",
        Some("uri") => "https://example.com/",
        Some("ip" | "ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        _ => "text",
    }
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Some(members), Value::Object(more)) = (one.as_object_mut(), other) {
        members.extend(more);
    }
    one
}

const DEPTH_MAX: usize = 6;
