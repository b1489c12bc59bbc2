//! The rules of the crate `garde`.

use std::borrow::Cow;
use std::fmt::Display;

use garde::i18n::{
    DefaultI18n, I18n, InvalidCreditCard, InvalidEmail, InvalidPhoneNumber, InvalidUrl, IpKind, with_i18n,
};
use garde::{Path, Report};

use super::rules::{Validate, Violation, Violations};

impl<T: garde::Validate<Context: 'static>> Validate for T {
    type Context = T::Context;

    fn validate(&self, context: &T::Context, violations: &mut Violations) {
        let mut report = Report::new();
        with_i18n(Named, || self.validate_into(context, &mut Path::empty, &mut report));
        for (path, error) in report.into_inner() {
            violations.add_with(|| violation(&path, error.message()));
        }
    }
}

/// garde reports messages alone. These begin with the name of the rule and its limit.
struct Named;

/// A character that no message has.
const MARK: char = '\u{1}';

fn named(rule: &str, limit: impl Display, message: &str) -> Cow<'static, str> {
    format!("{MARK}{rule}{MARK}{limit}{MARK}{message}").into()
}

fn violation(path: &Path, text: &str) -> Violation {
    let field = path.to_string().into();
    let named = text.strip_prefix(MARK).map(|text| text.splitn(3, MARK).collect::<Vec<_>>());
    let (rule, limit, message) = match named.as_deref() {
        Some([rule, limit, message]) => (*rule, *limit, *message),
        // A rule of the program's own.
        _ => ("custom", "", text),
    };
    Violation {
        field,
        rule: rule.to_owned().into(),
        limit: (!limit.is_empty()).then(|| limit.to_owned()),
        message: message.to_owned().into(),
    }
}

macro_rules! named {
    ($($method:ident($($argument:ident: $type:ty)?) $rule:literal;)*) => {
        impl I18n for Named {
            $(fn $method(&self $(, $argument: $type)?) -> Cow<'static, str> {
                let limit = String::new() $(+ &limit_of(&$argument))?;
                named($rule, limit, &DefaultI18n.$method($($argument)?))
            })*
        }
    };
}

fn limit_of(limit: &impl Limit) -> String {
    limit.text()
}

/// What a rule of garde is told. The reason why a text is no URL is no limit.
trait Limit {
    fn text(&self) -> String {
        String::new()
    }
}

impl Limit for usize {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Limit for &dyn Display {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Limit for InvalidCreditCard {}
impl Limit for InvalidEmail {}
impl Limit for InvalidPhoneNumber {}
impl Limit for InvalidUrl {}
impl Limit for IpKind {}

named! {
    length_lower_than(min: usize) "length_min";
    length_greater_than(max: usize) "length_max";
    range_lower_than(min: &dyn Display) "range_min";
    range_greater_than(max: &dyn Display) "range_max";
    credit_card_invalid(reason: InvalidCreditCard) "credit_card";
    pattern_no_match(pattern: &dyn Display) "pattern";
    contains_missing(pattern: &dyn Display) "contains";
    url_invalid(reason: InvalidUrl) "url";
    prefix_missing(pattern: &dyn Display) "prefix";
    suffix_missing(pattern: &dyn Display) "suffix";
    phone_number_invalid(reason: InvalidPhoneNumber) "phone_number";
    ip_invalid(kind: IpKind) "ip";
    matches_field_mismatch(field: &dyn Display) "matches";
    email_invalid(reason: InvalidEmail) "email";
    ascii_invalid() "ascii";
    alphanumeric_invalid() "alphanumeric";
    required_not_set() "required";
}
