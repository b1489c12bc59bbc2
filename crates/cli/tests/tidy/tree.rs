//! The tree as the rules see it: its text files, named relative to the root of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the repository.
pub(crate) struct File {
    /// Relative to the root, with `/` between the parts: `crates/http/src/lib.rs`.
    pub(crate) path: String,
    /// The whole content.
    pub(crate) text: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder.ancestors().nth(2).expect("this crate lives at crates/cli, two folders down");
    root.to_path_buf()
}

/// Every file of the repository whose name ends in `.extension`, in the order of their paths.
///
/// What Cargo builds and what Git keeps for itself is left out, whatever the folder is called: Cargo marks its
/// target folders with a `CACHEDIR.TAG`.
pub(crate) fn files_ending_in(extension: &str) -> Vec<File> {
    let root = root();
    let mut paths = Vec::new();
    collect(&root, extension, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no .{extension} file under {}: is this the repository?", root.display());
    paths.iter().map(|path| File { path: relative(&root, path), text: read(path) }).collect()
}

/// The content of the file at `path`, relative to the root.
pub(crate) fn read_from_root(path: &str) -> String {
    read(&root().join(path))
}

/// The crates under `crates/`: the folder's name and the parsed manifest.
pub(crate) fn crate_manifests() -> Vec<(String, toml::Table)> {
    let manifests: Vec<_> = files_ending_in("toml")
        .into_iter()
        .filter_map(|file| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then(|| (name.to_owned(), parse_manifest(&file.path, &file.text)))
        })
        .collect();
    assert!(!manifests.is_empty(), "no manifest under crates/");
    manifests
}

/// Parses a manifest; Cargo has read it before us, so a failure is a fault of this test.
pub(crate) fn parse_manifest(path: &str, text: &str) -> toml::Table {
    text.parse().unwrap_or_else(|error| panic!("{path} is not TOML: {error}"))
}

fn collect(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("reading {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder that was just opened").path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            if !is_left_out(&path) {
                collect(&path, extension, paths);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
}

fn is_left_out(folder: &Path) -> bool {
    folder.ends_with(".git") || folder.ends_with("target") || folder.join("CACHEDIR.TAG").exists()
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).expect("found below the root").to_string_lossy().replace('\\', "/")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}

mod the_walk {
    use super::*;

    #[test]
    fn finds_this_file_and_nothing_that_was_built() {
        let paths: Vec<_> = files_ending_in("rs").into_iter().map(|file| file.path).collect();
        assert!(paths.iter().any(|path| path == "crates/cli/tests/tidy/tree.rs"));
        assert!(!paths.iter().any(|path| path.split('/').any(|part| part == "target")));
    }

    #[test]
    fn goes_round_a_target_folder_of_any_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let built = folder.path().join("elsewhere");
        fs::create_dir(&built).expect("a folder");
        fs::write(built.join("generated.rs"), "").expect("a file");
        fs::write(built.join("CACHEDIR.TAG"), "").expect("a file");
        fs::write(folder.path().join("written.rs"), "").expect("a file");
        let mut paths = Vec::new();
        collect(folder.path(), "rs", &mut paths);
        assert_eq!(paths, [folder.path().join("written.rs")]);
    }
}
