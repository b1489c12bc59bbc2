//! Errors of certificates and keys, and why a handshake failed, with a remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use anywire_advice::{Advice, Message};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Why a configuration of TLS cannot be used. The fault is in the files or options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A file of certificates or keys is too large to be one.
    #[error("{} has more than {limit_bytes} bytes{help}", path.display(), help = Advice("name a file of certificates or a key in PEM"))]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// The most that one may have.
        limit_bytes: u64,
    },
    /// There is no certificate in what should have one.
    #[error("there is no certificate in {place}: it needs a block `-----BEGIN CERTIFICATE-----` (PEM)")]
    NoCertificate {
        /// The file or the argument.
        place: String,
    },
    /// There is no private key in what should have one.
    #[error("there is no private key in {place}: it needs a block `-----BEGIN PRIVATE KEY-----` (PEM)")]
    NoKey {
        /// The file or the argument.
        place: String,
    },
    /// The key is protected by a password.
    #[error(
        "the key in {place} has a password{help}",
        help = Advice("take it off with `openssl pkey -in KEY -out PLAIN_KEY`")
    )]
    EncryptedKey {
        /// The file or the argument.
        place: String,
    },
    /// A block of PEM is malformed.
    #[error("{place} is malformed: {wrong}")]
    Malformed {
        /// The file or the argument.
        place: String,
        /// The fault.
        wrong: String,
    },
    /// Key and certificate do not belong together, or the key is of a kind that is not supported.
    #[error("{key} does not fit {chain}: {}", misfit(cause))]
    Mismatch {
        /// The file or the argument of the certificates.
        chain: String,
        /// The file or the argument of the key.
        key: String,
        /// What rustls said. The message says it in other words, so it is no source.
        cause: Error,
    },
    /// A server has no certificate to show.
    #[error(
        "a server needs a certificate and its key, and none was given{help}",
        help = Advice("put them into `identities`")
    )]
    NoIdentity,
    /// There are no roots, so that no server would be trusted.
    #[error("there are no roots to trust: none were given, and the platform has none")]
    NoRoots,
    /// A name to ask for is none.
    #[error("{name:?} is no name that a certificate can have: it has to be a DNS name or an IP address")]
    Name {
        /// The name.
        name: String,
    },
    /// A cipher suite is not known by this name.
    #[error("{name:?} is no cipher suite of this build{help}", help = Advice(format!("use one of {}", known.join(", "))))]
    CipherSuite {
        /// The name.
        name: String,
        /// The names of those that there are.
        known: Vec<String>,
    },
    /// Anything else that rustls refuses.
    #[error("cannot use these options of TLS: {cause}")]
    Refused {
        /// What rustls said.
        #[source]
        cause: Error,
    },
}

fn misfit(cause: &Error) -> Message {
    match cause {
        Error::InconsistentKeys(_) => {
            Message::new("it is the key of another certificate than the first one there")
                .with_help("put the certificate of the key first into its file")
        }
        other => Message::new(other.to_string())
            .with_help("use RSA from 2048 bits, ECDSA P-256 or P-384, or Ed25519"),
    }
}

/// Why a handshake failed, or a record was wrong: the source of the [`io::Error`] that reads and dials give.
///
/// Its message is what was found; [`remedy`](Self::remedy) is what would help.
#[derive(Debug, Clone)]
pub struct HandshakeError(pub(super) Error);

impl HandshakeError {
    /// The one behind an error of a connection or a dial, if that is what it is.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// What rustls said.
    pub fn cause(&self) -> &Error {
        &self.0
    }

    /// Whether the peer's certificate was refused here: [untrusted](Self::is_untrusted), for
    /// [another name](Self::is_wrong_name), [out of date](Self::is_out_of_date), [not pinned](Self::is_not_pinned), or wrong in itself. Another
    /// try will end alike.
    pub fn is_certificate(&self) -> bool {
        matches!(self.0, Error::InvalidCertificate(_) | Error::NoCertificatesPresented)
    }

    /// Whether the peer's certificate is signed by no trusted root.
    pub fn is_untrusted(&self) -> bool {
        use CertificateError::{BadSignature, UnknownIssuer};
        matches!(self.0, Error::InvalidCertificate(UnknownIssuer | BadSignature))
    }

    /// Whether the peer's certificate is for another name than the one that was asked for.
    pub fn is_wrong_name(&self) -> bool {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        matches!(self.0, Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
    }

    /// Whether the peer's certificate has no name at all, and so the [wrong one](Self::is_wrong_name) for every call. Its
    /// common name, by which old tools name it, does not count (RFC 9110 section 4.3.4).
    pub fn is_nameless(&self) -> bool {
        use CertificateError::NotValidForNameContext;
        matches!(&self.0, Error::InvalidCertificate(NotValidForNameContext { presented, .. }) if presented.is_empty())
    }

    /// Whether the peer's certificate has expired, or is not valid yet.
    pub fn is_out_of_date(&self) -> bool {
        use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
        let Error::InvalidCertificate(wrong) = &self.0 else { return false };
        matches!(wrong, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
    }

    /// Whether the peer's key is none of [`ClientTlsOptions::pins`](super::ClientTlsOptions::pins).
    pub fn is_not_pinned(&self) -> bool {
        matches!(self.0, Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    /// Whether the peer has sent what is no TLS: a plain server listens on that port, or a plain client calls one of TLS.
    pub fn is_clear_text(&self) -> bool {
        matches!(self.0, Error::InvalidMessage(InvalidMessage::InvalidContentType))
    }

    /// Whether the peer refuses this end's certificate, or wants one where none was given.
    pub fn is_own_certificate(&self) -> bool {
        use AlertDescription as Alert;
        let Error::AlertReceived(alert) = self.0 else { return false };
        matches!(
            alert,
            Alert::UnknownCA
                | Alert::BadCertificate
                | Alert::CertificateUnknown
                | Alert::UnsupportedCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRevoked
                | Alert::CertificateRequired
        )
    }

    /// What would help, as the end of a sentence.
    pub fn remedy(&self) -> &'static str {
        match &self.0 {
            _ if self.is_untrusted() => {
                "if it should be trusted, add it or its root to the roots that are trusted"
            }
            _ if self.is_nameless() => "let it be made anew, with its names as subject alternative names",
            _ if self.is_wrong_name() => "call it by a name of its certificate, or name the one to ask for",
            _ if self.is_out_of_date() => "have it replaced, or check this machine's clock",
            _ if self.is_not_pinned() => "if its key was changed on purpose, pin the new one",
            _ if self.is_clear_text() => "check the port, or do without TLS (http://)",
            _ if self.is_own_certificate() => "give this end a certificate that the peer accepts",
            Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_) => {
                "see what versions and suites each end allows"
            }
            Error::AlertReceived(AlertDescription::UnrecognisedName) => "check the name",
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) | Error::NoApplicationProtocol => {
                "see which versions of HTTP, or other protocols, each end allows"
            }
            _ => "see the peer's log",
        }
    }

    pub(super) fn left() -> io::Error {
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the peer closed the connection before the handshake was done",
        )
    }

    pub(super) fn clear_text() -> io::Error {
        Self(Error::InvalidMessage(InvalidMessage::InvalidContentType)).into()
    }

    /// Says that an error of the wire came in the handshake, which the error itself does not know.
    pub(super) fn cut(error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                io::Error::new(error.kind(), "the peer cut the connection before the handshake was done")
            }
            _ => error,
        }
    }
}

impl From<HandshakeError> for io::Error {
    fn from(error: HandshakeError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

impl std::error::Error for HandshakeError {}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Error::InvalidCertificate(wrong) => certificate(wrong, f),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                f.write_str("the peer speaks no TLS on this port")
            }
            Error::InvalidMessage(wrong) => write!(f, "the peer sent what is no TLS ({wrong:?})"),
            Error::AlertReceived(alert) => received(*alert, f),
            Error::PeerIncompatible(wrong) => incompatible(wrong, f),
            Error::NoCertificatesPresented => {
                f.write_str("the peer showed no certificate, and one is required")
            }
            Error::NoApplicationProtocol => {
                f.write_str("the peer offers none of the application protocols that are spoken here (ALPN)")
            }
            Error::DecryptError => {
                f.write_str("the peer's record was altered on its way, or its keys are others")
            }
            other => other.fmt(f),
        }
    }
}

fn certificate(wrong: &CertificateError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match wrong {
        CertificateError::UnknownIssuer => {
            f.write_str("its certificate is signed by nobody who is trusted here")
        }
        CertificateError::BadSignature => {
            f.write_str("its certificate was not signed with the key of whom it names as its issuer")
        }
        CertificateError::Expired => f.write_str("its certificate has expired"),
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = Days(time.as_secs().saturating_sub(not_after.as_secs()));
            write!(f, "its certificate has expired ({ago} ago)")
        }
        CertificateError::NotValidYet => f.write_str("its certificate is not valid yet"),
        CertificateError::NotValidYetContext { time, not_before } => {
            let wait = Days(not_before.as_secs().saturating_sub(time.as_secs()));
            write!(f, "its certificate is not valid yet (for another {wait})")
        }
        CertificateError::NotValidForName => f.write_str("its certificate is for another name"),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented = Names(presented);
            write!(f, "its certificate is for another name than {}: {presented}", expected.to_str())
        }
        CertificateError::ApplicationVerificationFailure => {
            f.write_str("its key is none of those that are pinned")
        }
        other => write!(f, "its certificate is not acceptable: {other}"),
    }
}

/// Seconds in words.
struct Days(u64);

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HOUR: u64 = 60 * 60;
        match self.0 {
            seconds if seconds < 2 * HOUR => write!(f, "{seconds} seconds"),
            seconds if seconds < 48 * HOUR => write!(f, "{} hours", seconds / HOUR),
            seconds => write!(f, "{} days", seconds / (24 * HOUR)),
        }
    }
}

/// Names of a certificate, which rustls gives as `DnsName("example.com")`.
struct Names<'n>(&'n [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().take(NAMES_MAX).enumerate() {
            let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, inner.trim_matches('"'))?;
        }
        match self.0.len() {
            0 => f.write_str("no name at all"),
            count if count > NAMES_MAX => write!(f, " and {} more", count - NAMES_MAX),
            _ => Ok(()),
        }
    }
}

/// Names of a certificate that an error shows.
const NAMES_MAX: usize = 5;

fn received(alert: AlertDescription, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let meaning = match alert {
        AlertDescription::UnknownCA => "it does not trust who signed this end's certificate",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => "it does not accept this end's certificate",
        AlertDescription::CertificateExpired => "this end's certificate has expired",
        AlertDescription::CertificateRevoked => "this end's certificate is revoked",
        AlertDescription::CertificateRequired => "it requires a certificate of this end",
        AlertDescription::ProtocolVersion => "it speaks no version of TLS that is spoken here (1.2 and 1.3)",
        AlertDescription::HandshakeFailure => {
            "it has no suite in common with this end, or misses a certificate"
        }
        AlertDescription::UnrecognisedName => "it does not serve the name that was asked for",
        AlertDescription::NoApplicationProtocol => {
            "it speaks none of the application protocols that were offered"
        }
        _ => return write!(f, "the peer ended it with the alert {alert:?}"),
    };
    write!(f, "the peer says that {meaning} (alert {alert:?})")
}

fn incompatible(wrong: &PeerIncompatible, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match wrong {
        PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        // What TLS 1.0 and 1.1 do not have.
        | PeerIncompatible::SignatureAlgorithmsExtensionRequired => {
            f.write_str("the peer speaks no version of TLS that is spoken here (1.2 and 1.3, or 1.3 alone)")
        }
        PeerIncompatible::NoCipherSuitesInCommon
        | PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NoSignatureSchemesInCommon => {
            write!(f, "both ends have no cryptography in common ({wrong:?})")
        }
        other => write!(f, "the peer cannot do what this end needs ({other:?})"),
    }
}
