//! `anywire VERB --help` fits a screen, has its options in groups, and `anywire help VERB` has all of them.

use crate::common::{anywire, stdout};

const VERBS: [&str; 9] = ["get", "post", "put", "patch", "delete", "head", "options", "query", "request"];

/// As many lines as a window of a terminal has that is not a small one.
const LINES_MAX: usize = 60;

#[test]
fn help_fits_a_screen_and_names_the_rest() {
    for verb in VERBS {
        let help = stdout(&anywire(&[verb, "--help"]));
        assert!(help.lines().count() <= LINES_MAX, "{verb}: {} lines\n{help}", help.lines().count());
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{verb}: {help}");
        assert_eq!(help, stdout(&anywire(&[verb, "-h"])), "{verb}");
        for part in
            ["\nRequest:\n", "\nResponse:\n", "\nConnection:\n", "\nTLS:\n", "\nExamples:\n", "\nExit codes "]
        {
            assert_eq!(help.matches(part).count(), 1, "{verb}: {part:?} in {help}");
        }
        let all = stdout(&anywire(&["help", verb]));
        assert!(help.contains(&format!("'anywire help {verb}' shows all")), "{help}");
        for option in ["--data-raw", "--show-error", "--connect-timeout", "--pinnedpubkey", "--max-fields"] {
            assert!(all.contains(option) && !help.contains(option), "{verb}: {option}\n{all}");
        }
    }
}

/// A code that the help does not tell cannot be acted upon.
#[test]
fn help_tells_each_exit_code() {
    let all = stdout(&anywire(&["help", "get"]));
    for code in [0, 1, 2, 5, 6, 7, 16, 18, 22, 23, 26, 28, 33, 35, 47, 52, 56, 58, 60, 65, 77, 90, 92, 97] {
        assert!(
            all.lines().any(|line| line.split_whitespace().next() == Some(&code.to_string())),
            "{code}: {all}"
        );
    }
}
