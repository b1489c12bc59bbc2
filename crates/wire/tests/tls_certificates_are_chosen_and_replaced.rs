//! One listener shows each peer the certificate for the name that it asks for, and takes new ones while it serves.
#![cfg(feature = "tls")]

mod support;

use anywire_wire::tls::{ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions};
use anywire_wire::{Address, DialOptions, Dialer, ListenOptions};
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
    support::on_a_loop(move || async move {
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
    let loops = support::loops(1);
    let listening = support::serve_echo(&loops, &"tls:127.0.0.1:0".parse().expect("an address"), &options);
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
        let loops = support::loops(2);
        let wire = support::wires().find(|wire| wire.scheme() == scheme).expect("a wire of the list");
        let scratch = wire.scratch().expect("it can make an address up");
        let listening = support::serve_echo(&loops, &scratch, &options);
        let address = listening.local().clone();
        let trusted = format!("{old_pem}{new_pem}");
        assert_eq!(who(&address, "localhost", &trusted).as_deref(), Ok("CN=old"));

        let (replaced, replacing) = std::sync::mpsc::channel();
        let (asked, asking) = tokio::sync::oneshot::channel();
        let there = support::loops(1);
        let open = there.get(0).spawn({
            let (address, trusted) = (address.clone(), trusted.clone());
            move || async move {
                let roots = Roots::only_pem(trusted.as_bytes()).expect("certificates");
                let options = ClientTlsOptions { roots, ..ClientTlsOptions::default() };
                let tls = Some(ClientTls::new(options).expect("good options"));
                let options =
                    DialOptions { tls, server_name: Some("localhost".into()), ..DialOptions::default() };
                let mut connection = Dialer::new(options).dial(&address).await.expect("it is trusted");
                support::ask_echo(&mut connection).await;
                replaced.send(()).expect("the test waits");
                asking.await.expect("the test goes on");
                support::ask_echo(&mut connection).await;
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
