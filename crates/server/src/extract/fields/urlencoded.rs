//! The format of queries and of forms: `application/x-www-form-urlencoded` of the URL standard, of UTF-8 alone.

use std::borrow::Cow;

use super::{FieldError, Pair, Reason};

/// The fields, decoded.
pub(super) fn pairs(text: &str, fields_max: usize) -> Result<Vec<Pair<'_>>, FieldError> {
    let mut pairs = Vec::new();
    let mut field = Field::default();
    // One pass for all three signs: most names and values are a few bytes, for which a search each costs more.
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'&' => {
                field.end(text, at, &mut pairs, fields_max)?;
                field = Field { start: at + 1, ..Field::default() };
            }
            b'=' if field.equals.is_none() => field.equals = Some(at),
            b'+' | b'%' => field.is_encoded = true,
            _ => {}
        }
    }
    field.end(text, text.len(), &mut pairs, fields_max)?;
    Ok(pairs)
}

/// The fields, one after another, for what looks for some of them alone: what is not UTF-8 does not concern it. A name that is not is left
/// out, and a value that is not is `None`.
pub(crate) fn each(text: &str) -> impl Iterator<Item = (Cow<'_, str>, Option<Cow<'_, str>>)> {
    let fields = text.split('&').filter(|field| !field.is_empty());
    let parts = fields.map(|field| field.split_once('=').unwrap_or((field, "")));
    parts.filter_map(|(name, value)| Some((decoded(name, Plus::IsSpace)?, decoded(value, Plus::IsSpace))))
}

/// The field that is being read.
#[derive(Default)]
struct Field {
    start: usize,
    /// Where its name ends.
    equals: Option<usize>,
    is_encoded: bool,
}

impl Field {
    fn end<'t>(
        &self,
        text: &'t str,
        end: usize,
        pairs: &mut Vec<Pair<'t>>,
        fields_max: usize,
    ) -> Result<(), FieldError> {
        if self.start == end {
            return Ok(());
        }
        if pairs.len() == fields_max {
            return Err(Reason::TooMany(fields_max).into());
        }
        let (name, value) = match self.equals {
            Some(equals) => (&text[self.start..equals], &text[equals + 1..end]),
            None => (&text[self.start..end], ""),
        };
        if !self.is_encoded {
            pairs.push((Cow::Borrowed(name), Cow::Borrowed(value)));
            return Ok(());
        }
        let name = decoded(name, Plus::IsSpace).ok_or(Reason::NotText)?;
        let Some(value) = decoded(value, Plus::IsSpace) else {
            return Err(FieldError::from(Reason::NotText).of(&name));
        };
        pairs.push((name, value));
        Ok(())
    }
}

/// What a `+` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    IsPlus,
    IsSpace,
}

/// Percent-decodes; `None` if it is not UTF-8 then. A `%` without two digits behind it stands for itself, as the URL standard says.
pub(crate) fn decoded(text: &str, plus: Plus) -> Option<Cow<'_, str>> {
    let is_plain = |byte: &u8| *byte != b'%' && (*byte != b'+' || plus == Plus::IsPlus);
    let mut rest = text.as_bytes();
    if rest.iter().all(is_plain) {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(rest.len());
    while let [byte, behind @ ..] = rest {
        rest = behind;
        bytes.push(match (*byte, behind) {
            (b'+', _) if plus == Plus::IsSpace => b' ',
            (b'%', [high, low, behind @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = behind;
                    high << 4 | low
                }
                _ => b'%',
            },
            (byte, _) => byte,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_stays_alone() {
        let all = each("a=1&&b&c+d=%31+%zz&=&%ff=x=y&e=%ff")
            .map(|(name, value)| (name.into_owned(), value.map(Cow::into_owned)));
        let expected =
            [("a", Some("1")), ("b", Some("")), ("c d", Some("1 %zz")), ("", Some("")), ("e", None)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        assert_eq!(all.collect::<Vec<_>>(), expected);
        assert_eq!(each("").count(), 0);
    }
}
