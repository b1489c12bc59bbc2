//! Help speaks of services first: what measures none of them is in the lab, and its old names still work.

use crate::common::{anywire, stderr, stdout, text};

#[test]
fn help_names_the_lab_and_not_what_is_in_it() {
    let help = stdout(&anywire(&["--help"]));
    let (_, commands) = help.split_once("Commands:").expect("it lists them");
    let (commands, _) = commands.split_once("\n\n").expect("more follows");
    let names: Vec<_> =
        commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(["serve", "load", "udp", "lab"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(["ladder", "ipc", "swarm"].iter().all(|name| !names.contains(name)), "{names:?}");
    let lab = stdout(&anywire(&["lab", "--help"]));
    for name in ["  ladder ", "  ipc ", "  swarm ", "  udp-load "] {
        assert!(lab.contains(name), "{name:?} in {lab}");
    }
    let udp = stdout(&anywire(&["udp", "--help"]));
    assert!(udp.contains("\n  serve ") && !udp.contains("\n  load "), "{udp}");
    assert!(udp.contains("anywire lab udp-load"), "{udp}");
}

#[test]
fn old_names_do_the_same() {
    for (old, new, arguments) in [
        (&["ladder"][..], &["lab", "ladder"][..], &["--rungs", "no-such-rung"][..]),
        (&["ipc"], &["lab", "ipc"], &["--ways", "no-such-way"]),
        (&["swarm"], &["lab", "swarm"], &["--core", "9999"]),
        (&["udp", "load"], &["lab", "udp-load"], &["udp:127.0.0.1:1", "--bytes", "1"]),
    ] {
        let said = |name: &[&str]| {
            let output = anywire(&[name, arguments].concat());
            // The usage of a wrong argument names the command.
            let said = stderr(&output).replace(&name.join(" "), "COMMAND");
            (output.status.code(), stdout(&output), said)
        };
        let (by_old, by_new) = (said(old), said(new));
        assert_eq!(by_old, by_new);
        assert_ne!(by_new.0, Some(0), "{by_new:?}");
    }
    let tasks = ["swarm", "tasks", "-n", "1000", "--duration", "10ms", "--json", "-"];
    let output = anywire(&[&["lab"], &tasks[..]].concat());
    assert!(output.status.success() && stdout(&output).contains("\"tasks\": 1000"), "{output:?}");
}

#[test]
fn the_commands_of_the_lab_have_manual_pages() {
    let page = stdout(&anywire(&["man", "lab-ladder"]));
    assert!(page.contains(".TH anywire-lab-ladder 1") && page.contains("Examples:"), "{page}");
    assert!(stdout(&anywire(&["man", "ladder"])).contains("Examples:"), "the old name has its page, too");
    let dir = tempfile::tempdir().expect("a directory for the pages");
    assert!(anywire(&["man", "--dir", text(dir.path())]).status.success());
    let has = |page: &str| dir.path().join(page).exists();
    for page in ["anywire-lab.1", "anywire-lab-swarm.1", "anywire-lab-ipc.1", "anywire-lab-udp-load.1"] {
        assert!(has(page), "{page}");
    }
    assert!(!has("anywire-ladder.1") && !has("anywire-lab-help.1"));
}
