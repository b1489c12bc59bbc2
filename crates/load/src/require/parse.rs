//! The parser of thresholds. Each error says at which character, and what would be right.

use std::fmt;
use std::ops::Range;

use super::{Limit, Operator, Quantity, RequestQuantity, Requirement, Subject, Unit};

/// Parses `FIGURE OPERATOR LIMIT`, and `FIGURE{REQUEST} OPERATOR LIMIT`.
pub(super) fn requirement(text: &str) -> Result<Requirement, RequireError> {
    let fail = |at: usize, reason| RequireError {
        text: text.to_owned(),
        character: text[..at].chars().count() + 1,
        reason,
    };
    let of_request = request(text).map_err(|at| fail(at, RequireReason::Brace))?;
    // The name of a request may hold an operator.
    let behind = of_request.as_ref().map_or(0, |braces| braces.end);
    let sign =
        text[behind..].find(SIGNS).ok_or_else(|| fail(text.len(), RequireReason::NoOperator))? + behind;
    let (operator, bytes) = operator(&text[sign..]).ok_or_else(|| fail(sign, RequireReason::Operator))?;
    let name_end = of_request.as_ref().map_or(sign, |braces| braces.start);
    let name = text[..name_end].trim();
    let name_at = text.len() - text.trim_start().len();
    if name.is_empty() {
        return Err(fail(0, RequireReason::NoFigure));
    }
    let subject = match &of_request {
        None => Quantity::named(alias(name))
            .map(Subject::Whole)
            .ok_or_else(|| RequireReason::Figure { name: name.to_owned(), meant: meant(name) }),
        Some(braces) => RequestQuantity::named(alias(name))
            .map(|quantity| {
                Subject::Request(text[braces.start + 1..braces.end - 1].trim().to_owned(), quantity)
            })
            .ok_or_else(|| RequireReason::OfRequest { name: name.to_owned() }),
    };
    let subject = subject.map_err(|reason| fail(name_at, reason))?;
    if let Some(between) =
        of_request.as_ref().map(|braces| &text[braces.end..sign]).filter(|between| !between.trim().is_empty())
    {
        let at = sign - between.trim_start().len();
        return Err(fail(at, RequireReason::Operator));
    }
    let right = &text[sign + bytes..];
    let limit_at = text.len() - right.trim_start().len();
    let limit = limit(right.trim(), &subject).map_err(|(at, reason)| fail(limit_at + at, reason))?;
    let request = of_request.map(|braces| &text[braces]).unwrap_or_default();
    let written = format!("{name}{request}{}{}", operator.text(), right.trim());
    Ok(Requirement { text: written, subject, operator, limit })
}

/// Where the name of a request stands, with its braces; within it there may be others, in pairs. An error is the brace without another one.
fn request(text: &str) -> Result<Option<Range<usize>>, usize> {
    let Some(start) = text.find('{').filter(|brace| text.find(SIGNS).is_none_or(|sign| *brace < sign)) else {
        return Ok(None);
    };
    let mut open = 0_usize;
    for (at, letter) in text[start..].char_indices() {
        match letter {
            '{' => open += 1,
            '}' if open == 1 => return Ok(Some(start..start + at + 1)),
            '}' => open -= 1,
            _ => {}
        }
    }
    Err(start)
}

/// What an operator consists of.
const SIGNS: [char; 4] = ['<', '>', '=', '!'];

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
fn limit(text: &str, subject: &Subject) -> Result<Limit, (usize, RequireReason)> {
    let digits = text.find(|digit: char| !digit.is_ascii_digit() && digit != '.').unwrap_or(text.len());
    let (number, suffix) = (&text[..digits], text[digits..].trim());
    let no_number = || (0, RequireReason::Number { found: text.to_owned() });
    let number: f64 = number.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(no_number)?;
    let whole = |factor: f64| Ok(Limit { value: number * factor, is_share: false });
    let wrong = |allowed| Err((digits, RequireReason::Unit { found: suffix.to_owned(), allowed }));
    let unit = subject.unit();
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
        Unit::Count if suffix == "%" && subject.may_be_share() => {
            Ok(Limit { value: number / 100.0, is_share: true })
        }
        Unit::Count | Unit::Bytes | Unit::PerSecond => {
            let suffix = if unit == Unit::PerSecond { suffix.trim_end_matches("/s") } else { suffix };
            match suffix {
                "" => whole(1.0),
                "k" => whole(1e3),
                "M" => whole(1e6),
                "G" => whole(1e9),
                _ if subject.may_be_share() => wrong("no unit, k, M, G or %"),
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
    /// The name of a request has no second brace.
    Brace,
    /// One request has no such figure.
    OfRequest {
        /// The name of the figure.
        name: String,
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
            RequireReason::Brace => {
                write!(
                    formatter,
                    "the name of a request ends with a brace; write it as 'p99{{GET /cart}}<5ms'"
                )
            }
            RequireReason::OfRequest { name } => {
                write!(
                    formatter,
                    "one request has no figure {name:?}; take a percentile such as p99, max, answered, bad or status.5xx"
                )
            }
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
            ("p101<5ms", "character 1: no figure is named \"p101\""),
            ("  erors<1", "character 3: no figure is named \"erors\"; did you mean errors?"),
            ("send.p0<1ms", "did you mean send.p"),
            ("p99{GET /a<5ms", "character 4: the name of a request ends with a brace"),
            ("rate{a}<5", "character 1: one request has no figure \"rate\"; take a percentile such as p99"),
            ("lag.p99{a}<5us", "one request has no figure \"lag.p99\""),
            ("p99{a} b<5us", "character 8: it is no operator"),
            ("{a}<5us", "character 1: there is no figure"),
            ("p99{a}5us", "character 10: there is no operator"),
            ("answered{a}<5%", "take no unit, k, M or G"),
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

    #[test]
    fn a_request_is_named_in_braces() {
        for (text, request, written) in [
            ("p99<5ms", None, "p99<5ms"),
            ("p99{GET /a?b=<c>} < 5ms", Some("GET /a?b=<c>"), "p99{GET /a?b=<c>}<5ms"),
            ("p95{GET /items/{id}}<5ms", Some("GET /items/{id}"), "p95{GET /items/{id}}<5ms"),
            ("bad{ POST /{{n}} }<1%", Some("POST /{{n}}"), "bad{ POST /{{n}} }<1%"),
            ("send.max{a}<1s", Some("a"), "send.max{a}<1s"),
            ("status.5xx{a}=0", Some("a"), "status.5xx{a}=0"),
        ] {
            let read = requirement(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((read.request(), &*read.to_string()), (request, written));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_at_a_place_in_it(text in "\\PC*|[a-z0-9.]{0,9}(\\{[a{}<]{0,3}\\}?)?[<>=!]{0,3}[0-9.]{0,5}[a-zA-Z%/]{0,3}") {
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
