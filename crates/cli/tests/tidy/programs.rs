//! A complete program of the README or the guide compiles and runs with the dependencies that its page lists, and with no
//! others.
//!
//! The programs of pages with the same list become one package, which is built by itself: Cargo would unite the features of
//! several. That takes minutes, so it is to be asked for:
//! `cargo test --package anywire-cli --test tidy programs -- --ignored`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use toml::{Table, Value};

use crate::examples::{DEADLINE_SECONDS, finish};
use crate::{expect_none, tree};

/// The page whose list holds for the pages beside it that have none.
const COMMON: &str = "docs/guide/README.md";

/// What has the documents as doc tests.
const DOC_TESTS: &str = include_str!("../../../anywire/src/lib.rs");

#[test]
#[ignore = "builds anywire once for each list of dependencies"]
fn programs_need_what_their_pages_list() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    let packages = packages(&pages());
    assert!(packages.len() > 1, "each page has the same dependencies: {:?}", packages.keys());
    write(&folder, &packages).unwrap_or_else(|error| panic!("writing to {}: {error}", folder.display()));
    let complaints: Vec<_> = packages
        .values()
        .enumerate()
        .flat_map(|(number, programs)| try_all(&folder, number, programs))
        .collect();
    expect_none("a program compiles and runs with what its page lists", &complaints);
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

/// A program of a page.
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
fn packages(pages: &[(String, String)]) -> BTreeMap<String, Vec<Program>> {
    let common = pages.iter().find(|(path, _)| path == COMMON).and_then(|(_, text)| dependencies(text));
    let common = common.unwrap_or_else(|| panic!("{COMMON} lists no dependencies"));
    let mut packages: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (path, text) in pages {
        let listed = dependencies(text).unwrap_or_else(|| common.clone());
        let page = path.trim_end_matches(".md").replace(['/', '.', '-'], "_").to_lowercase();
        let numbered = programs(text).enumerate();
        let named = numbered.map(|(number, (info, code))| Program {
            name: format!("{page}_{number}"),
            code: code.to_owned(),
            runs: !info.contains("no_run"),
        });
        packages.entry(listed.to_string()).or_default().extend(named);
    }
    packages
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

/// Writes a workspace: a package for each list of dependencies, with the versions of this repository. A program is a module,
/// and the package runs the one that is named, so that the disk holds few executables.
fn write(folder: &Path, packages: &BTreeMap<String, Vec<Program>>) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (number, (dependencies, programs)) in packages.iter().enumerate() {
        let package = folder.join(name(number));
        fs::create_dir_all(package.join("src"))?;
        let head =
            format!("[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n", name(number));
        let listed: Table = dependencies.parse().expect("it was TOML before");
        let listed = Table::from_iter([("dependencies".to_owned(), Value::Table(listed))]);
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
    let workspace = "[workspace]\nresolver = \"3\"\nmembers = [\"page-*\"]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n";
    fs::write(folder.join("Cargo.toml"), workspace)?;
    fs::copy(tree::root().join("Cargo.lock"), folder.join("Cargo.lock")).map(drop)
}

fn name(number: usize) -> String {
    format!("page-{number}")
}

/// Builds a package and runs its programs: what went wrong.
fn try_all(folder: &Path, number: usize, programs: &[Program]) -> Vec<String> {
    let target = target();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--package", &name(number), "--target-dir"]).arg(&target);
    let output = cargo.current_dir(folder).output().expect("Cargo runs this test, so it is there");
    if !output.status.success() {
        return vec![String::from_utf8_lossy(&output.stderr).into_owned()];
    }
    let built = target.join("debug").join(name(number));
    let run = |program: &Program| finish(DEADLINE_SECONDS, &built, &[&program.name]).err();
    let failed = |program: &Program| run(program).map(|error| format!("{}: {error}", program.name));
    programs.iter().filter(|program| program.runs).filter_map(failed).collect()
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
        let programs = packages.into_values().next().expect("there is one");
        assert_eq!(programs.iter().filter(|program| program.runs).count(), 3);
        assert_eq!(programs.len(), 5);
    }
}
