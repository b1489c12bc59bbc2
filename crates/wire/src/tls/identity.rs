//! A certificate with its key, from PEM.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::Certificate;
use super::error::TlsError;

/// What an end proves itself with: a chain of certificates, its own first, and its private key.
///
/// PEM is taken: certificates as `CERTIFICATE`, the key as `PRIVATE KEY` (PKCS #8), `RSA PRIVATE KEY` or `EC PRIVATE
/// KEY`; what certbot writes is `fullchain.pem` and `privkey.pem`. RSA from 2048 bits, ECDSA P-256 and P-384, and
/// Ed25519 are supported.
///
/// ```
/// # let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
/// # let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
/// use anywire_wire::tls::Identity;
///
/// let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes())?;
/// assert_eq!(identity.names(), ["localhost"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) places: Places,
}

/// Where chain and key come from, for errors that are found once they are used: a server has several.
#[derive(Debug, Clone)]
pub(super) struct Places {
    chain: Box<str>,
    key: Box<str>,
}

impl Places {
    /// What is wrong if rustls refuses the key for the chain.
    pub(super) fn mismatch(&self, cause: rustls::Error) -> TlsError {
        TlsError::Mismatch { chain: self.chain.to_string(), key: self.key.to_string(), cause }
    }
}

impl Identity {
    /// From the contents of two PEM files, which may be the same one.
    ///
    /// # Errors
    /// [`TlsError`] says what is missing, or malformed. Whether the key fits is checked when the identity is used.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::from("the chain", chain, "the key", key)
    }

    /// From two PEM files, which may be the same one.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem), and that a file cannot be read.
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let [chain, key] = [chain.as_ref(), key.as_ref()];
        Self::from(&chain.display().to_string(), &read(chain)?, &key.display().to_string(), &read(key)?)
    }

    /// The names of its own certificate: DNS names in lower case, and IP addresses.
    pub fn names(&self) -> Vec<String> {
        self.own().map(|own| own.names()).unwrap_or_default()
    }

    /// When its own certificate expires; `None` if it cannot be read.
    pub fn expires(&self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.own()?.not_after))
    }

    /// Its own certificate, read.
    fn own(&self) -> Option<Certificate<'_>> {
        Certificate::from_der(self.chain.first()?)
    }

    fn from(chain_place: &str, chain: &[u8], key_place: &str, key: &[u8]) -> Result<Self, TlsError> {
        Ok(Self {
            chain: certificates(chain_place, chain)?,
            key: private_key(key_place, key)?,
            places: Places { chain: chain_place.into(), key: key_place.into() },
        })
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key(), places: self.places.clone() }
    }
}

/// All certificates of a PEM text; at least one.
pub(super) fn certificates(place: &str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| malformed(place, &error))?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { place: place.to_owned() });
    }
    Ok(found)
}

fn private_key(place: &str, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        // What openssl writes with a password, in both of its forms.
        pem::Error::NoItemsFound if has(text, "ENCRYPTED PRIVATE KEY") => {
            TlsError::EncryptedKey { place: place.to_owned() }
        }
        _ if has(text, "Proc-Type: 4,ENCRYPTED") => TlsError::EncryptedKey { place: place.to_owned() },
        pem::Error::NoItemsFound => TlsError::NoKey { place: place.to_owned() },
        other => malformed(place, &other),
    })
}

fn has(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}

fn malformed(place: &str, error: &pem::Error) -> TlsError {
    let wrong = match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the line `-----END {}-----` is missing", String::from_utf8_lossy(end_marker))
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("no block begins as the line `{}` does", String::from_utf8_lossy(line).trim_end())
        }
        pem::Error::Base64Decode(_) => "what stands between BEGIN and END is not base64".to_owned(),
        other => other.to_string(),
    };
    TlsError::Malformed { place: place.to_owned(), wrong }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |cause| TlsError::File { path: path.to_owned(), cause };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::FileTooLarge { path: path.to_owned(), limit_bytes: FILE_BYTES_MAX });
    }
    Ok(bytes)
}

/// What a file of certificates or keys may have. The store of a whole platform has a quarter of a MiB; `/dev/zero` never ends.
const FILE_BYTES_MAX: u64 = 16 << 20;
