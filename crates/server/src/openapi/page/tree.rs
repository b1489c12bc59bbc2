//! The structure of a schema as nested lists.

use serde_json::{Map, Value};

use super::sample::Components;
use super::text::{Escaped, anchor};

/// Writes schemas, each with what is within it. What another place of the page shows is a link: a schema within itself, and one
/// that is deep.
pub(super) struct Tree<'d> {
    components: Components<'d>,
    /// How many schemas of a name unfold within each other.
    depth_max: usize,
    /// The names around the schema.
    within: Vec<&'d str>,
    /// What may still be written.
    left: usize,
}

impl<'d> Tree<'d> {
    /// With so many schemas of a name within each other.
    pub(super) fn new(components: Components<'d>, depth_max: usize) -> Self {
        Self { components, depth_max, within: Vec::new(), left: LINES_MAX }
    }

    /// A schema: its type, and a list of what it holds.
    pub(super) fn html(&mut self, schema: &'d Value) -> String {
        self.with_about(schema, "")
    }

    /// The type in words, with links to names.
    fn type_html(&self, schema: &'d Value) -> String {
        let Some(object) = schema.as_object() else { return "anything".to_owned() };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            return match self.components.find(reference) {
                Some((name, _)) => {
                    format!("<a href=\"#{}\">{}</a>", Escaped(anchor("schema", name)), Escaped(name))
                }
                None => Escaped(reference).to_string(),
            };
        }
        if let Some(value) = object.get("const") {
            return format!("<code>{}</code>", Escaped(value));
        }
        let names: Vec<&str> = match object.get("type") {
            Some(Value::String(of)) => vec![of],
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let words: Vec<String> = names.iter().map(|name| self.named(name, object)).collect();
        match (words.is_empty(), several(object)) {
            (false, _) => words.join(" or "),
            (true, Some((_, variants))) => {
                let short =
                    variants.len() <= 2 || variants.iter().all(|variant| variant.get("const").is_some());
                match short {
                    true => {
                        let types = variants.iter().map(|variant| self.type_html(variant));
                        types.collect::<Vec<_>>().join(" or ")
                    }
                    false => format!("one of {}", variants.len()),
                }
            }
            (true, None) if object.contains_key("properties") => "object".to_owned(),
            (true, None) => "anything".to_owned(),
        }
    }

    fn named(&self, name: &str, object: &'d Map<String, Value>) -> String {
        match (name, object.get("items"), object.get("additionalProperties")) {
            ("array", Some(items @ Value::Object(_)), _) => format!("array of {}", self.type_html(items)),
            ("object", _, Some(of @ Value::Object(_))) if !object.contains_key("properties") => {
                format!("map of {}", self.type_html(of))
            }
            _ => match object.get("format").and_then(Value::as_str) {
                Some(format) if name != "null" => format!("{} ({})", Escaped(name), Escaped(format)),
                _ => Escaped(name).to_string(),
            },
        }
    }

    /// What it holds. Empty if that is nothing.
    fn inside(&mut self, schema: &'d Value) -> String {
        let Some(object) = schema.as_object() else { return String::new() };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            let Some((name, schema)) = self.components.find(reference) else { return String::new() };
            if self.within.contains(&name) || self.within.len() >= self.depth_max {
                return String::new();
            }
            self.within.push(name);
            let inside = self.inside(schema);
            self.within.pop();
            return inside;
        }
        let mut lines = Vec::new();
        let required = object.get("required").and_then(Value::as_array);
        for (name, schema) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_required = required.is_some_and(|names| names.iter().any(|found| found == name));
            let need = if is_required { " <span class=\"need\">required</span>" } else { "" };
            lines.push((format!("<code class=\"name\">{}</code>{need} ", Escaped(name)), schema));
        }
        if let Some((_, variants)) = several(object)
            && let [one, null] = &variants[..]
            && null.get("type").is_some_and(|of| of == "null")
        {
            // An `Option`.
            return self.inside(one);
        }
        if let Some((words, variants)) = several(object)
            && variants.iter().any(|variant| self.has_inside(variant))
        {
            lines.extend(
                variants.iter().map(|variant| (format!("<span class=\"place\">{words}</span> "), variant)),
            );
        }
        for (index, item) in
            object.get("prefixItems").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            lines.push((format!("<span class=\"place\">{index}</span> "), item));
        }
        let mut inside = String::new();
        for (head, schema) in lines {
            if self.left == 0 {
                inside.push_str("<li class=\"faint\">and more</li>");
                break;
            }
            self.left -= 1;
            let about = schema.get("description").and_then(Value::as_str);
            let about = about.map(|text| format!("<span class=\"about\">{}</span>", Escaped(text)));
            inside
                .push_str(&format!("<li>{head}{}</li>", self.with_about(schema, &about.unwrap_or_default())));
        }
        let list = if inside.is_empty() { inside } else { format!("<ul class=\"fields\">{inside}</ul>") };
        let held = [object.get("items"), object.get("additionalProperties")].into_iter().flatten();
        held.fold(list, |list, schema| list + &self.inside(schema))
    }

    fn with_about(&mut self, schema: &'d Value, about: &str) -> String {
        let type_of = self.type_html(schema);
        // Values and limits of a type that is a link are worth a line.
        let named =
            schema.get("$ref").and_then(Value::as_str).and_then(|reference| self.components.find(reference));
        let of_named = named.map(|(_, schema)| rules(schema)).unwrap_or_default();
        format!(
            "<span class=\"type\">{type_of}</span>{of_named}{}{about}{}",
            rules(schema),
            self.inside(schema)
        )
    }

    fn has_inside(&self, schema: &Value) -> bool {
        ["$ref", "properties", "items", "prefixItems", "oneOf", "anyOf", "allOf", "additionalProperties"]
            .iter()
            .any(|keyword| schema.get(keyword).is_some_and(|of| !of.is_boolean()))
    }
}

/// The variants of a schema, and what to call each.
fn several(object: &Map<String, Value>) -> Option<(&'static str, &Vec<Value>)> {
    [("oneOf", "or"), ("anyOf", "or"), ("allOf", "and")]
        .into_iter()
        .find_map(|(keyword, words)| Some((words, object.get(keyword)?.as_array()?)))
}

/// What a value must be beyond its type.
fn rules(schema: &Value) -> String {
    let Some(object) = schema.as_object() else { return String::new() };
    let mut rules = Vec::new();
    if let Some(Value::Array(values)) = object.get("enum") {
        let values: Vec<String> =
            values.iter().map(|value| format!("<code>{}</code>", Escaped(value))).collect();
        rules.push(values.join(", "));
    }
    for (keyword, words) in RULES {
        match object.get(keyword) {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::Bool(true)) => rules.push(words.to_owned()),
            Some(value) => rules.push(format!("{words} <code>{}</code>", Escaped(value))),
        }
    }
    rules.iter().map(|rule| format!(" <small>{rule}</small>")).collect()
}

const RULES: [(&str, &str); 14] = [
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("exclusiveMinimum", "more than"),
    ("exclusiveMaximum", "less than"),
    ("multipleOf", "a multiple of"),
    ("minLength", "length at least"),
    ("maxLength", "length at most"),
    ("minItems", "items at least"),
    ("maxItems", "items at most"),
    ("uniqueItems", "each item once"),
    ("pattern", "matches"),
    ("default", "by default"),
    ("deprecated", "deprecated"),
    ("readOnly", "in responses alone"),
];

/// A schema that branches at each step would fill a page.
const LINES_MAX: usize = 300;
