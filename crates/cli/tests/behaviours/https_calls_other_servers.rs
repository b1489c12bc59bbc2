//! `https` with servers of other projects: who is not what it should be is refused with curl's exit codes and a help that
//! names an option.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use crate::common::{anywire, assert_refused, command, has, stderr, stdout};
use crate::tls_peers::{Certificates, Server, go};
use anywire::Client;
use anywire::wire::tls::{ClientTlsOptions, Roots};

/// Calls with curl and with this command, by options that both have: their exit code, which is the same, and what this one
/// has said and printed.
#[track_caller]
fn as_curl(args: &[&str]) -> (i32, String, String) {
    let curl = Command::new("curl").args(["-sS", "--max-time", "60"]).args(args).output().expect("curl runs");
    let output = anywire(&[&["get"], args].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), curl.status.code(), "{args:?}\ncurl: {}\nours: {said}", stderr(&curl));
    let code = output.status.code().expect("it was not killed");
    if code != 0 {
        assert!(said.contains("\nhelp: "), "no help in: {said}");
    }
    (code, said, stdout(&output))
}

#[track_caller]
fn refused(args: &[&str], code: i32, found: &str, help: &str) {
    let (ended, said, _) = as_curl(args);
    assert_eq!(ended, code, "{said}");
    let help_line = said.lines().find(|line| line.starts_with("help: ")).unwrap_or_default();
    assert!(
        said.contains(found) && help_line.contains(help),
        "{found:?} and {help:?} were expected in: {said}"
    );
}

fn has_all() -> bool {
    has("curl") && has("openssl")
}

#[test]
fn certificates_are_checked() {
    if !has_all() {
        return;
    }
    let made = Certificates::new();
    let root = made.text("root.pem");
    let good = Server::openssl(&made, "good", &[]);
    let (code, _, page) = as_curl(&["--cacert", &root, &good.url("/")]);
    assert!(code == 0 && page.contains("TLSv1.3"), "{page}");
    refused(&[&good.url("/")], 60, "signed by nobody who is trusted", "--cacert");
    let (code, said, _) = as_curl(&["-k", &good.url("/")]);
    assert!(code == 0 && said.lines().count() == 1 && said.starts_with("warning: --insecure"), "{said}");

    // The platform's roots can be named, too, and a load looks there as well.
    for args in [&["get"][..], &["load", "-n", "20", "-c", "1", "--warm-up", "0"]] {
        let mut named = command();
        let output = named.args(args).arg(good.url("/")).env("SSL_CERT_FILE", &root).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }

    for (name, found, help) in [
        ("expired", "has expired", "clock"),
        ("future", "not valid yet", "clock"),
        ("other", "another name than localhost: other.example", "--servername"),
        ("alone", "signed by nobody who is trusted", "--cacert"),
        ("authority", "signed by nobody who is trusted", "--cacert"),
    ] {
        let server = Server::openssl(&made, name, &[]);
        refused(&["--cacert", &root, &server.url("/")], 60, found, help);
        assert_eq!(as_curl(&["--insecure", "--cacert", &root, &server.url("/")]).0, 0, "{name}");
    }
    // curl takes the common name then, against RFC 9110 section 4.3.4.
    let nameless = anywire(&["get", "--cacert", &root, &Server::openssl(&made, "nameless", &[]).url("/")]);
    assert_refused(&nameless, 60, "no name at all");
    assert!(stderr(&nameless).contains("subjectAltName"), "{}", stderr(&nameless));
    // What a server shows as its own is trusted if it is given, be it that of an authority.
    for name in ["alone", "authority"] {
        let server = Server::openssl(&made, name, &[]);
        assert_eq!(
            as_curl(&["--cacert", &made.text(&format!("{name}.pem")), &server.url("/")]).0,
            0,
            "{name}"
        );
    }
    // Its name is checked all the same.
    let other = Server::openssl(&made, "other", &[]);
    let own = made.text("other.pem");
    assert_refused(&anywire(&["get", "--cacert", &own, &other.url("/")]), 60, "another name");
    let named = ["get", "--cacert", &own, "--servername", "other.example", &other.url("/")];
    assert!(anywire(&named).status.success());
}

#[test]
fn a_key_can_be_pinned() {
    if !has_all() {
        return;
    }
    let made = Certificates::new();
    let root = made.text("root.pem");
    let (good, other) = (Server::openssl(&made, "good", &[]), Server::openssl(&made, "other", &[]));
    let key_of = |server: &Server| {
        let said = stderr(&anywire(&["get", "-v", "-k", &server.url("/")]));
        let line = said.lines().find_map(|line| line.strip_prefix("* key: "));
        line.unwrap_or_else(|| panic!("no key in: {said}")).to_owned()
    };
    let (pin, another) = (key_of(&good), key_of(&other));
    let both = format!("{another};{pin}");
    for pins in [&pin, &both] {
        assert_eq!(as_curl(&["--cacert", &root, "--pinnedpubkey", pins, &good.url("/")]).0, 0);
    }
    for trust in [&["--cacert", &root][..], &["-k"]] {
        let url = good.url("/");
        let args = [trust, &["--pinnedpubkey", &another, &url]].concat();
        refused(&args, 90, "none of those that are pinned", "--pinnedpubkey");
    }
    let wrong = anywire(&["get", "--pinnedpubkey", "sha256//abc", &good.url("/")]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("44 characters"), "{}", stderr(&wrong));
}

#[test]
fn versions_are_agreed_on_or_refused() {
    if !has_all() {
        return;
    }
    let made = Certificates::new();
    let root = made.text("root.pem");
    for (option, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let server = Server::openssl(&made, "good", &[option]);
        let (_, _, page) = as_curl(&["--cacert", &root, &server.url("/")]);
        assert!(page.contains(&format!("New, {version}")), "{page}");
        let output = anywire(&["get", "-v", "--cacert", &root, &server.url("/")]);
        let said = stderr(&output);
        let first = format!("* {version}, TLS");
        for line in [
            first.as_str(),
            "* ALPN: ",
            "* subject: CN=localhost",
            "* issuer: CN=the root",
            "> GET / HTTP/1.1",
        ] {
            assert!(said.lines().any(|found| found.starts_with(line)), "{line:?} was expected in: {said}");
        }
    }
    let old = ["-tls1_2"];
    let server = Server::openssl(&made, "good", &old);
    let only_new = anywire(&["get", "--tls-min", "1.3", "--cacert", &root, &server.url("/")]);
    assert_refused(&only_new, 35, "no version of TLS");
    // A server that offers nothing, and one that offers the other version alone.
    for (options, found) in [
        (&[][..], "does not agree to HTTP/2"),
        (&["-alpn", "http/1.1"], "none of the application protocols that were offered"),
    ] {
        let server = Server::openssl(&made, "good", options);
        let url = server.url("/");
        for command in [&["get"][..], &["load", "-c", "1", "-n", "5", "--warm-up", "0"]] {
            let args = [command, &["--http2", "--cacert", &root, &url]].concat();
            let output = anywire(&args);
            assert_refused(&output, if command.len() == 1 { 35 } else { 1 }, found);
            assert!(stderr(&output).contains("--http2"), "{}", stderr(&output));
        }
    }
    for option in ["-tls1", "-tls1_1"] {
        let server = Server::openssl(&made, "good", &[option, "-cipher", "DEFAULT@SECLEVEL=0"]);
        refused(
            &["--tlsv1.2", "--cacert", &root, &server.url("/")][1..],
            35,
            "no version of TLS",
            "versions",
        );
    }
}

#[test]
fn cipher_suites_are_named() {
    if !has_all() {
        return;
    }
    let made = Certificates::new();
    let root = made.text("root.pem");
    let chosen = |version: &str, args: &[&str]| {
        let server = Server::openssl(&made, "good", &[version]);
        let (code, said, page) = as_curl(&[&["--cacert", &root], args, &[&server.url("/")]].concat());
        assert_eq!(code, 0, "{said}");
        let chosen = page.lines().find_map(|line| line.split_once("Cipher is ")).expect("a suite").1;
        chosen.trim().to_owned()
    };
    // By OpenSSL's names, which curl takes, too.
    let of_tls12 = |rest: &str| ["ECDSA", "RSA"].map(|key| format!("ECDHE-{key}-{rest}")).join(":");
    for rest in ["CHACHA20-POLY1305", "AES128-GCM-SHA256"] {
        assert!(chosen("-tls1_2", &["--ciphers", &of_tls12(rest)]).ends_with(rest));
        // What is named for one version leaves the other one as it is.
        assert!(chosen("-tls1_3", &["--ciphers", &of_tls12(rest)]).starts_with("TLS_"));
    }
    for suite in ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"] {
        assert_eq!(chosen("-tls1_3", &["--tls13-ciphers", suite]), suite);
        assert!(chosen("-tls1_2", &["--tls13-ciphers", suite]).starts_with("ECDHE-"));
    }
    for (option, known) in [("--ciphers", "ECDHE-RSA-AES128-GCM-SHA256"), ("--tls13-ciphers", "TLS_AES_128_")]
    {
        let output = anywire(&["get", option, "RC4-SHA", "https://localhost:1/"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(known), "{}", stderr(&output));
    }
}

#[test]
fn a_certificate_is_shown_if_it_is_asked_for() {
    if !has_all() {
        return;
    }
    let made = Certificates::new();
    let root = made.text("root.pem");
    for version in ["-tls1_2", "-tls1_3"] {
        let more = ["-Verify", "1", "-verify_return_error", "-CAfile", &root, version];
        let server = Server::openssl(&made, "good", &more);
        let url = server.url("/");
        let with = |name: &str| {
            let files = [".pem", ".key"].map(|end| made.text(&format!("{name}{end}")));
            as_curl(&["--cacert", &root, "--cert", &files[0], "--key", &files[1], &url])
        };
        let (code, said, _) = with("client");
        assert_eq!(code, 0, "{said}");
        for (code, said, _) in [as_curl(&["--cacert", &root, &url]), with("stranger")] {
            assert_ne!(code, 0);
            assert!(said.contains("certificate") && said.contains("--cert"), "{said}");
        }
    }
    let server = Server::openssl(&made, "good", &[]);
    let url = server.url("/");
    let (cert, key) = (made.text("client.pem"), made.text("stranger.key"));
    refused(&["--cert", &cert, "--key", &key, &url], 58, "does not fit", "first into its file");
    refused(&["--cacert", "/no/such/file", &url], 77, "/no/such/file", "PEM");
}

#[test]
fn a_plain_port_and_one_with_tls_are_told_apart() {
    if !has_all() {
        return;
    }
    let plain = crate::common::Served::demo();
    let url = plain.url("/").replace("http:", "https:");
    refused(&[&url], 35, "speaks no TLS on this port", "http://");
    let load = anywire(&["load", &url, "-n", "5", "--warm-up", "0"]);
    assert_refused(&load, 1, "speaks no TLS on this port");
}

#[test]
fn half_a_handshake_ends_by_the_deadline() {
    if !has_all() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}/", listener.local_addr().expect("an address"));
    let serving = thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut hello = [0; 16 << 10];
            let _ = stream.read(&mut hello).expect("a hello");
            // The head of an answer whose rest never comes.
            stream.write_all(&[22, 3, 3, 0, 122, 2]).expect("a client that reads");
            while stream.read(&mut hello).is_ok_and(|read| read > 0) {}
        }
    });
    let output = Command::new("curl").args(["-sS", "--connect-timeout", "1", &url]).output();
    assert_eq!(output.expect("curl runs").status.code(), Some(28));
    let output = anywire(&["get", "--connect-timeout", "200ms", &url]);
    assert_refused(&output, 28, "TLS handshake");
    serving.join().expect("no panic");
}

#[test]
fn a_body_that_is_cut_is_an_error() {
    if !has_all() || !has("python3") {
        return;
    }
    let made = Certificates::new();
    let root = made.text("root.pem");
    let server = Server::python(&made);
    let (code, said, page) = as_curl(&["--cacert", &root, &server.url("/whole")]);
    assert!(code == 0 && page == "some text", "{said}");
    // Here curl is content.
    let output = anywire(&["get", "--cacert", &root, &server.url("/cut")]);
    assert_refused(&output, 56, "close_notify");
    assert_eq!(stdout(&output), "some text", "what has come is given");
}

#[test]
fn nginx_and_go_speak_both_versions_of_http() {
    if !has_all() || !has("nginx") {
        return;
    }
    let (made, dir) = (Certificates::new(), tempfile::tempdir().expect("a directory"));
    let root = made.text("root.pem");
    let nginx = Server::nginx(&made, dir.path());
    let url = nginx.url("/page");
    for (option, line) in
        [("--http1", "< HTTP/1.1 200 OK"), ("--http2", "< HTTP/2 200"), ("-i", "< HTTP/2 200")]
    {
        let output = anywire(&["get", "-v", option, "--cacert", &root, &url]);
        let said = stderr(&output);
        assert!(stdout(&output).ends_with("a page"), "{said}");
        assert!(said.lines().any(|found| found == line), "{line:?} was expected in: {said}");
    }
    // It says in clear text that the port is one for TLS.
    let (code, _, page) = as_curl(&[&nginx.plain_url("/page")]);
    assert!(code == 0 && page.contains("HTTPS port"), "{page}");
    for options in [&["--depth", "4"][..], &["--http2", "--streams", "16"]] {
        let args =
            ["load", &url, "--cacert", &root, "-c", "4", "-n", "2000", "--warm-up", "0", "--json", "-"];
        let output = anywire(&[&args[..], options].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let outcome: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON alone");
        assert_eq!(outcome["totals"]["statuses"]["200"], 2000, "{outcome}");
    }
    let untrusting = anywire(&["load", &url, "-c", "1", "-n", "10", "--warm-up", "0"]);
    assert_refused(&untrusting, 1, "signed by nobody who is trusted");
    assert!(stderr(&untrusting).contains("--cacert"));

    let Some(go) = go() else { return };
    let go = Server::go(&made, &go);
    for (option, version) in [("--http1", "HTTP/1.1"), ("--http2", "HTTP/2.0"), ("-f", "HTTP/2.0")] {
        let output = anywire(&["get", option, "--cacert", &root, &go.url("/version")]);
        assert_eq!(stdout(&output), version, "{}", stderr(&output));
    }
}

#[test]
fn another_connection_resumes_the_session() {
    if !has_all() {
        return;
    }
    let made = Certificates::new();
    for (option, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let server = Server::openssl(&made, "good", &[option]);
        let roots = Roots::only_file(made.path("root.pem")).expect("a root");
        let client = Client::builder().tls(ClientTlsOptions { roots, ..ClientTlsOptions::default() }).build();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        // It closes after each answer.
        let pages = [(); 2].map(|()| {
            runtime.block_on(async {
                let answer = client.get(server.url("/")).send().await.expect("an answer");
                let resumed = answer.tls().expect("a handshake").is_resumed;
                (resumed, answer.text().await.expect("an end with its close_notify"))
            })
        });
        assert!(!pages[0].0 && pages[0].1.contains(&format!("New, {version}")), "{pages:?}");
        assert!(pages[1].0 && pages[1].1.contains(&format!("Reused, {version}")), "{pages:?}");
    }
}

#[test]
fn keys_are_written_for_who_asks() {
    if !has_all() {
        return;
    }
    let made = Certificates::new();
    let (root, file) = (made.text("root.pem"), made.path("keys"));
    let server = Server::openssl(&made, "good", &["-tls1_3"]);
    let url = server.url("/");
    let get = |args: &[&str]| {
        let mut get = command();
        get.args(["get", "--cacert", &root, &url]).args(args).env("SSLKEYLOGFILE", &file);
        assert!(get.output().expect("it runs").status.success());
        std::fs::read_to_string(&file).unwrap_or_default()
    };
    assert_eq!(get(&[]), "", "nobody asked");
    assert!(get(&["--ssl-key-log"]).contains("CLIENT_TRAFFIC_SECRET_0 "));
    let mut unnamed = command();
    let output = unnamed.args(["get", "--ssl-key-log", &url]).env_remove("SSLKEYLOGFILE").output();
    assert_refused(&output.expect("it runs"), 2, "no file");
}
