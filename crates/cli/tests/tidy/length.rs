//! A file fits into a reader's head: 150 to 350 lines as a rule, and never more than [`LINES_MAX`] without a reason.

use crate::tree::File;
use crate::{expect_none, tree};

/// The longest a file may be without a reason.
const LINES_MAX: usize = 600;

/// Files that may be longer, each with the reason why splitting it would make it harder to read.
const LONG_WITH_REASON: &[(&str, &str)] = &[];

#[test]
fn files_are_short_enough_to_read() {
    let complaints = too_long(&tree::files_ending_in("rs"), LONG_WITH_REASON);
    expect_none("split the file, or list it with its reason in tests/tidy/length.rs", &complaints);
}

fn too_long(files: &[File], excused: &[(&str, &str)]) -> Vec<String> {
    let long = |file: &&File| file.text.lines().count() > LINES_MAX;
    let excuse = |path: &str| excused.iter().any(|(listed, _)| *listed == path);
    let found = files
        .iter()
        .filter(long)
        .filter(|file| !excuse(&file.path))
        .map(|file| format!("{}: {} lines, at most {LINES_MAX}", file.path, file.text.lines().count()));
    let stale = excused
        .iter()
        .filter(|(path, _)| !files.iter().filter(long).any(|file| file.path == *path))
        .map(|(path, _)| format!("{path}: listed as long, but it is not: take it off the list"));
    found.chain(stale).collect()
}

mod on_long_files {
    use super::*;

    fn file(path: &str, lines: usize) -> File {
        File { path: path.to_owned(), text: "line\n".repeat(lines) }
    }

    #[test]
    fn the_limit_itself_is_fine_and_one_more_is_caught() {
        assert!(too_long(&[file("a.rs", LINES_MAX)], &[]).is_empty());
        assert_eq!(too_long(&[file("a.rs", LINES_MAX + 1)], &[]), ["a.rs: 601 lines, at most 600"]);
    }

    #[test]
    fn a_reason_excuses_only_as_long_as_it_is_needed() {
        let excused = [("a.rs", "the order of the RFC")];
        assert!(too_long(&[file("a.rs", LINES_MAX + 1)], &excused).is_empty());
        assert_eq!(too_long(&[file("a.rs", 10)], &excused).len(), 1);
        assert_eq!(too_long(&[], &excused).len(), 1);
    }
}
