//! The sans-IO crates read no clock, open no socket and run on no runtime: time and bytes are parameters.
//!
//! `clippy.toml` in such a crate disallows the clocks too, and sees through aliases; this test needs no
//! Clippy and also looks at imports and manifests.

use toml::{Table, Value};

use crate::rust_text::{RustText, lines_with_word};
use crate::{expect_none, tree};

/// The crates that must be sans-IO.
const SANS_IO: &[&str] = &["http", "tcp"];

/// Code that reaches out of a sans-IO crate, and why it must not be there.
const FORBIDDEN_CODE: &[(&str, &str)] = &[
    ("Instant::now", "the caller passes the time"),
    ("SystemTime::now", "the caller passes the time"),
    ("std::net", "the caller brings the bytes; the types of addresses are in core::net"),
    ("TcpStream", "the caller brings the bytes"),
    ("TcpListener", "the caller brings the bytes"),
    ("UdpSocket", "the caller brings the bytes"),
    ("UnixStream", "the caller brings the bytes"),
    ("UnixListener", "the caller brings the bytes"),
    ("tokio", "the caller brings the runtime"),
];

/// Dependencies that only make sense with a socket, a clock or a runtime.
const FORBIDDEN_DEPENDENCIES: &[&str] =
    &["tokio", "mio", "socket2", "rustix", "libc", "nix", "polling", "async-io"];

#[test]
fn sans_io_crates_reach_for_nothing() {
    let complaints: Vec<_> = tree::files_ending_in("rs")
        .iter()
        .filter(|file| SANS_IO.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/"))))
        .flat_map(|file| forbidden_code(&file.path, &file.text))
        .collect();
    expect_none("a sans-IO crate takes time and bytes as parameters", &complaints);
}

#[test]
fn sans_io_crates_depend_on_nothing_that_does() {
    let manifests = tree::crate_manifests();
    for name in SANS_IO {
        let (_, manifest) = manifests.iter().find(|(found, _)| found == name).expect("a crate of that name");
        expect_none(
            "a sans-IO crate has no dependency that does I/O",
            &forbidden_dependencies(name, manifest),
        );
    }
}

fn forbidden_code(path: &str, source: &str) -> Vec<String> {
    let code = RustText::split(source).code;
    FORBIDDEN_CODE
        .iter()
        .flat_map(|(word, why)| {
            lines_with_word(&code, word)
                .into_iter()
                .map(move |line| format!("{path}:{line}: `{word}`: {why}"))
        })
        .collect()
}

fn forbidden_dependencies(name: &str, manifest: &Table) -> Vec<String> {
    let dependencies = manifest.get("dependencies").and_then(Value::as_table);
    FORBIDDEN_DEPENDENCIES
        .iter()
        .filter(|package| dependencies.is_some_and(|table| table.contains_key(**package)))
        .map(|package| format!("`{package}` in [dependencies] of crates/{name}/Cargo.toml"))
        .collect()
}

mod on_bad_input {
    use super::*;

    #[test]
    fn each_way_out_is_caught_with_its_line() {
        for (source, line) in [
            ("fn f() {\n    let now = std::time::Instant::now();\n}", 2),
            ("use std::time::SystemTime;\nlet now = SystemTime::now();", 2),
            ("use std::net::IpAddr;", 1),
            ("use std::{io, net::TcpStream};", 1),
            ("use tokio::io::AsyncRead;", 1),
        ] {
            let complaints = forbidden_code("a.rs", source);
            assert!(complaints.iter().any(|text| text.starts_with(&format!("a.rs:{line}: "))), "{source}");
        }
    }

    #[test]
    fn a_time_that_was_passed_and_a_word_in_a_comment_are_fine() {
        let source = "/// Unlike `Instant::now`.\nfn advance(&mut self, now: Instant) { log(\"tokio\"); }";
        assert!(forbidden_code("a.rs", source).is_empty());
    }

    #[test]
    fn a_runtime_among_the_dependencies_is_caught() {
        let parse = |text| tree::parse_manifest("a made-up manifest", text);
        assert_eq!(forbidden_dependencies("http", &parse("[dependencies]\ntokio.workspace = true")).len(), 1);
        assert!(forbidden_dependencies("http", &parse("[dependencies]\nbytes = '1'")).is_empty());
        assert!(forbidden_dependencies("http", &parse("[dev-dependencies]\ntokio = '1'")).is_empty());
    }
}
