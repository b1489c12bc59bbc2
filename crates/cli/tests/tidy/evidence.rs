//! A test that a page names as evidence, for a requirement of an RFC or for what must always hold, exists.

use std::collections::BTreeMap;

use crate::{expect_none, tree};

const PAGES: [&str; 3] = ["docs/ARCHITECTURE.md", "docs/rfc9113.md", "docs/rfc9293.md"];

#[test]
fn evidence_exists() {
    let sources = sources();
    for page in PAGES {
        let text = tree::read_from_root(page);
        let named = named(&text);
        assert!(named.len() > 30, "{page} names {} tests", named.len());
        let complaints: Vec<_> = named.iter().filter_map(|test| complaint(page, test, &sources)).collect();
        expect_none("a test that is named as evidence exists", &complaints);
    }
}

/// A test as a page names it: `file::name`, or `file` for all of its tests. One of a source file has the file's ending.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    line: usize,
    file: String,
    name: String,
}

/// The tests in the tables of a page. `::name` is another one of the file before it.
fn named(page: &str) -> Vec<Named> {
    let (mut found, mut file) = (Vec::new(), String::new());
    for (row, line) in page.lines().zip(1..).filter(|(row, _)| row.starts_with('|')) {
        for code in row.split('`').skip(1).step_by(2) {
            let code = code.strip_prefix("unit: ").unwrap_or(code);
            let (before, name) = code.split_once("::").unwrap_or((code, ""));
            let is_test = |text: &str| {
                text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_/.".contains(c))
            };
            let is_file = before.ends_with(".rs") || before.matches('_').count() >= 3;
            if !is_test(before) || !is_test(name) || (name.is_empty() && !is_file) {
                continue;
            }
            if !before.is_empty() {
                file = before.to_owned();
            }
            found.push(Named { line, file: file.clone(), name: name.to_owned() });
        }
    }
    found
}

fn complaint(page: &str, test: &Named, sources: &BTreeMap<String, String>) -> Option<String> {
    let Named { line, file, name } = test;
    let endings = if file.ends_with(".rs") {
        vec![format!("/{file}")]
    } else {
        vec![format!("/tests/{file}.rs"), format!("/tests/behaviours/{file}.rs")]
    };
    let is_it = |path: &str| endings.iter().any(|ending| path.ends_with(ending));
    let mut texts = sources.iter().filter(|(path, _)| is_it(path)).map(|(_, text)| text).peekable();
    if texts.peek().is_none() {
        return Some(format!("{page}:{line}: there is no file {file}"));
    }
    let head = format!("fn {name}(");
    let is_there = name.is_empty() || texts.any(|text| text.contains(&head));
    (!is_there).then(|| format!("{page}:{line}: {file} has no test {name}"))
}

/// Every Rust file of the crates by its path.
fn sources() -> BTreeMap<String, String> {
    tree::files_ending_in("rs").into_iter().map(|file| (file.path, file.text)).collect()
}

#[test]
fn a_test_that_is_gone_is_found() {
    let page = "\
| MUST-1 | one | `streams_that_are_here::first`, `::second` (`Engine::open`, `default_mss`) |
| MUST-2 | two | `unit: h2/limits.rs::budget`; `a_file_of_its_own` |
not a table: `nothing::here`";
    let found = named(page);
    let texts: Vec<_> =
        found.iter().map(|test| format!("{} {} {}", test.line, test.file, test.name)).collect();
    let first_two = ["1 streams_that_are_here first", "1 streams_that_are_here second"];
    assert_eq!(texts, [&first_two[..], &["2 h2/limits.rs budget", "2 a_file_of_its_own "]].concat());

    let sources =
        [("crates/x/tests/streams_that_are_here.rs", "fn first() {}"), ("crates/x/src/h2/limits.rs", "")];
    let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let complaints: Vec<_> = found.iter().filter_map(|test| complaint("p", test, &sources)).collect();
    assert_eq!(
        complaints,
        [
            "p:1: streams_that_are_here has no test second",
            "p:2: h2/limits.rs has no test budget",
            "p:2: there is no file a_file_of_its_own",
        ]
    );
}
