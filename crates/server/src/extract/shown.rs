//! What a peer has sent, within the message that tells it what is wrong. A peer chooses how long that is, up to the limit of bodies, and
//! the message is in the response several times: so it holds the beginning alone.

use std::borrow::Cow;

/// A value in quotes, with its first 64 characters.
pub(crate) fn quoted(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}..", &value[..end]),
    }
}

/// The name of a field, or the way to it: 128 bytes at most, and `..` behind them if there are more.
pub(crate) fn name<'n>(name: impl Into<Cow<'n, str>>) -> Cow<'n, str> {
    let name = name.into();
    match name.len() <= NAME_BYTES_MAX {
        true => name,
        false => format!("{}..", &name[..name.floor_char_boundary(NAME_BYTES_MAX)]).into(),
    }
}

/// A message that may have a value in it: 512 bytes at most of its beginning and its end, where it says what was expected.
pub(crate) fn message<'m>(message: impl Into<Cow<'m, str>>) -> Cow<'m, str> {
    let message = message.into();
    if message.len() <= MESSAGE_BYTES_MAX {
        return message;
    }
    let head = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX - MESSAGE_END_BYTES)];
    let end = &message[message.ceil_char_boundary(message.len() - MESSAGE_END_BYTES)..];
    format!("{head} .. {end}").into()
}

const VALUE_CHARS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 512;

/// Of these bytes, those of the end.
const MESSAGE_END_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_stays_whole() {
        let (value, long) = ("\u{e4}".repeat(64), "\u{e4}".repeat(256));
        assert_eq!(quoted(&value), format!("{value:?}"));
        assert_eq!(name(&*value), value);
        assert_eq!(message(&*long), long);
    }

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(quoted(&"\u{e4}".repeat(65)), format!("\"{}\"..", "\u{e4}".repeat(64)));
        assert_eq!(name(format!("a{}", "\u{e4}".repeat(64))), format!("a{}..", "\u{e4}".repeat(63)));
        let cut = message(format!("a{}b", "\u{e4}".repeat(1000)));
        assert_eq!(cut, format!("a{} .. {}b", "\u{e4}".repeat(191), "\u{e4}".repeat(63)));
    }
}
