//! Calls through squid, tinyproxy and microsocks: requests that they relay, tunnels that they make, whom they let in, and what they say of
//! an origin that is not there.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anywire_client::proxy::ProxyReason;
use anywire_client::{Client, Error};
use tempfile::TempDir;

use crate::support::{HANG, OK, Peer, all, block_on, client, skipped, wire};

/// A proxy, until it is dropped.
struct Real {
    name: &'static str,
    port: u16,
    child: Child,
    _folder: TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Real {
    /// Its URL for somebody.
    fn url(&self, scheme: &str, login: &str) -> String {
        format!("{scheme}://{login}127.0.0.1:{}", self.port)
    }
}

/// Starts a proxy on a port that it is told; none if it is not installed.
fn start(name: &'static str, command: impl Fn(&Path, u16, &Path) -> Command) -> Option<Real> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where Debian puts servers, which is not in the path of every user.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let program: Option<PathBuf> = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    let Some(program) = program else {
        assert!(std::env::var_os("CI").is_none(), "this test needs {name}; install it");
        skipped::say(format_args!("{name} is not installed"));
        return None;
    };
    println!("with {name}");
    for _ in 0..5 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Free now; should another program take it before the proxy does, another one is tried.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let mut command = command(&program, port, folder.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let hang = Instant::now() + HANG;
        while child.try_wait().expect("a child").is_none() {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Real { name, port, child, _folder: folder });
            }
            assert!(Instant::now() < hang, "{name} does not listen");
            thread::sleep(Duration::from_millis(1));
        }
    }
    panic!("{name} found no free port");
}

/// Lets all ports be tunnelled to, and who is `me` in.
fn squid() -> Option<Real> {
    start("squid", |program, port, folder| {
        let text = folder.display();
        let config = folder.join("squid.conf");
        let content = format!(
            "http_port 127.0.0.1:{port}\npid_filename {text}/pid\ncache deny all\naccess_log none\n\
             cache_log {text}/log\ncache_store_log none\nnetdb_filename none\nshutdown_lifetime 0 seconds\npinger_enable off\nhttp_access allow all\n"
        );
        std::fs::write(&config, content).expect("a file");
        let mut command = Command::new(program);
        // As root it becomes another user, who has to write here.
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder, everybody).expect("it is ours");
        // One process alone, which ends when it is told to.
        command.args(["-N", "-f"]).arg(config);
        command
    })
}

fn tinyproxy() -> Option<Real> {
    start("tinyproxy", |program, port, folder| {
        let config = folder.join("tinyproxy.conf");
        let content =
            format!("Port {port}\nListen 127.0.0.1\nTimeout 60\nBasicAuth me secret\nMaxClients 100\n");
        std::fs::write(&config, content).expect("a file");
        let mut command = Command::new(program);
        command.arg("-d").arg("-c").arg(config);
        command
    })
}

fn microsocks(login: &'static [&str]) -> Option<Real> {
    start("microsocks", move |program, port, _| {
        let mut command = Command::new(program);
        command.args(["-i", "127.0.0.1", "-p"]).arg(port.to_string()).args(login);
        command
    })
}

fn text(client: &Client, url: &str) -> String {
    block_on(async { client.get(url).send().await?.text().await }).expect("an answer")
}

fn pattern() -> Vec<u8> {
    (0..3_000_000).map(|at| (at % 251) as u8).collect()
}

/// Answers with the body that it gets, on any wire.
fn echo(scheme: &str) -> Peer {
    Peer::start(wire(scheme), |mut talk| {
        while let Some(request) = talk.request() {
            assert_eq!(request.head.headers().get("proxy-authorization"), None, "the origin is told");
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", request.body.len()));
            talk.say(request.body);
        }
    })
}

/// Bodies come and go whole through a proxy, in clear text and by TLS, and many calls at once.
fn carries_calls(proxy: &Real, url: &str) {
    println!("by {}", proxy.name);
    let (_loops, client) = client(1, |builder| builder.proxy(url));
    let sent = pattern();
    #[cfg(feature = "tls")]
    let schemes = ["tcp", "tls"];
    #[cfg(not(feature = "tls"))]
    let schemes = ["tcp"];
    for scheme in schemes {
        let origin = echo(scheme);
        // Tinyproxy closes each connection behind the response, and does not say so before.
        let post = || client.post(origin.url("/")).idempotent();
        let call = async || post().body(sent.clone()).send().await?.bytes().await;
        for _ in 0..2 {
            assert!(block_on(call()).expect("an answer") == sent, "the body differs");
        }
        for answer in all((0..20).map(|_| post().body("small").send())) {
            let answer = answer.expect("an answer");
            assert_eq!(answer.tls().is_some(), scheme == "tls");
            assert_eq!(block_on(answer.text()).expect("a body"), "small");
        }
        assert_eq!(text(&client, &origin.url("/")), "");
    }
}

/// The reason why a tunnel is not made.
fn refusal(url: &str, to: &str) -> ProxyReason {
    let (_loops, client) = client(1, |builder| builder.proxy(url).retries(0));
    let error = block_on(client.get(to).upgrade("other").send()).expect_err("no tunnel");
    assert!(!format!("{} {error:?}", anywire_advice::Chain(&error)).contains("secret"));
    match error {
        Error::Proxy { source, .. } => source.into_reason(),
        other => panic!("{other:?}"),
    }
}

/// A URL of this machine where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://127.0.0.1:{}/", listener.local_addr().expect("it is bound").port())
}

#[test]
fn squid_relays_and_makes_tunnels() {
    let Some(proxy) = squid() else { return };
    carries_calls(&proxy, &proxy.url("http", ""));
    let reason = refusal(&proxy.url("http", ""), &nobody());
    assert!(matches!(reason, ProxyReason::Refused(status) if status == 503), "{reason:?}");
}

#[test]
fn tinyproxy_wants_to_know_who_asks() {
    let Some(proxy) = tinyproxy() else { return };
    carries_calls(&proxy, &proxy.url("http", "me:secret@"));
    let origin = Peer::answering(wire("tcp"), OK);
    let reason = refusal(&proxy.url("http", "me:secret2@"), &origin.url("/"));
    assert!(matches!(reason, ProxyReason::LoginRefused | ProxyReason::Refused(_)), "{reason:?}");
    let reason = refusal(&proxy.url("http", ""), &origin.url("/"));
    assert!(
        matches!(&reason, ProxyReason::LoginWanted { offers: Some(offers) } if offers.contains("Basic")),
        "{reason:?}"
    );
    assert_eq!(origin.accepted(), 0);
    let reason = refusal(&proxy.url("http", "me:secret@"), &nobody());
    assert!(matches!(reason, ProxyReason::Refused(_)), "{reason:?}");
}

#[test]
fn microsocks_lets_in_whom_it_knows() {
    let Some(open) = microsocks(&[]) else { return };
    for scheme in ["socks5", "socks5h"] {
        carries_calls(&open, &open.url(scheme, ""));
    }
    let reason = refusal(&open.url("socks5h", ""), &nobody());
    assert!(matches!(reason, ProxyReason::Socks(reply) if reply.0 == 5), "{reason:?}");

    let Some(closed) = microsocks(&["-u", "me", "-P", "secret"]) else { return };
    carries_calls(&closed, &closed.url("socks5h", "me:secret@"));
    let origin = Peer::answering(wire("tcp"), OK);
    let reason = refusal(&closed.url("socks5h", ""), &origin.url("/"));
    assert!(matches!(reason, ProxyReason::LoginWanted { .. }), "{reason:?}");
    let reason = refusal(&closed.url("socks5h", "me:secret2@"), &origin.url("/"));
    assert!(matches!(reason, ProxyReason::LoginRefused), "{reason:?}");
    assert_eq!(origin.accepted(), 0);
}
