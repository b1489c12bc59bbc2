//! A dialler checks name, dates and chain of its peer, a listener does if it is told to, and errors say what was wrong.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::tls::{
    ClientCertificates, ClientTls, ClientTlsOptions, Identity, MinVersion, Roots, ServerTls,
    ServerTlsOptions, TlsError,
};
use anywire_wire::{Connection, DialError, DialOptions, Dialer, ListenOptions, ListenerHandle, Negotiated};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PublicKeyData};

/// An authority, and what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Two of one name would be taken for one that has changed its key.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {}", MADE.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("it can be signed").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("it can be signed");
        Identity::from_pem(signed.pem().as_bytes(), key.serialize_pem().as_bytes()).expect("they fit")
    }

    fn roots(&self) -> Roots {
        Roots::only_pem(self.pem.as_bytes()).expect("a root")
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("good names");
    params.distinguished_name.push(DnType::CommonName, "alice");
    params
}

/// Greets each peer, and tells what was negotiated with it.
struct Server {
    listening: ListenerHandle,
    accepted: mpsc::Receiver<Negotiated>,
    _loops: Loops,
}

fn serve(tls: ServerTlsOptions) -> Server {
    let (told, accepted) = mpsc::channel();
    let options = ListenOptions {
        tls: Some(ServerTls::new(tls).expect("good certificates")),
        protocols: vec!["new".to_owned(), "old".to_owned()],
        ..ListenOptions::default()
    };
    let loops = crate::support::loops(2);
    let listener = crate::support::bind(&loops, &"tls:127.0.0.1:0".parse().expect("an address"), &options);
    let listening = listener.serve(move |mut connection: Connection| {
        let negotiated = connection.negotiated().expect("a handshake was made");
        told.send((**negotiated).clone()).expect("the test waits");
        drop(anywire_loops::spawn(async move { connection.write_all(b"hello").await }));
    });
    Server { listening, accepted, _loops: loops }
}

fn shows(identity: Identity) -> ServerTlsOptions {
    ServerTlsOptions { identities: vec![identity], ..ServerTlsOptions::default() }
}

/// Dials, reads the greeting, and tells what was negotiated, or what was wrong.
fn call(server: &Server, name: &str, tls: ClientTlsOptions) -> Result<Negotiated, String> {
    let options = DialOptions {
        tls: Some(ClientTls::new(tls).expect("good options")),
        server_name: Some(name.to_owned()),
        protocols: vec!["old".to_owned()],
        ..DialOptions::default()
    };
    let address = server.listening.local().clone();
    crate::support::on_a_loop(move || async move {
        let dialled = Dialer::new(options).dial(&address).await;
        let mut connection = dialled.map_err(|error| match error {
            DialError::Handshake { .. } => error.to_string(),
            other => panic!("{other}"),
        })?;
        let heard = crate::support::read_to_end(&mut connection).await.map_err(|error| error.to_string())?;
        assert_eq!(heard, b"hello");
        Ok((**connection.negotiated().expect("a handshake was made")).clone())
    })
}

fn trusts(roots: Roots) -> ClientTlsOptions {
    ClientTlsOptions { roots, ..ClientTlsOptions::default() }
}

#[track_caller]
fn wrong(result: Result<Negotiated, String>, part: &str) {
    let said = result.expect_err(part);
    assert!(said.contains(part), "{said}");
}

#[test]
fn a_good_certificate_is_taken_and_both_ends_know_what_was_agreed_on() {
    let authority = Authority::new();
    let server = serve(shows(authority.sign(&params(&["example.com"]))));
    let dialled = call(&server, "example.com", trusts(authority.roots())).expect("it is trusted");
    let accepted = server.accepted.recv().expect("one was served");
    for end in [&dialled, &accepted] {
        assert_eq!(end.server_name.as_deref(), Some("example.com"));
        assert_eq!(end.protocol.as_deref(), Some("old"));
        assert_eq!(end.version.as_deref(), Some("TLSv1.3"));
        assert!(end.cipher_suite.as_deref().is_some_and(|suite| suite.starts_with("TLS13_")), "{end:?}");
        assert!(!end.is_resumed);
    }
    assert_eq!(dialled.peer_subject().as_deref(), Some("CN=alice"));
    assert_eq!(accepted.peer_subject(), None, "it was not asked");
}

#[test]
fn what_is_wrong_with_a_certificate_is_said() {
    let authority = Authority::new();
    let server = serve(shows(authority.sign(&params(&["example.com"]))));
    wrong(call(&server, "example.org", trusts(authority.roots())), "for another name");
    wrong(call(&server, "127.0.0.1", trusts(authority.roots())), "for another name");
    wrong(call(&server, "example.com", trusts(Authority::new().roots())), "signed by nobody who is trusted");
    wrong(call(&server, "example.com", trusts(Roots::bundled())), "signed by nobody who is trusted");
    let server = serve(shows(authority.sign(&params(&[]))));
    wrong(call(&server, "example.com", trusts(authority.roots())), "no name at all");
    wrong(call(&server, "example.com", trusts(authority.roots())), "made anew, with its names");
    let mut late = params(&["example.com"]);
    late.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let server = serve(shows(authority.sign(&late)));
    wrong(call(&server, "example.com", trusts(authority.roots())), "expired");
    let mut early = params(&["example.com"]);
    early.not_before = rcgen::date_time_ymd(4000, 1, 1);
    let server = serve(shows(authority.sign(&early)));
    wrong(call(&server, "example.com", trusts(authority.roots())), "not valid yet");
    crate::support::eventually("it is counted", || server.listening.counters().failed_handshakes == 1);
}

#[test]
fn a_certificate_that_is_trusted_as_it_is_has_still_its_name_and_dates() {
    // As `openssl req -x509` makes it: an authority that shows itself.
    let own = |change: fn(&mut CertificateParams)| {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&["example.com"]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let pem = params.self_signed(&key).expect("it can be signed").pem();
        let identity = Identity::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).expect("they fit");
        (serve(shows(identity)), Roots::only_pem(pem.as_bytes()).expect("a certificate"))
    };
    let (server, roots) = own(|_| {});
    call(&server, "example.com", trusts(roots.clone())).expect("it is trusted");
    wrong(call(&server, "example.org", trusts(roots)), "for another name");
    let (server, roots) = own(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    wrong(call(&server, "example.com", trusts(roots)), "expired");
    let (server, roots) = own(|params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    wrong(call(&server, "example.com", trusts(roots)), "not valid yet");
}

#[test]
fn a_pinned_key_is_required_besides() {
    let authority = Authority::new();
    let key = KeyPair::generate().expect("a key");
    let signed = params(&["example.com"]).signed_by(&key, &authority.issuer).expect("it can be signed");
    let identity = Identity::from_pem(signed.pem().as_bytes(), key.serialize_pem().as_bytes());
    let server = serve(shows(identity.expect("they fit")));
    let pin = ring::digest::digest(&ring::digest::SHA256, &key.subject_public_key_info());
    let pinned = |pin: [u8; 32], roots| ClientTlsOptions { pins: vec![[0; 32], pin], ..trusts(roots) };
    let pin = pin.as_ref().try_into().expect("32 bytes");
    call(&server, "example.com", pinned(pin, authority.roots())).expect("its key is pinned");
    wrong(call(&server, "example.com", pinned([1; 32], authority.roots())), "pinned");
    wrong(call(&server, "example.com", pinned(pin, Authority::new().roots())), "signed by nobody");
}

#[test]
fn who_accepts_anybody_has_to_say_so() {
    let server = serve(shows(Authority::new().sign(&params(&["example.com"]))));
    let options =
        ClientTlsOptions { dangerously_accept_any_certificate: true, ..ClientTlsOptions::default() };
    call(&server, "example.org", options).expect("nothing is checked");
}

#[test]
fn a_listener_may_ask_for_a_certificate() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let asks = |clients| ServerTlsOptions { clients, ..shows(servers.sign(&params(&["example.com"]))) };
    let required = ClientCertificates::required_pem(clients.pem.as_bytes()).expect("a root");
    let by = |identity| ClientTlsOptions { identity, ..trusts(servers.roots()) };
    let alice = || Some(clients.sign(&params(&[])));
    let mallory = || Some(Authority::new().sign(&params(&[])));

    let server = serve(asks(required.clone()));
    call(&server, "example.com", by(alice())).expect("she is known");
    assert_eq!(server.accepted.recv().expect("one was served").peer_subject().as_deref(), Some("CN=alice"));
    wrong(call(&server, "example.com", by(None)), "requires a certificate");
    wrong(call(&server, "example.com", by(mallory())), "does not trust");

    let server = serve(asks(required.or_none()));
    call(&server, "example.com", by(None)).expect("it is not required");
    assert_eq!(server.accepted.recv().expect("one was served").peer_subject(), None);
    wrong(call(&server, "example.com", by(mallory())), "does not trust");
}

#[test]
fn both_ends_may_insist_on_the_newest_version() {
    let authority = Authority::new();
    let identity = || authority.sign(&params(&["example.com"]));
    let newest = ServerTlsOptions { min_version: MinVersion::Tls13, ..shows(identity()) };
    let server = serve(newest);
    let agreed = call(&server, "example.com", trusts(authority.roots())).expect("both speak it");
    assert_eq!(agreed.version.as_deref(), Some("TLSv1.3"));
}

#[test]
fn protocols_that_are_not_spoken_are_refused() {
    let authority = Authority::new();
    let server = serve(shows(authority.sign(&params(&["localhost"]))));
    let options = DialOptions {
        tls: Some(ClientTls::new(trusts(authority.roots())).expect("good options")),
        server_name: Some("localhost".to_owned()),
        protocols: vec!["unknown".to_owned()],
        ..DialOptions::default()
    };
    let refused = crate::support::try_dial_with(Dialer::new(options), server.listening.local())
        .expect_err("there is none");
    assert!(refused.to_string().contains("none of the application protocols"), "{refused}");
}

#[test]
fn a_session_is_resumed_with_the_same_peer_on_any_loop() {
    let authority = Authority::new();
    let server = serve(shows(authority.sign(&params(&["example.com"]))));
    let client = ClientTls::new(trusts(authority.roots())).expect("good options");
    let ask = |client: &ClientTls| {
        let options = DialOptions {
            tls: Some(client.clone()),
            server_name: Some("example.com".to_owned()),
            protocols: vec!["new".to_owned()],
            ..DialOptions::default()
        };
        let address = server.listening.local().clone();
        crate::support::on_a_loop(move || async move {
            let mut connection = Dialer::new(options).dial(&address).await.expect("it is trusted");
            // The tickets come before the greeting's end.
            crate::support::read_to_end(&mut connection).await.expect("an orderly end");
            connection.negotiated().expect("a handshake was made").is_resumed
        })
    };
    assert_eq!([ask(&client), ask(&client)], [false, true]);
    let first_two =
        [server.accepted.recv(), server.accepted.recv()].map(|one| one.expect("it was served").is_resumed);
    assert_eq!(first_two, [false, true]);
    let never = ClientTls::new(ClientTlsOptions { resumption: false, ..trusts(authority.roots()) });
    let never = never.expect("good options");
    assert_eq!([ask(&never), ask(&never)], [false, false]);
}

#[test]
fn a_session_is_resumed_no_longer_than_its_timeout() {
    let authority = Authority::new();
    let server = serve(shows(authority.sign(&params(&["example.com"]))));
    // In TLS 1.3 by a ticket for each connection, in TLS 1.2 by one session for all.
    for suites in [&[][..], &["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]] {
        let short = Duration::from_millis(50);
        for (resumption_timeout, is_resumed) in
            [(Duration::MAX, true), (short, false), (Duration::ZERO, false)]
        {
            let client = ClientTls::new(ClientTlsOptions {
                resumption_timeout,
                cipher_suites: suites.iter().map(|&name| name.to_owned()).collect(),
                ..trusts(authority.roots())
            });
            let client = client.expect("good options");
            let ask = || {
                let options = DialOptions {
                    tls: Some(client.clone()),
                    server_name: Some("example.com".to_owned()),
                    protocols: vec!["new".to_owned()],
                    ..DialOptions::default()
                };
                let address = server.listening.local().clone();
                crate::support::on_a_loop(move || async move {
                    let mut connection = Dialer::new(options).dial(&address).await.expect("it is trusted");
                    crate::support::read_to_end(&mut connection).await.expect("an orderly end");
                    connection.negotiated().expect("a handshake was made").is_resumed
                })
            };
            assert!(!ask());
            // A timeout is never early, and never late here: that is asked for with the next session.
            std::thread::sleep(if is_resumed { Duration::ZERO } else { short });
            assert_eq!(ask(), is_resumed, "{resumption_timeout:?} {suites:?}");
        }
    }
}

#[test]
fn what_is_no_certificate_or_key_is_said() {
    let (chain, key) = crate::support::trial::pem();
    let said = |chain: &str, key: &str| {
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes());
        let made = identity.and_then(|identity| ServerTls::new(shows(identity)).map(drop));
        made.expect_err("it is wrong").to_string()
    };
    assert!(said("", key).contains("no certificate in the chain"), "{}", said("", key));
    assert!(said(chain, chain).contains("no private key in the key"), "{}", said(chain, chain));
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert!(said(chain, encrypted).contains("has a password"), "{}", said(chain, encrypted));
    let cut = chain.replace("-----END", "");
    assert_eq!(said(&cut, key), "the chain is malformed: the line `-----END CERTIFICATE-----` is missing");
    let no_base64 = "-----BEGIN CERTIFICATE-----\nthe certificate!\n-----END CERTIFICATE-----\n";
    assert!(said(no_base64, key).contains("is not base64"), "{}", said(no_base64, key));
    let another = KeyPair::generate().expect("a key").serialize_pem();
    assert!(said(chain, &another).starts_with("the key does not fit the chain"), "{}", said(chain, &another));
    assert!(said(chain, &another).contains("of another certificate"), "{}", said(chain, &another));
    let none = ServerTls::new(ServerTlsOptions::default()).expect_err("there is none");
    assert!(matches!(none, TlsError::NoIdentity), "{none}");
    let missing = Identity::from_files("/nowhere/chain.pem", "/nowhere/key.pem").expect_err("no such file");
    assert!(missing.to_string().contains("/nowhere/chain.pem"), "{missing}");
}

#[test]
fn a_file_that_never_ends_is_no_certificate() {
    for error in [
        Roots::only_file("/dev/zero").expect_err("no roots"),
        Identity::from_files("/dev/zero", "/dev/zero").expect_err("no key"),
    ] {
        assert!(matches!(error, TlsError::FileTooLarge { limit_bytes: 0x100_0000, .. }), "{error}");
        assert!(error.to_string().contains("/dev/zero"), "{error}");
    }
}

#[test]
fn only_the_suites_that_are_named_are_offered() {
    let authority = Authority::new();
    let server = serve(shows(authority.sign(&params(&["localhost"]))));
    let with = |names: &[&str]| {
        let cipher_suites = names.iter().map(|&name| name.to_owned()).collect();
        ClientTlsOptions { cipher_suites, ..trusts(authority.roots()) }
    };
    for (name, version) in [
        ("TLS_AES_128_GCM_SHA256", "TLSv1.3"),
        ("TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2"),
    ] {
        let agreed = call(&server, "localhost", with(&[name])).expect("they agree");
        let suite = agreed.cipher_suite.as_deref().map(|suite| suite.replace("TLS13_", "TLS_"));
        assert_eq!((suite.as_deref(), agreed.version.as_deref()), (Some(name), Some(version)));
    }
    let error = ClientTls::new(with(&["TLS_RSA_WITH_RC4_128_MD5"])).expect_err("it is broken since long");
    assert!(matches!(&error, TlsError::CipherSuite { known, .. } if known.len() > 3), "{error}");
    assert!(error.to_string().contains("RC4"), "{error}");
}

#[test]
fn a_name_is_proven_and_sent_without_the_dot_at_its_end_and_an_address_is_not_sent() {
    let authority = Authority::new();
    let server = serve(shows(authority.sign(&params(&["example.com", "127.0.0.1", "::1"]))));
    for (name, sent) in [
        ("example.com.", Some("example.com")),
        ("127.0.0.1", None),
        ("::1", None),
        ("EXAMPLE.com", Some("example.com")),
    ] {
        let dialled = call(&server, name, trusts(authority.roots()));
        assert!(dialled.is_ok(), "{name}: {dialled:?}");
        let accepted = server.accepted.recv().expect("one was served");
        assert_eq!(accepted.server_name.as_deref().map(str::to_lowercase).as_deref(), sent, "{name}");
    }
    wrong(call(&server, "other.example.com.", trusts(authority.roots())), "name");
}

#[test]
fn a_name_has_to_be_one() {
    let dial = |address: &str, name: Option<&str>| {
        let options = DialOptions { server_name: name.map(str::to_owned), ..crate::support::dialling() };
        let dialer = Dialer::new(options);
        crate::support::try_dial_with(dialer, &address.parse().expect("an address"))
            .expect_err("no name")
            .to_string()
    };
    let said = dial("tls+unix:/nowhere.sock", None);
    assert!(said.contains("what name the peer has to prove"), "{said}");
    let said = dial("tls:127.0.0.1:1", Some("no name"));
    assert!(said.contains("no name that a certificate can have"), "{said}");
}

#[test]
fn silence_in_a_handshake_has_a_deadline() {
    let loops = crate::support::loops(1);
    let listener = crate::support::bind(
        &loops,
        &"tcp:127.0.0.1:0".parse().expect("an address"),
        &ListenOptions::default(),
    );
    let silent = listener.serve(|mut connection| {
        drop(anywire_loops::spawn(async move {
            while connection.read(&mut [0; 999]).await.is_ok_and(|n| n > 0) {}
        }));
    });
    let options = DialOptions { handshake_timeout: Duration::from_millis(50), ..crate::support::dialling() };
    let address = format!("tls:127.0.0.1:{}", silent.local().port().expect("TCP has ports"));
    let error = crate::support::try_dial_with(Dialer::new(options), &address.parse().expect("an address"));
    assert!(error.as_ref().is_err_and(DialError::is_timeout), "{error:?}");
}

#[test]
fn who_is_asked_for_a_certificate_proves_itself_each_time() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let identity = || vec![servers.sign(&params(&["example.com"]))];
    let required = ClientCertificates::required_pem(clients.pem.as_bytes()).expect("a root");
    let tls = ServerTls::new(ServerTlsOptions { identities: identity(), ..ServerTlsOptions::default() });
    let tls = tls.expect("good certificates");
    let loops = crate::support::loops(1);
    let options = ListenOptions { tls: Some(tls.clone()), ..ListenOptions::default() };
    let listening =
        crate::support::serve_echo(&loops, &"tls:127.0.0.1:0".parse().expect("an address"), &options);
    let ask = |client: &ClientTls| {
        let tls = Some(client.clone());
        let options =
            DialOptions { tls, server_name: Some("example.com".to_owned()), ..DialOptions::default() };
        let address = listening.local().clone();
        crate::support::on_a_loop(move || async move {
            let mut connection =
                Dialer::new(options).dial(&address).await.map_err(|error| error.to_string())?;
            connection.write_all(b"echo").await.map_err(|error| error.to_string())?;
            // With TLS 1.3 a certificate is judged after the dial, so that only a read tells.
            connection.read(&mut [0; 4]).await.map_err(|error| error.to_string())?;
            Ok::<_, String>(connection.negotiated().expect("a handshake was made").is_resumed)
        })
    };
    let client =
        |identity| ClientTls::new(ClientTlsOptions { identity, ..trusts(servers.roots()) }).expect("good");
    let anonymous = client(None);
    assert_eq!([ask(&anonymous), ask(&anonymous)], [Ok(false), Ok(true)]);
    tls.replace(ServerTlsOptions {
        identities: identity(),
        clients: required,
        ..ServerTlsOptions::default()
    })
    .expect("good certificates");
    // Its ticket is of a time when nothing was asked.
    assert!(ask(&anonymous).is_err_and(|said| said.contains("requires a certificate")));
    let alice = client(Some(clients.sign(&params(&[]))));
    assert_eq!([ask(&alice), ask(&alice)], [Ok(false), Ok(false)]);
    // The client's options are replaced while a dialler has a clone.
    let late = anonymous.clone();
    let options = |identity, roots| ClientTlsOptions { identity, ..trusts(roots) };
    anonymous.replace(options(Some(clients.sign(&params(&[]))), servers.roots())).expect("they fit");
    assert_eq!(ask(&late), Ok(false));
    anonymous.replace(options(None, clients.roots())).expect("good options");
    assert!(ask(&late).is_err_and(|said| said.contains("nobody who is trusted")));
}

#[test]
fn a_certificate_that_is_trusted_as_it_is_vouches_for_no_other() {
    let key = KeyPair::generate().expect("a key");
    let own = params(&["a.example"]);
    let pem = own.self_signed(&key).expect("it can be signed").pem();
    let forged = Authority { issuer: Issuer::new(own, key), pem };
    let server = serve(shows(forged.sign(&params(&["b.example"]))));
    wrong(call(&server, "b.example", trusts(forged.roots())), "signed by nobody who is trusted");
}
