//! The parts of a query, as a browser codes them.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Names and values, decoded, in order. A name without `=` has an empty value.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let parts = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    parts.map(|(name, value)| (decoded(name), decoded(value)))
}

fn decoded(text: &str) -> Cow<'_, [u8]> {
    match text.contains('+') {
        true => percent_decode(text.replace('+', " ").as_bytes()).collect(),
        false => percent_decode(text.as_bytes()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let text = |text: Cow<'_, [u8]>| String::from_utf8_lossy(&text).into_owned();
        let all = pairs("a=1&&b&c+d=%31+%zz&=&%ff=x=y").map(|(name, value)| (text(name), text(value)));
        let expected = [("a", "1"), ("b", ""), ("c d", "1 %zz"), ("", ""), ("\u{fffd}", "x=y")];
        assert_eq!(
            all.collect::<Vec<_>>(),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(pairs("").count(), 0);
    }
}
