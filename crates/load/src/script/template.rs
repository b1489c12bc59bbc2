//! The grammar of templates: bytes in which `{{...}}` stands for a value, split into literals and expressions.
//!
//! An expression is a name with arguments, and at most one escape: `{{int 1 100}}`, `{{users.name | json}}`. Arguments are
//! separated by white space, and one that holds white space is quoted. `{{{{` is a literal `{{`. An expression ends on
//! the line on which it begins, so that the error for a missing `}}` names the right place.

use anywire_advice::Advice;
use memchr::memmem;

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    /// Bytes as they are sent.
    Literal(&'t [u8]),
    /// A value that each request gets anew.
    Value(Expression<'t>),
}

/// What stands between `{{` and `}}`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expression<'t> {
    /// The first word.
    pub(super) name: &'t str,
    /// The other words.
    pub(super) arguments: Vec<&'t str>,
    /// How the value is written.
    pub(super) escape: Escape,
    /// Where `{{` stands, in bytes.
    pub(super) at: usize,
}

/// How a value is written, so that it cannot end the text around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Escape {
    /// As it is.
    #[default]
    None,
    /// As the inside of a JSON string.
    Json,
    /// Percent-encoded, but for letters, digits and `-._~` (RFC 3986 section 2.3).
    Url,
}

/// A template that cannot be filled in (the caller's fault).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {fault}")]
pub struct TemplateError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong there.
    pub fault: TemplateFault,
}

impl TemplateError {
    /// The fault at this byte of the template.
    pub(super) fn new(source: &[u8], at: usize, fault: TemplateFault) -> Self {
        let before = &source[..at.min(source.len())];
        let line_begins = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        // Bytes that continue a character of UTF-8 count for nothing.
        let characters = before[line_begins..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        Self { line: memchr::memchr_iter(b'\n', before).count() + 1, column: characters + 1, fault }
    }
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateFault {
    /// A `{{` has no `}}` on its line.
    #[error("{{{{ has no }}}} on its line{}", Advice("close it, or write {{{{ for two braces that are sent"))]
    Unclosed,
    /// Nothing, or no text, stands between the braces.
    #[error("there is no name between the braces{}", Advice(VALUES))]
    NoName,
    /// A quotation mark has no other one.
    #[error("a quoted word does not end{}", Advice("write the second quotation mark"))]
    Quote,
    /// The value has a name that nothing has.
    #[error("no value is named {name:?}{}", Advice(known(others)))]
    Unknown {
        /// The name.
        name: String,
        /// The names of tables and variables that there are.
        others: Vec<String>,
    },
    /// The table has no such column.
    #[error("the table {table:?} has no column {column:?}{}", Advice(format_args!("its columns are {}", columns.join(", "))))]
    Column {
        /// The table.
        table: String,
        /// The column that was named.
        column: String,
        /// Those that there are.
        columns: Vec<String>,
    },
    /// The value cannot be made of these arguments.
    #[error("{found:?} makes no value{}", Advice(format_args!("write it as {wanted}")))]
    Arguments {
        /// The expression.
        found: String,
        /// How it is written.
        wanted: &'static str,
    },
    /// There is no such way to write a value.
    #[error("a value cannot be written as {escape:?}{}", Advice("write | json or | url, or leave it out"))]
    Escape {
        /// The word behind the bar.
        escape: String,
    },
    /// The same for each request is wanted here.
    #[error("no value can stand here{}", Advice("write the text itself, the same for each request"))]
    Fixed,
}

/// What may stand between the braces.
const VALUES: &str =
    "write one of n, int, hex, text, uuid, time, pick, a column as TABLE.COLUMN, or a variable";

fn known(others: &[String]) -> String {
    if others.is_empty() {
        return format!("{VALUES}; for two braces that are sent, {{{{{{{{");
    }
    format!(
        "write one of n, int, hex, text, uuid, time, pick, {}; for two braces that are sent, {{{{{{{{",
        others.join(", ")
    )
}

/// Splits a template into its parts, none of which is an empty literal.
pub(super) fn parse(source: &[u8]) -> Result<Vec<Part<'_>>, TemplateError> {
    let mut parts = Vec::new();
    let mut done = 0;
    while let Some(found) = memmem::find(&source[done..], OPEN) {
        let at = done + found;
        if at > done {
            parts.push(Part::Literal(&source[done..at]));
        }
        let inside = at + OPEN.len();
        if source[inside..].starts_with(OPEN) {
            parts.push(Part::Literal(OPEN));
            done = inside + OPEN.len();
            continue;
        }
        let fault = |fault| TemplateError::new(source, at, fault);
        let line = source[inside..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let length = memmem::find(line, CLOSE).ok_or_else(|| fault(TemplateFault::Unclosed))?;
        let text = std::str::from_utf8(&line[..length]).map_err(|_| fault(TemplateFault::NoName))?;
        parts.push(Part::Value(expression(text, at).map_err(fault)?));
        done = inside + length + CLOSE.len();
    }
    if done < source.len() {
        parts.push(Part::Literal(&source[done..]));
    }
    Ok(parts)
}

fn expression(text: &str, at: usize) -> Result<Expression<'_>, TemplateFault> {
    let mut words = words(text)?;
    let escape = match words.iter().position(|word| *word == BAR) {
        None => Escape::None,
        Some(bar) => {
            let named = words.split_off(bar);
            match named[1..] {
                ["json"] => Escape::Json,
                ["url"] => Escape::Url,
                _ => return Err(TemplateFault::Escape { escape: named[1..].join(" ") }),
            }
        }
    };
    let Some((name, arguments)) = words.split_first() else { return Err(TemplateFault::NoName) };
    Ok(Expression { name, arguments: arguments.to_vec(), escape, at })
}

/// The words of an expression; a bar outside of quotation marks is one of its own.
fn words(text: &str) -> Result<Vec<&str>, TemplateFault> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' => rest[1..].split_once('"').ok_or(TemplateFault::Quote)?,
            '|' => rest.split_at(1),
            _ => rest.split_at(
                rest.find(|letter: char| letter.is_whitespace() || letter == '|').unwrap_or(rest.len()),
            ),
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

const OPEN: &[u8] = b"{{";
const CLOSE: &[u8] = b"}}";
const BAR: &str = "|";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The parts in a short form: literals as text, values as `name(arguments)`.
    fn shown(source: &str) -> String {
        let parts = parse(source.as_bytes()).unwrap_or_else(|error| panic!("{source}: {error}"));
        let shown = parts.iter().map(|part| match part {
            Part::Literal(bytes) => format!("'{}'", String::from_utf8_lossy(bytes)),
            Part::Value(Expression { name, arguments, escape: Escape::None, .. }) => {
                format!("{name}({})", arguments.join(","))
            }
            Part::Value(Expression { name, escape, .. }) => format!("{name}|{escape:?}"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn values_stand_between_two_braces() {
        for (source, parts) in [
            ("", ""),
            ("/plain", "'/plain'"),
            ("/a/{{n}}?b={{ int  1 5 }}", "'/a/' n() '?b=' int(1,5)"),
            ("{\"id\":{{n}}}", "'{\"id\":' n() '}'"),
            ("{{pick red \"light blue\"}}", "pick(red,light blue)"),
            ("{{users.name|json}}{{ t | url }}", "users.name|Json t|Url"),
            ("{{{{n}}", "'{{' 'n}}'"),
            ("{ {n} }", "'{ {n} }'"),
        ] {
            assert_eq!(shown(source), parts, "{source}");
        }
    }

    #[test]
    fn a_fault_has_its_line_and_column() {
        for (source, line, column, found) in [
            ("{{n", 1, 1, "no }} on its line"),
            ("a\n\u{e4}b {{n\n}}", 2, 4, "no }} on its line"),
            ("{{}}", 1, 1, "no name"),
            ("x{{ }}", 1, 2, "no name"),
            ("{{pick \"a}}", 1, 1, "does not end"),
            ("{{n | html}}", 1, 1, "\"html\""),
            ("{{n | json url}}", 1, 1, "\"json url\""),
            ("{{| json}}", 1, 1, "no name"),
        ] {
            let error = parse(source.as_bytes()).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{source}: {error}");
            assert!(error.to_string().contains(found), "{source}: {error}");
        }
        assert_eq!(parse(b"{{\xff}}").unwrap_err().fault, TemplateFault::NoName);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic_and_none_is_lost(source in "[{}n|\" a\n\u{e4}]{0,40}") {
            let Ok(parts) = parse(source.as_bytes()) else { return Ok(()) };
            let literals: usize = parts.iter().map(|part| match part {
                Part::Literal(bytes) => bytes.len(),
                Part::Value(_) => 0,
            }).sum();
            prop_assert!(literals <= source.len());
            if !source.contains("{{") {
                prop_assert_eq!(literals, source.len());
            }
        }
    }
}
