//! A program that depends on `anywire` compiles little, and nothing that only the command needs. The README says what each
//! feature adds.

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

#[test]
fn the_readme_lists_every_feature() {
    let manifest = tree::parse_manifest("its manifest", &tree::read_from_root("crates/anywire/Cargo.toml"));
    let features = manifest["features"].as_table().expect("anywire has features");
    let readme = tree::read_from_root("README.md");
    let missing: Vec<_> = features
        .keys()
        .filter(|name| {
            *name != "default" && !readme.lines().any(|row| row.starts_with(&format!("| `{name}`")))
        })
        .cloned()
        .collect();
    expect_none("the README says what each feature adds", &missing);
}

/// The packages that a program compiles that depends on this one, as Cargo resolves them.
fn packages_of(package: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--package", package, "--edges", "normal,build"]);
    cargo.args(["--prefix", "none", "--format", "{p}"]).current_dir(tree::root());
    let tree = cargo.output().expect("Cargo runs this test, so it is there");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8_lossy(&tree.stdout).into_owned();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
