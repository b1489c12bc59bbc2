//! A value that fits a schema: what the schema states, else the simplest that it allows.
//!
//! `allOf` is one schema of several parts, of `oneOf` and `anyOf` the first alternative that has a value is taken. Of an object there are
//! the members that must be there, and those that have an example.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::document::Document;
use super::error::{Lack, LackReason};
use super::{OpenApiLimits, number, word};

/// The maker of the values of one operation, which has only so much to spend on them.
#[derive(Debug)]
pub(super) struct Values<'d> {
    pub(super) document: Document<'d>,
    limits: &'d OpenApiLimits,
    /// What may still be looked at and made.
    left: usize,
    /// The same for all operations together.
    left_in_all: &'d Cell<usize>,
    /// How deep the schema stands that is looked at.
    depth: usize,
    /// The references within which it stands: a type within itself is seen there.
    within: Vec<&'d str>,
}

/// A schema with all that it consists of.
#[derive(Debug, Default, Clone)]
pub(super) struct Whole<'d> {
    /// Itself, and what its references and `allOf` lead to.
    parts: Vec<&'d Map<String, Value>>,
    /// Alternatives, of each list one.
    choices: Vec<&'d Vec<Value>>,
}

impl<'d> Values<'d> {
    pub(super) fn new(
        document: Document<'d>,
        limits: &'d OpenApiLimits,
        left_in_all: &'d Cell<usize>,
    ) -> Self {
        Self { document, limits, left: limits.value_bytes, left_in_all, depth: 0, within: Vec::new() }
    }

    /// A value that fits this schema.
    pub(super) fn of(&mut self, schema: &'d Value) -> Result<Value, Lack> {
        let outside = self.within.len();
        let mut whole = Whole::default();
        let made = self.gather(schema, &mut whole).and_then(|()| self.whole(whole));
        self.within.truncate(outside);
        made
    }

    /// A value that the schema offers by itself, and not among others; `None` without one.
    pub(super) fn offered(&mut self, schema: &'d Value) -> Result<Option<Value>, Lack> {
        let outside = self.within.len();
        let mut whole = Whole::default();
        let gathered = self.gather(schema, &mut whole);
        self.within.truncate(outside);
        gathered?;
        whole.stated(OFFERED).map(|value| self.copy(value)).transpose()
    }

    /// A copy of a value of the document.
    pub(super) fn copy(&mut self, value: &Value) -> Result<Value, Lack> {
        self.spend(size(value))?;
        Ok(value.clone())
    }

    fn spend(&mut self, count: usize) -> Result<(), Lack> {
        self.left_in_all.set(self.left_in_all.get().saturating_sub(count));
        self.left = self.left.checked_sub(count).ok_or(LackReason::Large(self.limits.value_bytes))?;
        Ok(())
    }

    /// Looks at something within what is looked at.
    fn deeper<T>(&mut self, look: impl FnOnce(&mut Self) -> Result<T, Lack>) -> Result<T, Lack> {
        if self.depth == self.limits.depth {
            return Err(LackReason::Deep(self.limits.depth).into());
        }
        self.depth += 1;
        let seen = look(self);
        self.depth -= 1;
        seen
    }

    fn gather(&mut self, schema: &'d Value, whole: &mut Whole<'d>) -> Result<(), Lack> {
        // As much as a look at it costs.
        self.spend(1 + whole.parts.len())?;
        let part = match schema {
            Value::Object(part) => part,
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => return Err(LackReason::Never.into()),
            _ => return Err(LackReason::Malformed.into()),
        };
        if whole.parts.iter().any(|known| std::ptr::eq(*known, part)) {
            return Ok(());
        }
        whole.parts.push(part);
        if let Some(Value::String(reference)) = part.get("$ref") {
            let target = self.document.target(reference)?;
            let is_part = whole
                .parts
                .iter()
                .any(|known| target.as_object().is_some_and(|part| std::ptr::eq(*known, part)));
            if !is_part && self.within.contains(&&**reference) {
                return Err(LackReason::Endless.into());
            }
            self.within.push(reference);
            self.deeper(|values| values.gather(target, whole))?;
        }
        for part in part.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.deeper(|values| values.gather(part, whole))?;
        }
        let choices = ["oneOf", "anyOf"].into_iter().filter_map(|key| part.get(key)?.as_array());
        whole.choices.extend(choices.filter(|choices| !choices.is_empty()));
        Ok(())
    }

    fn whole(&mut self, mut whole: Whole<'d>) -> Result<Value, Lack> {
        if let Some(stated) = whole.stated(STATED) {
            return self.copy(stated);
        }
        let Some(choices) = whole.choices.pop() else { return self.made(&whole) };
        let mut lack = None;
        for choice in choices.iter().filter(|choice| !is_null(choice)) {
            let (outside, mut chosen) = (self.within.len(), whole.clone());
            self.spend(whole.parts.len())?;
            let made = self.deeper(|values| {
                values.gather(choice, &mut chosen)?;
                values.whole(chosen)
            });
            match made {
                Ok(value) => return Ok(value),
                Err(other) => {
                    self.within.truncate(outside);
                    lack.get_or_insert(other);
                }
            }
        }
        lack.map_or(Ok(Value::Null), Err)
    }

    /// A value that nothing states.
    fn made(&mut self, whole: &Whole<'d>) -> Result<Value, Lack> {
        match whole.kind() {
            "object" => self.object(whole),
            "array" => self.array(whole),
            "integer" => Ok(number::within(&whole.parts, true)?),
            "number" => Ok(number::within(&whole.parts, false)?),
            "boolean" => Ok(Value::Bool(true)),
            "null" => Ok(Value::Null),
            "string" => {
                self.spend(word::cost(&whole.parts))?;
                Ok(Value::String(word::of(&whole.parts)?))
            }
            other => Err(LackReason::Type(other.to_owned()).into()),
        }
    }

    fn object(&mut self, whole: &Whole<'d>) -> Result<Value, Lack> {
        let required = whole.parts.iter().filter_map(|part| part.get("required")?.as_array()).flatten();
        let mut required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
        self.spend(required.len())?;
        let mut object = Map::new();
        for part in &whole.parts {
            let properties = part.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                self.spend(1)?;
                let must_be = required.contains(&**name);
                if object.contains_key(name) {
                    continue;
                }
                // What only answers have is asked of no request, whatever `required` says.
                if self.is_read_only(schema) {
                    required.remove(&**name);
                    continue;
                }
                let made = match must_be || has_example(schema) {
                    true => self.member(name, schema),
                    false => continue,
                };
                match made {
                    Ok(value) => drop(object.insert(name.clone(), value)),
                    Err(lack) if must_be => return Err(lack),
                    Err(_) => {}
                }
                required.remove(&**name);
            }
        }
        let others = whole.parts.iter().find_map(|part| part.get("additionalProperties")).unwrap_or(&ANY);
        for name in required {
            object.insert(name.to_owned(), self.member(name, others)?);
        }
        Ok(Value::Object(object))
    }

    fn member(&mut self, name: &str, schema: &'d Value) -> Result<Value, Lack> {
        self.spend(name.len())?;
        self.deeper(|values| values.of(schema)).map_err(|lack| lack.within(name))
    }

    fn is_read_only(&self, schema: &'d Value) -> bool {
        let says = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
        says(schema) || self.document.resolve(schema).is_ok_and(says)
    }

    fn array(&mut self, whole: &Whole<'d>) -> Result<Value, Lack> {
        let least = whole.count("minItems");
        let first = whole.parts.iter().find_map(|part| part.get("prefixItems")?.as_array());
        let mut items = Vec::new();
        for (number, schema) in first.into_iter().flatten().enumerate() {
            items.push(self.member(&number.to_string(), schema)?);
        }
        let others = whole.parts.iter().find_map(|part| part.get("items")).unwrap_or(&ANY);
        // One shows more than none, if there may be one and it can be made.
        let most = whole.parts.iter().find_map(|part| part.get("maxItems")?.as_u64());
        if items.is_empty() && least == 0 && others != &Value::Bool(false) && most != Some(0) {
            items.extend(self.member("0", others));
        }
        while items.len() < least {
            let item = self.member(&items.len().to_string(), others)?;
            if whole.is("uniqueItems") && items.contains(&item) {
                return Err(LackReason::Bounds.into());
            }
            items.push(item);
        }
        Ok(Value::Array(items))
    }
}

impl<'d> Whole<'d> {
    /// The first value that it states under one of these keys.
    fn stated(&self, keys: &[&str]) -> Option<&'d Value> {
        let objects = self.parts.iter().filter(|part| part.contains_key("properties")).count();
        // The example of one of several objects is not one of all of them together.
        let parts = if objects > 1 { &self.parts[..1] } else { &self.parts[..] };
        keys.iter().find_map(|key| {
            parts.iter().find_map(|part| {
                let value = part.get(*key)?;
                match *key {
                    "enum" | "examples" => value.as_array()?.iter().find(|one| !one.is_null()),
                    _ => Some(value).filter(|value| !value.is_null()),
                }
            })
        })
    }

    /// Its type, or the one that its other keys are about.
    fn kind(&self) -> &'d str {
        let named = self.parts.iter().find_map(|part| match part.get("type")? {
            Value::String(kind) => Some(&**kind),
            Value::Array(kinds) => {
                let mut kinds = kinds.iter().filter_map(Value::as_str);
                kinds.clone().find(|kind| *kind != "null").or_else(|| kinds.next())
            }
            _ => None,
        });
        let meant = || {
            KINDS.iter().find(|(_, keys)| {
                self.parts.iter().any(|part| keys.iter().any(|key| part.contains_key(*key)))
            })
        };
        named.or_else(|| meant().map(|(kind, _)| *kind)).unwrap_or("string")
    }

    fn count(&self, key: &str) -> usize {
        let counts = self.parts.iter().filter_map(|part| part.get(key)?.as_u64());
        usize::try_from(counts.max().unwrap_or_default()).unwrap_or(usize::MAX)
    }

    fn is(&self, key: &str) -> bool {
        self.parts.iter().any(|part| part.get(key) == Some(&Value::Bool(true)))
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
}

fn has_example(schema: &Value) -> bool {
    ["example", "examples"].iter().any(|key| schema.get(key).is_some())
}

/// About how many bytes it has.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => 2 + text.len(),
        Value::Array(items) => 2 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, value)| 4 + name.len() + size(value)).sum::<usize>()
        }
        _ => 4,
    }
}

/// Where a schema states a value, the best first.
const STATED: &[&str] = &["const", "example", "examples", "default", "enum"];
/// Where it states one that is meant for everybody.
const OFFERED: &[&str] = &["const", "example", "examples", "default"];
/// What a schema without a type is about.
const KINDS: [(&str, &[&str]); 3] = [
    ("object", &["properties", "required", "additionalProperties"]),
    ("array", &["items", "prefixItems", "minItems"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];
static ANY: Value = Value::Bool(true);
