//! The schemas of a document: made once a type, with a name of its own for each.

use std::any::type_name;
use std::borrow::Cow;
use std::panic::resume_unwind;
use std::thread;

use percent_encoding::percent_decode_str;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::OpenApiFault;

/// The schemas of a document in the making: what a description asks for the schema of a type.
///
/// A type may be read in another shape than it is written in, such as with `#[serde(skip_serializing)]`. So there are schemas for
/// [requests](Self::request) and for [responses](Self::response). Where they are the same, the document has one.
pub struct Schemas {
    pub(super) read: SchemaGenerator,
    pub(super) written: SchemaGenerator,
    /// By the name that `schemars` knows a type by: which type it was, and its schema.
    known: Vec<(Cow<'static, str>, &'static str, Value)>,
    pub(super) fault: Option<OpenApiFault>,
}

/// A field of a struct that is spread over parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) is_required: bool,
}

/// What parameters a type is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// One value each, by name.
    Fields(Vec<Field>),
    /// One value each, in their order. The last is for all that follow.
    Items(Vec<Value>, Option<Value>),
    /// Any names, with values of this schema.
    Map(Value),
    /// One value.
    One(Value),
}

impl Schemas {
    pub(super) fn new() -> Self {
        let of = |path: &'static str| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = path.into();
                settings.meta_schema = None;
            })
        };
        Self {
            read: of(READ).for_deserialize().into_generator(),
            written: of(WRITTEN).for_serialize().into_generator(),
            known: Vec::new(),
            fault: None,
        }
    }

    /// The schema of a type as a request has it.
    pub fn request<T: JsonSchema + ?Sized>(&mut self) -> Schema {
        self.both::<T>().0
    }

    /// The schema of a type as a response has it.
    pub fn response<T: JsonSchema + ?Sized>(&mut self) -> Schema {
        self.both::<T>().1
    }

    /// The schema of a problem document (RFC 9457).
    pub fn problem(&self) -> Schema {
        Schema::try_from(json!({ "$ref": PROBLEM })).unwrap_or_default()
    }

    /// Both of them see the same types in the same order, so that two types of one name are told apart alike.
    fn both<T: JsonSchema + ?Sized>(&mut self) -> (Schema, Schema) {
        let Self { read, written, .. } = self;
        let made =
            on_thread::<T, _>(|| (read.subschema_for::<T>(), written.subschema_for::<T>(), alone::<T>()));
        let (read, written, alone) = made;
        let (id, name) = (T::schema_id(), type_name::<T>());
        match self.known.iter().find(|(known, ..)| *known == id) {
            None => self.known.push((id, name, alone)),
            Some((_, _, first)) if *first == alone => {}
            Some((_, other, _)) => {
                let (id, name, other) = (id.into_owned(), name.to_owned(), (*other).to_owned());
                self.fault.get_or_insert(OpenApiFault::SameId { id, name, other });
            }
        }
        (read, written)
    }

    /// What a type of a request is made of, as far as its parameters stand beside each other.
    pub(super) fn shape<T: JsonSchema + ?Sized>(&mut self) -> Shape {
        let schema = self.request::<T>().to_value();
        let mut way = Vec::new();
        match self.shape_of(&schema, &mut way) {
            Some(shape) => shape,
            None => {
                self.fault.get_or_insert(OpenApiFault::Cycle { name: type_name::<T>().to_owned() });
                Shape::One(Value::Bool(true))
            }
        }
    }

    /// `None` if the schema is a part of itself, without a field in between.
    fn shape_of(&self, schema: &Value, way: &mut Vec<String>) -> Option<Shape> {
        let Some(object) = schema.as_object() else { return Some(Shape::One(schema.clone())) };
        if let Some(name) = object.get("$ref").and_then(Value::as_str) {
            if way.iter().any(|passed| passed == name) {
                return None;
            }
            way.push(name.to_owned());
            let found =
                self.definition(name).and_then(|found| self.shape_of(found, way).map(|shape| (found, shape)));
            way.pop();
            return match found {
                // A value with a name of its own keeps it.
                Some((_, Shape::One(_))) => Some(Shape::One(schema.clone())),
                Some((_, shape)) => Some(shape),
                None if self.definition(name).is_some() => None,
                None => Some(Shape::One(schema.clone())),
            };
        }
        let mut fields = Vec::new();
        if let Some(Value::Object(properties)) = object.get("properties") {
            let required = object.get("required").and_then(Value::as_array);
            let is_required =
                |name: &str| required.is_some_and(|names| names.iter().any(|found| found == name));
            fields.extend(properties.iter().map(|(name, schema)| Field {
                name: name.clone(),
                is_required: is_required(name),
                schema: schema.clone(),
            }));
        }
        // Parts that were flattened into the struct, by `serde(flatten)`.
        for (keyword, holds) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
            for part in object.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                if let Shape::Fields(more) = self.shape_of(part, way)? {
                    for field in more {
                        if !fields.iter().any(|known: &Field| known.name == field.name) {
                            fields.push(Field { is_required: field.is_required && holds, ..field });
                        }
                    }
                }
            }
        }
        if !fields.is_empty() {
            return Some(Shape::Fields(fields));
        }
        if let Some(Value::Array(items)) = object.get("prefixItems") {
            return Some(Shape::Items(
                items.clone(),
                object.get("items").filter(|items| items.is_object()).cloned(),
            ));
        }
        Some(match object.get("type").and_then(Value::as_str) {
            Some("array") => {
                Shape::Items(Vec::new(), Some(object.get("items").cloned().unwrap_or(Value::Bool(true))))
            }
            Some("object") => match object.get("additionalProperties") {
                Some(of @ Value::Object(_)) => Shape::Map(of.clone()),
                Some(Value::Bool(true)) => Shape::Map(Value::Bool(true)),
                _ => Shape::Fields(Vec::new()),
            },
            Some("null") => Shape::Fields(Vec::new()),
            _ => Shape::One(schema.clone()),
        })
    }

    fn definition(&self, reference: &str) -> Option<&Value> {
        self.read.definitions().get(&*name_in(reference, READ)?)
    }
}

impl std::fmt::Debug for Schemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

/// Makes a schema on a thread whose name says of which type it is. A type that is inlined within itself, by `schemars(inline)` or
/// `serde(flatten)`, has a schema without an end, and overflows the stack: Rust then ends the process and tells the name of the thread.
fn on_thread<T: ?Sized, R: Send>(make: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let name =
            format!("the schema of {}, which has no end if it is inlined within itself", type_name::<T>());
        let named = thread::Builder::new().name(name);
        match named.spawn_scoped(scope, make).map(thread::ScopedJoinHandle::join) {
            Ok(Ok(made)) => made,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(cause) => panic!("no thread can be started: {cause}"),
        }
    })
}

/// The schema of a type without regard to other types.
fn alone<T: JsonSchema + ?Sized>() -> Value {
    SchemaGenerator::default().into_root_schema_for::<T>().to_value()
}

/// The name of a definition at this place, if the reference leads there.
pub(super) fn name_in<'r>(reference: &'r str, place: &str) -> Option<Cow<'r, str>> {
    let name = reference.strip_prefix('#')?.strip_prefix(place)?.strip_prefix('/')?;
    let decoded = percent_decode_str(name).decode_utf8().ok()?;
    Some(match decoded.contains('~') {
        true => decoded.replace("~1", "/").replace("~0", "~").into(),
        false => decoded,
    })
}

pub(super) const READ: &str = "/read";
pub(super) const WRITTEN: &str = "/written";
pub(super) const PROBLEM: &str = "#/problem";
