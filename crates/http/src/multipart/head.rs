//! What a part says of itself before its content.

use memchr::memchr_iter;

use super::disposition::Disposition;
use super::error::Error;
use crate::Headers;

/// The head of a part: its fields, and what `Content-Disposition` says of it (RFC 7578 section 4.2).
#[derive(Debug)]
pub struct PartHead {
    headers: Headers,
    disposition: Disposition,
}

impl PartHead {
    /// The head in these field lines, with the empty line behind them, of the part of this number.
    pub(super) fn parse(lines: &[u8], part: usize) -> Result<Self, Error> {
        // A line feed alone ends a line for some readers, and an empty line of these the head.
        let ends_line = |at: usize| at.checked_sub(1).is_some_and(|before| lines[before] == b'\r');
        if !memchr_iter(b'\n', lines).all(ends_line) {
            return Err(Error::Head { part });
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(lines, &mut fields) else {
            return Err(Error::Head { part });
        };
        let mut headers = Headers::new();
        for field in fields {
            headers.append(field.name, field.value).map_err(|_| Error::Head { part })?;
        }
        let mut dispositions = headers.get_all("content-disposition");
        let disposition =
            dispositions.next().and_then(|value| Disposition::parse(str::from_utf8(value).ok()?));
        if dispositions.next().is_some() {
            // Two readers might choose different ones.
            return Err(Error::Name { part });
        }
        drop(dispositions);
        Ok(Self { disposition: disposition.ok_or(Error::Name { part })?, headers })
    }

    /// The name of the field.
    pub fn name(&self) -> &str {
        &self.disposition.name
    }

    /// The name that a file has at its peer; `None` if the part is no file. A peer may name anything: never take it for a path.
    pub fn file_name(&self) -> Option<&str> {
        self.disposition.file_name.as_deref()
    }

    /// The media type of the content, `text/plain` if the part does not say (RFC 7578 section 4.4).
    pub fn content_type(&self) -> &str {
        self.headers.get("content-type").unwrap_or("text/plain")
    }

    /// All fields of the head.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }
}

/// Two heads with the same lines.
impl PartialEq for PartHead {
    fn eq(&self, other: &Self) -> bool {
        self.headers.wire_bytes() == other.headers.wire_bytes()
    }
}

/// Clients send two or three.
const FIELDS_MAX: usize = 16;
