//! One operation of a document, and what several handlers of one method and path are together.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use serde_json::{Map, Value, json};

use super::request::{Body, Parameter};
use super::response::{Answer, Status};
use super::schemas::Field;

/// One operation.
#[derive(Debug, Clone, Default)]
pub(super) struct Operation {
    /// Method and path, for a person.
    pub(super) route: String,
    pub(super) id: Option<OperationId>,
    pub(super) summary: Option<String>,
    pub(super) description: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) is_deprecated: bool,
    pub(super) parameters: Vec<Parameter>,
    pub(super) matrix: Vec<Field>,
    pub(super) body: Option<Body>,
    pub(super) answers: BTreeMap<Status, Answer>,
    /// Each is a way to prove who calls, by all of these schemes. Without any, nobody has to.
    pub(super) security: Vec<BTreeSet<String>>,
    /// What a request must meet beside method and path.
    pub(super) guards: Vec<String>,
    /// Of several handlers: the description is that of all.
    pub(super) is_joined: bool,
}

/// The name of an operation.
#[derive(Debug, Clone)]
pub(super) struct OperationId {
    pub(super) text: String,
    /// Where it was given; `None` for the name of a function.
    pub(super) place: Option<&'static Location<'static>>,
}

impl Operation {
    /// Adds an answer, or says of one that is there that it also means this.
    pub(super) fn answer(&mut self, answer: Answer) {
        match self.answers.get_mut(&answer.status) {
            None => {
                self.answers.insert(answer.status, answer);
            }
            Some(known) => known.join(answer),
        }
    }

    /// What this handler and another one of the same method and path do together.
    pub(super) fn join(&mut self, other: Self) {
        let Self { id, summary, tags, is_deprecated, .. } = &other;
        if self.id.as_ref().is_none_or(|known| known.place.is_none()) && id.is_some() {
            self.id =
                self.id.take().filter(|_| id.as_ref().is_some_and(|id| id.place.is_none())).or(id.clone());
        }
        // A paragraph each.
        let paragraphs =
            [self.paragraphs(), other.paragraphs()].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        self.description = (!paragraphs.is_empty()).then_some(paragraphs);
        self.is_joined = true;
        self.summary = self.summary.take().or(summary.clone());
        let more = tags.iter().filter(|tag| !self.tags.contains(tag)).cloned().collect::<Vec<_>>();
        self.tags.extend(more);
        self.is_deprecated &= is_deprecated;
        self.join_parameters(other.parameters);
        for field in other.matrix {
            if !self.matrix.iter().any(|known| known.name == field.name) {
                self.matrix.push(Field { is_required: false, ..field });
            }
        }
        self.body = match (self.body.take(), other.body) {
            (Some(mut one), Some(other)) => {
                one.is_required &= other.is_required;
                join_content(&mut one.content, other.content);
                Some(one)
            }
            (one, other) => one.or(other).map(|body| Body { is_required: false, ..body }),
        };
        other.answers.into_values().for_each(|answer| self.answer(answer));
        if self.security != other.security {
            // With the empty one nobody has to prove anything.
            let or_nobody = |ways: Vec<_>| if ways.is_empty() { vec![BTreeSet::new()] } else { ways };
            let mut ways = or_nobody(std::mem::take(&mut self.security));
            ways.extend(or_nobody(other.security));
            let mut seen = BTreeSet::new();
            ways.retain(|way| seen.insert(way.clone()));
            self.security = ways;
        }
        // They stand in the description now.
        self.guards.clear();
    }

    /// What the handler does, and for which requests.
    fn paragraphs(&self) -> Option<String> {
        if self.is_joined {
            return self.description.clone();
        }
        let texts = [&self.summary, &self.description].into_iter().flatten();
        let text = texts.map(|text| text.trim_end_matches('.').to_owned()).collect::<Vec<_>>().join(". ");
        match (self.guards.join(", "), text) {
            (guards, text) if guards.is_empty() && text.is_empty() => None,
            (guards, text) if guards.is_empty() => Some(format!("{text}.")),
            (guards, text) if text.is_empty() => Some(format!("For requests with {guards}.")),
            (guards, text) => Some(format!("For requests with {guards}: {text}.")),
        }
    }

    fn join_parameters(&mut self, others: Vec<Parameter>) {
        let is_same = |one: &Parameter, other: &Parameter| one.is_called(other.place, &other.name);
        for parameter in &mut self.parameters {
            let is_shared = others.iter().any(|other| is_same(parameter, other) && other.is_required);
            parameter.is_required &= is_shared;
        }
        for other in others {
            match self.parameters.iter_mut().find(|known| is_same(known, &other)) {
                Some(known) => {
                    join_schemas(&mut known.schema, other.schema);
                    known.description = known.description.take().or(other.description);
                }
                None => self.parameters.push(Parameter { is_required: false, ..other }),
            }
        }
    }

    pub(super) fn to_value(&self) -> Value {
        let mut value = Map::new();
        let mut put = |name: &str, member: Option<Value>| {
            if let Some(member) = member {
                value.insert(name.to_owned(), member);
            }
        };
        put("operationId", self.id.as_ref().map(|id| id.text.as_str().into()));
        put("summary", self.summary.as_deref().map(Value::from));
        put("description", self.description.as_deref().map(Value::from));
        put("tags", (!self.tags.is_empty()).then(|| self.tags.clone().into()));
        put("deprecated", self.is_deprecated.then(|| true.into()));
        let parameters: Vec<Value> = self.parameters.iter().map(Parameter::to_value).collect();
        put("parameters", (!parameters.is_empty()).then(|| parameters.into()));
        put("requestBody", self.body.as_ref().map(Body::to_value));
        let answers = self.answers.iter().map(|(status, answer)| (status.to_string(), answer.to_value()));
        put("responses", Some(Value::Object(answers.collect())));
        let way = |way: &BTreeSet<String>| {
            Value::Object(way.iter().map(|scheme| (scheme.clone(), json!([]))).collect())
        };
        put("security", (!self.security.is_empty()).then(|| self.security.iter().map(way).collect()));
        put("x-guards", (!self.guards.is_empty()).then(|| self.guards.clone().into()));
        let matrix = self.matrix.iter().map(|Field { name, schema, is_required }| {
            json!({ "name": name, "schema": schema, "required": is_required })
        });
        put("x-matrix", (!self.matrix.is_empty()).then(|| matrix.collect()));
        Value::Object(value)
    }
}

impl Answer {
    /// This answer or another one of the same status.
    fn join(&mut self, other: Self) {
        join_content(&mut self.content, other.content);
        self.headers.extend(other.headers);
        self.description = joined(self.description.take(), other.description);
    }
}

/// Both texts, each once.
fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) if one.contains(&*other) => Some(one),
        (Some(one), Some(other)) => {
            let one = if one.ends_with('.') { one } else { format!("{one}.") };
            Some(format!("{one} {other}"))
        }
        (one, other) => one.or(other),
    }
}

fn join_content(content: &mut BTreeMap<String, Value>, other: BTreeMap<String, Value>) {
    for (of, schema) in other {
        match content.get_mut(&of) {
            Some(known) => join_schemas(known, schema),
            None => {
                content.insert(of, schema);
            }
        }
    }
}

/// Either of two schemas. Not `oneOf`: that refuses what fits both of them.
fn join_schemas(known: &mut Value, other: Value) {
    if *known == other || *known == Value::Bool(true) {
        return;
    }
    let is_union = known.as_object().is_some_and(|object| object.len() == 1 && object.contains_key("anyOf"));
    if other == Value::Bool(true) {
        *known = other;
    } else if let Some(parts) = known.get_mut("anyOf").and_then(Value::as_array_mut).filter(|_| is_union) {
        if !parts.contains(&other) {
            parts.push(other);
        }
    } else {
        *known = json!({ "anyOf": [known.take(), other] });
    }
}
