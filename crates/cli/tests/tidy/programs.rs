//! A complete program of the README or the guide compiles with the dependencies that its page lists, and with no others, and runs.
//!
//! The programs of pages with the same list become one package, which is checked by itself: Cargo would unite the features of
//! several. One more package has all programs and what all lists have together, and runs them: building anywire for each list took
//! three times as long. That takes minutes still, so it is to be asked for:
//! `cargo test --package anywire-cli --test tidy programs -- --ignored`. `.ci/run` runs them, and checks the list that most pages
//! have; `.ci/long` checks all lists.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use toml::{Table, Value};

use crate::examples::{DEADLINE_SECONDS, finish};
use crate::{expect_none, tree};

/// The page whose list holds for the pages beside it that have none.
const COMMON: &str = "docs/guide/README.md";

/// The workspace of the packages. Its profile is that of this repository, so that what both depend on is built once.
const WORKSPACE: &str = r#"
[workspace]
resolver = "3"
members = ["page-*"]

[profile.dev]
debug = "line-tables-only"

[profile.dev.package."*"]
debug = false

[profile.dev.package.ring]
opt-level = 2

[profile.dev.package.tokio]
opt-level = 1
"#;

/// What has the documents as doc tests.
const DOC_TESTS: &str = include_str!("../../../anywire/src/lib.rs");

#[test]
#[ignore = "checks anywire once for each list of dependencies"]
fn programs_need_what_their_pages_list() {
    let packages = packages(&pages());
    assert!(packages.len() > 1, "each page has the dependencies of {COMMON}");
    let folder = written("lists", packages.iter());
    let checked: Vec<_> =
        packages.iter().filter_map(|package| cargo(&folder, "check", package).err()).collect();
    expect_none("a program compiles with what its page lists", &checked);
}

#[test]
#[ignore = "builds anywire with the features of all pages"]
fn programs_run() {
    let packages = packages(&pages());
    let together = together(&packages);
    let most = packages.iter().max_by_key(|package| package.programs.len()).expect("pages have programs");
    let folder = written("programs", [most, &together].into_iter());
    expect_none(
        "a program compiles with what most pages list",
        cargo(&folder, "check", most).err().as_slice(),
    );
    expect_none("a program runs", &run_all(&folder, &together));
}

#[test]
fn each_page_of_the_guide_has_a_program() {
    let without = |(path, text): &&(String, String)| path != COMMON && programs(text).next().is_none();
    let complaints: Vec<_> = pages().iter().filter(without).map(|(path, _)| path.clone()).collect();
    expect_none("a page has a program that can be copied into src/main.rs", &complaints);
}

/// What is no whole program of a page with dependencies is a doc test of the library.
#[test]
fn each_block_of_rust_is_tried() {
    let is_tried_here = |path: &str, code: &str| {
        let is_page = path == "README.md" || path.starts_with("docs/guide/");
        is_page && programs(&format!("\n```rust\n{code}\n```")).next().is_some()
    };
    let files = tree::files_ending_in("md").into_iter();
    let documents = files.filter(|file| file.path == "README.md" || file.path.starts_with("docs/"));
    let untried = documents.filter(|file| {
        let mut rust =
            blocks(&file.text).filter(|(info, _)| info.starts_with("rust") && !info.contains("ignore"));
        let is_doc_test = DOC_TESTS.contains(&format!("/{}\"", file.path));
        !is_doc_test && rust.any(|(_, code)| !is_tried_here(&file.path, code))
    });
    let complaints: Vec<_> = untried.map(|file| file.path).collect();
    expect_none("crates/anywire/src/lib.rs includes a page with parts of programs", &complaints);
}

/// Without its heading a list would be taken for no list, and the page for one that needs no more than the common ones.
#[test]
fn each_list_of_dependencies_has_its_heading() {
    let lists = |text: &str| blocks(text).any(|(info, code)| info == "toml" && code.contains("anywire = "));
    let without = |(_, text): &&(String, String)| lists(text) && dependencies(text).is_none();
    let complaints: Vec<_> = pages().iter().filter(without).map(|(path, _)| path.clone()).collect();
    expect_none("a list of dependencies begins with [dependencies]", &complaints);
}

/// Programs, and the dependencies that they are to be built with.
struct Package {
    name: String,
    dependencies: Table,
    programs: Vec<Program>,
}

/// A program of a page.
#[derive(Clone)]
struct Program {
    name: String,
    code: String,
    /// Whether it ends by itself.
    runs: bool,
}

/// The README and the pages of the guide: path and text.
fn pages() -> Vec<(String, String)> {
    let files = tree::files_ending_in("md").into_iter();
    let pages = files.filter(|file| file.path == "README.md" || file.path.starts_with("docs/guide/"));
    pages.map(|file| (file.path, file.text)).collect()
}

/// The programs by the dependencies that they are to be built with.
fn packages(pages: &[(String, String)]) -> Vec<Package> {
    let common = pages.iter().find(|(path, _)| path == COMMON).and_then(|(_, text)| dependencies(text));
    let common = common.unwrap_or_else(|| panic!("{COMMON} lists no dependencies"));
    let mut packages: Vec<Package> = Vec::new();
    for (path, text) in pages {
        let dependencies = dependencies(text).unwrap_or_else(|| common.clone());
        let page = path.trim_end_matches(".md").replace(['/', '.', '-'], "_").to_lowercase();
        let numbered = programs(text).enumerate();
        let named = numbered.map(|(number, (info, code))| Program {
            name: format!("{page}_{number}"),
            code: code.to_owned(),
            runs: !info.contains("no_run"),
        });
        if let Some(same) = packages.iter_mut().find(|package| package.dependencies == dependencies) {
            same.programs.extend(named);
        } else {
            let name = format!("page-{}", packages.len());
            packages.push(Package { name, dependencies, programs: named.collect() });
        }
    }
    packages
}

/// All programs, with the dependencies and features of all lists.
fn together(packages: &[Package]) -> Package {
    let mut dependencies = Table::new();
    for (name, listed) in packages.iter().flat_map(|package| &package.dependencies) {
        let listed = detailed(listed);
        let Some(known) = dependencies.get_mut(name).and_then(Value::as_table_mut) else {
            dependencies.insert(name.clone(), listed.into());
            continue;
        };
        for (key, value) in listed {
            match (known.get_mut(&key), value) {
                (Some(Value::Array(all)), Value::Array(more)) => all.extend(more),
                (Some(same), value) => assert_eq!(*same, value, "{name}: two pages differ in {key}"),
                (None, value) => drop(known.insert(key, value)),
            }
        }
    }
    let programs = packages.iter().flat_map(|package| package.programs.iter().cloned()).collect();
    Package { name: "page-all".to_owned(), dependencies, programs }
}

/// What is listed for a dependency, as a table.
fn detailed(listed: &Value) -> Table {
    match listed {
        Value::Table(table) => table.clone(),
        version => Table::from_iter([("version".to_owned(), version.clone())]),
    }
}

/// What the first block of TOML of a page lists, with this tree in the place of where it says that anywire is.
fn dependencies(page: &str) -> Option<Table> {
    let block = blocks(page).find(|(info, code)| *info == "toml" && code.contains("[dependencies]"))?.1;
    let manifest = tree::parse_manifest("a page", block);
    let mut listed = manifest.get("dependencies")?.as_table()?.clone();
    let anywire = listed.get_mut("anywire").and_then(Value::as_table_mut).expect("a page lists anywire");
    anywire.retain(|key, _| key == "features" || key == "default-features");
    let here = tree::root().join("crates/anywire");
    anywire.insert("path".to_owned(), here.to_string_lossy().into_owned().into());
    Some(listed)
}

/// The blocks of Rust that have a `main` to be seen, and nothing that is hidden from the reader.
fn programs(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let rust = blocks(page).filter(|(info, _)| info.starts_with("rust") && !info.contains("ignore"));
    let is_main = |line: &str| line.trim_start_matches("async ").starts_with("fn main(");
    let is_hidden = |line: &str| line == "#" || line.starts_with("# ");
    rust.filter(move |(_, code)| code.lines().any(is_main) && !code.lines().any(is_hidden))
}

/// The fenced blocks of a page: what stands behind the fence, and the code.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

/// The folder of this name in the target folder, with a workspace of packages.
fn written<'a>(name: &str, packages: impl Iterator<Item = &'a Package>) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    write(&folder, packages).unwrap_or_else(|error| panic!("writing to {}: {error}", folder.display()));
    folder
}

/// Writes a workspace of packages, with the versions of this repository. A program is a module, and the package runs the one that
/// is named, so that the disk holds few executables.
fn write<'a>(folder: &Path, packages: impl Iterator<Item = &'a Package>) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for Package { name, dependencies, programs } in packages {
        let package = folder.join(name);
        fs::create_dir_all(package.join("src"))?;
        let head = format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
        let listed = Table::from_iter([("dependencies".to_owned(), Value::Table(dependencies.clone()))]);
        fs::write(package.join("Cargo.toml"), format!("{head}\n{listed}"))?;
        let (mut modules, mut arms) = (String::new(), String::new());
        for Program { name, code, .. } in programs {
            let run = "pub fn run_program() -> impl std::process::Termination {\n    main()\n}\n";
            fs::write(package.join("src").join(name).with_extension("rs"), format!("{code}\n{run}"))?;
            let written = writeln!(modules, "mod {name};").and(writeln!(
                arms,
                "        Some(\"{name}\") => std::process::Termination::report({name}::run_program()),"
            ));
            written.expect("a string takes it");
        }
        let main = format!(
            "{modules}\nfn main() -> std::process::ExitCode {{\n    match std::env::args().nth(1).as_deref() {{\n{arms}        \
             _ => 2.into(),\n    }}\n}}\n"
        );
        fs::write(package.join("src/main.rs"), main)?;
    }
    fs::write(folder.join("Cargo.toml"), WORKSPACE)?;
    fs::copy(tree::root().join("Cargo.lock"), folder.join("Cargo.lock")).map(drop)
}

/// Runs a command of Cargo on a package: what it says if it fails.
fn cargo(folder: &Path, command: &str, package: &Package) -> Result<(), String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([command, "--quiet", "--offline", "--package", &package.name, "--target-dir"]).arg(target());
    let output = cargo.current_dir(folder).output().expect("Cargo runs this test, so it is there");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Builds a package and runs its programs: what went wrong.
fn run_all(folder: &Path, package: &Package) -> Vec<String> {
    if let Err(error) = cargo(folder, "build", package) {
        return vec![error];
    }
    let built = target().join("debug").join(&package.name);
    let run = |program: &Program| finish(DEADLINE_SECONDS, &built, &[&program.name]).err();
    let failed = |program: &Program| run(program).map(|error| format!("{}: {error}", program.name));
    package.programs.iter().filter(|program| program.runs).filter_map(failed).collect()
}

/// The target folder of this test, which lies in `target/PROFILE/deps`: what it has is not built anew.
fn target() -> PathBuf {
    let this_test = std::env::current_exe().expect("the path of this test");
    this_test.ancestors().nth(3).expect("a test lies in target/PROFILE/deps").to_path_buf()
}

mod on_made_up_pages {
    use super::*;

    const PAGE: &str = "# Page\n\n```toml\n[dependencies]\nanywire = { git = \"g\", features = [\"udp\"] }\n```\n\n```rust\n\
         use a::b;\n\nfn main() {}\n```\n\n```rust\nfn f() {}\n```\n\n```rust,no_run\nasync fn main() {}\n```\n\n\
         ```rust\n# use a::c;\nfn main() {}\n```\n\n```rust,ignore\nfn main() {}\n```\n";

    #[test]
    fn programs_are_what_can_be_copied_whole() {
        let found: Vec<_> = programs(PAGE).collect();
        assert_eq!(found, [("rust", "use a::b;\n\nfn main() {}"), ("rust,no_run", "async fn main() {}")]);
    }

    #[test]
    fn this_tree_takes_the_place_of_the_one_that_is_listed() {
        let listed = dependencies(PAGE).expect("it lists some");
        let anywire = listed["anywire"].as_table().expect("a table");
        assert_eq!(anywire["features"].as_array().map(Vec::len), Some(1));
        assert!(anywire["path"].as_str().is_some_and(|path| path.ends_with("/crates/anywire")));
        assert_eq!(anywire.len(), 2);
        assert!(dependencies("no list").is_none());
    }

    #[test]
    fn pages_with_the_same_list_are_one_package() {
        let page = |path: &str| (path.to_owned(), PAGE.to_owned());
        let without = ("docs/guide/b.md".to_owned(), "\n```rust\nfn main() {}\n```\n".to_owned());
        let packages = packages(&[page(COMMON), page("docs/guide/a.md"), without]);
        assert_eq!(packages.len(), 1);
        let programs = &packages[0].programs;
        assert_eq!(programs.iter().filter(|program| program.runs).count(), 3);
        assert_eq!(programs.len(), 5);
    }

    #[test]
    fn all_programs_together_have_what_each_list_has() {
        let other = PAGE.replace(
            "anywire = { git = \"g\", features = [\"udp\"] }",
            "anywire = { features = [\"tls\"] }\nbytes = \"1\"",
        );
        let packages =
            packages(&[(COMMON.to_owned(), PAGE.to_owned()), ("docs/guide/a.md".to_owned(), other)]);
        assert_eq!(packages.len(), 2);
        let together = together(&packages);
        assert_eq!(together.programs.len(), 4);
        let anywire = together.dependencies["anywire"].as_table().expect("a table");
        assert_eq!(anywire["features"].as_array().map(Vec::len), Some(2));
        assert_eq!(together.dependencies["bytes"]["version"].as_str(), Some("1"));
    }
}
