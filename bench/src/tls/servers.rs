//! The servers of `bench tls`. All show a certificate with a P-256 key and resume sessions by tickets.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use anywire_load::Protocol as Http;
use anywire_wire::tls::{Identity, ServerTls, ServerTlsOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::servers::hyper::Serving;
use crate::servers::{self, Announce, BODY, Server, listener};
use crate::versions;

/// Every server that is measured with TLS.
pub static SERVERS: &[Server] = &[
    Server {
        name: "anywire-tls",
        version: || versions::locked("anywire-server"),
        settings: "1 loop, default limits, all deadlines on; rustls with ring",
        protocols: &[Http::Http1, Http::Http2],
        serve: anywire,
    },
    Server {
        name: "hyper-tls",
        version: || versions::locked("hyper"),
        settings: "http1::Builder, pipeline_flush(true), tokio-rustls with ring, tickets, tokio current-thread runtime; http2::Builder, 256 streams",
        protocols: &[Http::Http1, Http::Http2],
        serve: hyper,
    },
    Server {
        name: "nginx-tls",
        version: versions::nginx,
        settings: "as without TLS; ssl_session_cache off, ssl_session_tickets on, OpenSSL",
        protocols: &[Http::Http1, Http::Http2],
        serve: nginx,
    },
    Server {
        name: "h2o-tls",
        version: versions::h2o,
        settings: "as without TLS; OpenSSL",
        protocols: &[Http::Http2],
        serve: h2o,
    },
    Server {
        name: "rustls-tls",
        version: || versions::locked("rustls"),
        settings: "a blocking loop over rustls: one connection at a time, one answer to whatever it reads",
        protocols: &[Http::Http1],
        serve: bare,
    },
];

/// The name of a version in the handshake.
pub(super) fn alpn(http: Http) -> Vec<u8> {
    if http == Http::Http2 { b"h2" } else { &b"http/1.1"[..] }.to_vec()
}

/// Certificate and key.
fn pem() -> Result<(String, String)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}

/// rustls as its peers use it.
fn config(http: Http) -> Result<Arc<ServerConfig>> {
    let (chain, key) = pem()?;
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.alpn_protocols = vec![alpn(http)];
    Ok(config.into())
}

fn anywire(announce: &Announce, _: Http) -> Result<()> {
    let (chain, key) = pem()?;
    let identities = vec![Identity::from_pem(chain.as_bytes(), key.as_bytes())?];
    let tls = ServerTls::new(ServerTlsOptions { identities, ..ServerTlsOptions::default() })?;
    servers::anywire::run(announce, |server| server.listen("tls:127.0.0.1:0").tls(&tls))
}

fn hyper(announce: &Announce, http: Http) -> Result<()> {
    let listener = listener()?;
    let acceptor = TlsAcceptor::from(config(http)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener)?;
        announce.listening(listener.local_addr()?);
        let serving = Serving::new(http);
        loop {
            let (stream, _) = listener.accept().await.context("accepting a connection failed")?;
            stream.set_nodelay(true)?;
            let (acceptor, serving) = (acceptor.clone(), serving.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                serving.serve(stream).await;
            });
        }
    })
}

fn nginx(announce: &Announce, http: Http) -> Result<()> {
    let made = Files::new()?;
    let lines = format!(
        "ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache off; ssl_session_tickets on;",
        made.chain.display(),
        made.key.display()
    );
    servers::nginx::run(announce, http, " ssl", &lines)
}

fn h2o(announce: &Announce, _: Http) -> Result<()> {
    let made = Files::new()?;
    let (chain, key) = (made.chain.display(), made.key.display());
    servers::h2o::run(announce, &format!("  ssl:\n    certificate-file: {chain}\n    key-file: {key}"))
}

/// Certificate and key in files, until it is dropped.
struct Files {
    _folder: TempDir,
    chain: PathBuf,
    key: PathBuf,
}

impl Files {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder for a certificate")?;
        let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        let (chain_pem, key_pem) = pem()?;
        fs::write(&chain, chain_pem)?;
        fs::write(&key, key_pem)?;
        Ok(Self { _folder: folder, chain, key })
    }
}

/// What handshakes cost if nothing is around them.
fn bare(announce: &Announce, http: Http) -> Result<()> {
    let listener = listener()?;
    listener.set_nonblocking(false)?;
    announce.listening(listener.local_addr()?);
    let config = config(http)?;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    loop {
        let (stream, _) = listener.accept().context("accepting a connection failed")?;
        stream.set_nodelay(true)?;
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config))?, stream);
        let mut buffer = [0; 4096];
        while matches!(stream.read(&mut buffer), Ok(1..)) {
            stream.write_all(answer.as_bytes())?;
        }
        stream.conn.send_close_notify();
        // The peer may have gone.
        let _ = stream.flush();
    }
}
