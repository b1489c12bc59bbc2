//! Checking signatures: which keys count, what has to be covered, and how old one may be.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::signer::Listed;
use super::structured::{Bare, Member, Parameters, dictionary};
use super::{Component, Message, SignatureError, VerifyingKey};
use crate::Headers;

/// Checks signatures: which keys count, what has to be covered, and how old a signature may be.
///
/// A message may have several signatures. One that passes is enough; if none does, the error is that of the first. A fault in a component
/// is kept, and reported by [`verify`](Self::verify).
///
/// Whether a message came before, a verifier does not know: compare [`nonce`](SignatureInput::nonce) where that matters.
#[derive(Clone)]
#[must_use]
pub struct Verifier {
    keys: Arc<Keys>,
    required: Result<Vec<Component>, SignatureError>,
    label: Option<String>,
    tag: Option<String>,
    max_age: Duration,
    skew: Duration,
}

type Keys = dyn Fn(&SignatureInput) -> Option<VerifyingKey> + Send + Sync;

/// What a signature says of itself. Nothing of it is to be trusted before the signature was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureInput {
    label: String,
    components: Vec<Component>,
    parameters: Parameters,
}

impl SignatureInput {
    /// Its name among the signatures of the message.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What it covers.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The name of its key.
    pub fn key_id(&self) -> Option<&str> {
        self.text("keyid")
    }

    /// By which it is different from all others.
    pub fn nonce(&self) -> Option<&str> {
        self.text("nonce")
    }

    /// What it is for.
    pub fn tag(&self) -> Option<&str> {
        self.text("tag")
    }

    /// When it was made.
    pub fn created(&self) -> Option<SystemTime> {
        self.time("created")
    }

    /// When it ends.
    pub fn expires(&self) -> Option<SystemTime> {
        self.time("expires")
    }

    /// Whether it covers this [component](Component). A text that is none is not covered.
    pub fn covers(&self, component: &str) -> bool {
        Component::parse(component).is_ok_and(|wanted| self.components.iter().any(|it| it.is_same(&wanted)))
    }

    fn get(&self, name: &str) -> Option<&Bare> {
        self.parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Bare::Text(text) => Some(text),
            _ => None,
        }
    }

    fn time(&self, name: &str) -> Option<SystemTime> {
        match self.get(name)? {
            Bare::Integer(seconds) => {
                UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(*seconds).ok()?))
            }
            _ => None,
        }
    }
}

impl Verifier {
    /// The function gives the key of a signature, mostly by its [`key_id`](SignatureInput::key_id). Nothing has to be covered yet: name
    /// what counts by [`requires`](Self::requires).
    pub fn new(keys: impl Fn(&SignatureInput) -> Option<VerifyingKey> + Send + Sync + 'static) -> Self {
        Self {
            keys: Arc::new(keys),
            required: Ok(Vec::new()),
            label: None,
            tag: None,
            max_age: Duration::from_secs(300),
            skew: Duration::from_secs(60),
        }
    }

    /// Only signatures count that cover these [components](Component), besides those named before.
    pub fn requires<'c>(mut self, components: impl IntoIterator<Item = &'c str>) -> Self {
        for text in components {
            self.required = self.required.and_then(|mut list| {
                list.push(Component::parse(text)?);
                Ok(list)
            });
        }
        self
    }

    /// Only signatures with this label count.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Only signatures with this tag count.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// How old a signature may be. Default: 5 minutes, in which a message may be repeated by whoever saw it. One that says no time is older.
    /// `Duration::MAX`: as old as it likes.
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// How far the clock of the other side may be ahead. Default: one minute.
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Checks the signatures of a message: what the one that counts says.
    ///
    /// The body is not looked at. If `content-digest` is covered, check that by [`check_content_digest`](super::check_content_digest).
    ///
    /// # Errors
    /// See [`SignatureError`].
    pub fn verify(&self, message: &Message<'_>, now: SystemTime) -> Result<SignatureInput, SignatureError> {
        let required = self.required.as_ref().map_err(Clone::clone)?;
        let inputs = members(message.headers(), "signature-input")?;
        let signatures = members(message.headers(), "signature")?;
        let is_wanted = |label: &str| self.label.as_ref().is_none_or(|wanted| wanted == label);
        let mut first = None;
        let mut looked_at = 0;
        for (label, input) in inputs.into_iter().filter(|(label, _)| is_wanted(label)) {
            let signature = signatures.iter().find(|(found, _)| *found == label).map(|(_, member)| member);
            let Some(Member::Item((Bare::Bytes(signature), _))) = signature else { continue };
            if self.tag.is_some() && !has_tag(&input, self.tag.as_deref()) {
                continue;
            }
            looked_at += 1;
            if looked_at > SIGNATURES_MAX {
                return Err(SignatureError::TooMany { max: SIGNATURES_MAX });
            }
            let checked = read(label, input).and_then(|input| {
                self.check(&input, signature, required, message, now)?;
                Ok(input)
            });
            match checked {
                Ok(input) => return Ok(input),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        Err(first.unwrap_or(SignatureError::Unsigned))
    }

    fn check(
        &self,
        input: &SignatureInput,
        signature: &[u8],
        required: &[Component],
        message: &Message<'_>,
        now: SystemTime,
    ) -> Result<(), SignatureError> {
        let is_covered = |wanted: &&Component| !input.components.iter().any(|it| it.is_same(wanted));
        if let Some(missing) = required.iter().find(is_covered) {
            return Err(SignatureError::NotCovered { component: missing.to_string() });
        }
        self.check_time(input, now)?;
        let key_id = || input.key_id().map(str::to_owned);
        let key = (self.keys)(input).ok_or_else(|| SignatureError::UnknownKey { key_id: key_id() })?;
        if let Some(said) = input.get("alg")
            && *said != Bare::Text(key.algorithm().to_owned())
        {
            return Err(SignatureError::Algorithm { said: said.to_string(), key: key.algorithm() });
        }
        let listed = Listed { components: &input.components, parameters: &input.parameters }.to_string();
        let base = message.base(&input.components, &listed)?;
        match key.verify(base.as_bytes(), signature) {
            true => Ok(()),
            false => Err(SignatureError::Wrong),
        }
    }

    fn check_time(&self, input: &SignatureInput, now: SystemTime) -> Result<(), SignatureError> {
        let ahead = now.checked_add(self.skew).unwrap_or(now);
        let is_young = match input.created() {
            // One from the future has no age yet.
            Some(created) => {
                created <= ahead && now.duration_since(created).unwrap_or_default() <= self.max_age
            }
            None => self.max_age == Duration::MAX && input.get("created").is_none(),
        };
        let has_ended = match input.get("expires") {
            Some(_) => input.expires().is_none_or(|end| end <= now),
            None => false,
        };
        if is_young && !has_ended { Ok(()) } else { Err(SignatureError::Time) }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("required", &self.required)
            .field("label", &self.label)
            .field("tag", &self.tag)
            .field("max_age", &self.max_age)
            .finish_non_exhaustive()
    }
}

/// The members of all fields of this name.
fn members(headers: &Headers, field: &'static str) -> Result<Vec<(String, Member)>, SignatureError> {
    let lines: Option<Vec<_>> = headers.get_all(field).map(|line| str::from_utf8(line).ok()).collect();
    lines.and_then(|lines| dictionary(&lines.join(", "))).ok_or(SignatureError::Malformed { field })
}

fn has_tag(input: &Member, tag: Option<&str>) -> bool {
    let Member::List(_, parameters) = input else { return false };
    parameters
        .iter()
        .any(|(name, value)| name == "tag" && matches!(value, Bare::Text(found) if Some(&**found) == tag))
}

fn read(label: String, input: Member) -> Result<SignatureInput, SignatureError> {
    const MALFORMED: SignatureError = SignatureError::Malformed { field: "signature-input" };
    let Member::List(items, parameters) = input else { return Err(MALFORMED) };
    if items.len() > COMPONENTS_MAX {
        return Err(SignatureError::TooManyComponents { max: COMPONENTS_MAX });
    }
    let components: Vec<_> = items.into_iter().map(Component::of_item).collect::<Result<_, _>>()?;
    let is_repeated =
        |(at, component): (usize, &Component)| components[..at].iter().any(|it| it.is_same(component));
    match components.iter().enumerate().any(is_repeated) {
        true => Err(MALFORMED),
        false => Ok(SignatureInput { label, components, parameters }),
    }
}

/// Signatures of a message that are looked at: each costs the work of an algorithm, and a peer may send many.
const SIGNATURES_MAX: usize = 8;
/// Components of a signature that are looked at: each is compared with all others, before it is known who signed.
const COMPONENTS_MAX: usize = 64;
