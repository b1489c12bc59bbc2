//! Each row of `docs/from-curl.md` is run: both commands send the same bytes that matter and exit with the same code.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{has, stderr, stdout};
use crate::recorder::{FILE, Recorder, Request};

const PAGE: &str = include_str!("../../../../docs/from-curl.md");

/// Runs one of the commands in a folder of its own: how it ended, what it asked, and the files that it left.
fn run(recorder: &Recorder, command: &str) -> (Output, Vec<Request>, Files) {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("order.json"), "{\n  \"item\": \"tea\"\n}\n")
        .expect("the folder can be written");
    std::fs::write(dir.path().join("jar.txt"), "127.0.0.1\tFALSE\t/\tFALSE\t0\tid\t7\n")
        .expect("the folder can be written");
    std::fs::write(dir.path().join("part.txt"), &FILE[..4]).expect("the folder can be written");
    let line = command.replace("localhost:8080", &recorder.authority);
    let port = recorder.authority.trim_start_matches("127.0.0.1");
    let line = line.replace(":8080", port);
    let line = match line.strip_prefix("anywire ") {
        Some(arguments) => format!("exec '{}' {arguments}", env!("CARGO_BIN_EXE_anywire")),
        None => format!("exec {line}"),
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(dir.path()).stdin(Stdio::null());
    // No settings of the person who runs the tests.
    shell.env("HOME", dir.path()).env_remove("http_proxy").env_remove("RUST_LOG");
    let output = shell.output().expect("a shell starts");
    // Which connection is a matter of its own.
    let asked = recorder.take().into_iter().map(|request| Request { connection: 0, ..request }).collect();
    (output, asked, files(dir.path()))
}

/// By their names.
type Files = Vec<(String, Vec<u8>)>;

fn files(dir: &Path) -> Files {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut files: Vec<_> = entries
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

/// Rows of two commands.
fn rows(page: &str) -> Vec<(&str, &str)> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `curl ").and(line.strip_prefix("| `")))
        .filter_map(|line| line.strip_suffix("` |")?.split_once("` | `"))
        .collect()
}

#[test]
fn each_row_of_the_page_is_true() {
    let rows = rows(PAGE);
    assert!(rows.len() > 40, "the page has {} rows", rows.len());
    let has_curl = has("curl");
    let recorder = Recorder::start();
    let mut complaints = Vec::new();
    for (theirs, ours) in rows {
        assert!(ours.starts_with("anywire "), "{ours}");
        let (output, asked, files) = run(&recorder, ours);
        if asked.is_empty() {
            complaints.push(format!("{ours}\n  asks nothing: {}", stderr(&output)));
        }
        if !has_curl {
            continue;
        }
        let (of_curl, asked_by_curl, files_of_curl) = run(&recorder, theirs);
        if (&asked, output.status.code()) != (&asked_by_curl, of_curl.status.code()) {
            complaints.push(format!(
                "{ours}\n  {asked:?}\n  {asked_by_curl:?}\n  {} and {}: {}",
                output.status,
                of_curl.status,
                stderr(&output)
            ));
        }
        // curl writes versions and statuses of heads alike, and has no other fields.
        if stdout(&output) != stdout(&of_curl) || files != files_of_curl {
            complaints.push(format!(
                "{ours}\n  {:?}\n  {:?}\n  {files:?}\n  {files_of_curl:?}",
                stdout(&output),
                stdout(&of_curl)
            ));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
