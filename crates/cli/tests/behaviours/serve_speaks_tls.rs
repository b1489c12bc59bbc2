//! `anywire serve` with certificates: from files that SIGHUP reads again, or made for a trial; mistakes say what to do.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::common::{Served, anywire, assert_refused, command, has, run, stderr, stdout, text};
use crate::pki::{Authority, Signed};
use anywire::Loops;
use anywire::wire::tls::{ClientTls, ClientTlsOptions, Roots};
use anywire::wire::{DialOptions, Dialer};
use rustix::process::{Pid, Signal, kill_process};

const TLS: &[&str] = &["tls:127.0.0.1:0"];

fn files(signed: &Signed) -> [&str; 4] {
    ["--cert", text(&signed.cert), "--key", text(&signed.key)]
}

fn curl(args: &[&str]) -> Output {
    Command::new("curl").arg("-sS").args(args).output().expect("curl was found before")
}

#[test]
fn files_serve_curl_over_both_versions() {
    if !has("curl") {
        return;
    }
    let authority = Authority::new("trusted");
    let socket = authority.file("socket");
    let unix = format!("tls+unix:{}", text(&socket));
    let served = Served::on(
        &[TLS[0], &unix, "tcp:127.0.0.1:0"],
        &files(&authority.signs("server", &["localhost", "127.0.0.1"])),
    );
    assert!(served.url("/").starts_with("https://127.0.0.1:"), "{}", served.url("/"));
    let root = text(&authority.root);
    for (version, shown) in [("--http1.1", "1.1"), ("--http2", "2")] {
        for wire in [&[][..], &["--unix-socket", text(&socket)]] {
            let asked = [&["--cacert", root, version, "-w", " %{http_version}"], wire].concat();
            let url = if wire.is_empty() { served.url("/") } else { "https://localhost/".to_owned() };
            assert_eq!(stdout(&curl(&[&asked[..], &[&url]].concat())), format!("Hello, World! {shown}"));
        }
    }
    let clear = served.address(2).replace("tcp:", "http://");
    assert_eq!(run("curl", &["-sS", &clear]), "Hello, World!");
}

#[test]
fn a_trial_needs_no_files() {
    if !has("curl") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trial.sock");
    let on_a_path = format!("tls+unix:{}", text(&path));
    for (address, url) in [(TLS[0], "https://localhost:"), (&on_a_path, "https://localhost/")] {
        let mut serve = command();
        serve
            .args(["serve", "--tls-self-signed", "--loops", "1", "--listen", address])
            .env("TMPDIR", folder.path());
        let mut child =
            Running(serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built"));
        let mut said = BufReader::new(child.0.stderr.take().expect("it was asked for")).lines();
        let mut commands =
            said.by_ref().map(|line| line.expect("text")).skip_while(|line| !line.starts_with("  "));
        let [anywire_get, curl] = [commands.next(), commands.next()].map(|line| line.expect("two ways"));
        // As a user would: what is printed is run.
        let words: Vec<_> = anywire_get.split_whitespace().collect();
        assert_eq!(words[..3], ["anywire", "get", "--cacert"], "{anywire_get}");
        assert_eq!(run(env!("CARGO_BIN_EXE_anywire"), &words[1..]), "Hello, World!");
        let words: Vec<_> = curl.split_whitespace().collect();
        assert!(words.last().is_some_and(|last| last.starts_with(url)), "{curl}");
        assert_eq!(run(words[0], &[&["-sS"], &words[1..]].concat()), "Hello, World!");
        let certificate = PathBuf::from(words[2]);
        assert!(certificate.starts_with(folder.path()), "{curl}");
        kill_process(pid(&child.0), Signal::TERM).expect("it runs");
        assert!(child.0.wait().expect("a child").success());
        assert!(!certificate.exists(), "it goes with the service");
    }
}

#[test]
fn the_name_chooses_the_certificate() {
    if !has("curl") {
        return;
    }
    let [first, second] = ["first", "second"].map(Authority::new);
    let served = Served::on(
        TLS,
        &[files(&first.signs("a", &["a.test"])), files(&second.signs("b", &["*.b.test"]))].concat(),
    );
    let port = served.authority().rsplit_once(':').expect("a port").1;
    let ask = |name: &str, root: &Authority| {
        let (resolve, url) = (format!("{name}:{port}:127.0.0.1"), format!("https://{name}:{port}/"));
        curl(&["--cacert", text(&root.root), "--resolve", &resolve, &url])
    };
    assert_eq!(stdout(&ask("a.test", &first)), "Hello, World!");
    assert_eq!(stdout(&ask("www.b.test", &second)), "Hello, World!");
    // A certificate for another name is shown, and the client refuses it.
    assert_eq!(ask("c.test", &first).status.code(), Some(60));
}

#[test]
fn clients_prove_themselves() {
    if !has("curl") {
        return;
    }
    let (authority, stranger) = (Authority::new("trusted"), Authority::new("stranger"));
    let server = authority.signs("server", &["127.0.0.1"]);
    let (alice, mallory) = (authority.signs("alice", &[]), stranger.signs("mallory", &[]));
    for (optional, without) in [(None, ""), (Some("--client-ca-optional"), "Hello, World!")] {
        let options =
            [&files(&server)[..], &["--client-ca", text(&authority.root)], optional.as_slice()].concat();
        let served = Served::on(TLS, &options);
        let ask = |identity: &[&str]| {
            stdout(&curl(&[&["--cacert", text(&authority.root)], identity, &[&served.url("/")]].concat()))
        };
        assert_eq!(ask(&files(&alice)), "Hello, World!");
        assert_eq!(ask(&files(&mallory)), "");
        assert_eq!(ask(&[]), without);
        let url = served.url("/");
        let get = [&["get", "--cacert", text(&authority.root)], &files(&mallory)[..], &[&url]].concat();
        let refused = anywire(&get);
        assert_refused(&refused, 56, "it does not trust who signed this end's certificate");
        assert!(stderr(&refused).contains("with --cert and --key"), "{}", stderr(&refused));
    }
}

#[test]
fn sighup_reads_the_files_again_and_drops_no_connection() {
    if !has("curl") {
        return;
    }
    let [old, new] = ["old", "new"].map(Authority::new);
    let (before, after) = (old.signs("server", &["127.0.0.1"]), new.signs("server", &["127.0.0.1"]));
    let mut serve = command();
    serve.args(["serve", "--loops", "2", "--listen", TLS[0]]).args(files(&before));
    let mut child =
        Running(serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built"));
    let mut listening = String::new();
    let mut printed = BufReader::new(child.0.stdout.take().expect("it was asked for"));
    printed.read_line(&mut listening).expect("text");
    let url = listening.trim_end().trim_end_matches(')').rsplit_once("(https://localhost:").expect("a URL").1;
    let authority = format!("127.0.0.1:{}", url.trim_end_matches('/'));
    let mut log = BufReader::new(child.0.stderr.take().expect("it was asked for"));
    let mut until = |end: &str| {
        let mut all = String::new();
        while !all.contains(end) {
            assert_ne!(log.read_line(&mut all).expect("text"), 0, "{all}");
        }
        all
    };
    let said = until("127.0.0.1");
    assert!(said.contains("server.pem") && said.contains("GMT"), "{said}");
    let ask =
        |root: &Authority| stdout(&curl(&["--cacert", text(&root.root), &format!("https://{authority}/")]));
    assert_eq!([&old, &new].map(ask), ["Hello, World!", ""]);
    let loops = Loops::start(1).expect("a thread");
    let (opened, opening) = std::sync::mpsc::channel();
    let (reloaded, reloading) = tokio::sync::oneshot::channel::<()>();
    let (address, root) = (format!("tls:{authority}"), std::fs::read(&old.root).expect("it was written"));
    let open = loops.get(0).spawn(move || async move {
        let roots = Roots::only_pem(&root).expect("a root");
        let tls = ClientTls::new(ClientTlsOptions { roots, ..ClientTlsOptions::default() });
        let options = DialOptions { tls: Some(tls.expect("good options")), ..DialOptions::default() };
        let mut connection = Dialer::new(options).dial(&address).await.expect("it serves");
        let mut ask = async || {
            connection.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("it is open");
            let mut heard = Vec::new();
            while !heard.ends_with(b"Hello, World!") {
                let mut some = [0; 1024];
                let read = connection.read(&mut some).await.expect("it is open");
                assert_ne!(read, 0, "it is open");
                heard.extend_from_slice(&some[..read]);
            }
        };
        ask().await;
        opened.send(()).expect("the test waits");
        reloading.await.expect("the test goes on");
        ask().await;
    });
    opening.recv().expect("it is answered");

    std::fs::copy(&after.cert, &before.cert).expect("room");
    kill_process(pid(&child.0), Signal::HUP).expect("it runs");
    // The key is still the old one.
    let said = until("reading the certificates again failed");
    assert!(said.contains("ERROR") && said.contains("does not fit"), "{said}");
    assert_eq!([&old, &new].map(ask), ["Hello, World!", ""]);

    std::fs::copy(&after.key, &before.key).expect("room");
    kill_process(pid(&child.0), Signal::HUP).expect("it runs");
    until("new connections are shown these certificates");
    assert_eq!([&old, &new].map(ask), ["", "Hello, World!"]);
    reloaded.send(()).expect("the connection waits");
    open.wait().expect("it is answered as before");
}

/// Both ends of a connection write the same keys, by which a capture can be read.
#[test]
fn keys_are_written_as_the_client_has_them() {
    if !has("curl") {
        return;
    }
    let authority = Authority::new("trusted");
    let signed = authority.signs("server", &["localhost", "127.0.0.1"]);
    let [ours, theirs] = ["ours", "theirs"].map(|name| authority.file(name));
    for (version, keys) in [("--tls-max=1.2", 1), ("--tlsv1.3", 5)] {
        let mut serve = command();
        serve.args(["serve", "--loops", "1", "--listen", TLS[0], "--ssl-key-log"]).args(files(&signed));
        serve.env("SSLKEYLOGFILE", &ours).stdout(Stdio::piped());
        let mut child = Running(serve.spawn().expect("it is built"));
        let mut printed = BufReader::new(child.0.stdout.take().expect("it was asked for"));
        let mut line = String::new();
        printed.read_line(&mut line).expect("text");
        let url = line.trim_end().trim_end_matches(')').rsplit_once('(').expect("a URL").1;
        let mut ask = Command::new("curl");
        ask.args(["-sS", "--cacert", text(&authority.root)]).args(version.split('=')).arg(url);
        assert_eq!(stdout(&ask.env("SSLKEYLOGFILE", &theirs).output().expect("curl runs")), "Hello, World!");
        let [ours, theirs] = [&ours, &theirs].map(|file| {
            let text = std::fs::read_to_string(file).expect("keys");
            std::fs::remove_file(file).expect("it is there");
            text.lines().map(str::to_owned).collect::<BTreeSet<_>>()
        });
        // There may be a comment, and a key of exports that one of them does not write.
        let common = ours.intersection(&theirs).count();
        assert!(common >= keys.min(4), "{version}: ours\n{ours:#?}\ntheirs\n{theirs:#?}");
    }
}

#[test]
fn mistakes_say_what_to_do() {
    let authority = Authority::new("trusted");
    let (one, other) = (authority.signs("one", &["one"]), authority.signs("other", &["other"]));
    let (cert, key) = (text(&one.cert), text(&one.key));
    for (args, code, found) in [
        (&["--listen", "tls:127.0.0.1:0"][..], 2, "TLS needs a certificate"),
        (&["--listen", "tls:127.0.0.1:0", "--cert", cert], 2, "there are 1 --cert and 0 --key"),
        (
            &["--listen", "tcp:127.0.0.1:0", "--cert", cert, "--key", key],
            2,
            "none of the addresses speaks it",
        ),
        (&["--cert", "/nowhere.pem", "--key", key], 1, "cannot read /nowhere.pem"),
        (&["--cert", key, "--key", key], 1, "there is no certificate in"),
        (&["--cert", cert, "--key", cert], 1, "there is no private key in"),
        (&["--cert", cert, "--key", text(&other.key)], 1, format!("other.key does not fit {cert}").as_str()),
        (&["--cert", cert, "--key", key, "--ssl-key-log"], 2, "SSLKEYLOGFILE names no file"),
    ] {
        let mut serve = command();
        let output = serve.arg("serve").args(args).env_remove("SSLKEYLOGFILE").output().expect("it is built");
        assert_refused(&output, code, found);
    }
    let both = anywire(&["serve", "--tls-self-signed", "--cert", cert, "--key", key]);
    assert!(stderr(&both).contains("cannot be used with"), "{}", stderr(&both));
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
