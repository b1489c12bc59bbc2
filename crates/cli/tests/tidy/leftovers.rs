//! Nothing unfinished stays in the tree: no notes to self, no placeholders, no debugging macros.

use crate::rust_text::{RustText, lines_with_word};
use crate::{expect_none, tree};

/// Macros that only help while something is being written.
const MACROS: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// Notes in comments that should be an issue, or done.
const NOTES: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

#[test]
fn nothing_is_left_unfinished() {
    let files = tree::files_ending_in("rs");
    let complaints: Vec<_> = files.iter().flat_map(|file| leftovers(&file.path, &file.text)).collect();
    expect_none("finish it, or write it down where work is planned", &complaints);
}

fn leftovers(path: &str, source: &str) -> Vec<String> {
    let text = RustText::split(source);
    let macros = MACROS.iter().map(|word| (*word, &text.code));
    let notes = NOTES.iter().map(|word| (*word, &text.comments));
    macros
        .chain(notes)
        .flat_map(|(word, text)| {
            lines_with_word(text, word).into_iter().map(move |line| format!("{path}:{line}: `{word}`"))
        })
        .collect()
}

mod on_bad_sources {
    use super::*;

    #[test]
    fn each_leftover_is_caught() {
        for source in ["// TODO: later", "/* FIXME */", "fn f() { todo!() }", "let a = dbg!(b);", "/// XXX"] {
            assert_eq!(leftovers("a.rs", source).len(), 1, "{source}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_fine() {
        for source in ["// a method", "let list = \"TODO\";", "// never dbg!", "fn todo() {}", "// TODOS.md"]
        {
            assert!(leftovers("a.rs", source).is_empty(), "{source}");
        }
    }
}
