//! Programs in other languages, made in the target folder once, of versions that are fixed beside them.

#![allow(dead_code, reason = "the tests of the library use one part")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skipped;

/// A program of the Go module in `http2_peers/go`; `None` if there is no Go.
pub(crate) fn go_program(package: &str) -> Option<PathBuf> {
    // Where Go's own archive puts it, which is in nobody's PATH.
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| starts(go, "version"));
    let go = required(go, "go")?;
    let program = made_in().join(package.rsplit('/').next()?);
    // Go itself finds out whether anything has changed.
    let mut build = Command::new(go);
    build.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(&program).arg(package);
    exclusively("go", || run(build.current_dir(sources().join("go"))));
    Some(program)
}

/// A Python with the packages of `http2_peers/python/requirements.txt`; `None` if there is no Python.
pub(crate) fn python() -> Option<PathBuf> {
    let python = required(starts("python3", "--version").then_some("python3"), "python3")?;
    let requirements = sources().join("python/requirements.txt");
    let wanted = fs::read(&requirements).expect("it is in the repository");
    let environment = made_in().join("python");
    let installed = environment.join("installed.txt");
    exclusively("python", || {
        if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
            return;
        }
        run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment));
        let mut install = Command::new(environment.join("bin/pip"));
        run(install.args(["install", "--quiet", "--only-binary", ":all:", "-r"]).arg(&requirements));
        fs::write(&installed, &wanted).expect("the target folder can be written");
    });
    Some(environment.join("bin/python"))
}

/// A file of `http2_peers`.
pub(crate) fn source(name: &str) -> PathBuf {
    sources().join(name)
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/behaviours/http2_peers")
}

/// Where all test programs of a target folder find what one of them has made.
fn made_in() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("http2_peers");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

/// Tests are processes of their own, and run side by side.
fn exclusively(name: &str, make: impl FnOnce()) {
    let lock =
        File::create(made_in().join(name).with_extension("lock")).expect("the target folder can be written");
    lock.lock().expect("a file can be locked");
    make();
}

fn starts(tool: &str, question: &str) -> bool {
    Command::new(tool).arg(question).output().is_ok()
}

/// Where tests must be complete (`CI` is set), a tool that is missing is a failure.
fn required<T>(found: Option<T>, tool: &str) -> Option<T> {
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "this test needs {tool}; install it");
    if found.is_none() {
        skipped::say(format_args!("{tool} is not installed"));
    }
    found
}

fn run(command: &mut Command) {
    let Output { status, stdout, stderr } = command.output().expect("the tool was found before");
    let said = [stdout, stderr].concat();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}
