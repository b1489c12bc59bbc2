//! A file opens with what it is for, and fits into a reader's head: 150 to 350 lines as a rule, never more than
//! [`LINES_MAX`].

use crate::{expect_none, tree};

/// A first line with fewer words than this says nothing that the file's name does not.
const WORDS_MIN: usize = 3;

/// The longest a file may be.
const LINES_MAX: usize = 600;

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let complaints: Vec<_> = tree::files_ending_in("rs")
        .iter()
        // Sources that the compiler is to refuse are named after their mistake.
        .filter(|file| !file.path.contains("/tests/ui/"))
        .filter_map(|file| Some(format!("{}: {}", file.path, fault(&file.text)?)))
        .collect();
    expect_none("every Rust file opens with a `//!` sentence and can be read in one go", &complaints);
}

fn fault(source: &str) -> Option<String> {
    let lines = source.lines().count();
    if lines > LINES_MAX {
        return Some(format!("{lines} lines, at most {LINES_MAX}: split it"));
    }
    let first = source.lines().next().unwrap_or("");
    let sentence = first.strip_prefix("//! ").unwrap_or("");
    let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count();
    (words < WORDS_MIN || sentence.starts_with('('))
        .then(|| format!("the first line, {first:?}, does not say what the file is for"))
}

mod on_bad_files {
    use super::*;

    #[test]
    fn a_file_without_a_sentence_is_caught() {
        for source in [
            "",
            "use std::io;",
            "\n//! A sentence that comes too late.",
            "/// Documents the first item instead.",
            "#![no_main]\n//! A sentence below an attribute.",
            "//!",
            "//! Router.",
            "//! (being written by someone)",
        ] {
            assert!(fault(source).is_some(), "{source:?}");
        }
        assert_eq!(fault("//! The `unix:` wire: stream sockets of this machine.\nuse std::io;"), None);
    }

    #[test]
    fn the_limit_itself_is_fine_and_one_more_is_caught() {
        let file = |lines| "//! A file of many lines.\n".repeat(lines);
        assert_eq!(fault(&file(LINES_MAX)), None);
        assert_eq!(fault(&file(LINES_MAX + 1)).as_deref(), Some("601 lines, at most 600: split it"));
    }
}
