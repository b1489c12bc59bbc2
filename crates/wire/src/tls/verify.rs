//! How a dialler checks the certificate of its peer.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate::Certificate;
use super::error::TlsError;
use super::provider;

/// Chain, dates and name by webpki; certificates that are accepted as they are; pins.
#[derive(Debug)]
pub(super) struct Verifier {
    chains: Chains,
    /// Certificates that a server may show as its own, without a chain.
    accepted: Vec<CertificateDer<'static>>,
    pins: Vec<[u8; 32]>,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Chains {
    Checked(Arc<WebPkiServerVerifier>),
    /// There are no roots.
    NoneIsTrusted,
    /// Nothing is checked.
    Ignored,
}

impl Verifier {
    pub(super) fn new(
        roots: RootCertStore,
        accepted: Vec<CertificateDer<'static>>,
        pins: Vec<[u8; 32]>,
    ) -> Result<Self, TlsError> {
        let chains = if roots.is_empty() {
            Chains::NoneIsTrusted
        } else {
            let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider()).build();
            Chains::Checked(verifier.map_err(|wrong| TlsError::Malformed {
                place: "the roots".to_owned(),
                wrong: wrong.to_string(),
            })?)
        };
        Ok(Self { chains, accepted, ..Self::of_anybody(pins) })
    }

    /// Checks pins alone.
    pub(super) fn of_anybody(pins: Vec<[u8; 32]>) -> Self {
        let algorithms = provider().signature_verification_algorithms;
        Self { chains: Chains::Ignored, accepted: Vec::new(), pins, algorithms }
    }

    fn check_pins(&self, certificate: &ParsedCertificate<'_>) -> Result<(), Error> {
        if self.pins.is_empty() {
            return Ok(());
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, &certificate.subject_public_key_info());
        if self.pins.iter().any(|pin| pin == digest.as_ref()) {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(own)?;
        match &self.chains {
            Chains::Ignored => {}
            // webpki takes no certificate of an authority for a server's own, which many self-signed ones are.
            _ if self.accepted.contains(own) => {
                check_dates(own, now)?;
                verify_server_name(&parsed, name)?;
            }
            Chains::Checked(webpki) => {
                let checked = webpki.verify_server_cert(own, intermediates, name, ocsp_response, now);
                checked.map_err(|error| match error {
                    Error::InvalidCertificate(CertificateError::Other(_)) if is_self_signed(own) => {
                        CertificateError::UnknownIssuer.into()
                    }
                    other => other,
                })?;
            }
            Chains::NoneIsTrusted => return Err(CertificateError::UnknownIssuer.into()),
        }
        self.check_pins(&parsed)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a certificate names itself as its issuer. webpki then has several things to say against it, and none of them is
/// that nobody vouches for it.
fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    Certificate::from_der(certificate).is_some_and(|read| read.is_self_issued())
}

/// Checks the dates of a certificate (RFC 5280 section 4.1.2.5).
fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let read = Certificate::from_der(certificate).ok_or(CertificateError::BadEncoding)?;
    if now.as_secs() < read.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now.as_secs() > read.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}
