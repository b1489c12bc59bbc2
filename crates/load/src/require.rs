//! Thresholds: what a result must keep to, in a small language, and the verdict on an outcome.
//!
//! A threshold is `FIGURE OPERATOR LIMIT`, such as `p99<5ms`, `errors<0.1%`, `rate>=10k` or `status.5xx<1%`. The figures are those
//! of [`Quantity`]; the operators are `<`, `<=`, `>`, `>=` and `=`. A time has a unit, a count may have `k`, `M` or `G`, and a limit
//! in percent is a share of the requests or responses.
//!
//! With the name of a request of a script in braces the figure is of this request alone: `p99{GET /cart}<5ms`, `bad{pay}<1%`. It may be a
//! percentile, `answered`, `bad` or a status; of several requests with that name it is one of all of them.
//!
//! A figure that is unknown keeps to nothing: then the threshold broke, and its reason says why it is unknown.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::figures::{Quantity, Unit};
use crate::outcome::Outcome;

mod one_request;
mod parse;

use one_request::RequestQuantity;

pub use parse::{RequireError, RequireReason};

/// One threshold. It is parsed from text, and prints as that text.
///
/// ```
/// use anywire_load::Requirement;
///
/// let requirement: Requirement = "p99 < 5ms".parse()?;
/// assert_eq!(requirement.to_string(), "p99<5ms");
/// let wrong = "p99<5".parse::<Requirement>().unwrap_err();
/// assert_eq!(wrong.to_string(), r#""p99<5", character 6: a time needs its unit; write 5us, 5ms or 5s"#);
/// # Ok::<(), anywire_load::RequireError>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Requirement {
    text: String,
    subject: Subject,
    operator: Operator,
    limit: Limit,
}

/// What a threshold is about.
#[derive(Debug, Clone)]
enum Subject {
    /// All requests.
    Whole(Quantity),
    /// Those of this name.
    Request(String, RequestQuantity),
}

impl Subject {
    fn unit(&self) -> Unit {
        match self {
            Self::Whole(quantity) => quantity.unit(),
            Self::Request(_, quantity) => quantity.unit(),
        }
    }

    /// Whether a limit in percent is a share of requests.
    fn may_be_share(&self) -> bool {
        match self {
            Self::Whole(quantity) => quantity.whole().is_some(),
            Self::Request(_, quantity) => quantity.may_be_share(),
        }
    }

    /// Its place in the JSON of this outcome.
    fn path(&self, outcome: &Outcome) -> String {
        match self {
            Self::Whole(quantity) => quantity.path(outcome),
            Self::Request(name, quantity) => quantity.path(name, outcome),
        }
    }

    /// Its value, or why it is unknown.
    fn value(&self, outcome: &Outcome, is_share: bool) -> Result<f64, String> {
        match self {
            Self::Request(name, quantity) => quantity.value(name, outcome, is_share),
            Self::Whole(quantity) if is_share => quantity.share(outcome),
            Self::Whole(quantity) => {
                quantity.value(outcome).ok_or_else(|| quantity.unknown(outcome).to_owned())
            }
        }
    }
}

impl Requirement {
    /// The name of the request that it is about; `None` if it is about all.
    ///
    /// ```
    /// let requirement: anywire_load::Requirement = "p99{GET /cart}<5ms".parse()?;
    /// assert_eq!(requirement.request(), Some("GET /cart"));
    /// # Ok::<(), anywire_load::RequireError>(())
    /// ```
    pub fn request(&self) -> Option<&str> {
        match &self.subject {
            Subject::Whole(_) => None,
            Subject::Request(name, _) => Some(name),
        }
    }

    /// The verdict on an outcome. What has no verdict is an outcome that was interrupted, and one whose generator was saturated.
    pub fn judge(&self, outcome: &Outcome) -> Threshold {
        let (found, reason) = self.found(outcome);
        let (verdict, reason) = match (not_judged(outcome), reason) {
            (Some(why), _) => (Verdict::NotJudged, Some(why.to_owned())),
            (None, Some(reason)) => (Verdict::Broken, Some(format!("unknown, because {reason}"))),
            (None, None) if found.is_some_and(|found| self.operator.holds(found, self.limit.value)) => {
                (Verdict::Held, None)
            }
            (None, None) => {
                let found = found.map(|found| self.write(found)).unwrap_or_default();
                (Verdict::Broken, Some(format!("asked {}, found {found}", self.asked())))
            }
        };
        Threshold {
            asked: self.text.clone(),
            figure: self.subject.path(outcome),
            unit: if self.limit.is_share { SHARE } else { self.subject.unit().name() }.to_owned(),
            limit: self.limit.value,
            found,
            verdict,
            reason,
        }
    }

    /// What was found, or why it is unknown.
    fn found(&self, outcome: &Outcome) -> (Option<f64>, Option<String>) {
        match self.subject.value(outcome, self.limit.is_share) {
            Ok(found) => (Some(found), None),
            Err(reason) => (None, Some(reason)),
        }
    }

    /// The limit with its operator, in the unit in which values are written.
    fn asked(&self) -> String {
        format!("{} {}", self.operator.text(), self.write(self.limit.value))
    }

    fn write(&self, value: f64) -> String {
        if self.limit.is_share {
            return percent(value);
        }
        self.subject.unit().write(value)
    }
}

/// Why no threshold of this outcome is judged.
fn not_judged(outcome: &Outcome) -> Option<&'static str> {
    let interrupted = outcome.rate.interrupted.then_some("the run was interrupted");
    let saturated = outcome.generator.saturated == Some(true);
    interrupted.or(saturated.then_some("the generator was saturated"))
}

/// Judges an outcome by all requirements, in their order.
pub fn judge(requirements: &[Requirement], outcome: &Outcome) -> Vec<Threshold> {
    requirements.iter().map(|requirement| requirement.judge(outcome)).collect()
}

/// What a threshold asked and what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The threshold as it was given: `p99<5ms`.
    pub asked: String,
    /// The place of its figure in this JSON: `latency.send.p99`.
    pub figure: String,
    /// The unit of `limit` and `found`: that of the figure, or `share` (0 .. 1) of a limit in percent.
    pub unit: String,
    /// The limit.
    pub limit: f64,
    /// What the figure was; `null` if it is unknown.
    pub found: Option<f64>,
    /// Whether it held.
    pub verdict: Verdict,
    /// Why it broke, or was not judged; `null` if it held.
    pub reason: Option<String>,
}

impl Threshold {
    /// Its row in a table: what was asked, the verdict, what was found or why it broke.
    pub(crate) fn cells(&self) -> Vec<String> {
        let found = match (self.found, Unit::named(&self.unit)) {
            (Some(found), _) if self.unit == SHARE => percent(found),
            (Some(found), Some(unit)) => unit.write(found),
            _ => "unknown".to_owned(),
        };
        let why = self.reason.clone().unwrap_or_else(|| format!("found {found}"));
        vec![self.asked.clone(), self.verdict.words().to_owned(), why]
    }
}

/// `p99<5ms: held`, or with the reason.
impl fmt::Display for Threshold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.asked, self.verdict.words())?;
        match &self.reason {
            Some(reason) => write!(formatter, ", {reason}"),
            None => Ok(()),
        }
    }
}

/// The verdict on a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It held.
    Held,
    /// It broke, or its figure is unknown.
    Broken,
    /// The run shows nothing about it.
    NotJudged,
}

impl Verdict {
    /// For a person.
    pub fn words(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::NotJudged => "not judged",
        }
    }
}

/// How a figure is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
}

impl Operator {
    fn text(self) -> &'static str {
        match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Equal => "=",
        }
    }

    fn holds(self, found: f64, limit: f64) -> bool {
        match self {
            Self::Below => found < limit,
            Self::AtMost => found <= limit,
            Self::Above => found > limit,
            Self::AtLeast => found >= limit,
            Self::Equal => found == limit,
        }
    }
}

/// The right side of a threshold.
#[derive(Debug, Clone, Copy)]
struct Limit {
    /// In the unit of the figure, or as a share.
    value: f64,
    /// It was given in percent.
    is_share: bool,
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Two are equal if they are written alike.
impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl FromStr for Requirement {
    type Err = RequireError;

    fn from_str(text: &str) -> Result<Self, RequireError> {
        parse::requirement(text)
    }
}

impl TryFrom<String> for Requirement {
    type Error = RequireError;

    fn try_from(text: String) -> Result<Self, RequireError> {
        text.parse()
    }
}

impl From<Requirement> for String {
    fn from(requirement: Requirement) -> Self {
        requirement.text
    }
}

/// The unit of a limit in percent.
const SHARE: &str = "share";

/// A share in percent, with as many digits as a threshold may have: 0.004 % is not 0.00 %.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 0.1 {
        return format!("{} %", crate::text::digits(percent));
    }
    let places = (2.0 - percent.log10().floor()).clamp(2.0, 9.0) as usize;
    format!("{percent:.places$} %")
}
