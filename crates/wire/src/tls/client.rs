//! TLS of the end that dials.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::Duration;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::certificate::Certificate;
use super::error::TlsError;
use super::identity::{Identity, certificates, read};
use super::records::Session;
use super::sessions::Sessions;
use super::stream::TlsStream;
use super::verify::Verifier;
use super::wires::Tls;
use super::{MinVersion, provider_of};
use crate::connection::Connection;

/// How a dialler speaks TLS.
#[derive(Debug, Clone)]
pub struct ClientTlsOptions {
    /// Who is trusted to sign certificates (whom the platform trusts).
    pub roots: Roots,
    /// SHA-256 digests of public keys (of the `SubjectPublicKeyInfo`, RFC 7469 section 2.4), one of which the peer's own
    /// certificate must have, besides all other checks. Empty by default: every key may be. The guide has the command that
    /// makes a pin of a certificate.
    pub pins: Vec<[u8; 32]>,
    /// What this end proves itself with if the peer asks (nothing).
    pub identity: Option<Identity>,
    /// The oldest version that is spoken (TLS 1.2).
    pub min_version: MinVersion,
    /// The cipher suites that are offered, by their names at IANA, such as `TLS_AES_128_GCM_SHA256`, the best one first. Those of TLS 1.3 and
    /// of 1.2 stand side by side, and a version without any is not spoken. Empty by default: all of this build, which are all good ones.
    pub cipher_suites: Vec<String>,
    /// Whether the keys of connections are written to the file that the environment variable `SSLKEYLOGFILE` names, with
    /// which a capture of the traffic can be read (`false`).
    pub key_log_file: bool,
    /// Whether a session is resumed where it can be, which saves the certificates and their checks (`true`).
    pub resumption: bool,
    /// The servers whose latest tickets are kept for that (256: some hundred KiB). At least 1.
    pub resumption_servers: usize,
    /// How long a session may be resumed after it began, if the server does not say less (2 hours, as in OpenSSL for TLS 1.3): from
    /// then on keys that were stolen from memory open no further connection. `Duration::MAX` leaves that to the server, which may allow
    /// seven days (RFC 8446 section 4.6.1).
    pub resumption_timeout: Duration,
    /// Talks to everybody, whatever certificate they show (`false`). The connection can then be read and altered by
    /// everybody on its way: for trials only. It is logged.
    pub dangerously_accept_any_certificate: bool,
}

impl Default for ClientTlsOptions {
    fn default() -> Self {
        Self {
            roots: Roots::default(),
            pins: Vec::new(),
            identity: None,
            min_version: MinVersion::default(),
            cipher_suites: Vec::new(),
            key_log_file: false,
            resumption: true,
            resumption_servers: 256,
            resumption_timeout: Duration::from_secs(7200),
            dangerously_accept_any_certificate: false,
        }
    }
}

/// Who is trusted to sign certificates.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    base: Base,
    more: Vec<CertificateDer<'static>>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Base {
    #[default]
    Platform,
    Bundled,
    None,
}

impl Roots {
    /// Whom this machine trusts, by its store of certificates, or the file and folder that `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` name. A machine without a store trusts the bundled roots.
    pub fn platform() -> Self {
        Self::default()
    }

    /// Mozilla's roots, as they were when this was built.
    pub fn bundled() -> Self {
        Self { base: Base::Bundled, more: Vec::new() }
    }

    /// These certificates (PEM) alone.
    ///
    /// A server that shows one of them as its own is accepted, too, though it is signed by no other one (as a
    /// certificate made by `openssl req -x509` is); its names and dates are checked as ever.
    ///
    /// # Errors
    /// [`TlsError::NoCertificate`] and [`TlsError::Malformed`].
    pub fn only_pem(certificates: &[u8]) -> Result<Self, TlsError> {
        Self { base: Base::None, more: Vec::new() }.and_pem(certificates)
    }

    /// As [`only_pem`](Self::only_pem), from a file.
    ///
    /// # Errors
    /// As there, and that the file cannot be read.
    pub fn only_file(path: impl AsRef<Path>) -> Result<Self, TlsError> {
        Self { base: Base::None, more: Vec::new() }.and_file(path)
    }

    /// These certificates (PEM) besides.
    ///
    /// # Errors
    /// [`TlsError::NoCertificate`] and [`TlsError::Malformed`].
    pub fn and_pem(self, certificates: &[u8]) -> Result<Self, TlsError> {
        self.and("the roots", certificates)
    }

    /// As [`and_pem`](Self::and_pem), from a file.
    ///
    /// # Errors
    /// As there, and that the file cannot be read.
    pub fn and_file(self, path: impl AsRef<Path>) -> Result<Self, TlsError> {
        self.and(&path.as_ref().display().to_string(), &read(path.as_ref())?)
    }

    fn and(mut self, place: &str, text: &[u8]) -> Result<Self, TlsError> {
        self.more.extend(certificates(place, text)?);
        Ok(self)
    }

    /// The roots, and the certificates that are accepted as they are.
    fn store(self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsError> {
        let mut roots = RootCertStore::empty();
        if let Base::Platform = self.base {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::debug!(%error, "a root of the platform cannot be read");
            }
            roots.add_parsable_certificates(found.certs);
        }
        if matches!(self.base, Base::Bundled) || (matches!(self.base, Base::Platform) && roots.is_empty()) {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        // A server's own certificate is accepted as it is, and must not vouch for others.
        roots
            .add_parsable_certificates(self.more.iter().filter(|certificate| may_sign(certificate)).cloned());
        if roots.is_empty() && self.more.is_empty() {
            return Err(TlsError::NoRoots);
        }
        Ok((roots, self.more))
    }
}

/// Whether a certificate is one of an authority. What cannot be read is left to webpki.
fn may_sign(certificate: &CertificateDer<'_>) -> bool {
    Certificate::from_der(certificate).is_none_or(|read| read.may_sign())
}

/// TLS for diallers; all of its clones are one. They share their sessions, so that one resumes what another began.
///
/// [`Default`] trusts what the platform trusts. It is what a dialler uses that was given none.
#[derive(Clone)]
pub struct ClientTls {
    /// Held for as long as it takes to clone or to store it.
    current: Arc<RwLock<Current>>,
}

/// What the options have become.
#[derive(Clone)]
struct Current {
    config: Arc<ClientConfig>,
    is_unverified: bool,
}

/// The session of a new connection, and whether its peer proves nothing by its certificate.
pub(super) struct Dialling {
    pub(super) session: Session,
    pub(super) is_unverified: bool,
}

impl ClientTls {
    /// TLS with these options. Reads the platform's roots if they are asked for: some milliseconds, so make one and clone it.
    ///
    /// # Errors
    /// [`TlsError`] says what is wrong with a certificate, a key or a root.
    pub fn new(options: ClientTlsOptions) -> Result<Self, TlsError> {
        Ok(Self { current: Arc::new(RwLock::new(Current::of(options)?)) })
    }

    /// Takes new options for handshakes that begin from now on, such as a renewed certificate of this end. Connections that are open go
    /// on, and clients close them when their lifetime is over. No session of before is resumed.
    ///
    /// # Errors
    /// [`TlsError`]; the old options stay in use.
    pub fn replace(&self, options: ClientTlsOptions) -> Result<(), TlsError> {
        let new = Current::of(options)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// TLS around a connection that is there already, such as one through a proxy, or over a wire that has no TLS of its own. The
    /// connection may have TLS around it, too. The peer has to prove `server_name`, and is offered these protocols (ALPN).
    ///
    /// Nothing is sent yet: make the handshake next, by [`Connection::handshake`]. Its result is in [`Connection::negotiated`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use anywire_wire::Connection;
    /// use anywire_wire::tls::ClientTls;
    ///
    /// # async fn example(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut secured = ClientTls::default().around(connection, "example.com", &["h2".to_owned()])?;
    /// secured.handshake(Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TlsError::Name`] if the name is none that a peer can prove. The connection is closed then.
    pub fn around(
        &self,
        connection: Connection,
        server_name: &str,
        protocols: &[String],
    ) -> Result<Connection, TlsError> {
        let session = self.session(server_name, protocols)?;
        let wire = Tls::of(connection.peer().wire());
        Ok(Connection::new(TlsStream::connect(wire, connection, server_name.to_owned(), session)))
    }

    /// The session of a new connection to a server that has to prove this name.
    pub(super) fn session(&self, name: &str, protocols: &[String]) -> Result<Dialling, TlsError> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name { name: name.to_owned() })?;
        let protocols = protocols.iter().map(|protocol| protocol.clone().into_bytes()).collect();
        let Current { config, is_unverified } =
            self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let session = UnbufferedClientConnection::new_with_alpn(config, name, protocols)
            .map_err(|cause| TlsError::Refused { cause })?;
        Ok(Dialling { session: Session::Client(session), is_unverified })
    }

    /// The one for diallers that were given none.
    pub(super) fn of_platform() -> Self {
        static PLATFORM: LazyLock<ClientTls> = LazyLock::new(|| {
            // Bundled roots are there if nothing else is.
            ClientTls::new(ClientTlsOptions::default()).expect("the bundled roots are a configuration")
        });
        PLATFORM.clone()
    }
}

impl Current {
    fn of(options: ClientTlsOptions) -> Result<Self, TlsError> {
        let is_unverified = options.dangerously_accept_any_certificate;
        Ok(Self { config: Arc::new(config_of(options)?), is_unverified })
    }
}

/// What sessions are made by.
fn config_of(options: ClientTlsOptions) -> Result<ClientConfig, TlsError> {
    let refused = |cause| TlsError::Refused { cause };
    let builder = ClientConfig::builder_with_provider(provider_of(&options.cipher_suites)?)
        .with_protocol_versions(options.min_version.versions())
        .map_err(refused)?;
    let verifier = if options.dangerously_accept_any_certificate {
        tracing::info!(
            "certificates of servers are not checked: who is on the way can read and alter all that is sent"
        );
        Verifier::of_anybody(options.pins)
    } else {
        let (roots, accepted) = options.roots.store()?;
        Verifier::new(roots, accepted, options.pins)?
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match options.identity {
        None => builder.with_no_client_auth(),
        Some(Identity { chain, key, places }) => {
            builder.with_client_auth_cert(chain, key).map_err(|cause| places.mismatch(cause))?
        }
    };
    config.resumption = match options.resumption {
        true => {
            let sessions = Sessions::new(options.resumption_servers, options.resumption_timeout);
            Resumption::store(Arc::new(sessions))
        }
        false => Resumption::disabled(),
    };
    if options.key_log_file {
        config.key_log = Arc::new(rustls::KeyLogFile::new());
    }
    Ok(config)
}

/// What functions accept as a client's TLS: a [`ClientTls`], or the options of one.
pub trait ToClientTls {
    /// The TLS.
    ///
    /// # Errors
    /// [`TlsError`] says what is wrong with a certificate, a key or a root.
    fn to_client_tls(self) -> Result<ClientTls, TlsError>;
}

impl ToClientTls for ClientTls {
    fn to_client_tls(self) -> Result<ClientTls, TlsError> {
        Ok(self)
    }
}

impl ToClientTls for &ClientTls {
    fn to_client_tls(self) -> Result<ClientTls, TlsError> {
        Ok(self.clone())
    }
}

impl ToClientTls for ClientTlsOptions {
    fn to_client_tls(self) -> Result<ClientTls, TlsError> {
        ClientTls::new(self)
    }
}

impl Default for ClientTls {
    fn default() -> Self {
        Self::of_platform()
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}
