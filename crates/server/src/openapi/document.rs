//! A document: its operations by path, its schemas, its text.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use anywire_http::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::describe::{BASIC, BEARER, DescribedRoute};
use super::operation::{Operation, OperationId};
use super::{Info, OpenApiFault, Schemas, components, info};

/// A description of routes in the format of OpenAPI 3.1, whose schemas are of JSON Schema 2020-12.
///
/// [`Router::openapi`](crate::Router::openapi) serves it, and [`Router::openapi_document`](crate::Router::openapi_document) returns it, for a
/// test, or for a file that others read.
#[derive(Clone, PartialEq)]
pub struct Document {
    value: Value,
}

impl Document {
    /// The document as a JSON value.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// The document as JSON text, with line breaks. The same routes have the same text.
    pub fn to_json(&self) -> String {
        let member = |name: &str| self.value.get(name);
        let ordered = Ordered {
            openapi: member("openapi"),
            info: member("info"),
            servers: member("servers"),
            tags: member("tags"),
            paths: member("paths"),
            components: member("components"),
        };
        // Values have nothing that JSON lacks.
        serde_json::to_string_pretty(&ordered).unwrap_or_default()
    }

    /// The routes as a document.
    pub(crate) fn new<'r>(
        info: &Info,
        routes: impl Iterator<Item = DescribedRoute<'r>>,
    ) -> Result<Self, OpenApiFault> {
        let mut schemas = Schemas::new();
        let mut items: BTreeMap<String, Item> = BTreeMap::new();
        for route in routes {
            let operation = route.operation(&mut schemas);
            check_schemes(
                info,
                route.doc.and_then(|doc| doc.place),
                route.doc.map_or(&[], |doc| &doc.security),
                &operation,
            )?;
            items.entry(route.path.to_owned()).or_default().add(route.method, operation);
        }
        if let Some(fault) = schemas.fault.take() {
            return Err(fault);
        }
        let mut operations: Vec<&mut Operation> = items
            .values_mut()
            .flat_map(|item| &mut item.operations)
            .map(|(_, operation)| operation)
            .collect();
        name(&mut operations)?;
        let tags = tags(info, &operations);
        let schemes = schemes(info, &operations)?;
        let items = items.iter().map(|(path, item)| (path.replace("{*", "{"), item.to_value()));
        let mut paths = Value::Object(items.collect());
        let mut components = json!({ "schemas": components::resolve(&schemas, &mut paths) });
        if !schemes.is_empty() {
            components["securitySchemes"] = Value::Object(schemes);
        }
        let mut value =
            json!({ "openapi": "3.1.0", "info": info.to_value(), "paths": paths, "components": components });
        if !info.servers.is_empty() {
            value["servers"] = info.servers.iter().map(|url| json!({ "url": url })).collect();
        }
        if !tags.is_empty() {
            value["tags"] = tags.into();
        }
        Ok(Self { value })
    }
}

/// The document in the order in which a person reads it.
#[derive(Serialize)]
struct Ordered<'d> {
    openapi: Option<&'d Value>,
    info: Option<&'d Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<&'d Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'d Value>,
    paths: Option<&'d Value>,
    components: Option<&'d Value>,
}

/// What is at a path, by method. `None` for all methods that have no handler of their own.
#[derive(Default)]
struct Item {
    operations: Vec<(Option<Method>, Operation)>,
}

impl Item {
    fn add(&mut self, method: Option<&Method>, operation: Operation) {
        match self.operations.iter_mut().find(|(known, _)| known.as_ref() == method) {
            Some((_, known)) => known.join(operation),
            None => self.operations.push((method.cloned(), operation)),
        }
    }

    fn to_value(&self) -> Value {
        let (mut item, mut others) = (Map::new(), Map::new());
        for (method, operation) in &self.operations {
            let name = method.as_ref().map_or("*", Method::as_str);
            let (members, name) = match KNOWN.contains(&name) {
                true => (&mut item, name.to_ascii_lowercase()),
                false => (&mut others, name.to_owned()),
            };
            members.insert(name, operation.to_value());
        }
        if !others.is_empty() {
            item.insert(OTHER_METHODS.to_owned(), Value::Object(others));
        }
        Value::Object(item)
    }
}

/// Checks the names of all operations. One that a function gave goes if it is not the only one.
fn name(operations: &mut [&mut Operation]) -> Result<(), OpenApiFault> {
    let mut known: BTreeMap<String, (OperationId, String)> = BTreeMap::new();
    let mut repeated = Vec::new();
    for operation in &*operations {
        let Some(id) = &operation.id else { continue };
        let Some((first, first_route)) = known.get(&id.text) else {
            known.insert(id.text.clone(), (id.clone(), operation.route.clone()));
            continue;
        };
        if let (Some(first_place), Some(second_place)) = (first.place, id.place) {
            let (id, first, second) = (id.text.clone(), first_route.clone(), operation.route.clone());
            return Err(OpenApiFault::OperationId { id, first, first_place, second, second_place });
        }
        repeated.push(id.text.clone());
        if first.place.is_none() {
            known.insert(id.text.clone(), (id.clone(), operation.route.clone()));
        }
    }
    for operation in operations {
        operation.id = operation.id.take().filter(|id| id.place.is_some() || !repeated.contains(&id.text));
    }
    Ok(())
}

fn tags(info: &Info, operations: &[&mut Operation]) -> Vec<Value> {
    let mut names: Vec<&str> = info.tags.iter().map(|(name, _)| name.as_str()).collect();
    for tag in operations.iter().flat_map(|operation| &operation.tags) {
        if !names.contains(&tag.as_str()) {
            names.push(tag);
        }
    }
    let described = |name: &str| info.tags.iter().find(|(tag, _)| tag == name).map(|(_, text)| text);
    let tags = names.into_iter().map(|name| match described(name) {
        Some(description) => json!({ "name": name, "description": description }),
        None => json!({ "name": name }),
    });
    tags.collect()
}

/// Refuses a scheme that nothing declares.
fn check_schemes(
    info: &Info,
    place: Option<&'static Location<'static>>,
    asked: &[String],
    operation: &Operation,
) -> Result<(), OpenApiFault> {
    let is_known = |name: &str| info.schemes.iter().any(|(known, ..)| known == name);
    match (asked.iter().find(|name| !is_known(name)), place) {
        (Some(name), Some(place)) => {
            Err(OpenApiFault::Scheme { name: name.clone(), route: operation.route.clone(), place })
        }
        _ => Ok(()),
    }
}

/// Those of the info, and those that layers ask for.
fn schemes(info: &Info, operations: &[&mut Operation]) -> Result<Map<String, Value>, OpenApiFault> {
    let mut schemes = Map::new();
    for (index, (name, scheme, second)) in info.schemes.iter().enumerate() {
        if let Some((_, _, first)) = info.schemes[..index].iter().find(|(known, ..)| known == name) {
            return Err(OpenApiFault::SchemeTwice { name: name.clone(), first, second });
        }
        schemes.insert(name.clone(), scheme.clone());
    }
    let asked = operations.iter().flat_map(|operation| operation.security.iter().flatten());
    for name in asked {
        match name.as_str() {
            BEARER => schemes.entry(BEARER).or_insert_with(info::bearer),
            BASIC => schemes.entry(BASIC).or_insert_with(info::basic),
            _ => continue,
        };
    }
    Ok(schemes)
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({})", self.value)
    }
}

/// The methods that OpenAPI 3.1 knows.
const KNOWN: [&str; 8] = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];

/// Where the operations of other methods stand in the item of a path.
pub(super) const OTHER_METHODS: &str = "x-other-methods";
