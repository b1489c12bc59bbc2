//! The pages of the guide lead from one to the next, in the order in which its first page lists them.

use crate::{expect_none, tree};

const FOLDER: &str = "docs/guide/";

#[test]
fn each_page_of_the_guide_leads_to_the_next() {
    let listed = listed(&tree::read_from_root(&format!("{FOLDER}README.md")));
    let read = |page: &String| tree::read_from_root(&format!("{FOLDER}{page}"));
    let mut complaints: Vec<_> = listed
        .windows(2)
        .filter(|pair| next(&read(&pair[0])).as_ref() != Some(&pair[1]))
        .map(|pair| format!("{} does not end by `Next: [..]({}).`", pair[0], pair[1]))
        .collect();
    let pages = tree::files_ending_in("md")
        .into_iter()
        .filter_map(|file| file.path.strip_prefix(FOLDER).map(str::to_owned));
    complaints.extend(
        pages
            .filter(|page| page != "README.md" && !listed.contains(page))
            .map(|page| format!("{page} is not listed")),
    );
    expect_none("the guide is read from page to page", &complaints);
}

/// The pages in the table of the first page: rows that begin with a link.
fn listed(first: &str) -> Vec<String> {
    first.lines().filter(|row| row.starts_with("| [")).filter_map(target).collect()
}

/// Where the last line of a page leads.
fn next(page: &str) -> Option<String> {
    page.lines().next_back().filter(|line| line.starts_with("Next: ")).and_then(target)
}

fn target(line: &str) -> Option<String> {
    Some(line.split_once("](")?.1.split_once(')')?.0.to_owned())
}

#[test]
fn links_are_read_from_tables_and_last_lines() {
    assert_eq!(
        listed("# Guide\n[other](x.md)\n| [A](a.md) | one |\n| [B](b.md) | two |\n"),
        ["a.md", "b.md"]
    );
    assert_eq!(next("# A\n\nNext: [B](b.md).\n").as_deref(), Some("b.md"));
    assert_eq!(next("# A\n\nNext: [B](b.md).\nMore.\n"), None);
}
