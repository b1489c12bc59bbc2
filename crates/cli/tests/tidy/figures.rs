//! The tables of measured figures in the documents are what `bench figures` writes from `bench/results`, and no other
//! sentence states one.

use crate::{expect_none, links, tree};

#[path = "../../../../bench/src/figures/mod.rs"]
mod tables;

#[test]
fn tables_are_as_the_results_have_them() {
    let results = tables::Results::read(&tree::root().join("bench/results")).expect("results that are JSON");
    let complaints: Vec<_> = tables::PAGES
        .iter()
        .filter_map(|page| {
            let text = tree::read_from_root(page);
            match tables::filled(&text, &results) {
                Ok(filled) if filled == text => None,
                Ok(_) => Some(format!("{page}: cargo run --manifest-path bench/Cargo.toml -- figures")),
                Err(error) => Some(format!("{page}: {error}")),
            }
        })
        .collect();
    expect_none("each table of figures is written from bench/results", &complaints);
}

#[test]
fn no_figure_is_typed_by_hand() {
    let pages = tree::files_ending_in("md").into_iter().filter(|file| file.path != "CHANGELOG.md");
    let complaints: Vec<_> = pages
        .flat_map(|file| typed(&file.text).into_iter().map(move |figure| format!("{}: {figure}", file.path)))
        .collect();
    expect_none("a measured figure stands in a table that is written from bench/results", &complaints);
}

/// Numbers with a fraction and a unit of measurements, and what took so many percent, outside code and outside the tables that are written.
fn typed(page: &str) -> Vec<String> {
    const COSTS: [&str; 4] = ["took", "takes", "cost", "costs"];
    const UNITS: [&str; 11] =
        ["us", "ns", "times", "KiB", "MiB", "GiB", "GB/s", "MB/s", "Gbit/s", "echo/s", "requests/s"];
    let parts = page.split("<!-- figures:").enumerate();
    // Behind an opening mark stands a table, and behind a closing one the page goes on.
    let outside = parts.filter(|(index, part)| *index == 0 || part.starts_with("end"));
    let mut found = Vec::new();
    for (_, part) in outside {
        let prose = links::without_code(part);
        let words: Vec<_> = prose.split_whitespace().collect();
        for pair in words.windows(2) {
            let number = pair[0].trim_start_matches(|first: char| !first.is_ascii_digit());
            let is_fraction = number.contains('.') && number.parse::<f64>().is_ok();
            let unit = pair[1].trim_end_matches(|last: char| !last.is_ascii_alphabetic());
            if is_fraction && UNITS.contains(&unit) {
                found.push(pair.join(" "));
            }
        }
        for cost in words.windows(3) {
            if COSTS.contains(&cost[0]) && cost[1].parse::<f64>().is_ok() && cost[2].starts_with('%') {
                found.push(cost.join(" "));
            }
        }
    }
    found
}

#[test]
fn a_typed_figure_is_caught() {
    assert_eq!(typed("It takes 6.18 us, and `0.5 us` less."), ["6.18 us,"]);
    assert_eq!(
        typed("a\n<!-- figures:x -->\n| 1.5 us |\n<!-- figures:end -->\n2.5 times.\n"),
        ["2.5 times."]
    );
    assert_eq!(typed("A lock for each took 40 % of it."), ["took 40 %"]);
    assert!(typed("spin for 20 us, by version 1.95 of Rust, RFC 9293 3.10.7.4 times").is_empty());
}
