//! The servers of `bench tls`. All show a certificate with a P-256 key and resume sessions by tickets.

use std::convert::Infallible;
use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use anywire_load::Protocol as Http;
use anywire_server::{Router, Server as AnywireServer};
use anywire_wire::ListenOptions;
use anywire_wire::tls::{Identity, ServerTls, ServerTlsOptions};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE as TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::servers::{Announce, BACKLOG, BODY, CONTENT_TYPE, Server, listener, reserved_port, tool};
use crate::versions;

/// Every server that is measured with TLS.
pub static SERVERS: &[Server] = &[
    Server {
        name: "anywire-tls",
        version: || versions::locked("anywire-server"),
        settings: "1 loop, default limits, all deadlines on; rustls with ring",
        protocols: &[Http::Http1],
        serve: anywire,
    },
    Server {
        name: "hyper-tls",
        version: || versions::locked("hyper"),
        settings: "http1::Builder, pipeline_flush(true), tokio-rustls with ring, tickets, tokio current-thread runtime",
        protocols: &[Http::Http1],
        serve: hyper,
    },
    Server {
        name: "nginx-tls",
        version: versions::nginx,
        settings: "as without TLS; ssl_session_cache off, ssl_session_tickets on, OpenSSL",
        protocols: &[Http::Http1],
        serve: nginx,
    },
    Server {
        name: "rustls-tls",
        version: || versions::locked("rustls"),
        settings: "a blocking loop over rustls: one connection at a time, one answer to whatever it reads",
        protocols: &[Http::Http1],
        serve: bare,
    },
];

/// Certificate and key.
fn pem() -> Result<(String, String)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}

/// rustls as its peers use it.
fn config() -> Result<Arc<ServerConfig>> {
    let (chain, key) = pem()?;
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    Ok(config.into())
}

fn anywire(announce: &Announce, _: Http) -> Result<()> {
    let (chain, key) = pem()?;
    let identities = vec![Identity::from_pem(chain.as_bytes(), key.as_bytes())?];
    let tls = ServerTls::new(ServerTlsOptions { identities, ..ServerTlsOptions::default() })?;
    let running = AnywireServer::new(Router::new().get("/", async || BODY))
        .listen("tls:127.0.0.1:0")
        .listen_options(ListenOptions { backlog: BACKLOG as u32, ..ListenOptions::default() })
        .tls(&tls)
        .loops(1)
        .start()?;
    let address = running.addresses().next().context("it listens nowhere")?;
    let address = address.location().parse().with_context(|| format!("{address} is no socket address"))?;
    announce.listening_until_end(address);
    drop(running);
    Ok(())
}

fn hyper(announce: &Announce, _: Http) -> Result<()> {
    let listener = listener()?;
    let acceptor = TlsAcceptor::from(config()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener)?;
        announce.listening(listener.local_addr()?);
        let mut http = http1::Builder::new();
        http.pipeline_flush(true);
        loop {
            let (stream, _) = listener.accept().await.context("accepting a connection failed")?;
            stream.set_nodelay(true)?;
            let (acceptor, http) = (acceptor.clone(), http.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                // A peer that goes away is the end of that connection and nothing else.
                let _ = http.serve_connection(TokioIo::new(stream), service_fn(hello)).await;
            });
        }
    })
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(BODY.as_bytes())));
    response.headers_mut().insert(TYPE, HeaderValue::from_static(CONTENT_TYPE));
    Ok(response)
}

fn nginx(announce: &Announce, _: Http) -> Result<()> {
    let folder = tempfile::tempdir().context("no temporary folder for nginx")?;
    let (chain, key) = pem()?;
    fs::write(folder.path().join("chain.pem"), chain)?;
    fs::write(folder.path().join("key.pem"), key)?;
    let (reservation, address) = reserved_port()?;
    let (file, log) = (folder.path().join("nginx.conf"), folder.path().join("error.log"));
    let place = folder.path().display();
    let configuration = format!(
        r#"worker_processes 1;
daemon off;
pid {place}/nginx.pid;
error_log {place}/error.log crit;
worker_rlimit_nofile 20000;
events {{
    worker_connections 20000;
    multi_accept on;
}}
http {{
    access_log off;
    server_tokens off;
    default_type "{CONTENT_TYPE}";
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    tcp_nodelay on;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    server {{
        listen {address} ssl reuseport backlog={BACKLOG};
        ssl_certificate {place}/chain.pem;
        ssl_certificate_key {place}/key.pem;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache off;
        ssl_session_tickets on;
        location / {{ return 200 "{BODY}"; }}
    }}
}}
"#
    );
    fs::write(&file, configuration).context("writing nginx's configuration failed")?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&file).arg("-p").arg(folder.path()).arg("-e").arg(&log);
    let run = tool::run(&mut command, "nginx-light", address, &log, announce);
    drop(reservation);
    run
}

/// What handshakes cost if nothing is around them.
fn bare(announce: &Announce, _: Http) -> Result<()> {
    let listener = listener()?;
    listener.set_nonblocking(false)?;
    announce.listening(listener.local_addr()?);
    let config = config()?;
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
