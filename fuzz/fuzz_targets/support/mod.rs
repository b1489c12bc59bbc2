//! What the targets that compare decoding in place with decoding of copies share.

use anywire_http::HeadLimits;
use anywire_http::h1::Limits;

/// Events, each with its text; neighbouring data joined.
pub(crate) type Events = Vec<(&'static str, Vec<u8>)>;

/// A head as text: its line, and a line for each field.
pub(crate) fn text<'f>(line: String, fields: impl Iterator<Item = (&'f str, &'f [u8])>) -> Vec<u8> {
    let mut text = line.into_bytes();
    for (name, value) in fields {
        text.extend([b"\n", name.as_bytes(), b": ", value].concat());
    }
    text
}

/// So that they are reached.
pub(crate) const SMALL: Limits = Limits {
    head: HeadLimits { bytes: 60, target_bytes: 24, fields: 3, trailer_bytes: 10, trailer_fields: 1 },
    chunk_extension_bytes: 3,
    chunk_extensions_bytes: 5,
};
