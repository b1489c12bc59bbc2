//! New certificates serve new connections. Connections that are open go on, sessions are resumed, and a mistake changes
//! nothing.
#![cfg(feature = "tls")]

use crate::support::remote::dialling;
use crate::support::{Peer, Remote, Scene, Served};
use anywire_server::{Router, TlsInfo};
use anywire_wire::DialOptions;
use anywire_wire::tls::{ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions};

/// A certificate of its own, and who trusts it alone.
fn certificate() -> (ServerTlsOptions, ClientTls) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a name");
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("they fit");
    let roots = Roots::only_pem(chain.as_bytes()).expect("a root");
    let client = ClientTls::new(ClientTlsOptions { roots, ..ClientTlsOptions::default() });
    (
        ServerTlsOptions { identities: vec![identity], ..ServerTlsOptions::default() },
        client.expect("a root to trust"),
    )
}

fn connect(served: &Served, tls: &ClientTls) -> Option<Peer<Remote>> {
    let options = DialOptions { tls: Some(tls.clone()), ..dialling() };
    Remote::try_dial_with(&served.address, options).ok().map(Peer::new)
}

fn ask(peer: &mut Peer<Remote>) -> String {
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    peer.answer(false).text().to_owned()
}

#[test]
fn certificates_are_replaced_under_way() {
    let ((old, trusts_old), (new, trusts_new)) = (certificate(), certificate());
    let tls = ServerTls::new(old).expect("a certificate");
    let router = Router::new().get("/", async |tls: TlsInfo| tls.is_resumed.to_string());
    let served = Scene::at("tls:127.0.0.1:0").serve_tls(router, &tls);
    let mut open = connect(&served, &trusts_old).expect("it is trusted");
    assert_eq!(ask(&mut open), "false");
    assert!(connect(&served, &trusts_new).is_none(), "it is not shown yet");

    tls.replace(new).expect("a certificate");
    assert_eq!(ask(&mut open), "false", "it goes on");
    let mut next = connect(&served, &trusts_new).expect("it is shown");
    assert_eq!(ask(&mut next), "false");
    // Whoever has a ticket need not see a certificate.
    let mut resumed = connect(&served, &trusts_old).expect("its ticket is taken");
    assert_eq!(ask(&mut resumed), "true");

    tls.replace(ServerTlsOptions::default()).expect_err("a server needs a certificate");
    assert!(connect(&served, &certificate().1).is_none());
    let mut still = connect(&served, &trusts_new).expect("it is shown further");
    assert_eq!(ask(&mut still), "true");
    let counters = served.running.counters();
    assert_eq!((counters.handshakes, counters.resumed_handshakes), (4, 2), "{counters:?}");
    served.await_count("failed handshakes", |counters| counters.failed_handshakes, 2);
}
