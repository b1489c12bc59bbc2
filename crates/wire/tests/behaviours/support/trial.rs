//! A certificate for `localhost` and `peer.example`, made for one run of a test, and who trusts it.

use std::sync::OnceLock;

use anywire_wire::tls::{ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions};

/// Shows the certificate.
pub(crate) fn server() -> ServerTls {
    static SERVER: OnceLock<ServerTls> = OnceLock::new();
    let options = || ServerTlsOptions { identities: vec![identity()], ..ServerTlsOptions::default() };
    SERVER.get_or_init(|| ServerTls::new(options()).expect("a good certificate")).clone()
}

/// Trusts it, and nothing else.
pub(crate) fn client() -> ClientTls {
    static CLIENT: OnceLock<ClientTls> = OnceLock::new();
    let roots = || Roots::only_pem(pem().0.as_bytes()).expect("a certificate");
    let options = || ClientTlsOptions { roots: roots(), ..ClientTlsOptions::default() };
    CLIENT.get_or_init(|| ClientTls::new(options()).expect("a root to trust")).clone()
}

pub(crate) fn identity() -> Identity {
    let (chain, key) = pem();
    Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("they fit")
}

/// Certificate and key.
pub(crate) fn pem() -> &'static (String, String) {
    static PEM: OnceLock<(String, String)> = OnceLock::new();
    PEM.get_or_init(|| {
        let names = ["localhost", "127.0.0.1", "peer.example", "one.example", "two.example", "three.example"];
        let names = names.map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).expect("names that a certificate can have");
        (made.cert.pem(), made.signing_key.serialize_pem())
    })
}
