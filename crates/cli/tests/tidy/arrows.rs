//! Arrows point down: a crate depends only on the crates below it, read from the Cargo manifests.

use toml::{Table, Value};

use crate::{expect_none, tree};

/// A crate of the house and the crates that it may know, by the names of their folders.
struct Room {
    name: &'static str,
    /// What its `[dependencies]` may name.
    below: &'static [&'static str],
    /// What its `[dev-dependencies]` may name besides: arrows that only tests may draw.
    for_tests: &'static [&'static str],
}

/// The house from the ground up: a room names only rooms that stand above it in this list.
const HOUSE: &[Room] = &[
    // What would help against an error, which every other crate may say.
    Room { name: "advice", below: &[], for_tests: &[] },
    Room { name: "sys", below: &["advice"], for_tests: &[] },
    Room { name: "loops", below: &["advice", "sys"], for_tests: &[] },
    // The I/O models, one file each: on the system alone, so that nothing of anywire is in their figures.
    Room { name: "ladder", below: &["advice", "sys"], for_tests: &[] },
    // Headers, TCP as segments in, segments out, and what makes streams of it; beside the loops, not on them.
    Room { name: "packet", below: &["advice", "sys"], for_tests: &[] },
    Room { name: "tcp", below: &["advice", "sys", "packet"], for_tests: &[] },
    Room { name: "stack", below: &["advice", "sys", "packet", "tcp"], for_tests: &[] },
    Room { name: "wire", below: &["advice", "sys", "loops", "stack"], for_tests: &[] },
    // Beside the wire, not on it: HTTP is bytes in, bytes out.
    Room { name: "http", below: &["advice"], for_tests: &[] },
    // What drives the streams of a connection in all three above it.
    Room { name: "mux", below: &["http", "wire"], for_tests: &[] },
    // Derives of the server: code that the compiler runs, and no crate calls.
    Room { name: "macros", below: &[], for_tests: &[] },
    // Server, client and load are side by side: a crate that needs two of them is above all three.
    Room {
        name: "server",
        below: &["advice", "sys", "loops", "wire", "http", "mux", "macros"],
        for_tests: &[],
    },
    Room { name: "client", below: &["advice", "sys", "loops", "wire", "http", "mux"], for_tests: &[] },
    Room { name: "load", below: &["advice", "sys", "loops", "wire", "http", "mux"], for_tests: &[] },
    Room {
        name: "anywire",
        below: &["advice", "sys", "tcp", "stack", "loops", "wire", "http", "server", "client", "load"],
        for_tests: &[],
    },
    // What `anywire lab swarm` measures, with the histograms and tables of `load`.
    Room { name: "swarm-load", below: &["advice", "sys", "tcp", "stack", "http", "load"], for_tests: &[] },
    // What `anywire lab ipc` measures, with the histograms and pages of `load`.
    Room { name: "ipc", below: &["advice", "sys", "loops", "wire", "load"], for_tests: &[] },
    Room { name: "cli", below: &["sys", "ladder", "anywire", "ipc", "swarm-load"], for_tests: &[] },
];

#[test]
fn arrows_point_down() {
    let root_manifest = tree::parse_manifest("Cargo.toml", &tree::read_from_root("Cargo.toml"));
    let complaints: Vec<_> = tree::crate_manifests()
        .iter()
        .flat_map(|(name, manifest)| wrong_arrows(name, manifest, &root_manifest))
        .collect();
    expect_none("a crate may depend only on what `HOUSE` in tests/tidy/arrows.rs lists for it", &complaints);
}

#[test]
fn every_crate_has_its_place_in_the_house() {
    let crates: Vec<_> = tree::crate_manifests().into_iter().map(|(name, _)| name).collect();
    let missing: Vec<_> = HOUSE
        .iter()
        .filter(|room| !crates.iter().any(|name| name == room.name))
        .map(|room| format!("`{}` is in `HOUSE`, but there is no crates/{}", room.name, room.name))
        .collect();
    expect_none("the house lists the crates that exist", &missing);
}

/// The arrows of the crate `name` that the house does not allow, a sentence each.
fn wrong_arrows(name: &str, manifest: &Table, root_manifest: &Table) -> Vec<String> {
    let Some(room) = HOUSE.iter().find(|room| room.name == name) else {
        return vec![format!("`{name}` (crates/{name}/Cargo.toml) has no place in `HOUSE`: give it one")];
    };
    let arrows = arrows_of(manifest, root_manifest);
    let wrong = arrows.iter().filter(|arrow| {
        // A crate that names itself turns its features on for its tests.
        let allowed = room.below.contains(&arrow.to.as_str()) || arrow.to == name;
        let allowed_for_tests =
            arrow.section == "dev-dependencies" && room.for_tests.contains(&arrow.to.as_str());
        !allowed && !allowed_for_tests
    });
    wrong
        .map(|Arrow { section, to }| {
            format!(
                "`{name}` points to `{to}` in [{section}] of crates/{name}/Cargo.toml: {}",
                why_not(name, to)
            )
        })
        .collect()
}

/// Says in which direction a forbidden arrow points.
fn why_not(from: &str, to: &str) -> &'static str {
    let place = |name| HOUSE.iter().position(|room| room.name == name);
    let knows = HOUSE.iter().any(|room| room.name == to && room.below.contains(&from));
    match (place(from), place(to)) {
        (_, None) => "it is no room of the house",
        _ if knows => "that is up",
        _ => "that is sideways",
    }
}

/// A dependency on another crate of the house.
struct Arrow {
    section: &'static str,
    to: String,
}

fn arrows_of(manifest: &Table, root_manifest: &Table) -> Vec<Arrow> {
    let shared = root_manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let for_all_targets = std::iter::once(manifest);
    let for_some = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let mut arrows = Vec::new();
    for table in for_all_targets.chain(for_some.filter_map(Value::as_table)) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let dependencies = table.get(section).and_then(Value::as_table).into_iter().flatten();
            arrows.extend(dependencies.filter_map(|(key, dependency)| {
                let package = package_of(key, dependency, shared);
                room_of(&package).map(|to| Arrow { section, to: to.to_owned() })
            }));
        }
    }
    arrows
}

/// The package that a dependency names: a rename, here or in the workspace's list, does not hide it.
fn package_of(key: &str, dependency: &Value, shared: Option<&Value>) -> String {
    let renamed = |value: &Value| value.get("package").and_then(Value::as_str).map(str::to_owned);
    renamed(dependency)
        .or_else(|| shared.and_then(|list| list.get(key)).and_then(renamed))
        .unwrap_or_else(|| key.to_owned())
}

/// The folder of one of our packages: `anywire-http` lives in `http`, and `anywire` in `anywire`.
fn room_of(package: &str) -> Option<&str> {
    if package == "anywire" { Some(package) } else { package.strip_prefix("anywire-") }
}

mod on_bad_manifests {
    use super::*;

    const SHARED: &str = r#"
        [workspace.dependencies]
        anywire-server = { path = "crates/server" }
        innocent = { package = "anywire-server", path = "crates/server" }
    "#;

    fn complaints(name: &str, manifest: &str) -> Vec<String> {
        let parse = |text| tree::parse_manifest("a made-up manifest", text);
        wrong_arrows(name, &parse(manifest), &parse(SHARED))
    }

    #[track_caller]
    fn assert_caught(name: &str, manifest: &str, words: &[&str]) {
        let complaints = complaints(name, manifest);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        for word in words {
            assert!(complaints[0].contains(word), "no {word} in: {}", complaints[0]);
        }
    }

    #[test]
    fn an_arrow_down_is_fine() {
        let manifest =
            "[dependencies]\nanywire-wire.workspace = true\nanywire-http.workspace = true\ntokio = '1'";
        assert!(complaints("server", manifest).is_empty());
    }

    #[test]
    fn an_arrow_up_names_both_crates_and_the_file() {
        let manifest = "[dependencies]\nanywire-server.workspace = true";
        assert_caught("wire", manifest, &["`wire`", "`server`", "crates/wire/Cargo.toml", "up"]);
        assert_caught("loops", "[dependencies]\nanywire = '0.1'", &["`loops`", "`anywire`", "up"]);
    }

    #[test]
    fn an_arrow_sideways_is_caught() {
        let client = "[dependencies]\nanywire-client.workspace = true";
        assert_caught("server", client, &["`server`", "`client`", "sideways"]);
        assert_caught("load", client, &["`load`", "`client`", "sideways"]);
        assert_caught("http", "[dependencies]\nanywire-wire = '0.1'", &["`http`", "`wire`"]);
    }

    #[test]
    fn tests_draw_no_arrow_that_the_table_does_not_give_them() {
        let manifest = "[dev-dependencies]\nanywire-client.workspace = true";
        assert_caught("server", manifest, &["[dev-dependencies]"]);
    }

    #[test]
    fn a_new_name_hides_nothing() {
        let manifest = "[dependencies]\ninnocent = { package = 'anywire-server', path = '../server' }";
        assert_caught("wire", manifest, &["`server`"]);
        assert_caught("wire", "[dependencies]\ninnocent.workspace = true", &["`server`"]);
    }

    #[test]
    fn a_dependency_of_one_target_or_of_the_build_is_an_arrow_too() {
        let manifest = "[target.'cfg(unix)'.dependencies]\nanywire-server.workspace = true";
        assert_caught("wire", manifest, &["`server`"]);
        let manifest = "[build-dependencies]\nanywire-server.workspace = true";
        assert_caught("wire", manifest, &["[build-dependencies]"]);
    }

    #[test]
    fn a_crate_without_a_place_is_caught() {
        assert_caught("cellar", "[dependencies]", &["`cellar`", "no place"]);
        assert_caught("wire", "[dependencies]\nanywire-cellar = '0.1'", &["`cellar`", "no room"]);
    }

    #[test]
    fn the_house_itself_points_down() {
        for (place, room) in HOUSE.iter().enumerate() {
            let lower: Vec<_> = HOUSE[..place].iter().map(|room| room.name).collect();
            for below in room.below {
                assert!(
                    lower.contains(below),
                    "`{}` lists `{below}`, which does not stand below it",
                    room.name
                );
            }
        }
    }
}
