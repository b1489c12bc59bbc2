//! A text that has the format, the length and the pattern of a schema.

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::error::LackReason;

/// The first of a few texts that fits these parts of a schema.
pub(super) fn of(parts: &[&Map<String, Value>]) -> Result<String, LackReason> {
    let counts = |key: &'static str| parts.iter().filter_map(move |part| part.get(key)?.as_u64());
    let least = counts("minLength").max().unwrap_or_default();
    let most = counts("maxLength").min().unwrap_or(u64::MAX);
    let text = |key: &str| parts.iter().find_map(|part| part.get(key)?.as_str());
    let pattern = match text("pattern") {
        None => None,
        Some(pattern) => {
            let none = |_| LackReason::Pattern(shortened(pattern));
            Some((pattern, RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(none)?))
        }
    };
    let format = text("format").and_then(|format| FORMATS.iter().find(|(known, _)| *known == format));
    let fits = |text: &String| {
        (least..=most).contains(&(text.chars().count() as u64))
            && pattern.as_ref().is_none_or(|(_, pattern)| pattern.is_match(text))
    };
    let words = WORDS.iter().map(|word| word.chars().cycle().take(length(word, least, most)).collect());
    let mut texts = format.map(|(_, sample)| (*sample).to_owned()).into_iter().chain(words);
    texts.find(fits).ok_or_else(|| {
        pattern.map_or(LackReason::Bounds, |(pattern, _)| LackReason::Pattern(shortened(pattern)))
    })
}

/// What looking for it costs, beside what else is looked at: as many bytes as it may have, and the work on a pattern.
pub(super) fn cost(parts: &[&Map<String, Value>]) -> usize {
    let least = parts.iter().filter_map(|part| part.get("minLength")?.as_u64()).max().unwrap_or_default();
    let pattern = parts.iter().find_map(|part| part.get("pattern")?.as_str());
    let pattern = pattern.map_or(0, |pattern| pattern.len().saturating_add(PATTERN_COST));
    usize::try_from(least).unwrap_or(usize::MAX).saturating_mul(WORDS.len()).saturating_add(pattern)
}

/// How long a word is made so that it fits, as far as its length goes.
fn length(word: &str, least: u64, most: u64) -> usize {
    let usual = word.len() as u64;
    usize::try_from(usual.max(least).min(most)).unwrap_or(usize::MAX)
}

/// So much of a pattern as fits into a message.
fn shortened(pattern: &str) -> String {
    match pattern.char_indices().nth(PATTERN_SHOWN) {
        Some((end, _)) => format!("{}...", &pattern[..end]),
        None => pattern.to_owned(),
    }
}

/// A text of each format that servers check.
const FORMATS: [(&str, &str); 17] = [
    ("date", "2026-01-31"),
    ("date-time", "2026-01-31T12:00:00Z"),
    ("time", "12:00:00Z"),
    ("duration", "PT1S"),
    ("uuid", "00000000-0000-4000-8000-000000000001"),
    ("email", "user@example.com"),
    ("idn-email", "user@example.com"),
    ("hostname", "example.com"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("uri", "https://example.com/"),
    ("url", "https://example.com/"),
    ("uri-reference", "/"),
    ("byte", "dGV4dA=="),
    ("int32", "1"),
    ("int64", "1"),
    ("json-pointer", "/a"),
];

/// Texts that are tried, made longer or cut as the schema has it.
const WORDS: [&str; 5] = ["text", "1", "A", "a1", "A-1"];
/// A compiled pattern, at most.
const PATTERN_BYTES: usize = 64 << 10;
/// What a pattern costs to compile, in the measure of the limit on values.
const PATTERN_COST: usize = 4096;
const PATTERN_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(schema: &Value) -> Result<String, LackReason> {
        of(&[schema.as_object().unwrap()])
    }

    #[test]
    fn a_text_has_what_the_schema_asks_for() {
        for (schema, text) in [
            (json!({}), "text"),
            (json!({ "format": "date" }), "2026-01-31"),
            (json!({ "format": "color" }), "text"),
            (json!({ "minLength": 6 }), "textte"),
            (json!({ "maxLength": 2 }), "te"),
            (json!({ "pattern": "^[0-9]{3}$", "minLength": 3 }), "111"),
            (json!({ "pattern": "^[A-Z]+$" }), "A"),
            (json!({ "format": "uuid", "maxLength": 5 }), "text"),
        ] {
            assert_eq!(found(&schema).unwrap(), text, "{schema}");
        }
        assert_eq!(found(&json!({ "minLength": 2, "maxLength": 1 })), Err(LackReason::Bounds));
        for pattern in ["^x{9}$", "(?=a)", "(", "(a{1000}){1000}"] {
            assert_eq!(found(&json!({ "pattern": pattern })), Err(LackReason::Pattern(pattern.to_owned())));
        }
    }

    #[test]
    fn a_long_text_costs_what_it_takes() {
        assert!(cost(&[json!({ "minLength": u64::MAX }).as_object().unwrap()]) == usize::MAX);
        assert!(cost(&[json!({ "pattern": "a" }).as_object().unwrap()]) > 4096);
    }
}
