//! The README lists every example, and every example runs to its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{expect_none, tree};

/// Where examples live, relative to the root.
const FOLDER: &str = "crates/anywire/examples";

/// How long one example may run. Far above what any needs: it only ends a run that hangs.
pub(crate) const DEADLINE_SECONDS: u32 = 60;

/// How long one may take that Cargo has to build first.
const DEADLINE_SECONDS_WITH_BUILD: u32 = 900;

#[test]
fn the_readme_lists_every_example() {
    let listed = listed_in(&tree::read_from_root("README.md"));
    expect_none("the README and the folder of examples agree", &disagreements(&listed, &existing()));
}

#[test]
fn every_example_runs() {
    let complaints: Vec<_> = existing().iter().filter_map(|name| run(name).err()).collect();
    expect_none("an example shows its thing and exits with 0", &complaints);
}

/// The examples that `readme` names: as `--example NAME`, or by a link to the file.
fn listed_in(readme: &str) -> BTreeSet<String> {
    let link = format!("{FOLDER}/");
    [" --example ", link.as_str()]
        .into_iter()
        .flat_map(|mark| readme.match_indices(mark).map(move |(at, _)| &readme[at + mark.len()..]))
        .map(|rest| rest.chars().take_while(|char| char.is_alphanumeric() || "_-".contains(*char)).collect())
        .filter(|name: &String| !name.is_empty())
        .collect()
}

/// The examples that there are: `NAME.rs`, or `NAME/main.rs`.
fn existing() -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(tree::root().join(FOLDER)) else { return BTreeSet::new() };
    entries
        .map(|entry| entry.expect("an entry of a folder that was just opened").path())
        .filter(|path| path.extension().is_some_and(|found| found == "rs") || path.join("main.rs").exists())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

fn disagreements(listed: &BTreeSet<String>, existing: &BTreeSet<String>) -> Vec<String> {
    let missing =
        listed.difference(existing).map(|name| format!("the README names `{name}`, not in {FOLDER}"));
    let unlisted = existing.difference(listed).map(|name| format!("{FOLDER}/{name} is not in the README"));
    missing.chain(unlisted).collect()
}

fn run(name: &str) -> Result<(), String> {
    let built = built_example(name);
    if built.exists() {
        return finish(DEADLINE_SECONDS, &built, &[]);
    }
    let arguments = ["run", "--quiet", "--package", "anywire", "--all-features", "--example", name];
    finish(DEADLINE_SECONDS_WITH_BUILD, Path::new(env!("CARGO")), &arguments)
}

/// Where `cargo test` has put the example: beside the folder of this test, `target/PROFILE/deps`.
fn built_example(name: &str) -> PathBuf {
    let this_test = std::env::current_exe().expect("the path of this test");
    let profile = this_test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    profile.join("examples").join(name)
}

/// Runs a program to its end, or to the deadline.
pub(crate) fn finish(seconds: u32, program: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg(seconds.to_string()).arg(program).args(arguments);
    let output = command.current_dir(tree::root()).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("timeout (of coreutils) could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("{} ended with {} (124: at its deadline)\n{printed}{said}", program.display(), output.status))
}

mod on_bad_input {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn both_ways_of_naming_an_example_are_seen() {
        let readme = "`cargo run --example hello`, see [the code](crates/anywire/examples/streaming.rs).";
        assert_eq!(listed_in(readme), names(&["hello", "streaming"]));
        assert_eq!(listed_in("For example: none. [All](crates/anywire/examples/)"), names(&[]));
    }

    #[test]
    fn a_difference_either_way_is_caught() {
        assert_eq!(disagreements(&names(&["gone"]), &names(&[])).len(), 1);
        assert_eq!(disagreements(&names(&[]), &names(&["new"])).len(), 1);
        assert!(disagreements(&names(&["same"]), &names(&["same"])).is_empty());
    }

    #[test]
    fn a_failure_and_a_hang_are_caught() {
        let shell = |seconds, script| finish(seconds, Path::new("sh"), &["-c", script]);
        assert_eq!(shell(60, "true"), Ok(()));
        let failed = shell(60, "echo printed; exit 3");
        assert!(failed.is_err_and(|error| error.contains("status: 3 ") && error.contains("printed\n")));
        assert!(shell(1, "exec sleep 600").is_err_and(|error| error.contains("status: 124 ")));
        assert!(finish(60, Path::new("/no/such/example"), &[]).is_err());
    }
}
