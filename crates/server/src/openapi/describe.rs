//! A route as an operation: what its handler says, and what its conditions, limits, pool and layers add.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anywire_http::accept::MediaType;
use anywire_http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Schemas;
use super::documented::{HandlerDoc, StatedResponse};
use super::operation::{Operation, OperationId};
use super::request::{Body, FormDoc, Parameter, RequestDoc};
use super::response::{Answer, ResponseDoc, Status};
use super::schemas::{Field, Shape};
use crate::codec::CodecSet;
use crate::conditions::Conditions;
use crate::layer::GivenLayer;
use crate::layers::Codecs;
use crate::route_limits::RouteLimits;

/// A route, as far as it is described.
pub(crate) struct DescribedRoute<'r> {
    /// `None` for all that have no handler of their own.
    pub(crate) method: Option<&'r Method>,
    /// In normal form.
    pub(crate) path: String,
    pub(crate) doc: Option<&'r HandlerDoc>,
    /// With those of the routers around it.
    pub(crate) conditions: Conditions,
    pub(crate) limits: RouteLimits,
    pub(crate) has_pool: bool,
    /// The innermost first.
    pub(crate) layers: Vec<&'r GivenLayer>,
}

/// The names of the security schemes that layers of this crate ask for.
pub(crate) const BEARER: &str = "bearer";
pub(crate) const BASIC: &str = "basic";

/// Stands for the media types of a route's codecs, which a type does not know.
pub(super) const NEGOTIATED: &str = "(negotiated)";

impl DescribedRoute<'_> {
    pub(super) fn operation(&self, schemas: &mut Schemas) -> Operation {
        let name = self.method.map_or("*", Method::as_str);
        let mut operation = Operation { route: format!("{name} {}", self.path), ..Operation::default() };
        let types = self.doc.and_then(|doc| doc.types);
        let mut taken = types.map_or_else(RequestDoc::new, |types| (types.request)(schemas));
        self.place_form(&mut taken);
        let answered = types.map_or_else(ResponseDoc::none, |types| (types.response)(schemas));
        if let Some(doc) = self.doc {
            say(&mut operation, doc);
        }
        let refusals = taken.refusals.clone();
        self.take(&mut operation, taken);
        self.guard(&mut operation);
        answered.answers.into_iter().for_each(|answer| operation.answer(answer));
        self.produce(&mut operation);
        state(&mut operation, self.doc.map_or(&[], |doc| &doc.responses), schemas);
        for (status, reasons) in refusals {
            operation.answer(Answer::refusal(status, &reasons.join(" "), schemas));
        }
        self.refuse(&mut operation, schemas);
        self.name_formats(&mut operation);
        if operation.answers.is_empty() {
            operation
                .answer(Answer { description: Some("Not described.".to_owned()), ..answer(Status::Any) });
        }
        operation
    }

    /// A form has its fields where those of this method are.
    fn place_form(&self, taken: &mut RequestDoc) {
        let Some(FormDoc { in_query: (fields, of_query), in_body: (body, of_body) }) = taken.form.take()
        else {
            return;
        };
        match self.method {
            Some(&Method::GET | &Method::HEAD) => {
                taken.parameters.extend(fields);
                taken.refuses_all(of_query);
            }
            _ => {
                taken.body = Some(body);
                taken.refuses_all(of_body);
            }
        }
    }

    /// Parameters and body.
    fn take(&self, operation: &mut Operation, taken: RequestDoc) {
        operation.parameters.extend(self.variables(taken.path.as_ref()));
        operation.parameters.extend(taken.parameters);
        operation.matrix = taken.matrix;
        operation.body = taken.body;
        let mut seen: Vec<Parameter> = Vec::new();
        for parameter in std::mem::take(&mut operation.parameters) {
            if !seen.iter().any(|known| known.is_called(parameter.place, &parameter.name)) {
                seen.push(parameter);
            }
        }
        operation.parameters = seen;
        // OpenAPI ignores these: bodies and security schemes stand for them.
        let is_ignored = |name: &str| {
            ["accept", "content-type", "authorization"].iter().any(|other| other.eq_ignore_ascii_case(name))
        };
        operation.parameters.retain(|parameter| parameter.place != "header" || !is_ignored(&parameter.name));
        let is_query = self.method == Some(&Method::QUERY);
        let Some(given) = &self.conditions.consumes else {
            if is_query && operation.body.is_none() {
                let content = [("*/*".to_owned(), Value::Bool(true))].into();
                operation.body = Some(Body { content, is_required: true });
            }
            return;
        };
        let types: Vec<&str> = given.types().map(|of| of.as_str()).collect();
        match &mut operation.body {
            Some(body) => retype(&mut body.content, &types),
            // The types say more than nothing.
            None => {
                let content = types.iter().map(|of| ((*of).to_owned(), Value::Bool(true))).collect();
                operation.body = Some(Body { content, is_required: is_query });
            }
        }
    }

    /// The variables of the path, of the types that the handler takes.
    fn variables(&self, shape: Option<&Shape>) -> Vec<Parameter> {
        let variables = variables(&self.path);
        let is_only = variables.len() == 1;
        let any = || json!({ "type": "string" });
        let of = |(index, (name, takes_rest)): (usize, (&str, bool))| {
            let mut field = match shape {
                Some(Shape::Fields(fields)) => fields.iter().find(|field| field.name == name).cloned(),
                _ => None,
            };
            let schema = match shape {
                Some(Shape::Items(items, rest)) => items.get(index).or(rest.as_ref()).cloned(),
                Some(Shape::Map(of)) => Some(of.clone()),
                Some(Shape::One(of)) if is_only => Some(of.clone()),
                _ => None,
            };
            let schema = schema.filter(|schema| *schema != Value::Bool(true)).unwrap_or_else(any);
            let field =
                field.get_or_insert_with(|| Field { name: name.to_owned(), schema, is_required: true });
            let mut parameter = Parameter::of("path", field.clone());
            (parameter.is_required, parameter.takes_rest) = (true, takes_rest);
            if takes_rest && parameter.description.is_none() {
                parameter.description = Some("The rest of the path, with its slashes.".to_owned());
            }
            parameter
        };
        variables.into_iter().enumerate().map(of).collect()
    }

    fn guard(&self, operation: &mut Operation) {
        for given in &self.conditions.guards {
            if let Some((name, pattern)) = given.guard.pattern() {
                let mut variables = operation.parameters.iter_mut().filter(|known| known.place == "path");
                if let Some(Value::Object(schema)) =
                    variables.find(|known| known.name == name).map(|known| &mut known.schema)
                {
                    schema.insert("pattern".to_owned(), pattern.into());
                }
            } else if let Some((is_header, name, value)) = given.guard.named() {
                let place = if is_header { "header" } else { "query" };
                let known = operation.parameters.iter().position(|known| known.is_called(place, name));
                let index = known.unwrap_or(operation.parameters.len());
                if known.is_none() {
                    let field = Field {
                        name: name.to_owned(),
                        schema: json!({ "type": "string" }),
                        is_required: true,
                    };
                    operation.parameters.push(Parameter::of(place, field));
                }
                // The handler may do without it.
                let parameter = &mut operation.parameters[index];
                parameter.is_required = true;
                if let (Some(value), Some(schema)) = (value, parameter.schema.as_object_mut()) {
                    narrow(schema, value);
                }
            }
            operation.guards.push(given.guard.to_string());
        }
    }

    /// The media types of what is answered.
    fn produce(&self, operation: &mut Operation) {
        let Some(given) = &self.conditions.produces else { return };
        let types: Vec<&str> = given.types().map(|of| of.as_str()).collect();
        for (status, answer) in &mut operation.answers {
            let is_success = match status {
                Status::Is(status) => (200..300).contains(status),
                Status::Of(digit) => *digit == 2,
                Status::Any => answer.content.is_empty(),
            };
            if is_success {
                retype(&mut answer.content, &types);
            }
        }
        let Some(format) = &self.conditions.format else { return };
        let names: Vec<&str> = given.types().map(|of| short(of)).collect();
        let schema = json!({ "type": "string", "enum": names });
        let field = Field { name: format.to_string(), schema, is_required: false };
        let description = Some("The format of the response, before `Accept`.".to_owned());
        operation.parameters.push(Parameter { description, ..Parameter::of("query", field) });
    }

    /// Puts the media types of the codecs where a type has left that to them.
    fn name_formats(&self, operation: &mut Operation) {
        let own = self.layers.iter().find_map(|layer| layer.of_type::<Codecs>()?.own());
        let codecs = own.unwrap_or_else(|| Arc::clone(CodecSet::of_json()));
        let name = |content: &mut BTreeMap<String, Value>, types: Vec<String>| {
            let Some(schema) = content.remove(NEGOTIATED) else { return };
            for of in types {
                content.entry(of).or_insert_with(|| schema.clone());
            }
        };
        operation.answers.values_mut().for_each(|answer| name(&mut answer.content, codecs.writes()));
        // A codec may read ranges, which it cannot write.
        operation.body.iter_mut().for_each(|body| name(&mut body.content, codecs.reads()));
    }

    /// What stands around the handler, and refuses.
    fn refuse(&self, operation: &mut Operation, schemas: &Schemas) {
        let mut refuse = |status: StatusCode, why: &str| {
            operation.answer(Answer::refusal(status.as_u16(), why, schemas));
        };
        if self.conditions.consumes.is_some() {
            refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The content has another media type.");
        }
        if self.conditions.produces.is_some() {
            refuse(StatusCode::NOT_ACCEPTABLE, "No media type is acceptable.");
        }
        if self.limits.handler_timeout.is_some() {
            refuse(StatusCode::SERVICE_UNAVAILABLE, "It took too long.");
        }
        let mut asked: BTreeSet<String> =
            self.doc.map_or(&[][..], |doc| &doc.security).iter().cloned().collect();
        let mut waits = self.has_pool || self.limits.concurrency.is_some();
        for doc in self.layers.iter().map(|layer| layer.describe(self.method)) {
            asked.extend(doc.security);
            doc.refusals.iter().for_each(|(status, why)| refuse(*status, why));
            waits |= doc.is_full_at_times;
        }
        if !asked.is_empty() {
            let refusal =
                ResponseDoc { answers: vec![Answer::refusal(401, "Who calls is not known.", schemas)] };
            let refusal = refusal.header("www-authenticate", "How to prove who calls.");
            refusal.answers.into_iter().for_each(|answer| operation.answer(answer));
            operation.security = vec![asked];
        }
        if waits {
            let refusal =
                Answer::refusal(503, "Too many requests wait, or this one has waited too long.", schemas);
            let refusal = ResponseDoc { answers: vec![refusal] }
                .header("retry-after", "In how many seconds to ask again.");
            refusal.answers.into_iter().for_each(|answer| operation.answer(answer));
        }
    }
}

/// Allows this value alone, as one of the schema's type. A list and what stands elsewhere stay as they are.
fn narrow(schema: &mut serde_json::Map<String, Value>, value: &str) {
    let is = |name: &str| match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|of| of == name),
        of => of.is_some_and(|of| of == name),
    };
    let constant = match ["integer", "number", "boolean"].into_iter().any(is) {
        _ if is("string") => Some(value.into()),
        true => serde_json::from_str(value).ok(),
        false => None,
    };
    if let Some(constant) = constant {
        schema.insert("const".to_owned(), constant);
    }
}

/// What a handler says of itself.
fn say(operation: &mut Operation, doc: &HandlerDoc) {
    operation.summary.clone_from(&doc.summary);
    operation.description.clone_from(&doc.description);
    operation.tags.clone_from(&doc.tags);
    operation.is_deprecated = doc.is_deprecated;
    let of_function = || {
        let name = doc.types.as_ref()?.function()?;
        Some(OperationId { text: name.to_owned(), place: None })
    };
    let given = doc.id.as_ref().map(|id| OperationId { text: id.clone(), place: doc.place });
    operation.id = given.or_else(of_function);
}

/// The responses of a status that the types do not tell. The body of each is that of a response which they tell without its status.
fn state(operation: &mut Operation, stated: &[StatedResponse], schemas: &mut Schemas) {
    let described = operation.answers.clone();
    for StatedResponse { status, description, body } in stated {
        let code = status.as_u16();
        let of_kind = Status::Of((code / 100) as u8);
        let known = match body {
            Some(body) => body(schemas).answers.into_iter().next(),
            None => {
                let of_any = described.get(&Status::Any).filter(|_| code >= 400);
                described.get(&Status::Is(code)).or(described.get(&of_kind)).or(of_any).cloned()
            }
        };
        let known = known.unwrap_or_else(|| answer(Status::Is(code)));
        let (status, description) = (Status::Is(code), Some(description.clone()));
        operation.answers.remove(&of_kind);
        operation.answers.insert(status, Answer { status, description, ..known });
    }
    // One of which nothing is known is one of these.
    if !stated.is_empty() && described.get(&Status::Any).is_some_and(|any| any.content.is_empty()) {
        operation.answers.remove(&Status::Any);
    }
}

/// The content of these media types, each with the schema that fits best.
fn retype(content: &mut BTreeMap<String, Value>, types: &[&str]) {
    let known = std::mem::take(content);
    let only = known.values().next().cloned().unwrap_or(Value::Bool(true));
    for of in types {
        let schema = known.get(*of).unwrap_or(&only);
        content.insert((*of).to_owned(), schema.clone());
    }
}

fn answer(status: Status) -> Answer {
    Answer { status, description: None, content: BTreeMap::new(), headers: BTreeMap::new() }
}

/// How the parameter of the query calls a type.
fn short(of: &MediaType) -> &str {
    of.suffix().unwrap_or_else(|| of.subtype())
}

/// The variables of a path in normal form, and whether each takes the rest.
fn variables(path: &str) -> Vec<(&str, bool)> {
    let parts = path.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0));
    parts.map(|name| name.strip_prefix('*').map_or((name, false), |name| (name, true))).collect()
}
