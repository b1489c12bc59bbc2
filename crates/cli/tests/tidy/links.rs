//! A relative link in a document leads to a file or folder that exists, and to a heading that is there.

use std::fs;
use std::path::Path;

use crate::{expect_none, tree};

#[test]
fn relative_links_lead_somewhere() {
    let root = tree::root();
    let complaints: Vec<_> = tree::files_ending_in("md")
        .iter()
        .flat_map(|file| dead_links(&root, &file.path, &file.text))
        .collect();
    expect_none("a relative link leads to something that is there", &complaints);
}

/// The links of the document at `path` that lead nowhere, a sentence each.
fn dead_links(root: &Path, path: &str, text: &str) -> Vec<String> {
    let folder = root.join(path).parent().expect("a file lies in a folder").to_path_buf();
    let relative = links(text).into_iter().filter(|(_, target)| !is_elsewhere(target));
    relative
        .filter_map(|(line, target)| {
            let (place, heading) = target.split_once('#').unwrap_or((&target, ""));
            let linked = folder.join(place);
            if !linked.exists() {
                return Some(format!("{path}:{line}: there is no {place}"));
            }
            let document =
                if place.is_empty() { Some(text.to_owned()) } else { fs::read_to_string(linked).ok() };
            let found = heading.is_empty() || document.is_some_and(|text| has_heading(&text, heading));
            (!found).then(|| format!("{path}:{line}: there is no heading for `{target}`"))
        })
        .collect()
}

/// Links to the world outside are not ours to keep alive.
fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The targets of `[text](target)` with their line numbers, outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let prose = without_code(text);
    let mut found = Vec::new();
    for (line, number) in prose.lines().zip(1..) {
        for (at, mark) in line.match_indices("](") {
            let target = line[at + mark.len()..].split([')', ' ']).next().unwrap_or("");
            found.push((number, target.to_owned()));
        }
    }
    found
}

fn has_heading(text: &str, anchor: &str) -> bool {
    let prose = without_fences(text);
    prose.lines().filter(|line| line.starts_with('#')).any(|line| anchor_of(line) == anchor)
}

/// The anchor that a heading gets where Markdown is shown: lower case, hyphens for spaces, no punctuation.
fn anchor_of(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

pub(crate) fn without_code(text: &str) -> String {
    let outside = without_fences(text);
    let lines = outside.lines().map(|line| {
        let spans = line.split('`').enumerate();
        spans.map(|(index, span)| if index % 2 == 0 { span } else { "" }).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text with fenced blocks blanked out, line for line.
fn without_fences(text: &str) -> String {
    let mut inside = false;
    let lines = text.lines().map(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        if inside || fence { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

mod on_bad_documents {
    use super::*;

    fn dead(text: &str) -> Vec<String> {
        dead_links(&tree::root(), "crates/made-up.md", text)
    }

    #[test]
    fn a_link_to_nothing_is_caught_with_its_line() {
        assert_eq!(dead("One.\nSee [it](no-such.md)."), ["crates/made-up.md:2: there is no no-such.md"]);
        assert_eq!(dead("[a](../Cargo.toml) [b](../no-such/)").len(), 1);
        assert_eq!(dead("[a](#no-such-heading)").len(), 1);
    }

    #[test]
    fn a_link_to_something_is_fine() {
        assert!(
            dead("# The *one*: part 2\n[a](../Cargo.toml) [b](#the-one-part-2) [c](https://example.org)")
                .is_empty()
        );
    }

    #[test]
    fn code_holds_no_links() {
        assert!(dead("`[a](nowhere.md)`\n```text\n[b](nowhere.md)\n```").is_empty());
    }
}
