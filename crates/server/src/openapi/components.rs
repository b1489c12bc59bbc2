//! The schemas that a document names: those that its operations lead to, each once, under a name that no other has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::schemas::{PROBLEM, READ, Schemas, WRITTEN, name_in};

/// Where a schema comes from, with its name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Read(String),
    Written(String),
    Problem,
}

impl Source {
    fn of(reference: &str) -> Option<Self> {
        if reference == PROBLEM {
            return Some(Self::Problem);
        }
        let read = name_in(reference, READ).map(|name| Self::Read(name.into_owned()));
        read.or_else(|| name_in(reference, WRITTEN).map(|name| Self::Written(name.into_owned())))
    }

    fn name(&self) -> &str {
        match self {
            Self::Read(name) | Self::Written(name) => name,
            Self::Problem => "Problem",
        }
    }
}

/// Gives all references within `paths` their place in the document, and returns the schemas that they lead to.
pub(super) fn resolve(schemas: &Schemas, paths: &mut Value) -> Map<String, Value> {
    let problem = problem();
    let of = |source: &Source| match source {
        Source::Read(name) => schemas.read.definitions().get(name),
        Source::Written(name) => schemas.written.definitions().get(name),
        Source::Problem => Some(&problem),
    };
    let mut used = BTreeSet::new();
    let mut open = references(paths);
    while let Some(source) = open.pop() {
        if let Some(schema) = of(&source)
            && used.insert(source)
        {
            open.extend(references(schema));
        }
    }
    let differing = differing(schemas, &used);
    let mut names: BTreeMap<Source, String> = BTreeMap::new();
    for source in &used {
        let twin = match source {
            Source::Written(name) if !differing.contains(name) => names.get(&Source::Read(name.clone())),
            _ => None,
        };
        let name = match twin {
            Some(shared) => shared.clone(),
            None => free(&safe(source), &names),
        };
        names.insert(source.clone(), name);
    }
    rename(paths, &names);
    let mut components = Map::new();
    for (source, name) in &names {
        if let Some(schema) = of(source) {
            let mut schema = schema.clone();
            rename(&mut schema, &names);
            components.insert(name.clone(), schema);
        }
    }
    components
}

/// The names of the types that are written in another shape than they are read, or lead to one that is.
fn differing(schemas: &Schemas, used: &BTreeSet<Source>) -> BTreeSet<String> {
    let (read, written) = (schemas.read.definitions(), schemas.written.definitions());
    let shared = used.iter().filter_map(|source| match source {
        Source::Written(name) if used.contains(&Source::Read(name.clone())) => Some(name),
        _ => None,
    });
    let shared: Vec<&String> = shared.collect();
    let names = |schema: Option<&Value>| -> BTreeSet<String> {
        schema.into_iter().flat_map(references).map(|source| source.name().to_owned()).collect()
    };
    let is_other = |name: &&&String| {
        let neutral =
            |schema: Option<&Value>| schema.map(|schema| schema.to_string().replace(WRITTEN_REF, READ_REF));
        neutral(read.get(**name)) != neutral(written.get(**name))
    };
    let mut differing: BTreeSet<String> =
        shared.iter().filter(is_other).map(|name| (*name).clone()).collect();
    loop {
        let leads = |name: &&&String| {
            !differing.contains(**name) && !names(written.get(**name)).is_disjoint(&differing)
        };
        let more: Vec<String> = shared.iter().filter(leads).map(|name| (*name).clone()).collect();
        if more.is_empty() {
            return differing;
        }
        differing.extend(more);
    }
}

/// The name with the characters that a component may have.
fn safe(source: &Source) -> String {
    let is_fine = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let name = source.name().chars().map(|character| if is_fine(character) { character } else { '_' });
    name.collect()
}

/// This name, or the first after it that nothing has yet.
fn free(name: &str, names: &BTreeMap<Source, String>) -> String {
    let is_taken = |name: &str| names.values().any(|taken| taken == name);
    let others =
        ["", ".response"].into_iter().map(str::to_owned).chain((2..).map(|number| format!(".{number}")));
    let mut free = others.map(|suffix| format!("{name}{suffix}")).filter(|name| !is_taken(name));
    free.next().unwrap_or_default()
}

/// All schemas that a value refers to.
fn references(value: &Value) -> Vec<Source> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| match member {
                Value::String(reference) if name == "$ref" => Source::of(reference).into_iter().collect(),
                member => references(member),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

fn rename(value: &mut Value, names: &BTreeMap<Source, String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(reference) if name == "$ref" => {
                        if let Some(name) = Source::of(reference).and_then(|source| names.get(&source)) {
                            *reference = format!("#/components/schemas/{name}");
                        }
                    }
                    member => rename(member, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        _ => {}
    }
}

/// RFC 9457, with the members that rejections have.
fn problem() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let violation = json!({
        "type": "object",
        "required": ["field", "message"],
        "properties": {
            "field": text("The name of the field, or the way to a part of a JSON body."),
            "rule": text("The rule that is broken."),
            "message": text("What is wrong, for a person."),
        },
    });
    json!({
        "type": "object",
        "description": "What went wrong (RFC 9457).",
        "required": ["type", "title", "status"],
        "properties": {
            "type": { "type": "string", "format": "uri-reference", "description": "The kind of problem." },
            "title": text("The kind in words."),
            "status": { "type": "integer", "description": "The status of the response." },
            "detail": text("What is wrong this time."),
            "instance": { "type": "string", "format": "uri-reference", "description": "This occurrence." },
            "errors": { "type": "array", "description": "The fields that do not fit.", "items": violation },
        },
    })
}

const READ_REF: &str = "\"#/read/";
const WRITTEN_REF: &str = "\"#/written/";
