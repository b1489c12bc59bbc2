//! Lines of code and packages of the service on both libraries, as the README of examples/orders says them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fails with the right table if the README has another one.
pub fn readme_has_the_counts() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = here.ancestors().nth(3).expect("this package is three folders down").join("examples/orders");
    let sides = [Side::of(&ours), Side::of(here)];
    let readme = fs::read_to_string(ours.join("README.md")).expect("the example has a README");
    let table = table(&sides);
    assert!(readme.contains(&table), "examples/orders/README.md lacks this table:\n\n{table}");
}

/// One of the two programs.
struct Side {
    /// Files and their lines of code.
    files: Vec<(String, usize)>,
    packages: usize,
}

impl Side {
    fn of(folder: &Path) -> Self {
        let entries = fs::read_dir(folder.join("src")).expect("a package has sources");
        let paths = entries.map(|entry| entry.expect("an entry of a folder that was just opened").path());
        // Both have this file.
        let own = paths.filter(|path| path.file_name().is_some_and(|name| name != "store.rs"));
        let files = own.map(|path| (name(&path), lines(&path))).collect();
        Self { files, packages: packages(&folder.join("Cargo.toml")) }
    }

    fn lines_of(&self, names: &[&str]) -> usize {
        self.files.iter().filter(|(name, _)| names.contains(&&**name)).map(|(_, lines)| lines).sum()
    }
}

/// What a part of the program is called, and its files on either side.
const PARTS: [(&str, &[&str]); 8] = [
    ("routes, handlers, their errors", &["orders"]),
    ("types of JSON with their rules", &["model"]),
    ("what is described beside that", &["document"]),
    ("tokens", &["auth"]),
    ("problem documents and rules", &["problems"]),
    ("layers, limits, the pool", &["lib", "app", "database"]),
    ("start and end", &["main"]),
    ("settings", &["settings"]),
];

fn table(sides: &[Side; 2]) -> String {
    let mut table = "| lines of code | anywire | axum |\n| --- | --- | --- |\n".to_owned();
    let mut row = |part: &str, counts: [usize; 2]| {
        writeln!(table, "| {part} | {} | {} |", counts[0], counts[1]).expect("a string takes it");
    };
    for (part, names) in PARTS {
        row(part, sides.each_ref().map(|side| side.lines_of(names)));
    }
    let all = sides.each_ref().map(|side| side.files.iter().map(|(_, lines)| lines).sum());
    let named = PARTS.iter().flat_map(|(_, names)| *names).copied().collect::<Vec<_>>();
    assert_eq!(all, sides.each_ref().map(|side| side.lines_of(&named)), "each file is part of something");
    row("**all**", all);
    row("packages that are compiled", sides.each_ref().map(|side| side.packages));
    table
}

fn name(path: &Path) -> String {
    path.file_stem().expect("a file has a name").to_string_lossy().into_owned()
}

/// Lines that are neither blank nor a comment.
fn lines(path: &PathBuf) -> usize {
    let text = fs::read_to_string(path).expect("a source is text");
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// The packages that are compiled for a program, with itself.
fn packages(manifest: &Path) -> usize {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--locked",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--manifest-path",
    ]);
    let tree = cargo.arg(manifest).output().expect("Cargo runs this test, so it is there");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8_lossy(&tree.stdout);
    let packages = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    packages.collect::<std::collections::BTreeSet<_>>().len()
}
