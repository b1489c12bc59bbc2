//! The rules of a type, and what breaks them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::extract::{Languages, shown};

/// A type with rules that its values keep, for [`Valid`](crate::Valid).
///
/// With the feature `garde`, each `garde::Validate` implements it, and what its rules look at is garde's `context`. A type
/// implements one of the two traits then.
///
/// Rules that need more than the value name it as their context. It is given to the router as a state, so that a missing
/// one is an error at start:
///
/// ```
/// use anywire_server::{Query, Router, Valid, Validate, Violations};
///
/// #[derive(Clone)]
/// struct Shop { countries: Vec<String> }
///
/// #[derive(serde::Deserialize)]
/// struct Address { country: String }
///
/// impl Validate for Address {
///     type Context = Shop;
///
///     fn validate(&self, shop: &Shop, violations: &mut Violations) {
///         if !shop.countries.contains(&self.country) {
///             violations.add("country", "served", "nothing is sent there");
///         }
///     }
/// }
///
/// let cost = async |Valid(Query(to)): Valid<Query<Address>>| format!("to {}: 5", to.country);
/// let router = Router::new().state(Shop { countries: vec!["ch".into()] }).get("/cost", cost);
/// # drop(router);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no rules",
    label = "`Valid` takes a value whose type has rules",
    note = "implement `anywire_server::Validate` for `{Self}`; to derive `garde::Validate` instead, enable the feature `garde`"
)]
pub trait Validate {
    /// What the rules look at besides the value; `()` for nothing.
    type Context: 'static;

    /// Adds each violation of a rule.
    fn validate(&self, context: &Self::Context, violations: &mut Violations);
}

/// A rule that a value breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The way to the field, such as `items[2].count`. Empty if it is the value as a whole.
    pub field: Cow<'static, str>,
    /// The name of the rule, for a program: of garde's rules `length_min`, `length_max`, `range_min`, `range_max`, `pattern`, `email` and
    /// so on, and `custom` for those of your own.
    pub rule: Cow<'static, str>,
    /// What the rule allows, if it is one value, such as the least number.
    pub limit: Option<String>,
    /// What is wrong, for a person.
    pub message: Cow<'static, str>,
}

/// The rules that a value breaks, in the order in which they were found. The first [`MAX`](Self::MAX) are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations {
    kept: Vec<Violation>,
    left_out: usize,
}

impl Violations {
    /// How many are kept (100): a peer chooses how many rules its value breaks. The others are counted, see
    /// [`left_out`](Self::left_out).
    pub const MAX: usize = 100;

    /// Adds one: the way to the field, the name of the rule, and a message. Of the way 128 bytes are kept, of the message 512, because
    /// a peer may have chosen both.
    pub fn add(
        &mut self,
        field: impl Into<Cow<'static, str>>,
        rule: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) {
        let (field, rule, message) = (field.into(), rule.into(), message.into());
        self.add_with(|| Violation { field, rule, limit: None, message });
    }

    /// Adds one, which is made only if it is kept.
    pub(super) fn add_with(&mut self, make: impl FnOnce() -> Violation) {
        if self.kept.len() == Self::MAX {
            self.left_out += 1;
            return;
        }
        let Violation { field, rule, limit, message } = make();
        let (field, message) = (shown::name(field), shown::message(message));
        self.kept.push(Violation { field, rule, limit, message });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Those that are kept.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Violation> {
        self.kept.iter()
    }

    /// How many more there are than are kept.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn reword(&mut self, messages: &ValidationMessages, languages: &Languages) {
        for violation in &mut self.kept {
            if let Some(message) = (messages.reword)(violation, languages) {
                violation.message = message.into();
            }
        }
    }
}

/// Other messages for violations, such as in the language of the peer. A state of the router:
///
/// ```
/// use anywire_server::{Router, ValidationMessages};
///
/// let messages = ValidationMessages::new(|violation, languages| {
///     let limit = violation.limit.as_deref().unwrap_or_default();
///     match (languages.best(&["en", "de"])?, &*violation.rule) {
///         ("de", "range_min") => Some(format!("mindestens {limit}")),
///         ("de", "range_max") => Some(format!("höchstens {limit}")),
///         _ => None,
///     }
/// });
/// let router = Router::new().state(messages);
/// # drop(router);
/// ```
#[derive(Clone)]
pub struct ValidationMessages {
    reword: Arc<Reword>,
}

type Reword = dyn Fn(&Violation, &Languages) -> Option<String> + Send + Sync;

impl ValidationMessages {
    /// The function gets each violation and the languages of the peer. `None` leaves the message as it is.
    pub fn new(reword: impl Fn(&Violation, &Languages) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { reword: Arc::new(reword) }
    }
}

impl fmt::Debug for ValidationMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidationMessages").finish_non_exhaustive()
    }
}
