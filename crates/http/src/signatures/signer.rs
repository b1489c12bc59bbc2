//! Signing messages: one key, and always the same components.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::structured::{Bare, Parameters, Shown};
use super::{Component, Message, SignatureError, SigningKey};
use crate::{Headers, InvalidHeader};

/// Signs messages with one key, always the same components of them.
///
/// A fault in a component is kept, and reported by [`sign`](Self::sign).
#[derive(Debug, Clone)]
#[must_use]
pub struct Signer {
    key_id: String,
    key: SigningKey,
    label: String,
    components: Result<Vec<Component>, SignatureError>,
    lifetime: Option<Duration>,
    tag: Option<String>,
    says_algorithm: bool,
}

/// The fields of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signature {
    /// The value of `signature-input`.
    pub input: String,
    /// The value of `signature`.
    pub signature: String,
}

impl Signature {
    /// Adds both fields. Signatures with other labels stay.
    ///
    /// # Errors
    /// A label or a tag is no text of a field.
    pub fn append_to(&self, headers: &mut Headers) -> Result<(), InvalidHeader> {
        headers.append("signature-input", &self.input)?;
        headers.append("signature", &self.signature)
    }
}

impl Signer {
    /// Signs by this key, which the other side knows by the name `key_id`. Covers nothing yet.
    pub fn new(key_id: impl Into<String>, key: SigningKey) -> Self {
        Self {
            key_id: key_id.into(),
            key,
            label: "sig1".to_owned(),
            components: Ok(Vec::new()),
            lifetime: None,
            tag: None,
            says_algorithm: false,
        }
    }

    /// Covers these [components](Component) in this order, besides those named before.
    pub fn covers<'c>(mut self, components: impl IntoIterator<Item = &'c str>) -> Self {
        for text in components {
            self.components = self.components.and_then(|mut list| {
                let component = Component::parse(text)?;
                // One that stands twice would be an error of the other side.
                if !list.iter().any(|known| known.is_same(&component)) {
                    list.push(component);
                }
                Ok(list)
            });
        }
        self
    }

    /// The name of the signature among others of the message. Default: `sig1`.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Ends so long after it was made. Without this the other side decides.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// The application that the signature is for (parameter `tag`), so that it is not accepted by another one.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Names the algorithm, which the other side knows by the key as a rule.
    pub fn says_algorithm(mut self) -> Self {
        self.says_algorithm = true;
        self
    }

    /// Whether it covers this field.
    pub fn covers_field(&self, name: &str) -> bool {
        self.components.as_ref().is_ok_and(|all| all.iter().any(|it| it.name == name && !it.has("req")))
    }

    /// Signs a message. A `nonce` is a text that is different for each message, by which the other side knows a repeated one.
    ///
    /// # Errors
    /// [`Component`](SignatureError::Component), or [`Missing`](SignatureError::Missing) if the message lacks what is to be covered.
    pub fn sign(
        &self,
        message: &Message<'_>,
        now: SystemTime,
        nonce: Option<&str>,
    ) -> Result<Signature, SignatureError> {
        let components = self.components.as_ref().map_err(Clone::clone)?;
        let created = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut parameters = Parameters::new();
        let mut add = |name: &str, value| parameters.push((name.to_owned(), value));
        add("created", integer(created));
        if let Some(lifetime) = self.lifetime {
            add("expires", integer(created.saturating_add(lifetime.as_secs())));
        }
        if let Some(nonce) = nonce {
            add("nonce", Bare::Text(nonce.to_owned()));
        }
        if self.says_algorithm {
            add("alg", Bare::Text(self.key.algorithm().to_owned()));
        }
        add("keyid", Bare::Text(self.key_id.clone()));
        if let Some(tag) = &self.tag {
            add("tag", Bare::Text(tag.clone()));
        }
        let listed = Listed { components, parameters: &parameters }.to_string();
        let signature = self.key.sign(message.base(components, &listed)?.as_bytes());
        let Self { label, .. } = self;
        Ok(Signature {
            input: format!("{label}={listed}"),
            signature: format!("{label}={}", Bare::Bytes(signature)),
        })
    }
}

/// An integer of a structured field has 15 digits at most.
fn integer(number: u64) -> Bare {
    Bare::Integer(i64::try_from(number).unwrap_or(i64::MAX).min(999_999_999_999_999))
}

/// Components and parameters as an inner list.
pub(super) struct Listed<'l> {
    pub(super) components: &'l [Component],
    pub(super) parameters: &'l [(String, Bare)],
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        for (at, component) in self.components.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{component}")?;
        }
        write!(f, "){}", Shown(self.parameters))
    }
}
