//! The parser of thresholds. Each error says at which character, and what would be right.

use std::fmt;

use super::{Limit, Operator, Quantity, Requirement, Unit};

/// Parses `FIGURE OPERATOR LIMIT`.
pub(super) fn requirement(text: &str) -> Result<Requirement, RequireError> {
    let fail = |at: usize, reason| RequireError {
        text: text.to_owned(),
        character: text[..at].chars().count() + 1,
        reason,
    };
    let sign = text.find(['<', '>', '=', '!']).ok_or_else(|| fail(text.len(), RequireReason::NoOperator))?;
    let (operator, bytes) = operator(&text[sign..]).ok_or_else(|| fail(sign, RequireReason::Operator))?;
    let name = text[..sign].trim();
    let name_at = text.len() - text.trim_start().len();
    let quantity = Quantity::named(alias(name)).ok_or_else(|| match name {
        "" => fail(0, RequireReason::NoFigure),
        name => fail(name_at, RequireReason::Figure { name: name.to_owned(), meant: meant(name) }),
    })?;
    let right = &text[sign + bytes..];
    let limit_at = text.len() - right.trim_start().len();
    let limit = limit(right.trim(), &quantity).map_err(|(at, reason)| fail(limit_at + at, reason))?;
    let written = format!("{name}{}{}", operator.text(), right.trim());
    Ok(Requirement { text: written, quantity, operator, limit })
}

/// The operator at the beginning, and its length.
fn operator(text: &str) -> Option<(Operator, usize)> {
    let signs = text.find(|sign| !"<>=!".contains(sign)).unwrap_or(text.len());
    let operator = match &text[..signs] {
        "<" => Operator::Below,
        "<=" => Operator::AtMost,
        ">" => Operator::Above,
        ">=" => Operator::AtLeast,
        "=" | "==" => Operator::Equal,
        _ => return None,
    };
    Some((operator, signs))
}

/// The limit in the unit of the figure; or the byte of the text at which it is wrong, and how.
fn limit(text: &str, quantity: &Quantity) -> Result<Limit, (usize, RequireReason)> {
    let digits = text.find(|digit: char| !digit.is_ascii_digit() && digit != '.').unwrap_or(text.len());
    let (number, suffix) = (&text[..digits], text[digits..].trim());
    let no_number = || (0, RequireReason::Number { found: text.to_owned() });
    let number: f64 = number.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(no_number)?;
    let whole = |factor: f64| Ok(Limit { value: number * factor, is_share: false });
    let wrong = |allowed| Err((digits, RequireReason::Unit { found: suffix.to_owned(), allowed }));
    let unit = quantity.unit();
    match unit {
        Unit::Us | Unit::Seconds => match (suffix, us_of(suffix)) {
            ("", _) => Err((digits, RequireReason::NoUnit { number: text.to_owned() })),
            (_, Some(us)) if unit == Unit::Us => whole(us),
            (_, Some(us)) => whole(us / 1e6),
            (_, None) => wrong("us, ms or s"),
        },
        Unit::Ratio | Unit::PerRequest if suffix == "%" => whole(0.01),
        Unit::Ratio | Unit::PerRequest if suffix.is_empty() => whole(1.0),
        Unit::Ratio | Unit::PerRequest => wrong("no unit, or %"),
        Unit::Count if suffix == "%" && quantity.whole().is_some() => {
            Ok(Limit { value: number / 100.0, is_share: true })
        }
        Unit::Count | Unit::Bytes | Unit::PerSecond => {
            let suffix = if unit == Unit::PerSecond { suffix.trim_end_matches("/s") } else { suffix };
            match suffix {
                "" => whole(1.0),
                "k" => whole(1e3),
                "M" => whole(1e6),
                "G" => whole(1e9),
                _ if quantity.whole().is_some() => wrong("no unit, k, M, G or %"),
                _ => wrong("no unit, k, M or G"),
            }
        }
    }
}

/// Microseconds of a unit of time.
fn us_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-3,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    })
}

/// The name that a shorter or usual one stands for.
fn alias(name: &str) -> &str {
    match name {
        "cpu/req" => "cpu/request",
        "syscalls/req" => "syscalls/request",
        "segs/resp" | "segs/response" | "segments/resp" => "segments/response",
        "median" | "send.median" => "p50",
        other => other,
    }
}

/// The known name that is nearest to this one, if one is near.
fn meant(name: &str) -> Option<String> {
    let near = |known: &String| strsim::normalized_damerau_levenshtein(known, name);
    let nearest = Quantity::names().max_by(|one, other| near(one).total_cmp(&near(other)))?;
    (near(&nearest) >= NEAR).then_some(nearest)
}

/// Two names are near if about two of three letters are the same.
const NEAR: f64 = 0.6;

/// A threshold that cannot be read (the caller's fault).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequireError {
    text: String,
    character: usize,
    reason: RequireReason,
}

impl RequireError {
    /// The number of the character that is wrong, from 1.
    pub fn character(&self) -> usize {
        self.character
    }

    /// What is wrong with it.
    pub fn reason(&self) -> &RequireReason {
        &self.reason
    }
}

/// What is wrong with a threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequireReason {
    /// It has no operator.
    NoOperator,
    /// The signs are no operator.
    Operator,
    /// Nothing stands before the operator.
    NoFigure,
    /// No figure has this name.
    Figure {
        /// The name.
        name: String,
        /// A known name that is much like it.
        meant: Option<String>,
    },
    /// The limit does not begin with a number.
    Number {
        /// The text there.
        found: String,
    },
    /// A time has no unit.
    NoUnit {
        /// The number.
        number: String,
    },
    /// The figure has no such unit.
    Unit {
        /// The text there.
        found: String,
        /// Which it may have.
        allowed: &'static str,
    },
}

impl fmt::Display for RequireError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, character {}: ", self.text, self.character)?;
        match &self.reason {
            RequireReason::NoOperator => {
                write!(formatter, "there is no operator; write a threshold such as 'p99<5ms'")
            }
            RequireReason::Operator => write!(formatter, "it is no operator; take <, <=, >, >= or ="),
            RequireReason::NoFigure => {
                write!(formatter, "there is no figure; write one such as p99 or errors")
            }
            RequireReason::Figure { name, meant: Some(meant) } => {
                write!(formatter, "no figure is named {name:?}; did you mean {meant}?")
            }
            RequireReason::Figure { name, meant: None } => write!(
                formatter,
                "no figure is named {name:?}; take one such as p99, send.p99.9, errors, rate or status.5xx",
            ),
            RequireReason::Number { found } => {
                write!(
                    formatter,
                    "{found:?} does not begin with a number; write a limit such as 5ms, 0.1% or 10k"
                )
            }
            RequireReason::NoUnit { number } => {
                write!(formatter, "a time needs its unit; write {number}us, {number}ms or {number}s")
            }
            RequireReason::Unit { found, allowed } => {
                write!(formatter, "{found:?} is no unit of this figure; take {allowed}")
            }
        }
    }
}

impl std::error::Error for RequireError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> String {
        requirement(text).unwrap_err().to_string()
    }

    #[test]
    fn limits_are_in_the_unit_of_their_figure() {
        for (text, value) in [
            ("p99<5ms", 5000.0),
            ("p99.9 <= 250us", 250.0),
            ("send.max<1.5s", 1.5e6),
            ("rate>=10k", 10_000.0),
            ("rate>=1.5M/s", 1.5e6),
            ("cpu/request<10us", 10.0),
            ("balance<1.2", 1.2),
            ("balance<120%", 1.2),
            ("errors=0", 0.0),
            ("seconds>=1m", 60.0),
        ] {
            let read = requirement(text).unwrap();
            assert!((read.limit.value - value).abs() < 1e-9 * value.max(1.0), "{text}: {read:?}");
            assert!(!read.limit.is_share, "{text}");
        }
        for text in ["errors<0.1%", "errors.timeout<=1%", "status.5xx<1%", "status.404 < 1 %"] {
            let read = requirement(text).unwrap();
            assert!(read.limit.is_share && read.limit.value <= 0.01, "{text}: {read:?}");
        }
    }

    #[test]
    fn errors_name_the_place_and_what_was_meant() {
        for (text, expected) in [
            ("localhost:8080", "character 15: there is no operator; write a threshold such as 'p99<5ms'"),
            ("p99 <> 5ms", "character 5: it is no operator; take <, <=, >, >= or ="),
            ("<5ms", "character 1: there is no figure"),
            ("p95<5ms", "no figure is named \"p95\"; did you mean p9"),
            ("  erors<1", "character 3: no figure is named \"erors\"; did you mean errors?"),
            ("send.p98<1ms", "did you mean send.p9"),
            ("unheard-of thing<1", "take one such as p99"),
            ("p99<fast", "character 5: \"fast\" does not begin with a number"),
            ("p99<-5ms", "character 5: \"-5ms\" does not begin with a number"),
            ("p99<", "character 5: \"\" does not begin with a number"),
            ("p99<1.2.3ms", "character 5: \"1.2.3ms\" does not begin with a number"),
            ("p99<5", "character 6: a time needs its unit; write 5us, 5ms or 5s"),
            ("p99<5%", "character 6: \"%\" is no unit of this figure; take us, ms or s"),
            ("errors<5ms", "character 9: \"ms\" is no unit of this figure; take no unit, k, M, G or %"),
            ("rate>5%", "take no unit, k, M or G"),
            ("\u{e9}<1", "character 1: no figure"),
        ] {
            assert!(said(text).contains(expected), "{text}: {}", said(text));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_at_a_place_in_it(text in "\\PC*|[a-z0-9.]{0,9}[<>=!]{0,3}[0-9.]{0,5}[a-zA-Z%/]{0,3}") {
            match requirement(&text) {
                Ok(read) => {
                    let again = requirement(&read.to_string()).unwrap();
                    prop_assert_eq!(again.limit.value, read.limit.value);
                    prop_assert_eq!(again, read);
                }
                Err(wrong) => prop_assert!(wrong.character() <= text.chars().count() + 1),
            }
        }
    }
}
