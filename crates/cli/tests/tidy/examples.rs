//! The README lists every example, and every example runs to its end.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::{expect_none, tree};

/// Where examples live, relative to the root.
const FOLDER: &str = "crates/anywire/examples";

/// How long one example may run. Far above what any needs: it only ends a run that hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long one may take that Cargo has to build first.
const DEADLINE_WITH_BUILD: Duration = Duration::from_secs(900);

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
    let (mut command, deadline) = if built.exists() {
        (Command::new(built), DEADLINE)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", "anywire", "--example", name]);
        (cargo, DEADLINE_WITH_BUILD)
    };
    command.current_dir(tree::root());
    match finish_within(command, deadline) {
        Ok((status, _)) if status.success() => Ok(()),
        Ok((status, output)) => Err(format!("`{name}` ended with {status}; it printed:\n{output}")),
        Err(error) => Err(format!("`{name}` {error}")),
    }
}

/// Where `cargo test` has put the example: beside the folder of this test, `target/PROFILE/deps`.
fn built_example(name: &str) -> PathBuf {
    let this_test = std::env::current_exe().expect("the path of this test");
    let profile = this_test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    profile.join("examples").join(name)
}

/// Runs `command` to its end and gives what it printed; ends it at the deadline.
fn finish_within(mut command: Command, deadline: Duration) -> Result<(ExitStatus, String), String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("could not be started: {error}"))?;
    let mut stdout = child.stdout.take().expect("asked for above");
    let (sender, printed) = mpsc::channel();
    // Its output ends when it ends: waiting for that needs no polling.
    thread::spawn(move || {
        let mut output = Vec::new();
        let _ = stdout.read_to_end(&mut output);
        let _ = sender.send(String::from_utf8_lossy(&output).into_owned());
    });
    let output = printed.recv_timeout(deadline);
    if output.is_err() {
        // It may have ended by itself just now, which is as good.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("could not be waited for: {error}"))?;
    match output {
        Ok(output) => Ok((status, output)),
        Err(_) => Err(format!("was still running after {deadline:?}")),
    }
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
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let (status, output) = finish_within(shell("echo said; exit 3"), DEADLINE).expect("it ends");
        assert_eq!((status.code(), output.as_str()), (Some(3), "said\n"));
        let hangs = finish_within(shell("exec sleep 600"), Duration::from_millis(20));
        assert!(hangs.is_err_and(|error| error.contains("still running")));
        let missing = finish_within(Command::new("/no/such/example"), DEADLINE);
        assert!(missing.is_err_and(|error| error.contains("could not be started")));
    }
}
