//! What an extractor takes from a request, in the words of OpenAPI.

use std::collections::BTreeMap;

use anywire_http::StatusCode;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::Schemas;
use super::schemas::{Field, Shape};

/// An extractor that says what it takes, so that a [documented](crate::Handler::documented) handler may have it as an argument.
///
/// All extractors of this crate do, for types that have a schema: `#[derive(schemars::JsonSchema)]`. An extractor of your own says it
/// by this trait; it may say nothing.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::openapi::{DescribeRequest, RequestDoc, Schemas};
///
/// struct Token(String);
///
/// impl DescribeRequest for Token {
///     fn describe(schemas: &mut Schemas) -> RequestDoc {
///         let token = schemas.request::<String>();
///         RequestDoc::new().header("x-token", token).refuses(StatusCode::UNAUTHORIZED, "there is no token")
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what it takes from a request",
    label = "an argument of this documented handler is a `{Self}`",
    note = "for `Json<T>`, `Path<T>`, `Query<T>` and the like, `T` implements `schemars::JsonSchema`: add `#[derive(schemars::JsonSchema)]` to it",
    note = "for an extractor of your own, implement `anywire_server::openapi::DescribeRequest`"
)]
pub trait DescribeRequest {
    /// Says what it takes, and what it refuses.
    fn describe(_schemas: &mut Schemas) -> RequestDoc {
        RequestDoc::new()
    }
}

/// What an extractor takes from a request.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct RequestDoc {
    pub(super) parameters: Vec<Parameter>,
    /// What the variables of the path are.
    pub(super) path: Option<Shape>,
    /// The parameters within the segments of a path.
    pub(super) matrix: Vec<Field>,
    /// Fields of a form, which stand in the query of a GET.
    pub(super) form: Option<FormDoc>,
    pub(super) body: Option<Body>,
    pub(super) refusals: Refusals,
}

/// By status: why.
pub(super) type Refusals = BTreeMap<u16, Vec<String>>;

/// A form. Where its fields stand, and so what is refused, depends on the method.
#[derive(Debug, Clone)]
pub(super) struct FormDoc {
    /// The fields in the query of a GET, and what is refused there.
    pub(super) in_query: (Vec<Parameter>, Refusals),
    /// The body of other methods.
    pub(super) in_body: (Body, Refusals),
}

/// A parameter of the head.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    /// `query`, `header`, `path` or `cookie`.
    pub(super) place: &'static str,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) schema: Value,
    pub(super) is_required: bool,
    /// It takes what is behind it as well, with slashes.
    pub(super) takes_rest: bool,
}

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Body {
    /// By media type.
    pub(super) content: BTreeMap<String, Value>,
    pub(super) is_required: bool,
}

impl RequestDoc {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A parameter of the query.
    pub fn query(self, name: &str, schema: Schema) -> Self {
        self.parameter("query", name, schema)
    }

    /// A header field.
    pub fn header(self, name: &str, schema: Schema) -> Self {
        self.parameter("header", name, schema)
    }

    /// A cookie.
    pub fn cookie(self, name: &str, schema: Schema) -> Self {
        self.parameter("cookie", name, schema)
    }

    fn parameter(mut self, place: &'static str, name: &str, schema: Schema) -> Self {
        let field = Field { name: name.to_owned(), schema: schema.into(), is_required: true };
        self.parameters.push(Parameter::of(place, field));
        self
    }

    /// A body of this media type. With several calls it is one of them.
    pub fn body(mut self, media_type: &str, schema: Schema) -> Self {
        let body = self.body.get_or_insert_default();
        body.content.insert(media_type.to_owned(), schema.into());
        body.is_required = true;
        self
    }

    /// What it refuses with this status, as text or as a problem document.
    pub fn refuses(mut self, status: StatusCode, why: &str) -> Self {
        self.refusals.entry(status.as_u16()).or_default().push(why.to_owned());
        self
    }

    /// None of it has to be there.
    pub fn optional(mut self) -> Self {
        let form = self.form.iter_mut().flat_map(|form| &mut form.in_query.0);
        self.parameters.iter_mut().chain(form).for_each(|parameter| parameter.is_required = false);
        self.matrix.iter_mut().for_each(|field| field.is_required = false);
        for body in self.body.iter_mut().chain(self.form.as_mut().map(|form| &mut form.in_body.0)) {
            body.is_required = false;
        }
        self
    }

    /// It refuses nothing.
    pub(super) fn without_refusals(mut self) -> Self {
        self.refusals.clear();
        if let Some(form) = &mut self.form {
            form.in_query.1.clear();
            form.in_body.1.clear();
        }
        self
    }

    /// What this extractor and another one take.
    pub fn and(mut self, other: Self) -> Self {
        let Self { parameters, path, matrix, form, body, refusals } = other;
        self.parameters.extend(parameters);
        self.path = path.or(self.path);
        self.matrix.extend(matrix);
        self.form = form.or(self.form);
        self.body = body.or(self.body);
        self.refuses_all(refusals);
        self
    }

    pub(super) fn refuses_all(&mut self, refusals: Refusals) {
        for (status, reasons) in refusals {
            let known = self.refusals.entry(status).or_default();
            known.extend(reasons.into_iter().filter(|reason| !known.contains(reason)).collect::<Vec<_>>());
        }
    }

    /// The fields of a type in the query.
    pub(super) fn query_of<T: JsonSchema>(schemas: &mut Schemas) -> Self {
        Self { parameters: spread(schemas.shape::<T>()), ..Self::default() }
    }

    /// The variables of the path.
    pub(super) fn path_of<T: JsonSchema>(schemas: &mut Schemas) -> Self {
        Self { path: Some(schemas.shape::<T>()), ..Self::default() }
    }

    pub(super) fn matrix_of<T: JsonSchema>(schemas: &mut Schemas) -> Self {
        let matrix = match schemas.shape::<T>() {
            Shape::Fields(fields) => fields,
            _ => Vec::new(),
        };
        Self { matrix, ..Self::default() }
    }

    /// The fields of a form. These are what is refused of a query and of a body.
    pub(super) fn form_of<T: JsonSchema>(schemas: &mut Schemas, of_query: Self, of_body: Self) -> Self {
        let parameters = spread(schemas.shape::<T>());
        let content =
            BTreeMap::from([("application/x-www-form-urlencoded".to_owned(), schemas.request::<T>().into())]);
        let body = Body { content, is_required: true };
        let form = FormDoc { in_query: (parameters, of_query.refusals), in_body: (body, of_body.refusals) };
        Self { form: Some(form), ..Self::default() }
    }
}

impl Parameter {
    /// A field of a struct as a parameter: its description and whether it is obsolete stand beside the schema.
    pub(super) fn of(place: &'static str, Field { name, mut schema, is_required }: Field) -> Self {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let description = description.and_then(|text| text.as_str().map(str::to_owned));
        without_null(&mut schema);
        Self { place, name, description, schema, is_required, takes_rest: false }
    }

    /// Whether it is the one of this name. Header fields have no case.
    pub(super) fn is_called(&self, place: &str, name: &str) -> bool {
        let is_name =
            if place == "header" { self.name.eq_ignore_ascii_case(name) } else { self.name == name };
        is_name && self.place == place
    }

    pub(super) fn to_value(&self) -> Value {
        let Self { place, name, description, schema, is_required, takes_rest } = self;
        let mut parameter = json!({ "in": place, "name": name, "schema": schema });
        if let Some(description) = description {
            parameter["description"] = description.as_str().into();
        }
        if *is_required {
            parameter["required"] = true.into();
        }
        if let Some(true) = schema.get("deprecated").and_then(Value::as_bool) {
            parameter["deprecated"] = true.into();
        }
        if *takes_rest {
            parameter["x-rest"] = true.into();
        }
        parameter
    }
}

impl Body {
    pub(super) fn to_value(&self) -> Value {
        let content = self.content.iter().map(|(of, schema)| (of.clone(), media(schema)));
        let content: serde_json::Map<String, Value> = content.collect();
        match self.is_required {
            true => json!({ "content": content, "required": true }),
            false => json!({ "content": content }),
        }
    }
}

/// A media type object.
pub(super) fn media(schema: &Value) -> Value {
    match schema {
        Value::Bool(true) => json!({}),
        schema => json!({ "schema": schema }),
    }
}

fn spread(shape: Shape) -> Vec<Parameter> {
    let fields = match shape {
        Shape::Fields(fields) => fields,
        Shape::Map(of) => {
            let schema = json!({ "type": "object", "additionalProperties": of });
            vec![Field { name: "any".to_owned(), schema, is_required: false }]
        }
        Shape::Items(..) | Shape::One(_) => Vec::new(),
    };
    fields.into_iter().map(|field| Parameter::of("query", field)).collect()
}

/// A parameter that is there has a value: an `Option` is one that may be absent.
fn without_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|of| of != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(parts)) = object.get_mut("anyOf") {
        parts.retain(|part| part.get("type").is_none_or(|of| of != "null"));
        if let [Value::Object(only)] = &parts[..] {
            let only = only.clone();
            object.remove("anyOf");
            object.extend(only);
        }
    }
}
