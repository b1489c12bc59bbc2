//! One listener shows each peer the certificate for the name that it asks for, and takes new ones while it serves.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use anywire_wire::tls::{
    ClientCertificates, ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions,
};
use anywire_wire::{Address, ConnectionLimit, DialOptions, Dialer, ListenOptions, ListenerHandle};
use rcgen::{CertificateParams, DnType, KeyPair};

/// A certificate for these names that calls itself `by`, and its text.
fn identity(by: &str, names: &[&str]) -> (Identity, String) {
    let key = KeyPair::generate().expect("a key");
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("good names");
    params.distinguished_name.push(DnType::CommonName, by);
    let pem = params.self_signed(&key).expect("it can be signed").pem();
    let identity = Identity::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).expect("they fit");
    (identity, pem)
}

/// Who answers to this name, if the answer is trusted.
fn who(address: &Address, name: &str, trusted: &str) -> Result<String, String> {
    let roots = Roots::only_pem(trusted.as_bytes()).expect("certificates");
    let options = ClientTlsOptions { roots, resumption: false, ..ClientTlsOptions::default() };
    let options = DialOptions {
        tls: Some(ClientTls::new(options).expect("good options")),
        server_name: Some(name.to_owned()),
        ..DialOptions::default()
    };
    let address = address.clone();
    crate::support::on_a_loop(move || async move {
        let dialled = Dialer::new(options).dial(&address).await.map_err(|error| error.to_string())?;
        let subject = dialled.negotiated().expect("a handshake was made").peer_subject();
        Ok(subject.expect("it shows a certificate"))
    })
}

#[test]
fn the_certificate_follows_the_name() {
    let (first, first_pem) = identity("first", &["first.example", "127.0.0.1"]);
    let (exact, exact_pem) = identity("exact", &["a.example.com"]);
    let (wild, wild_pem) = identity("wild", &["*.example.com"]);
    let trusted = [first_pem, exact_pem, wild_pem].concat();
    let tls = ServerTlsOptions { identities: vec![first, wild, exact], ..ServerTlsOptions::default() };
    let options = ListenOptions { tls: Some(ServerTls::new(tls).expect("good")), ..ListenOptions::default() };
    let loops = crate::support::loops(1);
    let listening =
        crate::support::serve_echo(&loops, &"tls:127.0.0.1:0".parse().expect("an address"), &options);
    let who = |name| who(listening.local(), name, &trusted);
    assert_eq!(who("first.example").as_deref(), Ok("CN=first"));
    assert_eq!(who("a.example.com").as_deref(), Ok("CN=exact"));
    assert_eq!(who("A.Example.COM").as_deref(), Ok("CN=exact"));
    assert_eq!(who("b.example.com").as_deref(), Ok("CN=wild"));
    // An address is no name, so that none is asked for.
    assert_eq!(who("127.0.0.1").as_deref(), Ok("CN=first"));
    // A wildcard stands for one label; whoever asks for more gets the first, and does not take it.
    for unknown in ["a.b.example.com", "example.com", "another.org"] {
        assert!(who(unknown).is_err_and(|said| said.contains("another name")), "{unknown}");
    }
}

#[test]
fn new_certificates_are_shown_at_once_and_open_connections_go_on() {
    for scheme in ["tls", "tls+unix", "tls+memory"] {
        let (old, old_pem) = identity("old", &["localhost"]);
        let (new, new_pem) = identity("new", &["localhost"]);
        let shows = |identity| ServerTlsOptions { identities: vec![identity], ..ServerTlsOptions::default() };
        let tls = ServerTls::new(shows(old)).expect("a good certificate");
        let options = ListenOptions { tls: Some(tls.clone()), ..ListenOptions::default() };
        let loops = crate::support::loops(2);
        let wire = crate::support::wires().find(|wire| wire.scheme() == scheme).expect("a wire of the list");
        let scratch = wire.scratch().expect("it can make an address up");
        let listening = crate::support::serve_echo(&loops, &scratch, &options);
        let address = listening.local().clone();
        let trusted = format!("{old_pem}{new_pem}");
        assert_eq!(who(&address, "localhost", &trusted).as_deref(), Ok("CN=old"));

        let (replaced, replacing) = mpsc::channel();
        let (asked, asking) = tokio::sync::oneshot::channel();
        let there = crate::support::loops(1);
        let open = there.get(0).spawn({
            let (address, trusted) = (address.clone(), trusted.clone());
            move || async move {
                let roots = Roots::only_pem(trusted.as_bytes()).expect("certificates");
                let options = ClientTlsOptions { roots, ..ClientTlsOptions::default() };
                let tls = Some(ClientTls::new(options).expect("good options"));
                let options =
                    DialOptions { tls, server_name: Some("localhost".into()), ..DialOptions::default() };
                let mut connection = Dialer::new(options).dial(&address).await.expect("it is trusted");
                crate::support::ask_echo(&mut connection).await;
                replaced.send(()).expect("the test waits");
                asking.await.expect("the test goes on");
                crate::support::ask_echo(&mut connection).await;
            }
        });
        replacing.recv().expect("the connection is open");
        tls.replace(shows(new)).expect("a good certificate");
        for _ in 0..4 {
            assert_eq!(who(&address, "localhost", &trusted).as_deref(), Ok("CN=new"));
        }
        tls.replace(ServerTlsOptions::default()).expect_err("it has no certificate");
        assert_eq!(who(&address, "localhost", &trusted).as_deref(), Ok("CN=new"), "the last good one stays");
        asked.send(()).expect("the connection waits");
        open.wait().expect("it goes on");
    }
}

/// Options that show this certificate, and ask for one of clients if there are roots for them.
fn showing(identity: &Identity, clients: Option<&str>) -> ServerTlsOptions {
    let clients = clients.map(|roots| ClientCertificates::required_pem(roots.as_bytes()).expect("roots"));
    ServerTlsOptions {
        identities: vec![identity.clone()],
        clients: clients.unwrap_or_default(),
        ..ServerTlsOptions::default()
    }
}

/// Listens with an old certificate. `late` has somebody dial whose handshake does not begin before the sender is used, and gives
/// what the peer is told: the name in the certificate, or an error where it has to prove itself and does not.
fn replaced_before_the_handshake(
    scratch: &Address,
    connections_max: usize,
    late: fn(&ListenerHandle, &str, mpsc::Receiver<()>) -> Result<String, String>,
    is_late: fn(&ListenerHandle) -> bool,
) {
    let ((old, old_pem), (new, new_pem)) = (identity("old", &["localhost"]), identity("new", &["localhost"]));
    let trusted = format!("{old_pem}{new_pem}");
    for clients in [None, Some(new_pem.as_str())] {
        let tls = ServerTls::new(showing(&old, None)).expect("a good certificate");
        let options = ListenOptions { tls: Some(tls.clone()), ..ListenOptions::default() };
        let loops = crate::support::loops(2);
        let listening = crate::support::bind(&loops, scratch, &options)
            .limited_by(&ConnectionLimit::new(connections_max));
        let listening =
            listening.serve(|connection| drop(anywire_loops::spawn(crate::support::echo(connection))));
        let told = thread::scope(|scope| {
            let (go_on, wait) = mpsc::channel();
            let dialling = scope.spawn(|| late(&listening, &trusted, wait));
            crate::support::eventually("it has come", || is_late(&listening));
            tls.replace(showing(&new, clients)).expect("a good certificate");
            go_on.send(()).expect("it waits");
            dialling.join().expect("no panic")
        });
        match clients {
            None => assert_eq!(told.as_deref(), Ok("CN=new"), "{scratch}"),
            Some(_) => assert!(told.is_err(), "{scratch}: served without a certificate: {told:?}"),
        }
    }
}

/// As [`who`], and whether it is served.
fn who_serves(address: &Address, trusted: &str) -> Result<String, String> {
    let roots = Roots::only_pem(trusted.as_bytes()).expect("certificates");
    let options = ClientTlsOptions { roots, ..ClientTlsOptions::default() };
    let tls = Some(ClientTls::new(options).expect("good options"));
    let options = DialOptions { tls, server_name: Some("localhost".into()), ..DialOptions::default() };
    let address = address.clone();
    crate::support::on_a_loop(move || async move {
        let asked = async {
            let mut connection = Dialer::new(options).dial(&address).await.map_err(io::Error::other)?;
            connection.write_all(b"echo").await?;
            let read = connection.read(&mut [0; 16]).await?;
            let subject = connection.negotiated().and_then(|made| made.peer_subject());
            if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(subject.unwrap_or_default()) }
        };
        asked.await.map_err(|error: io::Error| error.to_string())
    })
}

#[test]
fn who_waited_for_a_place_is_treated_by_the_options_of_now() {
    for scratch in crate::support::addresses().filter(crate::support::has_tls) {
        // One connection has the only place, until it is said.
        let late = |listening: &ListenerHandle, trusted: &str, wait: mpsc::Receiver<()>| {
            let (address, roots) = (listening.local().clone(), trusted.to_owned());
            let (open, opened) = mpsc::channel();
            let (close, closed) = tokio::sync::oneshot::channel::<()>();
            let first = crate::support::loops(1);
            let first = first.get(0).spawn(move || async move {
                let roots = Roots::only_pem(roots.as_bytes()).expect("certificates");
                let options = ClientTlsOptions { roots, ..ClientTlsOptions::default() };
                let tls = Some(ClientTls::new(options).expect("good options"));
                let options =
                    DialOptions { tls, server_name: Some("localhost".into()), ..DialOptions::default() };
                let mut connection = Dialer::new(options).dial(&address).await.expect("it is trusted");
                crate::support::ask_echo(&mut connection).await;
                open.send(()).expect("it is waited for");
                let _ = closed.await;
            });
            opened.recv().expect("it is open");
            thread::scope(|scope| {
                let second = scope.spawn(|| who_serves(listening.local(), trusted));
                wait.recv().expect("the options are replaced");
                drop(close);
                first.wait().expect("no panic");
                second.join().expect("no panic")
            })
        };
        replaced_before_the_handshake(&scratch, 1, late, |listening| listening.limit().pauses() > 0);
    }
}

#[test]
fn who_said_nothing_yet_is_treated_by_the_options_of_now() {
    let scratch = "tls:127.0.0.1:0".parse().expect("an address");
    // A stranger between the two connects at once, and passes nothing on until it is said.
    let late = |listening: &ListenerHandle, trusted: &str, wait: mpsc::Receiver<()>| {
        let between = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address =
            format!("tls:{}", between.local_addr().expect("it is bound")).parse().expect("an address");
        let target = listening.local().location();
        thread::scope(|scope| {
            scope.spawn(move || {
                let there = TcpStream::connect(target).expect("it listens");
                let (here, _) = between.accept().expect("somebody dials");
                wait.recv().expect("the options are replaced");
                let (mut from, mut to) =
                    (there.try_clone().expect("a socket"), here.try_clone().expect("a socket"));
                scope.spawn(move || pass_on(&mut from, &mut to));
                pass_on(&mut { here }, &mut { there });
            });
            who_serves(&address, trusted)
        })
    };
    replaced_before_the_handshake(&scratch, 10, late, |listening| {
        listening.counters().handshakes_under_way == 1
    });
}

fn pass_on(from: &mut TcpStream, to: &mut TcpStream) {
    let _ = io::copy(from, to);
    let _ = to.flush();
    let _ = to.shutdown(std::net::Shutdown::Write);
}
