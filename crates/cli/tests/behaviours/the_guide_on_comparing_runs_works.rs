//! The commands of `docs/guide/compare-runs.md` do what the page says, in the order in which it has them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::Served;

const PAGE: &str = include_str!("../../../../docs/guide/compare-runs.md");

#[test]
fn each_command_of_the_page_runs() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    for name in ["start-old.sh", "start-new.sh"] {
        let script = dir.path().join(name);
        fs::write(&script, "#!/bin/sh\nexit 0\n").expect("it can be written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let (old, new) = (Served::demo(), Served::demo());
    for (name, served) in [("old.pid", &old), ("new.pid", &new)] {
        fs::write(dir.path().join(name), served.child.id().to_string()).expect("it can be written");
    }
    // Not the dependency that its program needs.
    let is_command = |line: &&str| line.starts_with("anywire ") && !line.starts_with("anywire = ");
    let commands: Vec<&str> = PAGE.lines().filter(is_command).collect();
    assert!(commands.len() >= 7, "{commands:?}");
    for command in commands {
        let shorter = match command.split(' ').nth(1) {
            Some("ab") => " --rounds 5 -d 20ms --turn 10ms --warm-up 0",
            Some("load") => " -d 20ms --warm-up 0",
            _ => "",
        };
        let command =
            command.replace("localhost:8080", old.authority()).replace("localhost:8081", new.authority());
        let program = Path::new(env!("CARGO_BIN_EXE_anywire")).parent().expect("a folder");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", &format!("{command}{shorter}")])
            .env("PATH", path)
            .current_dir(dir.path())
            .output()
            .expect("there is a shell");
        // A machine that is too busy for the rate gives no verdict, as the page says.
        let is_busy = command.contains("--rate") && output.status.code() == Some(4);
        assert!(output.status.success() || is_busy, "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for name in ["trial.json", "old.json", "new.json", "ab.html"] {
        assert!(dir.path().join(name).exists(), "the page makes {name}");
    }
}
