//! A complete program of the README or the guide compiles with the dependencies that its page lists, and with no others.
//!
//! Programs of pages with the same list become one package, which is checked by itself: Cargo would unite the features of
//! several. It takes minutes, so it is to be asked for: `cargo test --package anywire-cli --test tidy programs -- --ignored`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::{Table, Value};

use crate::{expect_none, tree};

/// The page whose list holds for the pages beside it that have none.
const COMMON: &str = "docs/guide/README.md";

#[test]
#[ignore = "compiles anywire once for each list of dependencies"]
fn programs_need_what_their_pages_list() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    let packages = packages(&pages());
    assert!(packages.len() > 1, "each page has the same dependencies: {:?}", packages.keys());
    write(&folder, &packages).unwrap_or_else(|error| panic!("writing to {}: {error}", folder.display()));
    let complaints: Vec<_> = (0..packages.len()).filter_map(|number| check(&folder, number).err()).collect();
    expect_none("a program compiles with what its page lists", &complaints);
}

#[test]
fn each_page_of_the_guide_has_a_program() {
    let without = |(path, text): &&(String, String)| path != COMMON && programs(text).is_empty();
    let complaints: Vec<_> = pages().iter().filter(without).map(|(path, _)| path.clone()).collect();
    expect_none("a page has a program that can be copied into src/main.rs", &complaints);
}

/// The README and the pages of the guide: path and text.
fn pages() -> Vec<(String, String)> {
    let files = tree::files_ending_in("md").into_iter();
    let pages = files.filter(|file| file.path == "README.md" || file.path.starts_with("docs/guide/"));
    pages.map(|file| (file.path, file.text)).collect()
}

/// The programs by the dependencies that they are to compile with: a name for each, and its code.
fn packages(pages: &[(String, String)]) -> BTreeMap<String, Vec<(String, String)>> {
    let common = pages.iter().find(|(path, _)| path == COMMON).and_then(|(_, text)| dependencies(text));
    let common = common.unwrap_or_else(|| panic!("{COMMON} lists no dependencies"));
    let mut packages: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (path, text) in pages {
        let listed = dependencies(text).unwrap_or_else(|| common.clone());
        let name = path.trim_end_matches(".md").replace(['/', '.'], "-").to_lowercase();
        let numbered = programs(text).into_iter().enumerate();
        let named = numbered.map(|(number, code)| (format!("{name}-{number}"), code));
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
    anywire
        .insert("path".to_owned(), tree::root().join("crates/anywire").to_string_lossy().into_owned().into());
    Some(listed)
}

/// The blocks of Rust that have a `main` to be seen, and nothing that is hidden from the reader.
fn programs(page: &str) -> Vec<String> {
    let rust = blocks(page).filter(|(info, _)| info.starts_with("rust") && !info.contains("ignore"));
    let has_main =
        |code: &&str| code.lines().any(|line| line.trim_start_matches("async ").starts_with("fn main("));
    let is_whole = |code: &&str| !code.lines().any(|line| line == "#" || line.starts_with("# "));
    rust.map(|(_, code)| code).filter(has_main).filter(is_whole).map(str::to_owned).collect()
}

/// The fenced blocks of a page: what stands behind the fence, and the code.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

/// Writes a workspace: a package for each list of dependencies, and the versions of this repository.
fn write(folder: &Path, packages: &BTreeMap<String, Vec<(String, String)>>) -> std::io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (number, (dependencies, programs)) in packages.iter().enumerate() {
        let package = folder.join(name(number));
        fs::create_dir_all(package.join("src/bin"))?;
        let head =
            format!("[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n", name(number));
        let listed: Table = dependencies.parse().expect("it was TOML before");
        let listed = Table::from_iter([("dependencies".to_owned(), Value::Table(listed))]);
        fs::write(package.join("Cargo.toml"), format!("{head}\n{listed}"))?;
        for (program, code) in programs {
            fs::write(package.join("src/bin").join(program).with_extension("rs"), code)?;
        }
    }
    let workspace = "[workspace]\nresolver = \"3\"\nmembers = [\"page-*\"]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n";
    fs::write(folder.join("Cargo.toml"), workspace)?;
    fs::copy(tree::root().join("Cargo.lock"), folder.join("Cargo.lock")).map(drop)
}

fn name(number: usize) -> String {
    format!("page-{number}")
}

fn check(folder: &Path, number: usize) -> Result<(), String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--offline", "--package", &name(number), "--target-dir"]).arg(target());
    let output = cargo.current_dir(folder).output().map_err(|error| format!("Cargo: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
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
        assert_eq!(programs(PAGE), ["use a::b;\n\nfn main() {}", "async fn main() {}"]);
    }

    #[test]
    fn this_tree_takes_the_place_of_the_one_that_is_listed() {
        let listed = dependencies(PAGE).expect("it lists some");
        let anywire = listed["anywire"].as_table().expect("a table");
        assert_eq!(anywire["features"].as_array().map(Vec::len), Some(1));
        assert!(
            anywire["path"].as_str().is_some_and(|path| path.ends_with("/crates/anywire"))
                && anywire.len() == 2
        );
        assert!(dependencies("no list").is_none());
    }

    #[test]
    fn pages_with_the_same_list_are_one_package() {
        let page = |path: &str| (path.to_owned(), PAGE.to_owned());
        let without = ("docs/guide/b.md".to_owned(), "\n```rust\nfn main() {}\n```\n".to_owned());
        let packages = packages(&[page(COMMON), page("docs/guide/a.md"), without]);
        assert_eq!(packages.len(), 1);
        assert_eq!(packages.into_values().next().map(|programs| programs.len()), Some(5));
    }
}
