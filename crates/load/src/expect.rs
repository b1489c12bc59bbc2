//! How a good answer looks: what a run checks in each of them.

use std::fmt;
use std::str::FromStr;

use anywire_advice::Advice;
use anywire_http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::plan_data;

/// How a good answer looks. Any other is counted, and its connection is kept.
///
/// A status that is not expected is an error of the kind `status`. All else is of the kind `check`: an answer counts at most once,
/// with the first thing that is wrong.
///
/// ```
/// use anywire_load::Expect;
///
/// let expect = Expect { contains: vec!["\"ok\"".to_owned()], ..Expect::default() };
/// assert_eq!(expect.status, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// The only status that is good (`None`: any below 400).
    #[serde(with = "plan_data::status")]
    pub status: Option<StatusCode>,
    /// The length that each body must have, in bytes (`None`: any).
    pub body_bytes: Option<u64>,
    /// Header fields that must be there.
    pub headers: Vec<ExpectedField>,
    /// Texts that must stand in the body. The body is searched as it comes; it is not held.
    pub contains: Vec<String>,
    /// The SHA-256 that each body must have (`None`: any).
    #[serde(with = "plan_data::optional_text")]
    pub sha256: Option<Sha256>,
}

impl Expect {
    /// Whether the head's status and the length of the body say it all.
    pub(crate) fn is_by_numbers(&self) -> bool {
        self.headers.is_empty() && self.contains.is_empty() && self.sha256.is_none()
    }
}

/// A header field that an answer must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedField {
    /// Its name.
    pub name: String,
    /// Its value (`None`: any).
    pub value: Option<String>,
}

/// `Name: value`, or `Name` for any value.
impl FromStr for ExpectedField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
            None => (text.trim(), None),
        };
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(format!(
                "{name:?} is no name of a field; write it as 'Name: value', or 'Name' for any value"
            ));
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

/// `Name: value`
impl fmt::Display for ExpectedField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        self.value.as_ref().map_or(Ok(()), |value| write!(formatter, ": {value}"))
    }
}

/// The SHA-256 of a body; as text 64 hexadecimal digits, as `sha256sum` prints it.
///
/// ```
/// use anywire_load::Sha256;
///
/// let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(empty.parse::<Sha256>()?.to_string(), empty);
/// # Ok::<(), anywire_load::NoSha256>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha256(pub [u8; 32]);

/// A text that is no SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no SHA-256{}", Advice("write its 64 hexadecimal digits, as sha256sum prints them"))]
pub struct NoSha256 {
    text: String,
}

impl FromStr for Sha256 {
    type Err = NoSha256;

    fn from_str(text: &str) -> Result<Self, NoSha256> {
        let wrong = || NoSha256 { text: text.to_owned() };
        let digits: Vec<u8> = text.chars().map_while(|digit| Some(digit.to_digit(16)? as u8)).collect();
        if digits.len() != 64 || text.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// As its text.
impl fmt::Debug for Sha256 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_as_it_is_written() {
        for (text, name, value) in [
            ("content-type: text/html; a=b", "content-type", Some("text/html; a=b")),
            ("ETag", "ETag", None),
            ("x-empty:", "x-empty", Some("")),
        ] {
            let field: ExpectedField = text.parse().unwrap();
            assert_eq!((field.name.as_str(), field.value.as_deref()), (name, value));
        }
        for wrong in ["", ": x", "two words: x"] {
            assert!(wrong.parse::<ExpectedField>().unwrap_err().contains("'Name: value'"), "{wrong}");
        }
    }

    #[test]
    fn a_sum_has_64_digits() {
        let text = "0f".repeat(32);
        assert_eq!(text.parse::<Sha256>().unwrap().to_string(), text);
        let wrong = ["", "0f", &"0f".repeat(33), &"0g".repeat(32), &format!("{}\u{e4}", "0f".repeat(31))];
        for wrong in wrong {
            assert!(wrong.parse::<Sha256>().unwrap_err().to_string().contains("sha256sum"), "{wrong}");
        }
    }
}
