//! What `anywire serve` serves, as far as tests of HTTP/2 need it, over TLS.

use std::path::PathBuf;
use std::time::Duration;

use anywire::server::ServerHandle;
use anywire::wire::tls::{Identity, ServerTls, ServerTlsOptions};
use anywire::{Body, Path, Router, Server};
use tempfile::TempDir;

/// A server with a certificate for `localhost`, until it is dropped.
pub(crate) struct Secured {
    running: ServerHandle,
    folder: TempDir,
}

impl Secured {
    pub(crate) fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a good name");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("they fit");
        let options = ServerTlsOptions { identities: vec![identity], ..ServerTlsOptions::default() };
        let tls = ServerTls::new(options).expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("certificate.pem"), chain).expect("room");
        let router = Router::new()
            .get("/", async || "Hello, World!")
            .post("/echo", async |body: Body| body)
            .get("/delay/{ms}", async |Path(ms): Path<u64>| {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                "waited"
            });
        let running = Server::new(router).tls(&tls).listen("tls:127.0.0.1:0").loops(1).start();
        Self { running: running.expect("a free port"), folder }
    }

    pub(crate) fn port(&self) -> u16 {
        self.running.addresses().next().and_then(|address| address.port()).expect("TCP has ports")
    }

    /// A URL of the name in the certificate.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port())
    }

    /// The certificate that is to be trusted.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }
}
