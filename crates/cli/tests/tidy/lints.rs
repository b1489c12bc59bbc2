//! Every crate obeys the lints of the workspace; `sys` alone has its own, because it alone may be unsafe.

use toml::{Table, Value};

use crate::{expect_none, tree};

/// The crate with lints of its own.
const EXCEPTION: &str = "sys";

#[test]
fn every_crate_obeys_the_lints() {
    let complaints: Vec<_> = tree::crate_manifests()
        .iter()
        .filter_map(|(name, manifest)| {
            Some(format!("crates/{name}/Cargo.toml: {}", fault_of_lints(name, manifest)?))
        })
        .collect();
    expect_none("the lints of the workspace hold everywhere", &complaints);
}

#[test]
fn the_workspace_forbids_unsafe_code() {
    let manifest = tree::parse_manifest("Cargo.toml", &tree::read_from_root("Cargo.toml"));
    let workspace = manifest.get("workspace").and_then(Value::as_table).expect("a workspace");
    assert_eq!(level_of(workspace, "rust", "unsafe_code"), Some("forbid"));
}

fn fault_of_lints(name: &str, manifest: &Table) -> Option<String> {
    if name != EXCEPTION {
        let inherits =
            manifest.get("lints").and_then(|lints| lints.get("workspace")) == Some(&Value::Boolean(true));
        return (!inherits).then(|| "[lints] workspace = true is missing".to_owned());
    }
    // Unsafe code is refused until a module asks for it, and then each block has to say why it is sound.
    [("rust", "unsafe_code"), ("clippy", "undocumented_unsafe_blocks")]
        .into_iter()
        .find(|(tool, lint)| !matches!(level_of(manifest, tool, lint), Some("deny" | "forbid")))
        .map(|(tool, lint)| format!("[lints.{tool}] {lint} must be \"deny\""))
}

fn level_of<'a>(table: &'a Table, tool: &str, lint: &str) -> Option<&'a str> {
    table.get("lints")?.get(tool)?.get(lint)?.as_str()
}

mod on_bad_manifests {
    use super::*;

    fn fault(name: &str, manifest: &str) -> Option<String> {
        fault_of_lints(name, &tree::parse_manifest("a made-up manifest", manifest))
    }

    #[test]
    fn a_crate_outside_the_lints_is_caught() {
        for manifest in ["", "[lints]", "[lints]\nworkspace = false", "[lints.rust]\nunsafe_code = 'forbid'"]
        {
            assert!(fault("http", manifest).is_some(), "{manifest:?}");
        }
        assert_eq!(fault("http", "[lints]\nworkspace = true"), None);
    }

    #[test]
    fn the_exception_is_held_to_its_own() {
        let both = "[lints.rust]\nunsafe_code = 'deny'\n[lints.clippy]\nundocumented_unsafe_blocks = 'deny'";
        assert_eq!(fault("sys", both), None);
        assert!(fault("sys", "[lints.rust]\nunsafe_code = 'deny'").is_some());
        assert!(fault("sys", &both.replace("unsafe_code = 'deny'", "unsafe_code = 'allow'")).is_some());
        assert!(fault("sys", "[lints]\nworkspace = true").is_some());
    }
}
