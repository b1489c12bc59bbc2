//! openssl and curl call `anywire serve` with TLS. It offers only what is safe, resumes sessions on any loop, renews its
//! certificates under load, and carries 100 MB both ways.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::{Served, has, run, stderr, stdout, text};
use crate::pki::{Authority, DAY, Signed};
use rustix::process::{Pid, Signal, kill_process};

const TLS: &[&str] = &["tls:127.0.0.1:0"];

/// What `openssl s_client` says, with these words on its stdin. It gives up after a minute.
fn s_client(served: &Served, args: &[&str], words: &str) -> String {
    let mut client = Command::new("timeout");
    client.args(["60", "openssl", "s_client", "-connect", served.authority()]).args(args);
    let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().expect("it was found before");
    // A handshake that failed has ended it already.
    let _ = child.stdin.take().expect("it was asked for").write_all(words.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    stdout(&output) + &stderr(&output)
}

/// A request whose answer ends the connection, so that all that the server has to say has come.
const REQUEST: &str = "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";

/// As [`s_client`], until the server closes.
fn ask(served: &Served, args: &[&str]) -> String {
    s_client(served, &[&["-ign_eof", "-crlf"], args].concat(), &REQUEST.replace("\r\n", "\n"))
}

fn files(signed: &Signed) -> [&str; 4] {
    ["--cert", text(&signed.cert), "--key", text(&signed.key)]
}

fn identity(signed: &Signed) -> [&str; 4] {
    ["-cert", text(&signed.cert), "-key", text(&signed.key)]
}

/// One with an ECDSA key and one with an RSA key, for the same name.
fn two_kinds(authority: &Authority) -> [Signed; 2] {
    let ecdsa = authority.signs("ecdsa", &["localhost"]);
    let rsa = Signed { cert: authority.file("rsa.pem"), key: authority.file("rsa.key") };
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"];
    let made =
        ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-out", text(&rsa.cert), "-keyout", text(&rsa.key)];
    run("openssl", &[&made[..], &subject].concat());
    [ecdsa, rsa]
}

#[test]
fn only_what_is_safe_is_offered() {
    if !has("openssl") {
        return;
    }
    let authority = Authority::new("trusted");
    let [ecdsa, rsa] = two_kinds(&authority);
    let served = Served::on(TLS, &[files(&ecdsa), files(&rsa)].concat());
    // The older versions (RFC 8996).
    for version in ["-tls1", "-tls1_1"] {
        let said = s_client(&served, &[version, "-cipher", "ALL:@SECLEVEL=0"], "");
        assert!(said.contains("alert") && said.contains("Cipher is (NONE)"), "{version}: {said}");
    }
    // Each suite, the preferred one first: the client names all that are left until none is taken.
    let mut taken = Vec::new();
    loop {
        let left =
            taken.iter().fold("ALL:eNULL:@SECLEVEL=0".to_owned(), |left, suite| format!("{left}:!{suite}"));
        let said = s_client(&served, &["-tls1_2", "-servername", "localhost", "-cipher", &left], "");
        let Some(suite) = cipher(&said) else { break };
        assert!(said.contains("Compression: NONE"), "{said}");
        taken.push(suite);
    }
    assert_eq!(taken, SUITES_OF_TLS12);
    let all = [&SUITES_OF_TLS13[..], &["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"]].concat();
    let is_taken =
        |suite: &&str| cipher(&s_client(&served, &["-tls1_3", "-ciphersuites", suite], "")).is_some();
    assert_eq!(all.into_iter().filter(is_taken).collect::<Vec<_>>(), SUITES_OF_TLS13);
    let all = ["X25519", "X448", "P-256", "P-384", "P-521", "ffdhe2048", "ffdhe3072"];
    let is_taken = |group: &&str| cipher(&s_client(&served, &["-tls1_3", "-groups", group], "")).is_some();
    assert_eq!(all.into_iter().filter(is_taken).collect::<Vec<_>>(), GROUPS);

    let served = Served::on(TLS, &[&files(&ecdsa)[..], &["--tls-min", "1.3"]].concat());
    let said = s_client(&served, &["-tls1_2"], "");
    assert!(said.contains("alert protocol version"), "{said}");
    assert!(cipher(&s_client(&served, &["-tls1_3"], "")).is_some());
}

const SUITES_OF_TLS13: [&str; 3] =
    ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];
/// All with forward secrecy and authenticated encryption.
const SUITES_OF_TLS12: [&str; 6] = [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
];
const GROUPS: [&str; 3] = ["X25519", "P-256", "P-384"];

/// The suite that was agreed on.
fn cipher(said: &str) -> Option<String> {
    let (_, suite) = said.lines().find_map(|line| line.split_once("Cipher is "))?;
    (suite != "(NONE)").then(|| suite.to_owned())
}

#[test]
fn names_and_protocols_are_agreed_on() {
    if !has("openssl") {
        return;
    }
    let authority = Authority::new("trusted");
    let (a, b) = (authority.signs("a", &["a.test"]), authority.signs("b", &["*.b.test"]));
    let served = Served::on(TLS, &[files(&a), files(&b)].concat());
    for (name, shown) in [("a.test", "a"), ("x.b.test", "b"), ("other.test", "a")] {
        let root = ["-CAfile", text(&authority.root), "-servername", name];
        let said = s_client(&served, &root, "");
        assert!(said.contains(&format!("subject=CN = {shown}\n")), "{name}: {said}");
        assert!(said.contains("Verify return code: 0 (ok)"), "{name}: {said}");
    }
    for (offered, agreed) in [
        ("h2,http/1.1", "ALPN protocol: h2"),
        ("http/1.1,h2", "ALPN protocol: h2"),
        ("http/1.1", "ALPN protocol: http/1.1"),
        ("spdy/3", "alert no application protocol"),
    ] {
        let said = s_client(&served, &["-alpn", offered], "");
        assert!(said.contains(agreed), "{offered}: {said}");
    }
    let said = ask(&served, &["-noservername"]);
    assert!(said.contains("No ALPN negotiated") && said.contains("Hello, World!"), "{said}");
}

#[test]
fn certificates_of_clients_are_checked() {
    if !has("openssl") {
        return;
    }
    let (authority, stranger) = (Authority::new("trusted"), Authority::new("stranger"));
    let server = authority.signs("server", &["localhost"]);
    let served = Served::on(TLS, &[&files(&server)[..], &["--client-ca", text(&authority.root)]].concat());
    let alice = authority.signs("alice", &[]);
    let expired = authority.signs_until("expired", &[], SystemTime::now() - DAY / 2);
    let mallory = stranger.signs("mallory", &[]);
    for version in ["-tls1_2", "-tls1_3"] {
        let ask_as = |identity: &[&str]| ask(&served, &[&[version], identity].concat());
        let said = ask_as(&identity(&alice));
        assert!(said.contains("Hello, World!"), "{version}: {said}");
        for (identity, alert) in [
            (&identity(&expired)[..], "alert certificate expired"),
            (&identity(&mallory), "alert unknown ca"),
            (&[], "alert"),
        ] {
            let said = ask_as(identity);
            assert!(
                said.contains(alert) && !said.contains("Hello, World!"),
                "{version} {identity:?}: {said}"
            );
        }
    }
}

#[test]
fn nothing_is_renegotiated() {
    if !has("openssl") {
        return;
    }
    let authority = Authority::new("trusted");
    let served = Served::on(TLS, &files(&authority.signs("server", &["localhost"])));
    // A line of this one letter asks for it.
    let said = s_client(&served, &["-tls1_2"], "R\n");
    assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{said}");
}

#[test]
fn half_a_handshake_ends_at_its_deadline() {
    let authority = Authority::new("trusted");
    let served = Served::on(TLS, &files(&authority.signs("server", &["localhost"])));
    let mut half = TcpStream::connect(served.authority()).expect("it listens");
    half.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    half.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03").expect("it reads");
    assert_eq!(half.read(&mut [0; 1]).expect("it is closed in order"), 0);
}

#[test]
fn sessions_are_resumed_on_any_loop() {
    if !has("openssl") {
        return;
    }
    let authority = Authority::new("trusted");
    let signed = authority.signs("server", &["localhost"]);
    let served = Served::on(TLS, &[&files(&signed)[..], &["--loops", "4"]].concat());
    for version in ["-tls1_2", "-tls1_3"] {
        let session = authority.file("session");
        let said = ask(&served, &[version, "-sess_out", text(&session)]);
        assert!(said.contains("\nNew, TLS"), "{said}");
        // So many that each loop has had some: the system spreads connections by their ports.
        for _ in 0..24 {
            let said = ask(&served, &[version, "-sess_in", text(&session)]);
            assert!(said.contains("\nReused, TLS"), "{version}: {said}");
        }
    }
}

#[test]
fn new_certificates_drop_no_connection_under_load() {
    if !has("h2load") || !has("curl") {
        return;
    }
    let authorities = ["one", "other"].map(Authority::new);
    let kinds = authorities.each_ref().map(|authority| authority.signs("server", &["127.0.0.1"]));
    let shown = Signed { cert: authorities[0].file("shown.pem"), key: authorities[0].file("shown.key") };
    let show = |signed: &Signed| {
        fs::copy(&signed.cert, &shown.cert).expect("room");
        fs::copy(&signed.key, &shown.key).expect("room");
    };
    show(&kinds[0]);
    let served = Served::on(TLS, &files(&shown));
    for protocol in ["h2", "http/1.1"] {
        let mut load = Command::new("h2load");
        load.args(["-n", "30000", "-c", "8", "-m", "8", "--npn-list", protocol]).arg(served.url("/"));
        let load = load.stdout(Stdio::piped()).spawn().expect("it was found before");
        for (signed, authority) in kinds.iter().zip(&authorities).rev().chain(kinds.iter().zip(&authorities))
        {
            show(signed);
            kill_process(Pid::from_child(&served.child), Signal::HUP).expect("it runs");
            let trusted = ["-sS", "--cacert", text(&authority.root), &served.url("/")];
            // It is told by the log alone when the signal has been handled.
            crate::common::eventually("it is shown", || {
                Command::new("curl").args(trusted).output().is_ok_and(|output| output.status.success())
            });
        }
        let output = load.wait_with_output().expect("it ends");
        let said = stdout(&output);
        assert!(said.contains("30000 succeeded, 0 failed, 0 errored, 0 timeout"), "{protocol}: {said}");
    }
}

#[test]
fn far_more_than_is_on_its_way_goes_both_ways() {
    if !has("curl") {
        return;
    }
    let authority = Authority::new("trusted");
    let served = Served::on(TLS, &files(&authority.signs("server", &["127.0.0.1"])));
    let [sent, came] = ["sent", "came"].map(|name| authority.file(name));
    let pattern: Vec<u8> = (0..20usize << 20).map(|at| (at * 31 % 251) as u8).collect();
    fs::write(&sent, &pattern).expect("room");
    for version in ["--http1.1", "--http2"] {
        let from = format!("@{}", text(&sent));
        let args =
            ["-sS", version, "--max-time", "120", "--cacert", text(&authority.root), "--data-binary", &from];
        run("curl", &[&args[..], &["-o", text(&came), &served.url("/echo")]].concat());
        assert!(is_same(&came, &pattern), "{version}");
    }
}

fn is_same(file: &Path, bytes: &[u8]) -> bool {
    fs::read(file).expect("curl has written it") == bytes
}
