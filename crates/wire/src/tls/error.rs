//! What is wrong with certificates and keys, and why a handshake failed, in the words of who has to mend it.

use std::fmt;
use std::io;
use std::path::PathBuf;

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
    /// There is no certificate in what should have one.
    #[error("there is no certificate in {place}: it needs a block `-----BEGIN CERTIFICATE-----` (PEM)")]
    NoCertificate {
        /// The file, or what was given.
        place: String,
    },
    /// There is no private key in what should have one.
    #[error("there is no private key in {place}: it needs a block `-----BEGIN PRIVATE KEY-----` (PEM)")]
    NoKey {
        /// The file, or what was given.
        place: String,
    },
    /// The key is protected by a password.
    #[error("the key in {place} has a password; take it off with `openssl pkey -in KEY -out PLAIN_KEY`")]
    EncryptedKey {
        /// The file, or what was given.
        place: String,
    },
    /// A block of PEM is malformed.
    #[error("{place} is malformed: {wrong}")]
    Malformed {
        /// The file, or what was given.
        place: String,
        /// What is wrong.
        wrong: String,
    },
    /// Key and certificate do not belong together, or the key is of a kind that is not supported.
    #[error(
        "the key does not fit the certificate ({cause}); the certificate of the key has to be the first of its file"
    )]
    Mismatch {
        /// What rustls said.
        #[source]
        cause: Error,
    },
    /// A server has no certificate to show.
    #[error("a server needs a certificate and its key")]
    NoIdentity,
    /// Nobody is trusted, so that nobody could be talked to.
    #[error("there are no roots to trust: none were given, and the platform has none")]
    NoRoots,
    /// A name to ask for is none.
    #[error("{name:?} is no name that a certificate can have: it has to be a DNS name or an IP address")]
    Name {
        /// The name.
        name: String,
    },
    /// Anything else that rustls refuses.
    #[error("cannot use these options of TLS: {cause}")]
    Refused {
        /// What rustls said.
        #[source]
        cause: Error,
    },
}

/// Why a handshake failed, or a record was wrong: the source of the [`io::Error`] that reads and dials give.
#[derive(Debug)]
pub struct HandshakeError(pub(super) Error);

impl HandshakeError {
    /// What rustls said.
    pub fn cause(&self) -> &Error {
        &self.0
    }

    pub(super) fn left() -> io::Error {
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the peer closed the connection before the handshake was done",
        )
    }

    pub(super) fn clear_text() -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, "the peer speaks no TLS")
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
        CertificateError::UnknownIssuer => f.write_str(
            "its certificate is signed by nobody who is trusted here; if it should be trusted, add its root",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            write!(f, "its certificate has expired ({wrong})")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            write!(f, "its certificate is not valid yet ({wrong}); check the clock")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            write!(f, "its certificate is for another name ({wrong})")
        }
        CertificateError::ApplicationVerificationFailure => {
            f.write_str("its key is none of those that are pinned")
        }
        other => write!(f, "its certificate is not acceptable: {other}"),
    }
}

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
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => {
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
