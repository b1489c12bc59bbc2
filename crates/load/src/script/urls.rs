//! A list of URLs: one a line, with a method before it and a weight behind it if they are not `GET` and 1.
//!
//! ```text
//! # what users look at
//! /                            10
//! /items/{{int 1 500}}         5
//! DELETE /items/{{n}}
//! http://localhost:8080/cart
//! ```
//!
//! Empty lines, and those that begin with `#`, are left out. If no line has a weight, they are sent in turn.

use anywire_advice::Advice;
use anywire_http::Method;

use super::set::{Script, Sequence, Step};
use super::table::Order;
use super::target::{Origins, TargetError};

/// What a list of URLs says.
#[derive(Debug, Clone, PartialEq)]
pub struct UrlList {
    /// One request for each line.
    pub script: Script,
    /// Scheme and host of the URLs; `None` if all of them are paths.
    pub origin: Option<String>,
}

/// A list of URLs that cannot be read (the caller's fault).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlsError {
    /// There is none.
    #[error("there is no URL in it{help}", help = Advice("write one a line"))]
    Empty,
    /// A line has something else than `[METHOD] URL [WEIGHT]`.
    #[error("line {line}: {found:?} is not [METHOD] URL [WEIGHT]{help}", help = Advice("write a line such as GET /items 5"))]
    Line {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// A URL is none, or of another host than those before it.
    #[error("line {line}")]
    Url {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: TargetError,
    },
}

/// Reads a list of URLs. With `templates`, `{{...}}` in one stands for a value.
///
/// ```
/// let list = anywire_load::script::read_urls("/a 3\nPOST /b\n", true)?;
/// assert_eq!(list.script.requests(), 2);
/// # Ok::<(), anywire_load::script::UrlsError>(())
/// ```
///
/// # Errors
///
/// A line is none of the list's, or there is none.
pub fn read_urls(text: &str, templates: bool) -> Result<UrlList, UrlsError> {
    let mut origins = Origins::default();
    let mut sequences = Vec::new();
    let mut has_weight = false;
    for (number, line) in text.lines().enumerate() {
        let (line, number) = (line.trim(), number + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || UrlsError::Line { line: number, found: line.to_owned() };
        let mut words = words(line);
        let weight = words.pop_if(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        has_weight |= weight.is_some();
        let weight = weight.map_or(Ok(1), str::parse).map_err(|_| wrong())?;
        let (method, url) = match words[..] {
            [url] => (Method::GET, url),
            [method, url] => (method.parse().map_err(|_| wrong())?, url),
            _ => return Err(wrong()),
        };
        let target = origins.target(url, templates);
        let target = target.map_err(|source| UrlsError::Url { line: number, source })?;
        sequences.push(Sequence { weight, ..Sequence::one(Step { method, ..Step::get(target) }) });
    }
    if sequences.is_empty() {
        return Err(UrlsError::Empty);
    }
    let order = if has_weight { Order::Random } else { Order::InTurn };
    Ok(UrlList { script: Script { sequences, order, ..Script::default() }, origin: origins.origin })
}

/// The words of a line; white space between two braces ends none.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let mut end = 0;
        while let Some(letter) = rest[end..].chars().next().filter(|letter| !letter.is_whitespace()) {
            end += match rest[end..].starts_with("{{") {
                true => rest[end..].find("}}").map_or(2, |close| close + 2),
                false => letter.len_utf8(),
            };
        }
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use anywire_advice::Chain;
    use proptest::prelude::*;

    use super::*;

    /// Method, target and weight of each.
    fn read(text: &str) -> Vec<(String, String, u32)> {
        let list = read_urls(text, true).unwrap_or_else(|error| panic!("{}", Chain(&error)));
        let lines = list.script.sequences.iter().map(|one| {
            let step = &one.steps[0];
            (
                step.method.to_string(),
                String::from_utf8_lossy(step.target.as_bytes()).into_owned(),
                one.weight,
            )
        });
        lines.collect()
    }

    #[test]
    fn a_line_has_a_url_and_perhaps_a_method_and_a_weight() {
        let line = |method: &str, target: &str, weight| (method.to_owned(), target.to_owned(), weight);
        assert_eq!(
            read("# all\n\n/a\r\n  DELETE /b/{{int 1 5}} 7\nhttp://h/c 2\nhttp://h\n"),
            [
                line("GET", "/a", 1),
                line("DELETE", "/b/{{int 1 5}}", 7),
                line("GET", "/c", 2),
                line("GET", "/", 1)
            ]
        );
        assert_eq!(read_urls("/a\n/b", true).unwrap().script.order, Order::InTurn);
        let list = read_urls("http://h/a\n/b 2", true).unwrap();
        assert_eq!((list.script.order, list.origin.as_deref()), (Order::Random, Some("http://h")));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let said = |text: &str| Chain(&read_urls(text, true).unwrap_err()).to_string();
        assert!(said("# nothing\n").contains("no URL in it"));
        assert!(
            said("/a\nGET /b 3 4 5\n").contains("line 2: \"GET /b 3 4 5\""),
            "{}",
            said("/a\nGET /b 3 4 5\n")
        );
        assert!(said("12\n").contains("line 1"));
        assert!(said("/a 99999999999999\n").contains("line 1"));
        assert!(said("http://a/\nhttp://b/\n").contains("line 2: \"http://b/\" is not of http://a"));
        assert!(
            said("http://me:secret@a/\n").contains("line 1")
                && !said("http://me:secret@a/\n").contains("secret")
        );
    }

    proptest! {
        #[test]
        fn no_list_panics(text in "(GET|/|a|\\{\\{|\\}\\}|int 1 5| |\n|#|http://|\u{e4}|9){0,30}") {
            let _ = read_urls(&text, true);
        }
    }
}
