//! One operation of a page, with requests that are examples of it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::sample::Components;
use super::text::{Escaped, anchor, quoted};
use super::tree::Tree;
use super::{members, text};

/// An operation as it is shown.
pub(super) struct Shown<'d> {
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    pub(super) operation: &'d Value,
}

impl<'d> Shown<'d> {
    pub(super) fn is_of(&self, tag: Option<&str>) -> bool {
        match (self.tags(), tag) {
            (Some(tags), Some(tag)) => tags.iter().any(|of| of == tag),
            (tags, None) => tags.is_none(),
            (None, Some(_)) => false,
        }
    }

    pub(super) fn is_first_of(&self, tag: Option<&str>) -> bool {
        self.tags().and_then(|tags| tags.first()?.as_str()) == tag
    }

    fn tags(&self) -> Option<&'d Vec<Value>> {
        self.operation["tags"].as_array()
    }

    fn id(&self) -> String {
        Escaped(anchor("op", &format!("{} {}", self.method, self.path))).to_string()
    }

    /// What it is found by.
    fn words(&self) -> String {
        let texts =
            [self.method, self.path, text(self.operation, "summary"), text(self.operation, "operationId")];
        Escaped(texts.join(" ").to_lowercase()).to_string()
    }

    fn method_html(&self) -> String {
        let name = if self.method == "*" { "ANY" } else { self.method };
        let class = match self.method {
            known @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE") => known,
            _ => "other",
        };
        format!("<span class=\"method {class}\">{}</span>", Escaped(name))
    }

    /// For the list.
    pub(super) fn link(&self) -> String {
        let name = match text(self.operation, "summary") {
            "" => self.path,
            summary => summary,
        };
        let (id, words, method) = (self.id(), self.words(), self.method_html());
        format!(
            "<li data-words=\"{words}\"><a href=\"#{id}\">{method}<span>{}</span></a></li>",
            Escaped(name)
        )
    }

    pub(super) fn html(&self, document: &Value, server: &str, components: Components<'d>) -> String {
        let (id, words, method) = (self.id(), self.words(), self.method_html());
        let is_old = self.operation["deprecated"] == true;
        let (old, mark) = if is_old { (" old", "<span class=\"mark\">deprecated</span>") } else { ("", "") };
        let inside = [
            self.about(),
            self.parameters(components),
            self.body(components),
            self.responses(components),
            self.examples(document, server, components),
        ];
        format!(
            "<details class=\"operation{old}\" id=\"{id}\" data-words=\"{words}\"><summary>{method}<code>{}</code>\
             <span>{}</span>{mark}</summary>\n<div class=\"inside\">{}</div></details>\n",
            Escaped(self.path),
            Escaped(text(self.operation, "summary")),
            inside.concat()
        )
    }

    fn about(&self) -> String {
        let mut about = String::new();
        if let Some(description) = self.operation["description"].as_str() {
            about.push_str(&format!("<p class=\"text\">{}</p>\n", Escaped(description)));
        }
        let guards = self.operation["x-guards"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for guard in guards {
            about.push_str(&format!("<p>For requests with <code>{}</code> alone.</p>\n", Escaped(guard)));
        }
        let ways = self.operation["security"].as_array().into_iter().flatten();
        let ways: Vec<String> = ways
            .map(|way| {
                let names: Vec<&str> = members(way).map(|(name, _)| name.as_str()).collect();
                if names.is_empty() { "nothing".to_owned() } else { names.join(" and ") }
            })
            .collect();
        if !ways.is_empty() {
            about.push_str(&format!("<p>Security: <b>{}</b></p>\n", Escaped(ways.join(" or "))));
        }
        if let Some(id) = self.operation["operationId"].as_str() {
            about.push_str(&format!("<p class=\"faint\">Operation <code>{}</code></p>\n", Escaped(id)));
        }
        about
    }

    fn parameters(&self, components: Components<'d>) -> String {
        let line = |parameter: &'d Value, place: &str| {
            let need =
                if parameter["required"] == true { " <span class=\"need\">required</span>" } else { "" };
            let about = parameter["description"].as_str();
            let about = about.map(|text| format!("<span class=\"about\">{}</span>", Escaped(text)));
            format!(
                "<li><code class=\"name\">{}</code> <span class=\"place\">{}</span>{need} {}{}</li>",
                Escaped(text(parameter, "name")),
                Escaped(place),
                Tree::new(components, DEPTH).html(&parameter["schema"]),
                about.unwrap_or_default()
            )
        };
        let known = self.operation["parameters"].as_array().into_iter().flatten();
        let known = known.map(|parameter| line(parameter, &format!("in {}", text(parameter, "in"))));
        let matrix = self.operation["x-matrix"].as_array().into_iter().flatten();
        let matrix = matrix.map(|parameter| line(parameter, "in a segment, behind a semicolon"));
        let lines: String = known.chain(matrix).collect();
        match lines.is_empty() {
            true => lines,
            false => format!("<h3>Parameters</h3>\n<ul class=\"fields\">{lines}</ul>\n"),
        }
    }

    fn body(&self, components: Components<'d>) -> String {
        let Some(body) = self.operation.get("requestBody") else { return String::new() };
        let need = if body["required"] == true { " <span class=\"need\">required</span>" } else { "" };
        format!("<h3>Body{need}</h3>\n{}", content(&body["content"], components, DEPTH))
    }

    fn responses(&self, components: Components<'d>) -> String {
        let mut html = String::from("<h3>Responses</h3>\n");
        for (status, response) in members(&self.operation["responses"]) {
            let (class, form, depth) = match status.as_bytes().first() {
                Some(b'2') => ("good", "", DEPTH),
                // What is refused is mostly alike, and stands with the schemas.
                Some(b'4' | b'5') => ("bad", " short", 0),
                _ => ("else", " short", 0),
            };
            let fields = members(&response["headers"]).map(|(name, field)| {
                let about = Escaped(text(field, "description"));
                format!(
                    "<li><code class=\"name\">{}</code> <span class=\"place\">in header</span> {about}</li>",
                    Escaped(name)
                )
            });
            let fields: String = fields.collect();
            let fields =
                if fields.is_empty() { fields } else { format!("<ul class=\"fields\">{fields}</ul>") };
            let name = if status == "default" { "other" } else { status };
            html.push_str(&format!(
                "<div class=\"answer{form}\"><span class=\"status {class}\">{}</span> {}{fields}<div>{}</div></div>\n",
                Escaped(name),
                Escaped(text(response, "description")),
                content(&response["content"], components, depth)
            ));
        }
        html
    }

    fn examples(&self, document: &Value, server: &str, components: Components<'d>) -> String {
        if matches!(self.method, "*" | "CONNECT") {
            return String::new();
        }
        let path = self.path_sample(components);
        let method = match (self.method, self.operation.get("requestBody").is_some()) {
            ("GET", false) => String::new(),
            (method, _) => format!(" -X {}", quoted(method)),
        };
        let (fields, data) = self.sent(document, components);
        let shown = |program: &str, is_head: bool| {
            let method = if is_head { " -I".to_owned() } else { Escaped(&method).to_string() };
            let (fields, data) = (Escaped(&fields), Escaped(&data));
            let words = format!("{program}{method} '{server}{}'{fields}{data}", Escaped(&path));
            format!(
                "<div class=\"example\"><pre tabindex=\"0\" role=\"region\" aria-label=\"Example\"><code>{words}</code></pre>\
                 <button type=\"button\" class=\"copy script\">Copy</button></div>\n"
            )
        };
        let is_head = self.method == "HEAD";
        format!("<h3>Examples</h3>\n{}{}", shown("curl", is_head), shown("anywire call", false))
    }

    /// The path and the query with values that fit.
    fn path_sample(&self, components: Components<'d>) -> String {
        let mut path = self.path.replace("{*", "{");
        let mut query = Vec::new();
        for parameter in self.operation["parameters"].as_array().into_iter().flatten() {
            let name = text(parameter, "name");
            let value = match components.sample(&parameter["schema"]) {
                Value::String(text) => text,
                Value::Array(items) => match items.into_iter().next() {
                    Some(Value::String(text)) => text,
                    Some(item) => item.to_string(),
                    None => String::new(),
                },
                value => value.to_string(),
            };
            let value = utf8_percent_encode(&value, ENCODED).to_string();
            match text(parameter, "in") {
                "path" => path = path.replace(&format!("{{{name}}}"), &value),
                "query" if parameter["required"] == true => {
                    query.push(format!("{}={value}", utf8_percent_encode(name, ENCODED)));
                }
                _ => {}
            }
        }
        // Within quotes of a shell.
        let path = path.replace('\'', "%27");
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// The fields and the body, as the arguments of both programs.
    fn sent(&self, document: &Value, components: Components<'d>) -> (String, String) {
        let mut fields = String::new();
        let mut add = |field: &str| fields.push_str(&format!(" -H {}", quoted(field)));
        let ways = self.operation["security"].as_array().and_then(|ways| ways.first());
        for (name, _) in ways.into_iter().flat_map(members) {
            let scheme = &document["components"]["securitySchemes"][name];
            match (text(scheme, "scheme"), text(scheme, "name")) {
                ("bearer", _) => add("authorization: Bearer TOKEN"),
                ("basic", _) => add("authorization: Basic bmFtZTpwYXNzd29yZA=="),
                (_, field) => add(&format!("{field}: KEY")),
            }
        }
        for parameter in self.operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "header" && parameter["required"] == true {
                let value = match components.sample(&parameter["schema"]) {
                    Value::String(text) => text,
                    value => value.to_string(),
                };
                add(&format!("{}: {value}", text(parameter, "name")));
            }
        }
        let content = self.operation.get("requestBody").map(|body| &body["content"]);
        let Some((of, media)) = content.and_then(|content| members(content).next()) else {
            return (fields, String::new());
        };
        add(&format!("content-type: {}", if of.contains('*') { "application/octet-stream" } else { of }));
        let data = match (of.as_str(), &media["schema"]) {
            ("application/x-www-form-urlencoded", schema) => form(&components.sample(schema)),
            (of, schema) if of.contains("json") => components.sample(schema).to_string(),
            (of, _) if of.starts_with("text/") => "text".to_owned(),
            _ => "@FILE".to_owned(),
        };
        (fields, format!(" -d {}", quoted(&data)))
    }
}

/// Bodies by media type. Where several have one schema, it stands once.
fn content<'d>(content: &'d Value, components: Components<'d>, depth: usize) -> String {
    let mut seen: Vec<(&Value, Vec<&str>)> = Vec::new();
    for (of, media) in members(content) {
        let schema = &media["schema"];
        match seen.iter_mut().find(|(known, _)| *known == schema) {
            Some((_, types)) => types.push(of),
            None => seen.push((schema, vec![of])),
        }
    }
    let line = |(schema, types): (&'d Value, Vec<&str>)| {
        let types: Vec<String> = types.iter().map(|of| format!("<code>{}</code>", Escaped(of))).collect();
        let tree = if schema.is_null() { String::new() } else { Tree::new(components, depth).html(schema) };
        format!("<div class=\"media\">{} {tree}</div>\n", types.join(", "))
    };
    seen.into_iter().map(line).collect()
}

/// The fields of an object as a form.
fn form(value: &Value) -> String {
    let fields = members(value).map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{}={}", utf8_percent_encode(name, ENCODED), utf8_percent_encode(&value, ENCODED))
    });
    fields.collect::<Vec<_>>().join("&")
}

/// How many schemas of a name unfold within each other.
const DEPTH: usize = 4;

/// All but what RFC 3986 calls unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
