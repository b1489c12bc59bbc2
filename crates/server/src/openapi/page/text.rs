//! Text for a page: escaped, so that nothing of a document becomes markup.

use std::fmt::{self, Display};

/// Text that becomes text of a page, whatever it holds. In an attribute it stands between quotes.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.to_string().chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Text that would be read in another order than it stands there.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_str("\u{fffd}")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

/// A name for a place in a page, of letters and digits alone, so that different texts have different names.
pub(super) fn anchor(kind: &str, text: &str) -> String {
    let mut name = format!("{kind}-");
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() => name.push(byte.into()),
            b'/' => name.push('-'),
            byte => name.push_str(&format!("_{byte:02x}")),
        }
    }
    name
}

/// A text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
