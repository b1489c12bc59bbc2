//! What a document of OpenAPI describes (3.0 to 3.2, in JSON, and in YAML with the feature `yaml`), as a set of requests: one for each
//! of its operations.
//!
//! Values are those that the document gives (`example`, `examples`, `default`, `const`, `enum`), else the simplest that its schemas
//! allow. Only operations of GET are sent unless others are asked for, since those may change what they are sent to. What cannot be
//! sent is named with the reason. The host is never the document's: its `servers` are told, and nothing goes there.

use std::cell::Cell;
use std::io::Read;

use anywire_http::Method;
use serde_json::Value;

use super::set::{Script, Sequence, Text};
use super::table::Order;

mod body;
mod document;
mod error;
mod name;
mod number;
mod operation;
mod parameter;
mod schema;
mod style;
mod word;
#[cfg(feature = "yaml")]
mod yaml;

use document::Document;
use name::Names;
use operation::Operation;

pub use error::{Lack, LackReason, LeftOutOperation, Omission, OpenApiError};

/// How a document of OpenAPI is read. Of the default are sent the operations of GET, each as often as the others.
///
/// ```
/// use anywire_load::script::{OpenApiOptions, Text, read_openapi};
///
/// let document = r#"{"openapi": "3.1.0", "paths": {"/items/{id}": {
///     "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
///     "get": {}, "delete": {}
/// }}}"#;
/// let values = vec![("id".to_owned(), Text::template("{{int 1 500}}"))];
/// let read = read_openapi(document.as_bytes(), &OpenApiOptions { values, ..OpenApiOptions::default() })?;
/// assert_eq!(read.script.sequences[0].steps[0].target, Text::template("/items/{{int 1 500}}"));
/// assert_eq!(read.left_out[0].operation, "DELETE /items/{id}");
/// # Ok::<(), anywire_load::script::OpenApiError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenApiOptions {
    /// The methods whose operations are sent (GET).
    pub methods: Vec<Method>,
    /// What stands before each path of the document: the path of the URL that is loaded (none).
    pub base_path: String,
    /// Values of parameters and keys, by their names: they go before what the document says. A template has another one in each request.
    pub values: Vec<(String, Text)>,
    /// How often an operation is drawn, by its method and path (`GET /items/{id}`) or its `operationId`; never with 0. It goes before the
    /// `x-weight` of the operation (1).
    pub weights: Vec<(String, u32)>,
    /// Names of the fields that all requests of the plan have: parameters and credentials that are one of them are there already.
    pub fields: Vec<String>,
    /// Limits.
    pub limits: OpenApiLimits,
}

impl Default for OpenApiOptions {
    fn default() -> Self {
        Self {
            methods: vec![Method::GET],
            base_path: String::new(),
            values: Vec::new(),
            weights: Vec::new(),
            fields: Vec::new(),
            limits: OpenApiLimits::default(),
        }
    }
}

/// Limits on a document of OpenAPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenApiLimits {
    /// The file, in bytes (32 MiB: that of the largest public services; it is held whole while it is read).
    pub file_bytes: u64,
    /// Operations, whether they are sent or not (10,000, as many as a script may have).
    pub operations: usize,
    /// What is looked at and made for the values of one operation, in parts of schemas and bytes (1 MiB: a body is held in memory). Beyond it
    /// the operation is left out.
    pub value_bytes: usize,
    /// How deep schemas may stand within each other, by references too (64). Beyond it the operation is left out.
    pub depth: usize,
    /// What is held of all requests, in bytes, and what is looked at and made for all of them (64 MiB: they stay in memory for the whole
    /// run).
    pub held_bytes: usize,
}

impl Default for OpenApiLimits {
    fn default() -> Self {
        Self {
            file_bytes: 32 << 20,
            operations: 10_000,
            value_bytes: 1 << 20,
            depth: 64,
            held_bytes: 64 << 20,
        }
    }
}

/// What a document of OpenAPI gives.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApi {
    /// A request for each operation that is sent; in turn, or at random if one has another weight than 1.
    pub script: Script,
    /// The operations that are not sent, in the order of the document.
    pub left_out: Vec<LeftOutOperation>,
    /// The path of the document's first server, such as `/api/v3`, below which it sees its own paths; `None` if that is `/`. It is not in
    /// the requests: that of the URL which is loaded is ([`OpenApiOptions::base_path`]).
    pub server_path: Option<String>,
}

/// Reads a document of OpenAPI.
///
/// # Errors
///
/// It is no such document, over a limit, or has no operation that can be sent; or a value or a weight is for nothing in it.
pub fn read_openapi(file: impl Read, options: &OpenApiOptions) -> Result<OpenApi, OpenApiError> {
    let root = document::read(file, options.limits.file_bytes)?;
    let document = Document::new(&root)?;
    let left_in_all = Cell::new(options.limits.held_bytes);
    let mut importer = Importer {
        document,
        options,
        names: Names::new(options, document),
        sequences: Vec::new(),
        left_out: Vec::new(),
        held_bytes: 0,
        left_in_all: &left_in_all,
    };
    for (path, item) in document.paths()? {
        importer.path(path, item)?;
    }
    importer.finish()
}

/// The requests so far.
struct Importer<'d> {
    document: Document<'d>,
    options: &'d OpenApiOptions,
    names: Names<'d>,
    sequences: Vec<Sequence>,
    left_out: Vec<LeftOutOperation>,
    held_bytes: usize,
    /// What may still be looked at and made for values.
    left_in_all: &'d Cell<usize>,
}

impl<'d> Importer<'d> {
    /// All operations of a path.
    fn path(&mut self, path: &'d str, item: &'d Value) -> Result<(), OpenApiError> {
        let item = match self.document.resolve(item) {
            Ok(item) => item,
            Err(lack) => return self.leave_out(format!("all of {path}"), Omission::PathItem(lack)),
        };
        for (method, operation) in operations(item) {
            let name = format!("{method} {path}");
            let operation = match self.document.resolve(operation) {
                Ok(described) => self.operation(method, path, item, described),
                Err(lack) => {
                    self.leave_out(name, Omission::PathItem(lack))?;
                    continue;
                }
            };
            self.names.look(&name, &operation);
            match operation.step(&mut self.names) {
                Ok(step) => {
                    let weight = self.names.weight(&name, &operation)?;
                    self.held_bytes += operation::held_bytes(&step);
                    self.sequences.push(Sequence { weight, ..Sequence::one(step) });
                    self.count()?;
                }
                Err(why) => self.leave_out(name, why)?,
            }
        }
        Ok(())
    }

    fn operation(
        &self,
        method: &'d str,
        path: &'d str,
        item: &'d Value,
        described: &'d Value,
    ) -> Operation<'d> {
        let Self { document, options, left_in_all, .. } = *self;
        Operation { method, path, item, described, document, options, left_in_all }
    }

    fn leave_out(&mut self, operation: String, why: Omission) -> Result<(), OpenApiError> {
        self.left_out.push(LeftOutOperation { operation, why });
        self.count()
    }

    fn count(&self) -> Result<(), OpenApiError> {
        let OpenApiLimits { operations, held_bytes, .. } = self.options.limits;
        if self.sequences.len() + self.left_out.len() > operations {
            return Err(OpenApiError::Limit { what: "operations", most: operations as u64 });
        }
        if self.held_bytes > held_bytes || self.left_in_all.get() == 0 {
            return Err(OpenApiError::Limit { what: "bytes of requests", most: held_bytes as u64 });
        }
        Ok(())
    }

    fn finish(self) -> Result<OpenApi, OpenApiError> {
        let Self { sequences, left_out, .. } = self;
        self.names.all_were_there()?;
        if sequences.iter().all(|sequence| sequence.weight == 0) {
            return Err(OpenApiError::Nothing { left_out });
        }
        let has_weight = sequences.iter().any(|sequence| sequence.weight != 1);
        let order = if has_weight { Order::Random } else { Order::InTurn };
        let script = Script { sequences, order, ..Script::default() };
        Ok(OpenApi { script, left_out, server_path: self.document.server_path() })
    }
}

/// The operations of a path, each with its method.
fn operations(item: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fixed = METHODS.iter().filter_map(|(key, method)| Some((*method, item.get(key)?)));
    // 3.2 has a place for other methods; in 3.1 anywire's servers have one.
    let others = ["additionalOperations", "x-other-methods"].into_iter();
    let others = others.filter_map(|key| item.get(key)?.as_object()).flatten();
    fixed.chain(others.map(|(method, operation)| (method.as_str(), operation)))
}

/// The keys of a path that are operations, and their methods.
const METHODS: [(&str, &str); 9] = [
    ("get", "GET"),
    ("head", "HEAD"),
    ("post", "POST"),
    ("put", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("options", "OPTIONS"),
    ("trace", "TRACE"),
    ("query", "QUERY"),
];

#[cfg(test)]
mod tests;
