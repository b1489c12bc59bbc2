//! The map of the house is complete: `docs/ARCHITECTURE.md` names every source file, or the folder it lies in.
//!
//! That what it names exists is the rule of `links`.

use crate::tree::File;
use crate::{expect_none, tree};

/// The map, relative to the root.
const MAP: &str = "docs/ARCHITECTURE.md";

#[test]
fn the_map_names_every_source_file() {
    let complaints = unnamed(&tree::read_from_root(MAP), &tree::files_ending_in("rs"));
    expect_none("docs/ARCHITECTURE.md links every file under crates/*/src, or its folder", &complaints);
}

fn unnamed(map: &str, files: &[File]) -> Vec<String> {
    let of_the_house = files.iter().filter(|file| {
        let mut parts = file.path.split('/');
        parts.next() == Some("crates") && parts.nth(1) == Some("src")
    });
    of_the_house
        .filter(|file| !places(&file.path).any(|place| map.contains(&format!("](../{place})"))))
        .map(|file| file.path.clone())
        .collect()
}

/// The file itself and the folders around it, up to but without `crates/NAME/src`: linking that one maps nothing.
fn places(path: &str) -> impl Iterator<Item = &str> {
    let depth = |place: &&str| place.split('/').count() > 3;
    std::iter::successors(Some(path), |place| Some(place.rsplit_once('/')?.0)).take_while(depth)
}

mod on_bad_maps {
    use super::*;

    fn complaints(map: &str, path: &str) -> Vec<String> {
        unnamed(map, &[File { path: path.to_owned(), text: String::new() }])
    }

    #[test]
    fn a_file_that_nobody_names_is_caught() {
        for map in [
            "",
            "`crates/http/src/date.rs`",
            "[all](../crates/http/src)",
            "[date](../crates/http/src/dates.rs)",
        ] {
            assert_eq!(complaints(map, "crates/http/src/date.rs"), ["crates/http/src/date.rs"], "{map}");
        }
    }

    #[test]
    fn a_link_to_the_file_or_its_folder_is_enough() {
        assert!(complaints("[date](../crates/http/src/date.rs)", "crates/http/src/date.rs").is_empty());
        assert!(complaints("[engine](../crates/http/src/h1)", "crates/http/src/h1/body.rs").is_empty());
    }

    #[test]
    fn tests_and_benches_need_no_place() {
        assert!(complaints("", "crates/http/tests/a.rs").is_empty());
        assert!(complaints("", "bench/src/main.rs").is_empty());
    }
}
