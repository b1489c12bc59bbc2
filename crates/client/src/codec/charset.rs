//! Charsets of texts: UTF-8, and the one that old servers use.

use anywire_http::Bytes;

use super::CodecError;

/// A text as UTF-8, by the `charset` of its type. A type without one stays as it is.
pub(crate) fn to_utf8(content_type: &str, bytes: Bytes) -> Result<Bytes, CodecError> {
    let Some(charset) = charset(content_type) else { return Ok(bytes) };
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(charset));
    if is(&["utf-8", "utf8"]) {
        return Ok(bytes);
    }
    // ISO-8859-1 means Windows-1252, and so does ASCII (WHATWG Encoding, section 4.2).
    if is(&["iso-8859-1", "latin1", "windows-1252", "cp1252", "us-ascii", "ascii"]) {
        return Ok(bytes.iter().map(|byte| of_windows_1252(*byte)).collect::<String>().into());
    }
    Err(format!("the charset {charset:?} is not known: UTF-8, ISO-8859-1 and Windows-1252 are").into())
}

/// The parameter `charset`, without quotes. Most types have none.
fn charset(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches('"'))
}

fn of_windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}

/// What is other than in ISO-8859-1: from 0x80 to 0x9f.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}',
    '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_utf_8() {
        let text = |content_type: &str, bytes: &'static [u8]| {
            let bytes = to_utf8(content_type, Bytes::from_static(bytes)).ok()?;
            String::from_utf8(bytes.into()).ok()
        };
        assert_eq!(text("text/plain; charset=ISO-8859-1", b"\xe4\x80").as_deref(), Some("\u{e4}\u{20ac}"));
        assert_eq!(text("text/html;a=b; Charset=\"windows-1252\"", b"\x9f").as_deref(), Some("\u{178}"));
        assert_eq!(text("text/plain; charset=utf-8", b"\xc3\xa4").as_deref(), Some("\u{e4}"));
        assert_eq!(text("text/plain", b"\xc3\xa4").as_deref(), Some("\u{e4}"));
        assert_eq!(text("text/plain; charset=shift_jis", b"a"), None);
    }
}
