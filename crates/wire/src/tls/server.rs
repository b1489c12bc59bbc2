//! TLS of the end that listens.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::CertificateDer;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, UnbufferedServerConnection,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use super::error::TlsError;
use super::identity::{Identity, certificates, read};
use super::records::Session;
use super::stream::TlsStream;
use super::wires::Tls;
use super::{MinVersion, provider};
use crate::connection::Connection;
use crate::listener::ListenOptions;

/// How a listener speaks TLS.
#[derive(Debug, Clone, Default)]
pub struct ServerTlsOptions {
    /// Certificates with their keys, at least one. The one for the name that the peer asks for (SNI) is shown: that name
    /// itself before a wildcard. A peer that asks for another name, or for none, is shown the first.
    pub identities: Vec<Identity>,
    /// Whether a peer has to prove itself, too (mutual TLS; by default it is not asked).
    pub clients: ClientCertificates,
    /// The oldest version that is spoken (TLS 1.2).
    pub min_version: MinVersion,
    /// Whether peers that speak no TLS are served on the same port, in clear text (`false`: they are refused). The first
    /// byte tells them apart.
    pub takes_clear_text: bool,
    /// Whether the keys of connections are written to the file that the environment variable `SSLKEYLOGFILE` names, with
    /// which a capture of the traffic can be read (`false`).
    pub key_log_file: bool,
}

/// Whether peers show a certificate (RFC 8446 section 4.3.2), and who may have signed it.
#[derive(Debug, Clone, Default)]
pub struct ClientCertificates {
    roots: Option<Vec<CertificateDer<'static>>>,
    is_required: bool,
}

impl ClientCertificates {
    /// Peers are not asked.
    pub fn ignored() -> Self {
        Self::default()
    }

    /// Each peer must show one that one of these roots (PEM) has signed.
    ///
    /// # Errors
    /// [`TlsError::NoCertificate`] and [`TlsError::Malformed`].
    pub fn required_pem(roots: &[u8]) -> Result<Self, TlsError> {
        Ok(Self { roots: Some(certificates("the roots of clients", roots)?), is_required: true })
    }

    /// As [`required_pem`](Self::required_pem), from a file.
    ///
    /// # Errors
    /// As there, and that the file cannot be read.
    pub fn required_file(roots: impl AsRef<Path>) -> Result<Self, TlsError> {
        let place = roots.as_ref().display().to_string();
        Ok(Self { roots: Some(certificates(&place, &read(roots.as_ref())?)?), is_required: true })
    }

    /// A peer may also show none; one that it shows is checked all the same.
    #[must_use]
    pub fn or_none(mut self) -> Self {
        self.is_required = false;
        self
    }
}

/// TLS for listeners; all of its clones are one.
///
/// Sessions are resumed by tickets (RFC 8446 section 2.2) whose keys are new every six hours and are shared by all loops. Where peers are asked for
/// certificates, none is resumed: each connection proves itself anew, by the roots of now.
/// Early data (0-RTT) is never taken, since it can be replayed.
#[derive(Clone)]
pub struct ServerTls {
    shared: Arc<Shared>,
}

struct Shared {
    current: RwLock<Arc<Current>>,
    /// Counts calls of [`ServerTls::replace`].
    generation: AtomicU64,
    tickets: Arc<dyn ProducesTickets>,
}

struct Current {
    config: ServerConfig,
    takes_clear_text: bool,
}

impl ServerTls {
    /// TLS with these options.
    ///
    /// # Errors
    /// [`TlsError`] says what is wrong with a certificate, a key or a root.
    pub fn new(options: ServerTlsOptions) -> Result<Self, TlsError> {
        let tickets = rustls::crypto::ring::Ticketer::new().map_err(|cause| TlsError::Refused { cause })?;
        let current = RwLock::new(Arc::new(Current::new(options, &tickets)?));
        Ok(Self { shared: Arc::new(Shared { current, generation: AtomicU64::new(0), tickets }) })
    }

    /// Takes new options for handshakes that begin from now on, such as renewed certificates, also those of connections that waited
    /// for a place or said nothing yet. Connections that are open go on, and sessions that could be resumed still can.
    ///
    /// # Errors
    /// [`TlsError`]; the old options stay in use.
    pub fn replace(&self, options: ServerTlsOptions) -> Result<(), TlsError> {
        let Shared { current, generation, tickets } = &*self.shared;
        let new = Arc::new(Current::new(options, tickets)?);
        *current.write().unwrap_or_else(PoisonError::into_inner) = new;
        generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// TLS around a connection that is there already, whose peer begins the handshake: behind a `STARTTLS`, or within a tunnel.
    /// Agrees on the first of these protocols that the peer offers (ALPN).
    ///
    /// Nothing is read yet: make the handshake next, by [`Connection::handshake`]. Connections of a [`Listener`](crate::Listener) at
    /// an address with TLS need none of this.
    ///
    /// # Errors
    /// [`TlsError::Refused`] if these options allow no session. The connection is closed then.
    pub fn around(&self, connection: Connection, protocols: &[String]) -> Result<Connection, TlsError> {
        let wire = Tls::of(connection.peer().wire());
        let stream = TlsStream::accept(wire, connection, Arc::new(self.accepting_with(protocols, None)));
        stream.map(Connection::new).map_err(|cause| TlsError::Refused { cause })
    }

    /// What accepts connections as a listener with these options does.
    pub(super) fn accepting(&self, options: &ListenOptions) -> Accepting {
        self.accepting_with(&options.protocols, options.answer_to_clear_text)
    }

    fn accepting_with(
        &self,
        protocols: &[String],
        answer_to_clear_text: Option<AnswerToClearText>,
    ) -> Accepting {
        let protocols = protocols.iter().map(|protocol| protocol.clone().into_bytes()).collect();
        Accepting { tls: self.clone(), protocols, answer_to_clear_text, taken: RwLock::default() }
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

impl Current {
    fn new(options: ServerTlsOptions, tickets: &Arc<dyn ProducesTickets>) -> Result<Self, TlsError> {
        let refused = |cause| TlsError::Refused { cause };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(options.min_version.versions())
            .map_err(refused)?;
        let asks_for_certificates = options.clients.roots.is_some();
        let builder = match options.clients.roots {
            None => builder.with_no_client_auth(),
            Some(trusted) => {
                let mut roots = RootCertStore::empty();
                for root in trusted {
                    roots.add(root).map_err(refused)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
                let verifier =
                    if options.clients.is_required { verifier } else { verifier.allow_unauthenticated() };
                let verifier = verifier.build().map_err(|wrong| TlsError::Malformed {
                    place: "the roots of clients".to_owned(),
                    wrong: wrong.to_string(),
                })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(ByName::new(options.identities)?));
        if asks_for_certificates {
            // A session keeps what was proved when it began: it would outlive the certificate, and its root.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            config.ticketer = Arc::clone(tickets);
        }
        if options.key_log_file {
            config.key_log = Arc::new(rustls::KeyLogFile::new());
        }
        Ok(Self { config, takes_clear_text: options.takes_clear_text })
    }
}

/// TLS for the connections of one listener.
pub(super) struct Accepting {
    tls: ServerTls,
    protocols: Vec<Vec<u8>>,
    answer_to_clear_text: Option<AnswerToClearText>,
    /// What a handshake that begins gets, made once for each generation.
    taken: RwLock<Option<Accepted>>,
}

/// What a handshake that begins gets.
#[derive(Clone)]
pub(super) struct Accepted {
    pub(super) generation: u64,
    config: Arc<ServerConfig>,
    pub(super) clear_text: ClearText,
}

impl Accepting {
    /// For a handshake that begins now, with the newest certificates.
    pub(super) fn accepted(&self) -> Accepted {
        let generation = self.generation();
        if let Some(taken) = &*self.taken.read().unwrap_or_else(PoisonError::into_inner)
            && taken.generation == generation
        {
            return taken.clone();
        }
        let current = self.tls.shared.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut config = current.config.clone();
        config.alpn_protocols.clone_from(&self.protocols);
        let clear_text = ClearText { is_taken: current.takes_clear_text, answer: self.answer_to_clear_text };
        let accepted = Accepted { generation, config: config.into(), clear_text };
        *self.taken.write().unwrap_or_else(PoisonError::into_inner) = Some(accepted.clone());
        accepted
    }

    /// Counts the options that there have been.
    pub(super) fn generation(&self) -> u64 {
        self.tls.shared.generation.load(Ordering::Acquire)
    }
}

impl Accepted {
    pub(super) fn session(self) -> Result<Session, rustls::Error> {
        Ok(Session::Server(UnbufferedServerConnection::new(self.config)?))
    }
}

/// Makes what a peer reads that speaks clear text, from its first bytes: the value of
/// [`ListenOptions::answer_to_clear_text`].
pub type AnswerToClearText = fn(&[u8]) -> Vec<u8>;

/// How a peer without TLS is treated.
#[derive(Clone, Copy)]
pub(super) struct ClearText {
    pub(super) is_taken: bool,
    pub(super) answer: Option<AnswerToClearText>,
}

/// Chooses a certificate by the name that the peer asks for.
#[derive(Debug)]
struct ByName {
    /// For each name the certificates that have it, such as one with an RSA key and one with an ECDSA key. A wildcard stands
    /// as it is written: `*.example.com`.
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
    first: Arc<CertifiedKey>,
}

impl ByName {
    fn new(identities: Vec<Identity>) -> Result<Self, TlsError> {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        let mut first = None;
        for identity in identities {
            let names = identity.names();
            let Identity { chain, key, places } = identity;
            let key =
                CertifiedKey::from_der(chain, key, &provider()).map_err(|cause| places.mismatch(cause))?;
            let key = Arc::new(key);
            for name in names {
                by_name.entry(name).or_default().push(Arc::clone(&key));
            }
            first.get_or_insert(key);
        }
        Ok(Self { by_name, first: first.ok_or(TlsError::NoIdentity)? })
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().map(str::to_ascii_lowercase);
        ASKED.set(asked.clone());
        let named = asked.and_then(|name| {
            let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
            self.by_name.get(&name).or_else(|| self.by_name.get(&wildcard?))
        });
        let fits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let fitting = named.and_then(|keys| keys.iter().find(fits).or(keys.first()));
        Some(Arc::clone(fitting.unwrap_or(&self.first)))
    }
}

thread_local! {
    /// The name that a peer has just asked for: rustls' unbuffered connection does not tell it, and asks for a certificate in
    /// the midst of opening the peer's first message.
    static ASKED: Cell<Option<String>> = const { Cell::new(None) };
}

/// The name that the peer whose bytes were opened last has asked for, once.
pub(super) fn take_asked_name() -> Option<String> {
    ASKED.take()
}
