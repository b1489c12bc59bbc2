//! A program that depends on `anywire` compiles little, and nothing that only the command needs. The README and the front page of
//! its documentation say what each feature adds, and how many packages it brings.

use std::collections::BTreeSet;
use std::process::Command;

use crate::{expect_none, tree};

/// The most packages that `anywire` may bring with its default features, itself included.
const PACKAGES_MAX: usize = 80;

/// Packages that only the command, the load generator or TCP in user space need.
const NOT_IN_THE_LIBRARY: [&str; 9] = [
    "anywire-load",
    "anywire-packet",
    "anywire-stack",
    "anywire-tcp",
    "clap",
    "hdrhistogram",
    "indicatif",
    "quinn",
    "tracing-subscriber",
];

#[test]
fn the_library_brings_few_packages() {
    let packages = packages_of("anywire");
    assert!(packages.contains("tokio"), "this is not the list of packages: {packages:?}");
    let unwanted: Vec<_> = NOT_IN_THE_LIBRARY
        .iter()
        .filter(|package| packages.contains(**package))
        .map(|package| format!("`{package}`: `cargo tree --package anywire --invert {package}` shows why"))
        .collect();
    expect_none("the library depends on nothing that only the command needs", &unwanted);
    assert!(packages.len() <= PACKAGES_MAX, "{} packages, at most {PACKAGES_MAX}", packages.len());
}

/// Both pages that a user sees first have one table: each feature, what it adds, and how many packages it brings.
#[test]
fn the_front_pages_list_every_feature_and_its_packages() {
    let manifest = tree::parse_manifest("its manifest", &tree::read_from_root("crates/anywire/Cargo.toml"));
    let features = manifest["features"].as_table().expect("anywire has features");
    let named: BTreeSet<&str> =
        features.keys().map(String::as_str).filter(|name| *name != "default").collect();
    let readme = feature_rows(&tree::read_from_root("README.md"));
    let docs = feature_rows(&tree::read_from_root("crates/anywire/src/lib.rs"));
    assert_eq!(readme, docs, "the README and the front page of the crate's documentation");
    let rows: BTreeSet<&str> = readme.iter().map(|row| row.feature.as_str()).collect();
    assert_eq!(rows, named, "the features of the table and those of the manifest");
    let [none, by_default, load] = ["", "server,client", "server,client,load"].map(packages_with);
    let wrong: Vec<_> = readme
        .iter()
        .filter_map(|FeatureRow { feature, packages, .. }| {
            let brings = match feature.as_str() {
                "server" | "client" => packages_with(feature) - none,
                "yaml" => packages_with("server,client,load,yaml") - load,
                _ => packages_with(&format!("server,client,{feature}")) - by_default,
            };
            (brings != *packages).then(|| format!("`{feature}` brings {brings} packages, not {packages}"))
        })
        .collect();
    expect_none("the table of features counts their packages", &wrong);
    let first = format!("| none | messages, wires, event loops | {none} |");
    assert!(tree::read_from_root("README.md").contains(&first), "{first}");
}

/// A row of a table of features.
#[derive(Debug, PartialEq, Eq)]
struct FeatureRow {
    feature: String,
    adds: String,
    packages: usize,
}

/// The rows of a page's table of features, which may stand in a comment.
fn feature_rows(page: &str) -> Vec<FeatureRow> {
    let rows = page.lines().map(|line| line.trim_start_matches("//! "));
    let rows = rows.skip_while(|row| *row != "| feature | adds | packages |");
    rows.take_while(|row| row.starts_with('|')).filter_map(feature_row).collect()
}

fn feature_row(row: &str) -> Option<FeatureRow> {
    let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
    let [feature, adds, packages] = cells[..] else { return None };
    let feature = feature.strip_prefix('`')?.split('`').next()?.to_owned();
    Some(FeatureRow { feature, adds: adds.to_owned(), packages: packages.parse().ok()? })
}

#[test]
fn the_rows_of_a_table_are_read() {
    let page = "//! | feature | adds | packages |\n//! | --- | --- | --- |\n//! | none | a | 3 |\n//! | `x` (default) | b, c | 12 |\n\n| `y` | d | 1 |";
    let row = FeatureRow { feature: "x".to_owned(), adds: "b, c".to_owned(), packages: 12 };
    assert_eq!(feature_rows(page), [row]);
    assert_eq!(feature_row("| `x` | no number |"), None);
}

/// How many packages a program compiles that depends on `anywire` with these features alone.
fn packages_with(features: &str) -> usize {
    tree_of("anywire", &["--no-default-features", "--features", features]).len()
}

/// The packages that a program compiles that depends on this one, as Cargo resolves them.
fn packages_of(package: &str) -> BTreeSet<String> {
    tree_of(package, &[])
}

fn tree_of(package: &str, options: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--package", package, "--edges", "normal,build"]).args(options);
    cargo.args(["--prefix", "none", "--format", "{p}"]).current_dir(tree::root());
    let tree = cargo.output().expect("Cargo runs this test, so it is there");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8_lossy(&tree.stdout).into_owned();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
