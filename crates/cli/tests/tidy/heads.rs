//! Every Rust file says at its head, in a `//!` comment, what it is for.

use crate::{expect_none, tree};

/// A first line with fewer words than this says nothing that the file's name does not.
const WORDS_MIN: usize = 3;

#[test]
fn every_file_says_what_it_is_for() {
    let complaints: Vec<_> = tree::files_ending_in("rs")
        .iter()
        // What the compiler is to refuse is named after the mistake.
        .filter(|file| !file.path.contains("/tests/ui/"))
        .filter_map(|file| Some(format!("{}: {}", file.path, fault_of_head(&file.text)?)))
        .collect();
    expect_none("every Rust file opens with a `//!` sentence: what is in here, and what for", &complaints);
}

fn fault_of_head(source: &str) -> Option<String> {
    let first = source.lines().next().unwrap_or("");
    let Some(sentence) = first.strip_prefix("//! ") else {
        return Some(format!("the first line is {first:?}"));
    };
    let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count();
    (words < WORDS_MIN || sentence.starts_with('('))
        .then(|| format!("{first:?} does not say what the file is for"))
}

mod on_bad_heads {
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
            assert!(fault_of_head(source).is_some(), "{source:?}");
        }
    }

    #[test]
    fn a_sentence_is_fine() {
        assert_eq!(
            fault_of_head("//! The `unix:` wire: stream sockets of this machine.\nuse std::io;"),
            None
        );
    }
}
