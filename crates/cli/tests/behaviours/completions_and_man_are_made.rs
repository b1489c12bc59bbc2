//! Completions for every shell, manual pages for every command, help with examples.

use crate::common::{anywire, assert_refused, stdout, text};

#[test]
fn completions_name_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&anywire(&["completions", shell]));
        for word in ["compare", "listen", "head", "max-fields", "seed"] {
            assert!(script.contains(word), "{shell}: {word} in {script}");
        }
    }
    assert_eq!(anywire(&["completions", "no-such-shell"]).status.code(), Some(2));
}

#[test]
fn manual_pages_hold_options_and_examples() {
    let root = stdout(&anywire(&["man"]));
    assert!(root.contains(".TH anywire 1") && root.contains("compare"), "{root}");
    let serve = stdout(&anywire(&["man", "serve"]));
    assert!(serve.contains(".TH anywire-serve 1") && serve.contains("Examples:"), "{serve}");
    let get = stdout(&anywire(&["man", "get"]));
    assert!(get.contains("\\-I") && get.contains("max\\-head") && get.contains("Exit codes"), "{get}");
    assert_refused(&anywire(&["man", "no-such-command"]), 2, "no-such-command");

    let dir = tempfile::tempdir().expect("a directory for the pages");
    assert!(anywire(&["man", "--dir", text(dir.path())]).status.success());
    for page in ["anywire.1", "anywire-serve.1", "anywire-compare.1"] {
        assert!(dir.path().join(page).exists(), "{page}");
    }
}

#[test]
fn help_shows_examples() {
    for command in ["serve", "get", "post", "load", "pipe", "compare", "completions", "man"] {
        let help = stdout(&anywire(&[command, "--help"]));
        assert!(help.contains("Examples:\n  anywire "), "{command}: {help}");
    }
}
