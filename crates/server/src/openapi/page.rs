//! The page: the document for people, as one file that needs nothing else.

mod operation;
mod sample;
mod text;
mod tree;

use serde_json::{Map, Value};

use self::operation::Shown;
use self::sample::Components;
use self::text::{Escaped, anchor};
use self::tree::Tree;
use super::Document;
use super::document::OTHER_METHODS;

/// Nothing but the page's own style and script, which are these to the byte.
pub(super) const POLICY: &str = "default-src 'none'; \
     style-src 'sha256-kdtKxcy5QPqb9K7KdZ8OP1nBVH0kXi8x8FXXciVdL34='; \
     script-src 'sha256-fkzHGkXy5WKMfAzX9A/cAhX5F1tml85zXJ0J6mq8/Ow='; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Document {
    /// The document as a page for people: one file that needs nothing else. `href` leads to the document.
    pub(crate) fn page(&self, href: Option<&str>) -> String {
        let value = self.as_value();
        let components = Components(value["components"]["schemas"].as_object());
        let operations = operations(value);
        let title = Escaped(text(&value["info"], "title"));
        let (list, body) = groups(value, &operations, components);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#operations\">To the operations</a>\n{}\
             <div class=\"page\">\n<nav aria-label=\"Operations\">\n<details id=\"list\"><summary>Operations</summary>\n\
             <label class=\"find script\"><span>Find an operation or a schema</span>\
             <input type=\"search\" id=\"find\" autocomplete=\"off\"></label>\n<ul>{list}</ul></details>\n</nav>\n\
             <main id=\"operations\" tabindex=\"-1\">\n\
             <div class=\"tools script\"><button type=\"button\" id=\"toggle\">Open all</button></div>\n{body}</main>\n</div>\n\
             <script>{SCRIPT}</script>\n</body>\n</html>\n",
            // In a page, unlike in a head, what frames it cannot be said.
            POLICY.split("; frame-ancestors").next().unwrap_or_default(),
            header(value, href),
        )
    }

    /// The document as a page for people: one file that needs nothing else.
    pub fn to_html(&self) -> String {
        self.page(None)
    }
}

/// What the service is, where it is, and how callers prove who they are.
fn header(value: &Value, href: Option<&str>) -> String {
    let info = &value["info"];
    let mut header = format!(
        "<header>\n<h1>{} <small>{}</small></h1>\n",
        Escaped(text(info, "title")),
        Escaped(text(info, "version"))
    );
    if let Some(description) = info["description"].as_str() {
        header.push_str(&format!("<p class=\"text\">{}</p>\n", Escaped(description)));
    }
    let mut facts = Vec::new();
    for server in value["servers"].as_array().into_iter().flatten() {
        facts.push(format!("Server <code>{}</code>", Escaped(text(server, "url"))));
    }
    for (name, scheme) in value["components"]["securitySchemes"].as_object().into_iter().flatten() {
        let how = match (text(scheme, "scheme"), text(scheme, "name")) {
            ("bearer", _) => "Authorization: Bearer TOKEN".to_owned(),
            ("basic", _) => "Authorization: Basic NAME:PASSWORD".to_owned(),
            (_, field) => format!("{field}: KEY"),
        };
        facts.push(format!("Security <b>{}</b> <code>{}</code>", Escaped(name), Escaped(how)));
    }
    if let Some(href) = href {
        facts.push(format!("<a href=\"{}\">The document (OpenAPI 3.1)</a>", Escaped(href)));
    }
    let facts: String = facts.iter().map(|fact| format!("<li>{fact}</li>")).collect();
    header + &format!("<ul class=\"facts\">{facts}</ul>\n</header>\n")
}

/// All operations in the order of their paths.
fn operations(value: &Value) -> Vec<Shown<'_>> {
    let mut all = Vec::new();
    for (path, item) in members(&value["paths"]) {
        let known =
            METHODS.iter().filter_map(|method| Some((*method, item.get(method.to_ascii_lowercase())?)));
        let more = item.get(OTHER_METHODS).into_iter().flat_map(members);
        let more = more.map(|(method, operation)| (method.as_str(), operation));
        all.extend(known.chain(more).map(|(method, operation)| Shown { method, path, operation }));
    }
    all
}

/// The list of all operations and schemas, and what it leads to.
fn groups(value: &Value, operations: &[Shown<'_>], components: Components<'_>) -> (String, String) {
    let (mut list, mut body) = (String::new(), String::new());
    let mut add = |name: &str, about: Option<&str>, links: String, parts: String| {
        if parts.is_empty() {
            return;
        }
        list.push_str(&format!(
            "<li data-group><span class=\"group\">{}</span><ul>{links}</ul></li>\n",
            Escaped(name)
        ));
        let about =
            about.map(|text| format!("<p class=\"text\">{}</p>\n", Escaped(text))).unwrap_or_default();
        body.push_str(&format!(
            "<section data-group>\n<h2>{}</h2>\n{about}{parts}</section>\n",
            Escaped(name)
        ));
    };
    let server = server(value);
    let tags = value["tags"].as_array().into_iter().flatten();
    let named = tags.map(|tag| (Some(text(tag, "name")), tag["description"].as_str()));
    for (tag, about) in named.chain([(None, None)]) {
        let of_tag: Vec<&Shown<'_>> = operations.iter().filter(|shown| shown.is_of(tag)).collect();
        let links = of_tag.iter().map(|shown| shown.link()).collect();
        // One that has several tags stands in full under the first.
        let own = of_tag.iter().filter(|shown| shown.is_first_of(tag));
        let parts = own.map(|shown| shown.html(value, &server, components)).collect();
        let others =
            if operations.iter().all(|shown| shown.is_of(None)) { "Operations" } else { "Other operations" };
        add(tag.unwrap_or(others), about, links, parts);
    }
    let schemas = components.0.into_iter().flatten();
    let (links, parts): (Vec<String>, Vec<String>) =
        schemas.map(|(name, schema)| schema_html(name, schema, components)).unzip();
    add("Schemas", None, links.concat(), parts.concat());
    (list, body)
}

/// The link to a schema, and the schema.
fn schema_html<'d>(name: &'d str, schema: &'d Value, components: Components<'d>) -> (String, String) {
    let (id, words) = (Escaped(anchor("schema", name)).to_string(), Escaped(name.to_lowercase()).to_string());
    let about = schema["description"].as_str();
    let about = about.map(|text| format!("<p class=\"text\">{}</p>", Escaped(text))).unwrap_or_default();
    let name = Escaped(name);
    (
        format!("<li data-words=\"{words}\"><a href=\"#{id}\">{name}</a></li>"),
        format!(
            "<details class=\"schema\" id=\"{id}\" data-words=\"{words}\"><summary><code>{name}</code></summary>\
             <div class=\"inside\">{about}{}</div></details>\n",
            Tree::new(components, 0).html(schema)
        ),
    )
}

/// Where the examples call: the first server, or a place that the script replaces by that of the page.
fn server(value: &Value) -> String {
    let first = value["servers"].get(0).map_or("", |server| text(server, "url")).trim_end_matches('/');
    match first.contains("://") {
        true => Escaped(first).to_string(),
        false => format!("<span class=\"origin\">http://localhost:8080</span>{}", Escaped(first)),
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// In the order in which they are shown.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");
