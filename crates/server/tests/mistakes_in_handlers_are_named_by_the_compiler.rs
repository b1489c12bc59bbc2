//! A mistake in a handler is reported on the argument or result that is wrong, with its remedy.
//!
//! Each file in `tests/ui` holds one mistake, and behind `//~` the lines that the compiler has to print for it. Lines and
//! not the whole text, which differs between versions of the compiler.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn each_mistake_has_its_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let library = library(&folder);
    let cases =
        std::fs::read_dir(folder).expect("tests/ui is there").map(|case| case.expect("readable").path());
    let wrong: Vec<String> = cases.filter_map(|case| fault_of(&case, &library)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not as the case expects it, if anything.
fn fault_of(case: &Path, library: &Path) -> Option<String> {
    // The compiler shortens paths, unless another crate has a type of the same name.
    let shortened = |text: &str| text.replace("anywire_server::", "");
    let source = shortened(&std::fs::read_to_string(case).expect("readable"));
    let expected: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("//~ ")).collect();
    let output = compile(case, library).output().expect("the compiler of this toolchain starts");
    let printed = shortened(&String::from_utf8_lossy(&output.stderr));
    let fault = match expected.iter().find(|text| !printed.contains(**text)) {
        Some(missing) => format!("does not print {missing:?}"),
        None if output.status.success() != expected.is_empty() => "does not fail as expected".to_owned(),
        None if printed.contains("in this macro invocation") => "points into a macro".to_owned(),
        None => return None,
    };
    Some(format!("{} {fault}:\n{printed}", case.display()))
}

fn compile(case: &Path, library: &Path) -> Command {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let mut command = Command::new(compiler);
    let metadata = Path::new(env!("CARGO_TARGET_TMPDIR")).join(case.file_name().expect("a file"));
    command.args([
        "--edition=2024",
        "--emit=metadata",
        "--crate-type=bin",
        "--color=never",
        "--cap-lints=allow",
    ]);
    command.arg("-L").arg(format!("dependency={}", libraries().display()));
    command.arg("--extern").arg(format!("anywire_server={}", library.display()));
    command.arg("-o").arg(metadata).arg(case);
    command
}

/// Where the libraries lie that this test was linked with.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("a file lies in a folder").to_owned()
}

/// The newest library that has all that the cases use. There may be others, of older compilers or with fewer features: other workspaces build
/// into this folder, too.
fn library(cases: &Path) -> PathBuf {
    let files = std::fs::read_dir(libraries())
        .expect("the test lies there")
        .map(|file| file.expect("readable").path());
    let candidates = files.filter(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libanywire_server-") && name.ends_with(".rlib")
    });
    let mut candidates: Vec<PathBuf> = candidates.collect();
    // Another build may take one away meanwhile.
    candidates.sort_by_key(|file| std::cmp::Reverse(file.metadata().and_then(|data| data.modified()).ok()));
    let case = cases.join("what_the_cases_use.rs");
    let has_all =
        |library: &&PathBuf| compile(&case, library).output().is_ok_and(|output| output.status.success());
    let found = candidates.iter().find(has_all);
    found.unwrap_or_else(|| panic!("{} compiles with none of {candidates:#?}", case.display())).clone()
}
