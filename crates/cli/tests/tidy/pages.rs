//! On the pages for users of other libraries, a program on anywire has no more lines of code than its counterpart, and
//! names no more public items. Beside annotations of Java stands code that is compiled.

use std::collections::BTreeSet;

use crate::{expect_none, tree};

/// With the number of pairs that each has.
const PAGES: [(&str, usize); 2] = [("docs/from-axum.md", 5), ("docs/from-reqwest.md", 2)];

/// The pages that set our code beside annotations and calls of Java, with fewer rows than each has.
const ROWS: [(&str, usize); 2] = [("docs/from-restclient.md", 50), ("docs/from-spring.md", 60)];

#[test]
fn programs_are_no_longer_than_their_counterparts() {
    let mut complaints = Vec::new();
    for (page, count) in PAGES {
        let pairs = pairs(&tree::read_from_root(page));
        assert_eq!(pairs.len(), count, "pairs of programs of {page}");
        complaints.extend(pairs.iter().filter_map(|[theirs, ours]| excess(page, theirs, ours)));
    }
    expect_none("a program on anywire is no longer and names no more", &complaints);
}

/// What stands beside code of Java has been compiled: it is in the program of the page.
#[test]
fn each_row_beside_java_is_code_of_the_program() {
    let mut complaints = Vec::new();
    for (name, least) in ROWS {
        let page = tree::read_from_root(name);
        let (_, program) = page.rsplit_once("\n```rust\n").unwrap_or_default();
        let rows: Vec<_> = page.lines().filter_map(third_cell).collect();
        assert!(rows.len() > least, "{name} has {} rows", rows.len());
        complaints.extend(rows.iter().filter_map(|row| unshown(name, row, program)));
    }
    expect_none(
        "a row has code of the program, leads to a page, or says that there is no counterpart",
        &complaints,
    );
}

/// The last cell of a row with three.
fn third_cell(row: &str) -> Option<&str> {
    let cells: Vec<_> = row.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [_, _, ours] = cells[..] else { return None };
    (ours != "---" && ours != "anywire").then_some(ours)
}

/// The code of a row that is not in the program.
fn unshown(page: &str, row: &str, program: &str) -> Option<String> {
    let says_otherwise = row.starts_with("no counterpart") || row.contains("](");
    let code = row.split('`').nth(1)?;
    (!says_otherwise && !program.contains(code)).then(|| format!("`{code}` is not in the program of {page}"))
}

fn excess(page: &str, theirs: &str, ours: &str) -> Option<String> {
    let counts = [theirs, ours].map(|code| (lines(code), names(code).len()));
    println!("{page}: lines and names of theirs and ours: {counts:?}");
    let [theirs_counted, ours_counted] = counts;
    let fits = ours_counted.0 <= theirs_counted.0 && ours_counted.1 <= theirs_counted.1;
    (!fits).then(|| format!("{page}: {ours_counted:?} against {theirs_counted:?}: {:?}", names(ours)))
}

/// The programs of a page: a block of another library's code, which is `ignore`d here, and the next one of ours. Ours is, too, if it needs
/// that library.
fn pairs(page: &str) -> Vec<[String; 2]> {
    let mut pairs = Vec::new();
    let mut theirs = None;
    let mut rest = page;
    while let Some((_, block)) = rest.split_once("\n```rust") {
        let (info, block) = block.split_once('\n').unwrap_or_default();
        let (code, after) = block.split_once("\n```").unwrap_or_default();
        rest = after;
        match theirs.take() {
            Some(theirs) => pairs.push([theirs, code.to_owned()]),
            None if info.contains("ignore") => theirs = Some(code.to_owned()),
            None => {}
        }
    }
    pairs
}

/// Lines that are neither blank, nor a comment, nor hidden on the page.
fn code(block: &str) -> impl Iterator<Item = &str> {
    block
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("# "))
}

fn lines(block: &str) -> usize {
    code(block).count()
}

/// Imported names, names behind `::` and called methods, each once. Modules do not count, nor do the standard library's
/// paths and serde.
fn names(block: &str) -> BTreeSet<String> {
    let text = code(block).collect::<Vec<_>>().join("\n");
    let tokens = tokens(&text);
    let at = |index: usize| tokens.get(index).copied().unwrap_or_default();
    let mut names = BTreeSet::new();
    // The first part of the present path, and whether an import goes on.
    let (mut root, mut imports) = ("", false);
    for (index, token) in tokens.iter().copied().enumerate() {
        let (before, after) = (at(index.wrapping_sub(1)), at(index + 1));
        if token == "use" || token == ";" {
            imports = token == "use";
        }
        if !token.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') {
            continue;
        }
        if before != "::" && after == "::" && (!imports || before == "use") {
            root = token;
        }
        let foreign = ["std", "serde", "Self"].contains(&root);
        let is_module = after == "::" && token.starts_with(char::is_lowercase);
        let imported = imports && token != "use" && after != "::";
        let in_path = !imports && before == "::" && !is_module;
        let called = before == "." && ["(", "::"].contains(&after);
        if called || (!foreign && (imported || in_path)) {
            names.insert(token.to_owned());
        }
    }
    names
}

/// Words, `::` and other characters.
fn tokens(mut text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    while let Some(first) = text.chars().next() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let len = match first {
            _ if is_word(first) => text.find(|letter| !is_word(letter)).unwrap_or(text.len()),
            ':' if text.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (token, rest) = text.split_at(len);
        if !first.is_whitespace() {
            tokens.push(token);
        }
        text = rest;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_imports_paths_and_methods() {
        let block = "use std::io;\nuse axum::routing::{get, put};\n\n// a.comment()\nfn f() -> std::io::Result<()> {\n    \
                     Router::new().route(\"/0.0\", get(f).put(Self::A));\n    axum::extract::State(io::Error::other(1))\n}";
        assert_eq!(
            names(block).into_iter().collect::<Vec<_>>().join(" "),
            "Error State get new other put route"
        );
        assert_eq!(lines(block), 6);
    }

    #[test]
    fn a_longer_program_and_one_that_names_more_are_found() {
        assert!(excess("page", "f();", "f();").is_none());
        assert!(excess("page", "f();", "f();\ng();").is_some());
        assert!(excess("page", "a.b();", "a.b().c();").is_some());
    }

    #[test]
    fn a_row_whose_code_is_not_in_the_program_is_found() {
        let cell = third_cell("| `@A` | `@B` | `a(b)`, or `c` |").expect("it has three cells");
        assert_eq!(unshown("a.md", cell, "let it = a(b);"), None);
        assert!(unshown("a.md", cell, "let it = a(c);").is_some());
        assert_eq!(unshown("a.md", "no counterpart: `a`", ""), None);
        assert_eq!(unshown("a.md", "`a`: see [b](c.md)", ""), None);
        assert_eq!(third_cell("| --- | --- | --- |"), None);
        assert_eq!(third_cell("| `@A` | `a` |"), None);
    }

    #[test]
    fn pairs_are_blocks_in_a_row() {
        let page = "\n```rust,ignore\na\n```\n\nours:\n\n```rust\nb\n```\n\n```rust\nc\n```\n";
        assert_eq!(pairs(page), [["a".to_owned(), "b".to_owned()]]);
        let both = "\n```rust,ignore\na\n```\n\n```rust,ignore\nb\n```\n";
        assert_eq!(pairs(both), pairs(page)[..]);
    }
}
