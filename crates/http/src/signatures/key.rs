//! Keys, of two algorithms.

use std::fmt;
use std::sync::Arc;

use ring::{hmac, signature};

/// A key that signs. A clone shares it; `Debug` does not show it.
#[derive(Clone)]
pub struct SigningKey(Signs);

#[derive(Clone)]
enum Signs {
    HmacSha256(hmac::Key),
    Ed25519(Arc<signature::Ed25519KeyPair>),
}

/// A key that checks signatures. `Debug` does not show it.
#[derive(Clone)]
pub struct VerifyingKey(Checks);

#[derive(Clone)]
enum Checks {
    HmacSha256(hmac::Key),
    Ed25519([u8; 32]),
}

/// A key is not one of its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the key: it is no private key for ed25519 in PKCS#8, and no seed of 32 bytes")]
pub struct InvalidKey;

impl SigningKey {
    /// `hmac-sha256`: the one who checks has the same secret. It should have 32 random bytes at least.
    pub fn hmac_sha256(secret: &[u8]) -> Self {
        Self(Signs::HmacSha256(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// `ed25519`: a private key in PKCS#8 (DER), with or without its public key, or its seed of 32 bytes.
    ///
    /// # Errors
    /// It is neither.
    pub fn ed25519(private: &[u8]) -> Result<Self, InvalidKey> {
        let pair = match private.len() {
            32 => signature::Ed25519KeyPair::from_seed_unchecked(private),
            _ => signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(private),
        };
        pair.map(|pair| Self(Signs::Ed25519(Arc::new(pair)))).map_err(|_| InvalidKey)
    }

    pub(super) fn sign(&self, base: &[u8]) -> Vec<u8> {
        match &self.0 {
            Signs::HmacSha256(key) => hmac::sign(key, base).as_ref().to_vec(),
            Signs::Ed25519(pair) => pair.sign(base).as_ref().to_vec(),
        }
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match &self.0 {
            Signs::HmacSha256(_) => HMAC_SHA256,
            Signs::Ed25519(_) => ED25519,
        }
    }
}

impl VerifyingKey {
    /// `hmac-sha256`: the secret of the one who signs.
    pub fn hmac_sha256(secret: &[u8]) -> Self {
        Self(Checks::HmacSha256(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// `ed25519`: the public key.
    pub fn ed25519(public: &[u8; 32]) -> Self {
        Self(Checks::Ed25519(*public))
    }

    /// In constant time.
    pub(super) fn verify(&self, base: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Checks::HmacSha256(key) => hmac::verify(key, base, signature).is_ok(),
            Checks::Ed25519(public) => {
                signature::UnparsedPublicKey::new(&signature::ED25519, public).verify(base, signature).is_ok()
            }
        }
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match &self.0 {
            Checks::HmacSha256(_) => HMAC_SHA256,
            Checks::Ed25519(_) => ED25519,
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.algorithm()).finish()
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerifyingKey").field(&self.algorithm()).finish()
    }
}

const HMAC_SHA256: &str = "hmac-sha256";
const ED25519: &str = "ed25519";
