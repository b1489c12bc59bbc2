//! How the value of a parameter is written into a request: the styles of OpenAPI, and what is percent-encoded.

use serde_json::Value;

use super::super::set::Text;

/// How a parameter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

impl Style {
    /// The style of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "simple" => Self::Simple,
            "label" => Self::Label,
            "matrix" => Self::Matrix,
            "form" | "cookie" => Self::Form,
            "spaceDelimited" => Self::SpaceDelimited,
            "pipeDelimited" => Self::PipeDelimited,
            "deepObject" => Self::DeepObject,
            _ => return None,
        })
    }

    /// The text of a value; `encode` writes each of its words.
    pub(super) fn write(
        self,
        name: &str,
        value: &Value,
        explode: bool,
        encode: impl Fn(&str) -> String,
    ) -> String {
        let name = encode(name);
        let word = |value: &Value| encode(&text(value));
        let words: Vec<String> = match value {
            Value::Array(items) => items.iter().map(word).collect(),
            Value::Object(members) => {
                let pair = |(key, value): (&String, &Value)| (encode(key), word(value));
                let pairs = members.iter().map(pair);
                match (self, explode) {
                    (Self::DeepObject, _) => {
                        let pairs = pairs.map(|(key, value)| format!("{name}%5B{key}%5D={value}"));
                        return pairs.collect::<Vec<_>>().join("&");
                    }
                    (_, true) => return self.exploded(pairs.map(|(key, value)| format!("{key}={value}"))),
                    (_, false) => pairs.flat_map(|(key, value)| [key, value]).collect(),
                }
            }
            value => {
                let value = word(value);
                return match self {
                    Self::Simple => value,
                    Self::Label => format!(".{value}"),
                    Self::Matrix => format!(";{name}={value}"),
                    _ => format!("{name}={value}"),
                };
            }
        };
        match (self, explode) {
            (Self::Simple, _) => words.join(","),
            (Self::Label, false) => format!(".{}", words.join(",")),
            (Self::Label, true) => self.exploded(words.into_iter()),
            (Self::Matrix, false) => format!(";{name}={}", words.join(",")),
            (Self::SpaceDelimited, false) => format!("{name}={}", words.join("%20")),
            (Self::PipeDelimited, false) => format!("{name}={}", words.join("%7C")),
            (Self::Form, false) => format!("{name}={}", words.join(",")),
            (_, true) | (Self::DeepObject, false) => {
                self.exploded(words.into_iter().map(|word| format!("{name}={word}")))
            }
        }
    }

    /// Parts with the sign of the style between them.
    fn exploded(self, parts: impl Iterator<Item = String>) -> String {
        let parts: Vec<String> = parts.collect();
        match self {
            Self::Simple => parts.join(","),
            Self::Label => format!(".{}", parts.join(".")),
            Self::Matrix => parts.iter().map(|part| format!(";{part}")).collect(),
            _ => parts.join("&"),
        }
    }
}

/// A value as one word.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Percent-encodes all but letters, digits, `-._~` and these (RFC 3986 section 2.3).
pub(super) fn percent(text: &str, kept: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A text of the user's, percent-encoded as far as it is no value of a template.
pub(super) fn percent_around(text: &Text, kept: &[u8]) -> String {
    let bytes = String::from_utf8_lossy(text.as_bytes());
    let mut out = String::new();
    let mut rest = &*bytes;
    while let Some((before, inside)) = rest.split_once("{{").filter(|_| text.is_template()) {
        out.push_str(&percent(before, kept));
        // What does not end is an error of the template, which says where.
        let end = inside.find("}}").map_or(inside.len(), |end| end + "}}".len());
        out.push_str("{{");
        out.push_str(&inside[..end]);
        rest = &inside[end..];
    }
    out + &percent(rest, kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The table of the specification (OpenAPI 3.1, style examples).
    #[test]
    fn values_are_written_as_the_specification_has_them() {
        let (word, list) = (json!("blue"), json!(["blue", "black", "brown"]));
        let object = json!({ "B": 150, "G": 200, "R": 100 });
        for (style, explode, of_word, of_list, of_object) in [
            ("matrix", false, ";color=blue", ";color=blue,black,brown", ";color=B,150,G,200,R,100"),
            ("matrix", true, ";color=blue", ";color=blue;color=black;color=brown", ";B=150;G=200;R=100"),
            ("label", false, ".blue", ".blue,black,brown", ".B,150,G,200,R,100"),
            ("label", true, ".blue", ".blue.black.brown", ".B=150.G=200.R=100"),
            ("form", false, "color=blue", "color=blue,black,brown", "color=B,150,G,200,R,100"),
            ("form", true, "color=blue", "color=blue&color=black&color=brown", "B=150&G=200&R=100"),
            ("simple", false, "blue", "blue,black,brown", "B,150,G,200,R,100"),
            ("simple", true, "blue", "blue,black,brown", "B=150,G=200,R=100"),
            (
                "spaceDelimited",
                false,
                "color=blue",
                "color=blue%20black%20brown",
                "color=B%20150%20G%20200%20R%20100",
            ),
            (
                "pipeDelimited",
                false,
                "color=blue",
                "color=blue%7Cblack%7Cbrown",
                "color=B%7C150%7CG%7C200%7CR%7C100",
            ),
            (
                "deepObject",
                true,
                "color=blue",
                "color=blue&color=black&color=brown",
                "color%5BB%5D=150&color%5BG%5D=200&color%5BR%5D=100",
            ),
        ] {
            let written = |value| {
                Style::named(style).unwrap().write("color", value, explode, |word| percent(word, b""))
            };
            assert_eq!(
                [&word, &list, &object].map(written),
                [of_word, of_list, of_object],
                "{style}, {explode}"
            );
        }
        assert_eq!(Style::named("sober"), None);
    }

    #[test]
    fn what_would_end_its_place_is_encoded() {
        let written = Style::Form.write("a b", &json!("c&d/{{e}}\u{e4}"), true, |word| percent(word, b""));
        assert_eq!(written, "a%20b=c%26d%2F%7B%7Be%7D%7D%C3%A4");
        assert_eq!(
            percent_around(&Text::template("a b{{pick \"c d\"}}/{{n"), b""),
            "a%20b{{pick \"c d\"}}%2F{{n"
        );
        assert_eq!(percent_around(&Text::from("{{n}}"), b""), "%7B%7Bn%7D%7D");
    }
}
