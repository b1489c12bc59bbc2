//! The handshake chooses the version of HTTP, and a handler is told what was agreed on.
#![cfg(feature = "tls")]

use crate::support::h2::H2;
use crate::support::remote::dialling;
use crate::support::{Peer, Remote, Scene, Served, trial};
use anywire_http::h2::Limits as Http2Limits;
use anywire_server::{Router, TlsInfo};
use anywire_wire::DialOptions;
use anywire_wire::tls::{
    ClientCertificates, ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

fn router() -> Router {
    Router::new()
        .get("/tls", async |tls: TlsInfo| {
            let none = || "none".to_owned();
            format!(
                "{} {} {} {}",
                tls.version.clone().unwrap_or_else(none),
                tls.cipher_suite.clone().unwrap_or_else(none),
                tls.server_name.clone().unwrap_or_else(none),
                tls.protocol.clone().unwrap_or_else(none),
            )
        })
        .get("/who", async |tls: Option<TlsInfo>| match tls {
            None => "clear text".to_owned(),
            Some(tls) => {
                let (subject, certificates) = (tls.peer_subject(), tls.peer_certificates.len());
                format!("{} by {certificates}", subject.unwrap_or_else(|| "nobody".to_owned()))
            }
        })
}

fn tls() -> Scene {
    Scene::at("tls:127.0.0.1:0")
}

fn dial(served: &Served, protocols: &[&str]) -> Remote {
    let protocols = protocols.iter().map(|&protocol| protocol.to_owned()).collect();
    Remote::try_dial_with(&served.address, DialOptions { protocols, ..dialling() }).expect("they agree")
}

fn ask(peer: &mut Peer<Remote>, path: &str) -> (u16, String) {
    peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
    let answer = peer.answer(false);
    (answer.status, answer.text().to_owned())
}

/// Without the suite, which is for the ends to choose, and is told.
fn without_suite(told: &str) -> String {
    let (version, rest) = told.split_once(' ').expect("a version");
    let (suite, rest) = rest.split_once(' ').expect("a suite");
    assert!(suite.starts_with("TLS13_"), "{told}");
    format!("{version} {rest}")
}

#[test]
fn the_agreed_protocol_is_spoken() {
    let served = tls().serve(router());
    let mut peer = Peer::new(dial(&served, &["http/1.1"]));
    let (_, told) = ask(&mut peer, "/tls");
    assert_eq!(without_suite(&told), "TLSv1.3 localhost http/1.1");

    // The preferred one of the server's.
    let mut peer = H2::over(dial(&served, &["http/1.1", "h2"]), Http2Limits::default());
    let id = peer.get("/tls");
    assert_eq!(without_suite(peer.answer(id).text()), "TLSv1.3 localhost h2");
}

#[test]
fn a_server_speaks_first_where_http2_was_agreed_on() {
    let served = tls().serve(router());
    let mut link = dial(&served, &["h2"]);
    // The head of its SETTINGS, before a byte of the client's (RFC 9113 section 3.4).
    let mut peer = Peer::new(&mut link);
    let head = peer.read_exactly(9);
    assert_eq!((head[3], head[4]), (4, 0), "{head:?}");
    served.await_count("connections of HTTP/2", |counters| counters.http2_connections, 1);
}

#[test]
fn without_an_agreement_the_first_bytes_choose() {
    let served = tls().serve(router());
    let mut peer = Peer::new(dial(&served, &[]));
    assert_eq!(without_suite(&ask(&mut peer, "/tls").1), "TLSv1.3 localhost none");
    let mut peer = H2::over(dial(&served, &[]), Http2Limits::default());
    let id = peer.get("/tls");
    assert_eq!(without_suite(peer.answer(id).text()), "TLSv1.3 localhost none");
}

#[test]
fn what_was_agreed_on_is_kept_to() {
    let served = tls().serve(router());
    let mut peer = Peer::new(dial(&served, &["http/1.1"]));
    peer.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(peer.answer(false).status, 505);
    served.await_count("bad requests", |counters| counters.bad_requests, 1);
    assert_eq!(served.running.counters().http2_connections, 0);
}

#[test]
fn a_peer_with_no_protocol_in_common_is_refused() {
    let served = tls().serve(router());
    let protocols = vec!["spdy/3".to_owned()];
    let refused = Remote::try_dial_with(&served.address, DialOptions { protocols, ..dialling() });
    let Err(error) = refused else { panic!("they have none in common") };
    let said = anywire_advice::Chain(&error).to_string();
    assert!(said.contains("none of the application protocols"), "{said}");
    served.assert_alive();
}

#[test]
fn clear_text_has_no_such_information() {
    let served = crate::support::serve(router());
    let mut peer = served.connect();
    assert_eq!(ask(&mut peer, "/who"), (200, "clear text".to_owned()));
    let (status, text) = ask(&mut peer, "/tls");
    assert_eq!((status, text.as_str()), (403, "this is served over TLS alone; use https://"));
}

#[test]
fn a_peer_proves_itself_by_a_certificate() {
    let authority = Authority::new();
    let clients = ClientCertificates::required_pem(authority.pem.as_bytes()).expect("a root");
    for (clients, is_required) in [(clients.clone(), true), (clients.or_none(), false)] {
        let options =
            ServerTlsOptions { identities: vec![trial::identity()], clients, ..ServerTlsOptions::default() };
        let served = tls().serve_tls(router(), &ServerTls::new(options).expect("a certificate"));
        let ask_as = |identity: Option<Identity>| {
            let roots = Roots::only_pem(trial::pem().0.as_bytes()).expect("a root");
            let tls = ClientTls::new(ClientTlsOptions { roots, identity, ..ClientTlsOptions::default() });
            let tls = Some(tls.expect("it fits"));
            let link = Remote::try_dial_with(&served.address, DialOptions { tls, ..dialling() }).ok()?;
            let mut peer = Peer::new(link);
            // In TLS 1.3 a client is done before the server has seen its certificate.
            peer.send("GET /who HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            let said = peer.try_rest().ok()?;
            let text = String::from_utf8(said).expect("text");
            text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
        };
        assert_eq!(ask_as(Some(authority.signs("alice"))).as_deref(), Some("CN=alice by 1"));
        assert_eq!(ask_as(Some(Authority::new().signs("mallory"))), None, "nobody trusts who signed it");
        assert_eq!(ask_as(None).as_deref(), (!is_required).then_some("nobody by 0"));
    }
}

/// Signs the certificates of clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn signs(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let chain = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()).expect("they fit")
    }
}
