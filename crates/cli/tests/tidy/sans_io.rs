//! The sans-IO crates depend on no socket, no clock and no runtime: time and bytes are parameters.
//!
//! Their code cannot reach for one either: `clippy.toml` in each of them disallows clocks and sockets, and .ci/run
//! compiles `http` for a target without a system.

use toml::{Table, Value};

use crate::{expect_none, tree};

/// The crates that must be sans-IO.
const SANS_IO: [&str; 3] = ["http", "packet", "tcp"];

/// Dependencies that only make sense with a socket, a clock or a runtime.
const FORBIDDEN_DEPENDENCIES: [&str; 8] =
    ["tokio", "mio", "socket2", "rustix", "libc", "nix", "polling", "async-io"];

#[test]
fn sans_io_crates_depend_on_nothing_that_does_io() {
    let manifests = tree::crate_manifests();
    for name in SANS_IO {
        let (_, manifest) = manifests.iter().find(|(found, _)| found == name).expect("a crate of that name");
        expect_none(
            "a sans-IO crate has no dependency that does I/O",
            &forbidden_dependencies(name, manifest),
        );
        let lints = tree::read_from_root(&format!("crates/{name}/clippy.toml"));
        assert!(lints.contains("std::time::Instant::now"), "crates/{name}/clippy.toml allows clocks");
    }
}

fn forbidden_dependencies(name: &str, manifest: &Table) -> Vec<String> {
    let dependencies = manifest.get("dependencies").and_then(Value::as_table);
    FORBIDDEN_DEPENDENCIES
        .iter()
        .filter(|package| dependencies.is_some_and(|table| table.contains_key(**package)))
        .map(|package| format!("`{package}` in [dependencies] of crates/{name}/Cargo.toml"))
        .collect()
}

#[test]
fn a_runtime_among_the_dependencies_is_caught() {
    let parse = |text| tree::parse_manifest("a made-up manifest", text);
    assert_eq!(forbidden_dependencies("http", &parse("[dependencies]\ntokio.workspace = true")).len(), 1);
    assert!(forbidden_dependencies("http", &parse("[dependencies]\nbytes = '1'")).is_empty());
    assert!(forbidden_dependencies("http", &parse("[dev-dependencies]\ntokio = '1'")).is_empty());
}
