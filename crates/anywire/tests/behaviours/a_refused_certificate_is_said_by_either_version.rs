//! A server that wants another certificate of its client says so after the handshake of TLS 1.3. Each call learns it, by
//! either version of HTTP, and that the fault is the caller's.

use crate::support::{all, trial};
use anywire::client::{ClientBuilder, Error, Fault};
use anywire::wire::tls::{
    ClientCertificates, ClientTlsOptions, HandshakeError, Roots, ServerTls, ServerTlsOptions,
};
use anywire::{Client, Loops, Router, Server};

#[test]
fn calls_learn_that_a_certificate_is_wanted() {
    let clients = ClientCertificates::required_pem(trial::pem().0.as_bytes()).expect("a root");
    let options = ServerTlsOptions { identities: vec![trial::identity()], clients, ..Default::default() };
    let server = Server::new(Router::new().get("/", async || "in"))
        .listen("tls:127.0.0.1:0")
        .tls(&ServerTls::new(options).expect("a certificate"))
        .loops(1)
        .start()
        .expect("a free port");
    let port = server.addresses().next().and_then(|address| address.port()).expect("TCP has ports");

    let versions: [fn(ClientBuilder) -> ClientBuilder; 2] = [|http2| http2, ClientBuilder::http1_only];
    for version in versions {
        let loops = Loops::start(1).expect("loops start");
        let roots = Roots::only_pem(trial::pem().0.as_bytes()).expect("a root");
        let tls = ClientTlsOptions { roots, ..Default::default() };
        let client = version(Client::builder().on(&loops).tls(tls)).build();
        let call = async |_| client.get(format!("https://localhost:{port}/")).send().await.map(drop);
        for outcome in all((0..3).map(call)) {
            let error = outcome.expect_err("no certificate was shown");
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            assert!(error.handshake().is_some_and(HandshakeError::is_own_certificate), "{error:?}");
            assert_eq!(error.fault(), Fault::Caller, "{error:?}");
        }
    }
}
