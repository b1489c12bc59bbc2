//! A blocking client over rustls that trusts everybody: servers make certificates of their own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use anywire_load::Protocol;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, SignatureScheme, StreamOwned,
};

use super::servers::alpn;
use crate::check::PATIENCE;
use crate::servers::BODY;

/// Makes connections with TLS 1.3.
pub(super) struct Client {
    config: Arc<ClientConfig>,
    resumes: bool,
}

impl Client {
    pub(super) fn new(http: Protocol, resumes: bool) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn(http)];
        if !resumes {
            config.resumption = Resumption::disabled();
        }
        Ok(Self { config: config.into(), resumes })
    }

    pub(super) fn resumes(&self) -> bool {
        self.resumes
    }

    /// Connects, to ask by HTTP/1.
    pub(super) fn connect(&self, address: SocketAddr) -> Result<Connection> {
        Ok(Connection { stream: self.stream(address)? })
    }

    /// Connects; the handshake is made with the first bytes.
    pub(super) fn stream(&self, address: SocketAddr) -> Result<Stream> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("connecting to {address} failed"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from("localhost")?;
        let session = ClientConnection::new(Arc::clone(&self.config), name)?;
        Ok(StreamOwned::new(session, stream))
    }
}

/// The bytes within TLS.
pub(super) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A connection that asks and checks.
pub(super) struct Connection {
    stream: Stream,
}

impl Connection {
    /// Sends a request, and takes its answer.
    pub(super) fn ask(&mut self) -> Result<()> {
        self.stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").context("sending failed")?;
        let mut answer = Vec::new();
        while !answer.ends_with(BODY.as_bytes()) {
            let mut some = [0; 4096];
            let read = self.stream.read(&mut some).context("no answer")?;
            ensure!(read > 0, "the server closed the connection");
            answer.extend_from_slice(&some[..read]);
        }
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "another answer: {}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// Ends the stream and waits for the server's end. Whether the session was a resumed one.
    pub(super) fn end(mut self) -> bool {
        self.stream.conn.send_close_notify();
        // Whatever comes here is the end.
        let _ = self.stream.flush();
        let _ = self.stream.read(&mut [0; 16]);
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
