//! What a document says of the service as a whole.

use std::panic::Location;

use serde_json::{Map, Value, json};

/// What a document says of the service as a whole: title, version, where it is, how callers prove who they are.
///
/// ```
/// use anywire_server::openapi::Info;
///
/// let info = Info::new("Orders", "1.2.0")
///     .description("Takes orders, and says what became of them.")
///     .server("https://shop.example/api")
///     .tag("orders", "What customers have ordered.")
///     .bearer("token");
/// # drop(info);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Info {
    pub(super) title: String,
    pub(super) version: String,
    pub(super) description: Option<String>,
    pub(super) servers: Vec<String>,
    pub(super) tags: Vec<(String, String)>,
    pub(super) schemes: Vec<(String, Value, &'static Location<'static>)>,
}

impl Info {
    /// The name of the service, and the version of what it offers.
    pub fn new(title: &str, version: &str) -> Self {
        Self {
            title: title.to_owned(),
            version: version.to_owned(),
            description: None,
            servers: Vec::new(),
            tags: Vec::new(),
            schemes: Vec::new(),
        }
    }

    /// What the service is for.
    pub fn description(mut self, text: &str) -> Self {
        self.description = Some(text.to_owned());
        self
    }

    /// A URL at which the service is, absolute or as seen from the document. Without any, it is where the document is.
    pub fn server(mut self, url: &str) -> Self {
        self.servers.push(url.to_owned());
        self
    }

    /// What a group of operations is about. Groups stand in the order in which they are named here, then those of handlers alone.
    pub fn tag(mut self, name: &str, description: &str) -> Self {
        self.tags.push((name.to_owned(), description.to_owned()));
        self
    }

    /// A security scheme by a token: `Authorization: Bearer ..` (RFC 6750).
    #[track_caller]
    pub fn bearer(self, name: &str) -> Self {
        self.scheme(name, bearer(), Location::caller())
    }

    /// A security scheme by name and password: `Authorization: Basic ..` (RFC 7617).
    #[track_caller]
    pub fn basic(self, name: &str) -> Self {
        self.scheme(name, basic(), Location::caller())
    }

    /// A security scheme by a key in this header field.
    #[track_caller]
    pub fn api_key(self, name: &str, field: &str) -> Self {
        let scheme = json!({ "type": "apiKey", "in": "header", "name": field });
        self.scheme(name, scheme, Location::caller())
    }

    fn scheme(mut self, name: &str, scheme: Value, place: &'static Location<'static>) -> Self {
        self.schemes.push((name.to_owned(), scheme, place));
        self
    }

    pub(super) fn to_value(&self) -> Value {
        let mut info = Map::new();
        info.insert("title".to_owned(), self.title.as_str().into());
        info.insert("version".to_owned(), self.version.as_str().into());
        if let Some(description) = &self.description {
            info.insert("description".to_owned(), description.as_str().into());
        }
        Value::Object(info)
    }
}

pub(super) fn bearer() -> Value {
    json!({ "type": "http", "scheme": "bearer" })
}

pub(super) fn basic() -> Value {
    json!({ "type": "http", "scheme": "basic" })
}
