//! The format of queries and of forms: `application/x-www-form-urlencoded` of the URL standard, of UTF-8 alone.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::{FieldError, Pair, Reason};

/// The fields, decoded. A `%` without two digits behind it stands for itself, as the URL standard says.
pub(super) fn pairs(text: &str, fields_max: usize) -> Result<Vec<Pair<'_>>, FieldError> {
    let mut pairs = Vec::new();
    for field in text.split('&').filter(|field| !field.is_empty()) {
        if pairs.len() == fields_max {
            return Err(Reason::TooMany(fields_max).into());
        }
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let name = decoded(name).ok_or(Reason::NotText)?;
        let Some(value) = decoded(value) else { return Err(FieldError::from(Reason::NotText).of(&name)) };
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// `None` if it is not UTF-8.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|byte| matches!(byte, b'+' | b'%')) {
        return Some(Cow::Borrowed(text));
    }
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().ok()?.into_owned();
    Some(Cow::Owned(decoded))
}
