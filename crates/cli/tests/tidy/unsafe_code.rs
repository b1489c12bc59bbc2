//! `unsafe` lives in `crates/sys` and nowhere else, not even in benches, examples and fuzz targets; but for the C face of the
//! shared object that packetdrill loads, which nobody else ever builds.

use crate::rust_text::{RustText, lines_with_word};
use crate::{expect_none, tree};

/// The folder of the one crate that may hold unsafe code, and that of the one face to a program in C.
const ALLOWED: [&str; 2] = ["crates/sys/", "crates/stack/packetdrill/src/face/"];

#[test]
fn unsafe_code_lives_in_sys() {
    let complaints: Vec<_> = tree::files_ending_in("rs")
        .iter()
        .filter(|file| !ALLOWED.iter().any(|folder| file.path.starts_with(folder)))
        .flat_map(|file| unsafe_lines(&file.path, &file.text))
        .collect();
    expect_none("give `sys` a safe function for it, or use one of rustix", &complaints);
}

fn unsafe_lines(path: &str, source: &str) -> Vec<String> {
    let lines = lines_with_word(&RustText::split(source).code, "unsafe");
    lines.into_iter().map(|line| format!("{path}:{line}: `unsafe`")).collect()
}

mod on_bad_sources {
    use super::*;

    #[test]
    fn each_form_is_caught() {
        for source in [
            "unsafe { f() }",
            "unsafe fn f() {}",
            "unsafe impl Send for A {}",
            "#[unsafe(no_mangle)]\nfn f() {}",
        ] {
            assert_eq!(unsafe_lines("a.rs", source).len(), 1, "{source}");
        }
    }

    #[test]
    fn the_word_elsewhere_is_fine() {
        for source in ["#![forbid(unsafe_code)]", "// unsafe", "let a = \"unsafe\";"] {
            assert!(unsafe_lines("a.rs", source).is_empty(), "{source}");
        }
    }
}
