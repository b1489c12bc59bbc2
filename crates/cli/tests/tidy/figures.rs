//! The tables of measured figures in the documents are what `bench figures` writes from `bench/results`.

#[path = "../../../../bench/src/figures/mod.rs"]
mod tables;

use crate::{expect_none, tree};

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
