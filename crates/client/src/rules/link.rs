//! Rules in the chain of a call, and as they are replaced.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::check::{Checked, check};
use super::matching::Subject;
use super::model::File;
use super::{Limits, Rule, RuleCounters, RulesError};
use crate::ClientBuilder;
use crate::call::request::CallRequest;
use crate::chain::{Calling, Interceptor, Next};
use crate::connection::io::random;

/// Traffic rules that are in force: see [the module](super). A clone is the same set, so that several clients may share one, and a
/// program can replace it while calls are under way.
#[derive(Clone, Default)]
pub struct Rules {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    limits: Limits,
    /// Held for as long as it takes to clone or to store it.
    current: RwLock<Arc<Checked>>,
}

impl Rules {
    /// These rules, the first one first.
    ///
    /// # Errors
    /// [`RulesError`] names the rule and the field.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RulesError> {
        let new = Self::default();
        new.replace(rules).map(|()| new)
    }

    /// The rules of a TOML file: a `[[rule]]` for each [`Rule`].
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the text is no such file: [`RulesError::Toml`] has line and column.
    pub fn from_toml(text: &str) -> Result<Self, RulesError> {
        let new = Self::default();
        new.replace_toml(text).map(|()| new)
    }

    /// No rules yet, and as many as these limits allow.
    pub fn with_limits(limits: Limits) -> Self {
        Self { shared: Arc::new(Shared { limits, ..Shared::default() }) }
    }

    /// Puts these in the place of all that are in force, at once. A call that is under way keeps what was found for it, and a redirect is
    /// looked at by the new ones. Counters begin anew.
    ///
    /// # Errors
    /// As [`new`](Self::new). Then those in force stay.
    pub fn replace(&self, rules: impl IntoIterator<Item = Rule>) -> Result<(), RulesError> {
        // A rule more than allowed is enough to know.
        let rules: Vec<_> = rules.into_iter().take(self.shared.limits.rules.saturating_add(1)).collect();
        let checked = Arc::new(check(&rules, &self.shared.limits)?);
        let before = {
            let mut current = self.shared.current.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, checked)
        };
        drop(before);
        Ok(())
    }

    /// As [`replace`](Self::replace), by those of a file.
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml). Then those in force stay.
    pub fn replace_toml(&self, text: &str) -> Result<(), RulesError> {
        let limit = self.shared.limits.file_bytes;
        if text.len() > limit {
            return Err(RulesError::TooMuch { what: "bytes", limit });
        }
        self.replace(parse(text)?.rule)
    }

    /// What became of requests since the rules are in force, rule by rule.
    pub fn counters(&self) -> Vec<RuleCounters> {
        let current = self.current();
        let one = |rule: &super::check::CheckedRule| RuleCounters {
            name: rule.name.clone(),
            to: rule.to.iter().map(|one| one.count.value()).collect(),
        };
        current.rules.iter().map(one).collect()
    }

    fn current(&self) -> Arc<Checked> {
        Arc::clone(&self.shared.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes a request by the first rule that is for it.
    fn apply(&self, next: &Next, request: &mut CallRequest) -> Result<(), crate::Error> {
        let current = self.current();
        let subject = Subject { method: &request.method, url: &request.url, headers: &request.headers };
        let Some(rule) = current.rules.iter().find(|rule| rule.test.holds(&subject)) else { return Ok(()) };
        let to = rule.choose(random());
        to.count.add();
        let redirects = next.config().redirects_of(request);
        to.rewrite.apply(request, &redirects.sensitive)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Fields that they set may be secrets.
        write!(f, "{} rules", self.current().rules.len())
    }
}

impl Interceptor for Rules {
    fn intercept(&self, mut request: CallRequest, next: Next) -> Calling {
        match self.apply(&next, &mut request) {
            Ok(()) => next.call(request),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

impl ClientBuilder {
    /// Has these rules say where each hop of a call goes, and how: see [`rules`](crate::rules). They can be replaced later.
    pub fn rules(mut self, rules: &Rules) -> Self {
        self.rules = Some(rules.clone());
        self
    }
}

pub(super) fn parse(text: &str) -> Result<File, RulesError> {
    let wrong = |field: String, cause: &toml::de::Error| {
        let begin = cause.span().map_or(0, |span| span.start).min(text.len());
        let before = text.get(..begin).unwrap_or_default();
        RulesError::Toml {
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            field,
            found: cause.message().replace('\n', ", "),
        }
    };
    let parsed = toml::Deserializer::parse(text).map_err(|cause| wrong(String::new(), &cause))?;
    serde_path_to_error::deserialize(parsed).map_err(|error| wrong(place(error.path()), error.inner()))
}

/// A field as other faults name it: rules are counted from 1.
fn place(path: &serde_path_to_error::Path) -> String {
    let text = path.to_string();
    let numbered = text.strip_prefix("rule[").and_then(|rest| rest.split_once(']'));
    match numbered.and_then(|(at, field)| Some((at.parse::<usize>().ok()?, field))) {
        Some((at, "")) => format!("rule {}", at + 1),
        Some((at, field)) => format!("rule {}, {}", at + 1, field.trim_start_matches('.')),
        None => text,
    }
}
