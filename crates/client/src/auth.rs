//! Who calls: names and passwords, tokens, and with the feature `signatures` requests that are signed.
//!
//! A credential is marked as a secret, so that `Debug` does not show it. It stays with its origin: a redirect to another one goes without
//! it.

use std::fmt::Display;

use anywire_http::Url;
use anywire_http::url::UrlError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::call::Call;
use crate::call::request::CallRequest;
use crate::chain::{Calling, Interceptor, Links, Next};
use crate::{ClientBuilder, Error};

impl Call {
    /// Says who calls by a name and a password (RFC 7617), in the place of another credential. Use it over TLS alone: the password travels as
    /// it is. The same is done with those of a URL, `https://name:password@host/`.
    pub fn basic(self, name: impl Display, password: impl Display) -> Self {
        self.authorization(basic(name, password))
    }

    /// Says who calls by a token (RFC 6750), in the place of another credential.
    pub fn bearer(self, token: impl Display) -> Self {
        self.authorization(format!("Bearer {token}"))
    }

    pub(crate) fn authorization(self, credential: String) -> Self {
        self.edit(|request| {
            request.headers.remove("authorization");
            Ok(request.headers.append_sensitive("authorization", credential)?)
        })
    }
}

impl ClientBuilder {
    /// Says at this origin, such as `https://shop.example`, who calls, by a name and a password: see [`Call::basic`]. A call
    /// that has a credential keeps it.
    pub fn basic(self, origin: impl AsRef<str>, name: impl Display, password: impl Display) -> Self {
        self.credential(origin.as_ref(), basic(name, password))
    }

    /// Says at this origin who calls, by a token: see [`Call::bearer`]. A call that has a credential keeps it.
    pub fn bearer(self, origin: impl AsRef<str>, token: impl Display) -> Self {
        self.credential(origin.as_ref(), format!("Bearer {token}"))
    }

    fn credential(mut self, origin: &str, value: String) -> Self {
        match Url::parse(origin) {
            Ok(url) => self.credentials.known.push((url.origin().to_owned(), value)),
            // Calls report it.
            Err(source) => self.credentials.fault = Some((origin.to_owned(), source)),
        }
        self
    }
}

/// The credentials of a client.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    /// Each with its origin. The last one for an origin counts.
    known: Vec<(String, String)>,
    fault: Option<(String, UrlError)>,
}

impl Credentials {
    /// Puts them into the chain, if there are any.
    pub(crate) fn link(self, links: &mut Links) {
        if !self.known.is_empty() || self.fault.is_some() {
            links.push(self);
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} credentials", self.known.len())
    }
}

impl Interceptor for Credentials {
    fn intercept(&self, mut request: CallRequest, next: Next) -> Calling {
        if let Some((url, source)) = &self.fault {
            let error = Error::of_url(url, *source);
            return Box::pin(async { Err(error) });
        }
        let origin = request.url.origin();
        let known = self.known.iter().rev().find(|(known, _)| known == origin);
        if let Some((_, value)) = known.filter(|_| !request.headers.contains("authorization"))
            && let Err(error) = request.headers.append_sensitive("authorization", value)
        {
            return Box::pin(async { Err(error.into()) });
        }
        next.call(request)
    }
}

fn basic(name: impl Display, password: impl Display) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// The text of a URL without the name and password that it holds, and what says them to the server.
pub(crate) fn of_url(text: &str) -> Option<(String, String)> {
    let begin = text.find("://")? + "://".len();
    let end = text[begin..].find(['/', '\\', '?', '#']).map_or(text.len(), |at| begin + at);
    let at = begin + text[begin..end].rfind('@')?;
    let (name, password) = text[begin..at].split_once(':').unwrap_or((&text[begin..at], ""));
    let pair = [&decode(name)[..], b":", &decode(password)].concat();
    let without = [&text[..begin], &text[at + 1..]].concat();
    Some((without, format!("Basic {}", STANDARD.encode(pair))))
}

/// Undoes percent-encoding. What is no escape stays.
fn decode(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let escaped = behind.get(..2).filter(|_| *first == b'%').and_then(|two| str::from_utf8(two).ok());
        let escaped =
            escaped.filter(|two| !two.starts_with('+')).and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    bytes
}

#[cfg(feature = "signatures")]
pub use self::signing::SignatureFault;
#[cfg(feature = "signatures")]
pub(crate) use self::signing::Signatures;

#[cfg(feature = "signatures")]
mod signing {
    use std::sync::Arc;

    use anywire_http::signatures::{DigestError, SignatureError, Signer, Verifier};

    use crate::ClientBuilder;
    use crate::call::Call;

    /// What a client does with signatures.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Signatures {
        pub(crate) signer: Option<Arc<Signer>>,
        pub(crate) verifier: Option<Arc<Verifier>>,
    }

    /// What is wrong with a signature.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[non_exhaustive]
    pub enum SignatureFault {
        /// It cannot be made, or does not count.
        #[error(transparent)]
        Signature(#[from] SignatureError),
        /// The digest that it covers is not that of the body.
        #[error(transparent)]
        Digest(#[from] DigestError),
    }

    impl Signatures {
        pub(crate) fn is_set(&self) -> bool {
            self.signer.is_some() || self.verifier.is_some()
        }
    }

    impl ClientBuilder {
        /// Signs each request (RFC 9421), after all interceptors, and each attempt anew with a random nonce. A signature goes to whichever
        /// origin is called, and holds no secret. Fields `signature-input` and `signature` that the request has are replaced.
        ///
        /// If `content-digest` is covered and missing, it is made of a body that is there as a whole. A body that comes in pieces has none, and
        /// the call is [`Signature`](crate::Error::Signature). `content-length` cannot be covered, because it is written later.
        ///
        /// ```
        /// use anywire_client::Client;
        /// use anywire_http::signatures::{Signer, SigningKey};
        ///
        /// let key = SigningKey::hmac_sha256(b"at least 32 bytes that nobody else knows");
        /// let covered = ["@method", "@target-uri", "content-digest"];
        /// let client = Client::builder().sign(Signer::new("me", key).covers(covered)).build();
        /// ```
        pub fn sign(mut self, signer: Signer) -> Self {
            self.signatures.signer = Some(Arc::new(signer));
            self
        }

        /// Takes only responses with a signature that this finds to be right. The response knows its request, for components with `;req`. If
        /// `content-digest` is covered, the body is collected and checked, too. Else the call is [`Signature`](crate::Error::Signature).
        pub fn verify_responses(mut self, verifier: Verifier) -> Self {
            self.signatures.verifier = Some(Arc::new(verifier));
            self
        }
    }

    impl Call {
        /// Signs the request of this call, in the place of the signer of the client: see [`ClientBuilder::sign`].
        pub fn sign(self, signer: Signer) -> Self {
            self.edit(|request| {
                request.options.signer = Some(Arc::new(signer));
                Ok(())
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Option<(String, String)> {
        let (without, credential) = of_url(url)?;
        let pair = STANDARD.decode(credential.strip_prefix("Basic ")?).ok()?;
        Some((without, String::from_utf8(pair).ok()?))
    }

    #[test]
    fn names_and_passwords_are_taken_from_urls() {
        let some = |url: &str, pair: &str| Some((url.to_owned(), pair.to_owned()));
        assert_eq!(read("http://ada:x%40y%3a@h:80/a@b"), some("http://h:80/a@b", "ada:x@y:"));
        assert_eq!(read("http://ada@h"), some("http://h", "ada:"));
        assert_eq!(read("http://a:b:c@d@h?e"), some("http://h?e", "a:b:c@d"));
        assert_eq!(read("http://a%zz%:%+1%4@h"), some("http://h", "a%zz%:%+1%4"));
        for none in ["http://h/a:b@c", "http://h?a@b", "h:a@b", "http://h#@"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
