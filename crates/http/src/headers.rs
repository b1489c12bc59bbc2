//! Header fields in the form in which they travel, looked up lazily (RFC 9110 section 5).
//!
//! [`Headers`] holds the lines `name: value\r\n` in one block of bytes, and one small record per line. So a decoded
//! head is one copy plus offsets, and an encoded one is one copy. Looking a name up walks the records, which for the
//! usual few fields is faster than hashing. The memory of both comes from a bounded free list of the thread and returns
//! there, so a request in steady state allocates nothing.

mod block;
mod kind;
mod line;
mod storage;

use std::fmt;

use http::{HeaderName, HeaderValue};

pub use self::line::{InvalidHeader, StaticHeader};

pub(crate) use self::block::{Appender, Field, Lines, Refill};
pub(crate) use self::kind::{Kind, Kinds};
pub(crate) use self::line::{is_lower_token, is_protocol, is_token, is_value};

use self::storage::Storage;

/// The header fields of a message, in order, in wire form.
///
/// Names compare without regard to case and keep the case they were given; values are bytes without line
/// breaks. A name may appear more than once ([`Headers::append`], [`Headers::get_all`]).
///
/// A value keeps its mark as sensitive, from an [`http::HeaderValue`] or from an HTTP/2 peer. `Debug` does not show it, and HTTP/2
/// sends it as a never-indexed literal, which no proxy may put into a table (RFC 7541 section 7.1.3).
///
/// ```
/// use anywire_http::Headers;
///
/// let mut headers = Headers::new();
/// headers.append("content-type", "text/plain")?;
/// assert_eq!(headers.get("Content-Type"), Some("text/plain"));
/// assert_eq!(headers.wire_bytes(), b"content-type: text/plain\r\n");
/// # Ok::<(), anywire_http::InvalidHeader>(())
/// ```
#[derive(Default)]
pub struct Headers {
    storage: Storage,
}

impl Headers {
    /// No fields; allocates nothing.
    pub const fn new() -> Self {
        Self { storage: Storage::Nothing }
    }

    /// The first value of `name`; `None` if it is absent or not UTF-8 ([`Headers::get_bytes`] gives it then).
    pub fn get(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get_bytes(name)?).ok()
    }

    /// The first value of `name` as bytes.
    pub fn get_bytes(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// Whether the values of `name` are lists of which one holds `token`, without regard to case (RFC 9110 section 5.6.1).
    ///
    /// ```
    /// use anywire_http::Headers;
    ///
    /// let mut headers = Headers::new();
    /// headers.append("accept-encoding", "br, GZip")?;
    /// assert!(headers.lists("Accept-Encoding", "gzip"));
    /// # Ok::<(), anywire_http::InvalidHeader>(())
    /// ```
    pub fn lists(&self, name: &str, token: &str) -> bool {
        list_token(self.get_all(name), token)
    }

    /// All values of `name`, in order.
    pub fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.lines();
        lines
            .fields
            .iter()
            .filter(move |field| lines.is_named(field, name))
            .map(move |field| lines.value(field))
    }

    /// Whether `name` is present.
    pub fn contains(&self, name: &str) -> bool {
        self.get_bytes(name).is_some()
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> + Clone {
        let lines = self.lines();
        lines.fields.iter().map(move |field| (lines.name(field), lines.value(field)))
    }

    /// How many fields (lines) there are.
    pub fn len(&self) -> usize {
        self.lines().fields.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces all fields of this name by one, at the end.
    ///
    /// # Errors
    ///
    /// [`InvalidHeader`] if the name is no token or the value holds a control character; nothing is changed
    /// then.
    pub fn insert(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), InvalidHeader> {
        let (name, value) = line::check(name.as_ref(), value.as_ref())?;
        self.remove(name);
        self.storage.block_mut().push(name, value)
    }

    /// Adds a field at the end. Fields of the same name stay.
    ///
    /// White space around the value is dropped, as it has no meaning (RFC 9110 section 5.5).
    ///
    /// # Errors
    ///
    /// As [`Headers::insert`].
    pub fn append(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), InvalidHeader> {
        let (name, value) = line::check(name.as_ref(), value.as_ref())?;
        self.storage.block_mut().push(name, value)
    }

    /// Adds a field whose value is a secret: `Debug` does not show it, and HTTP/2 puts it into no table.
    ///
    /// # Errors
    ///
    /// As [`Headers::insert`].
    pub fn append_sensitive(
        &mut self,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), InvalidHeader> {
        self.append(name, value)?;
        self.mark_last_sensitive();
        Ok(())
    }

    /// Adds a field that was checked when the program was compiled, which cannot fail.
    #[inline]
    pub fn append_static(&mut self, header: &'static StaticHeader) {
        self.storage.append_static(header);
    }

    /// Adds the fields of others at the end. They were checked before, so this is one copy.
    ///
    /// ```
    /// use anywire_http::Headers;
    ///
    /// let (mut headers, mut more) = (Headers::new(), Headers::new());
    /// headers.append("server", "shop")?;
    /// more.append("x-frame-options", "DENY")?;
    /// headers.append_all(&more);
    /// assert_eq!(headers.wire_bytes(), b"server: shop\r\nx-frame-options: DENY\r\n");
    /// # Ok::<(), anywire_http::InvalidHeader>(())
    /// ```
    pub fn append_all(&mut self, others: &Self) {
        self.storage.block_mut().push_lines(others.lines());
    }

    /// Removes all fields of this name; says whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.contains(name) && self.storage.block_mut().remove(name)
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.storage.clear();
    }

    /// Removes the fields that concern one connection only, as a proxy has to before it passes a message on (RFC 9110
    /// section 7.6.1).
    ///
    /// These are the fields that `Connection` names, `Connection` itself, `Proxy-Connection`, `Keep-Alive`, `TE`,
    /// `Transfer-Encoding` and `Upgrade`. `TE: trailers` stays, because bodies carry their trailers on.
    ///
    /// ```
    /// use anywire_http::Headers;
    ///
    /// let mut headers = Headers::new();
    /// headers.append("connection", "close, X-Trace")?;
    /// headers.append("x-trace", "1")?;
    /// headers.append("accept", "text/html")?;
    /// headers.remove_hop_by_hop();
    /// assert_eq!(headers.wire_bytes(), b"accept: text/html\r\n");
    /// # Ok::<(), anywire_http::InvalidHeader>(())
    /// ```
    pub fn remove_hop_by_hop(&mut self) {
        // Before `te` goes, which a sender has to name in `connection` (RFC 9110 section 10.1.4).
        let wants_trailers = list_token(self.get_all("te"), "trailers");
        let is_text = |list: &[u8]| std::str::from_utf8(list).ok().map(str::to_owned);
        let named: Vec<String> = self.values_of(Kind::Connection).filter_map(is_text).collect();
        for name in named.iter().flat_map(|list| list.split(',')) {
            self.remove(name.trim());
        }
        for name in ["connection", "proxy-connection", "keep-alive", "te", "transfer-encoding", "upgrade"] {
            self.remove(name);
        }
        if wants_trailers {
            self.append_static(&TE_TRAILERS);
        }
    }

    /// Removes the fields that `connection` names, and their names from it. What is set from here on stays, whatever the sender
    /// has named (RFC 9110 section 7.6.1). What HTTP itself defines for one connection stays too: `upgrade`, `te` and others.
    ///
    /// ```
    /// use anywire_http::Headers;
    ///
    /// let mut headers = Headers::new();
    /// headers.append("connection", "upgrade, X-User")?;
    /// headers.append("x-user", "mallory")?;
    /// headers.remove_connection_options();
    /// headers.insert("x-user", "alice")?;
    /// assert_eq!(headers.wire_bytes(), b"connection: upgrade\r\nx-user: alice\r\n");
    /// # Ok::<(), anywire_http::InvalidHeader>(())
    /// ```
    pub fn remove_connection_options(&mut self) {
        let of_http = |option: &&str| OPTIONS_OF_HTTP.iter().any(|known| known.eq_ignore_ascii_case(option));
        let lists = self.values_of(Kind::Connection).map(String::from_utf8_lossy);
        let lists: Vec<String> = lists.map(|list| list.into_owned()).collect();
        let options = lists.iter().flat_map(|list| list.split(',')).map(str::trim);
        let (kept, named): (Vec<&str>, Vec<&str>) =
            options.filter(|option| !option.is_empty()).partition(of_http);
        if named.is_empty() {
            return;
        }
        for name in named {
            self.remove(name);
        }
        self.remove("connection");
        if !kept.is_empty() {
            // They are names that HTTP defines.
            let _ = self.append("connection", kept.join(", "));
        }
    }

    /// All lines as they travel, each ended by CR LF, without the empty line.
    #[inline]
    pub fn wire_bytes(&self) -> &[u8] {
        self.lines().bytes
    }

    /// The start of a 200 response with these fields, up to the digits of its length. `None` unless the fields are one
    /// [`StaticHeader`].
    #[inline]
    pub(crate) fn ok_beginning(&self) -> Option<&[u8]> {
        self.storage.ok_beginning()
    }

    /// The kinds that are present.
    #[inline]
    pub(crate) fn present(&self) -> Kinds {
        self.lines().present
    }

    /// The first value of a name that the engine knows.
    #[inline]
    pub(crate) fn value_of(&self, kind: Kind) -> Option<&[u8]> {
        self.values_of(kind).next()
    }

    /// All values of a name that the engine knows.
    #[inline]
    pub(crate) fn values_of(&self, kind: Kind) -> impl Iterator<Item = &[u8]> {
        let lines = self.lines();
        lines.fields.iter().filter(move |field| field.kind == kind).map(move |field| lines.value(field))
    }

    /// How the content is coded, such as `gzip`: the list of `content-encoding`, unless it holds nothing but `identity`, which
    /// is no coding (RFC 9110 section 8.4). Nothing in anywire undoes a coding.
    ///
    /// ```
    /// use anywire_http::Headers;
    ///
    /// let mut headers = Headers::new();
    /// assert_eq!(headers.content_coding(), None);
    /// headers.append("content-encoding", "gzip")?;
    /// assert_eq!(headers.content_coding().as_deref(), Some("gzip"));
    /// # Ok::<(), anywire_http::InvalidHeader>(())
    /// ```
    pub fn content_coding(&self) -> Option<String> {
        let mut values = self.get_all("content-encoding").peekable();
        values.peek()?;
        let list = values.map(String::from_utf8_lossy).collect::<Vec<_>>().join(",");
        let codings = list.split(',').map(str::trim);
        let codings = codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
        let codings = codings.collect::<Vec<_>>().join(", ");
        Some(codings).filter(|codings| !codings.is_empty())
    }

    /// The number that `Content-Length` states, if it is one.
    pub fn stated_length(&self) -> Option<u64> {
        crate::h1::decimal(self.value_of(Kind::ContentLength)?)
    }

    /// Whether the list-valued fields of this kind hold `token`, without regard to case.
    #[inline]
    pub(crate) fn has_token(&self, kind: Kind, token: &str) -> bool {
        self.present().contains(kind) && self.lists_token(kind, token)
    }

    fn lists_token(&self, kind: Kind, token: &str) -> bool {
        list_token(self.values_of(kind), token)
    }

    /// Replaces all fields by the `lines` of a decoded head. The caller must then set the record of each of the `count`
    /// fields, and the kinds that are present.
    #[inline]
    pub(crate) fn refill(&mut self, lines: &[u8], count: usize) -> Refill<'_> {
        self.storage.block_mut().refill(lines, count)
    }

    /// The memory behind the fields, to which a decoder appends lines that it has checked.
    #[inline]
    pub(crate) fn appender(&mut self) -> Appender<'_> {
        self.storage.block_mut().appender()
    }

    /// Marks the value of the last field as a secret.
    pub(crate) fn mark_last_sensitive(&mut self) {
        self.storage.block_mut().mark_last_sensitive();
    }

    /// As [`iter`](Self::iter), with whether the value is a secret.
    pub(crate) fn iter_marked(&self) -> impl Iterator<Item = (&str, &[u8], bool)> {
        let lines = self.lines();
        lines.fields.iter().map(move |field| (lines.name(field), lines.value(field), field.is_sensitive))
    }

    /// Adds a field of the `http` crate.
    pub(crate) fn append_typed(&mut self, name: &HeaderName, value: &HeaderValue) {
        // Both types were checked when they were made; only 4 GiB of them could be refused.
        if self.append(name, value).is_ok() && value.is_sensitive() {
            self.mark_last_sensitive();
        }
    }

    /// Whether the memory is small enough to be reused by another head.
    #[inline]
    pub(crate) fn is_small(&self) -> bool {
        self.storage.is_small()
    }

    /// The lines and their records.
    #[inline]
    pub(crate) fn lines(&self) -> Lines<'_> {
        self.storage.lines()
    }
}

/// Whether one of these lists holds `token`, without regard to case (RFC 9110 section 5.6.1).
pub(crate) fn list_token<'a>(mut lists: impl Iterator<Item = &'a [u8]>, token: &str) -> bool {
    lists.any(|list| {
        list.split(|&b| b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    })
}

impl Clone for Headers {
    fn clone(&self) -> Self {
        Self { storage: self.storage.clone() }
    }
}

impl Drop for Headers {
    // Inlined so that dropping a response checks the enum in place; `give_back` stays out of line.
    #[inline]
    fn drop(&mut self) {
        if matches!(self.storage, Storage::Block(_)) {
            self.storage.give_back();
        }
    }
}

/// Without values that are marked as sensitive.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value, is_sensitive| match is_sensitive {
            true => "(sensitive)".into(),
            false => String::from_utf8_lossy(value),
        };
        let fields = self.iter_marked();
        f.debug_map().entries(fields.map(|(name, value, hidden)| (name, shown(value, hidden)))).finish()
    }
}

/// Equal if they hold the same fields in the same order, names compared without regard to case.
impl PartialEq for Headers {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().zip(other.iter()).all(|((name, value), (other_name, other_value))| {
                name.eq_ignore_ascii_case(other_name) && value == other_value
            })
    }
}

impl Eq for Headers {}

impl Extend<(HeaderName, HeaderValue)> for Headers {
    fn extend<T: IntoIterator<Item = (HeaderName, HeaderValue)>>(&mut self, fields: T) {
        for (name, value) in fields {
            self.append_typed(&name, &value);
        }
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for Headers {
    fn from_iter<T: IntoIterator<Item = (HeaderName, HeaderValue)>>(fields: T) -> Self {
        let mut headers = Self::new();
        headers.extend(fields);
        headers
    }
}

/// The connection options that HTTP defines: `close`, and the fields that every intermediary takes out.
const OPTIONS_OF_HTTP: [&str; 6] =
    ["close", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

static TE_TRAILERS: StaticHeader = StaticHeader::new("te: trailers");

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Headers {
        let mut headers = Headers::new();
        headers.append("Host", "a").expect("valid");
        headers.append("X-One", "1").expect("valid");
        headers.append("x-two", " 2\t").expect("valid");
        headers.append("X-ONE", "one").expect("valid");
        headers
    }

    #[test]
    fn names_are_found_in_any_case() {
        let headers = sample();
        assert_eq!(headers.get("host"), Some("a"));
        assert_eq!(headers.get("X-TWO"), Some("2"));
        assert_eq!(headers.get_all("x-one").collect::<Vec<_>>(), [&b"1"[..], b"one"]);
        assert_eq!(headers.get("x-three"), None);
        assert!(headers.contains("x-two"));
        assert_eq!(headers.len(), 4);
    }

    #[test]
    fn removing_moves_the_later_fields() {
        let mut headers = sample();
        assert!(headers.remove("x-one"));
        assert!(!headers.remove("x-one"));
        assert_eq!(headers.wire_bytes(), b"Host: a\r\nx-two: 2\r\n");
        assert_eq!(headers.get("x-two"), Some("2"));
        assert!(headers.remove("host"));
        assert!(!headers.present().contains(Kind::Host));
    }

    #[test]
    fn inserting_replaces_all_of_the_name() {
        let mut headers = sample();
        headers.insert("x-one", "new").expect("valid");
        assert_eq!(headers.get_all("x-one").collect::<Vec<_>>(), [&b"new"[..]]);
        assert_eq!(headers.wire_bytes(), b"Host: a\r\nx-two: 2\r\nx-one: new\r\n");
    }

    #[test]
    fn a_line_break_cannot_be_smuggled_in() {
        let mut headers = Headers::new();
        assert!(headers.append("x", "a\r\nset-cookie: b").is_err());
        assert!(headers.append("x", "a\nb").is_err());
        assert!(headers.append("x", "a\0").is_err());
        assert!(headers.append("x y", "a").is_err());
        assert!(headers.append("", "a").is_err());
        assert!(headers.append("x:", "a").is_err());
        assert!(headers.is_empty());
    }

    #[test]
    fn fields_of_a_kind_are_left_out_when_written() {
        let mut headers = sample();
        headers.append("Content-Length", "3").expect("valid");
        let mut out = Vec::new();
        headers.lines().write_to(&mut out, Kinds::of(&[Kind::ContentLength, Kind::Host]));
        assert_eq!(out, b"X-One: 1\r\nx-two: 2\r\nX-ONE: one\r\n");
    }

    #[test]
    fn static_fields_are_the_same_as_others() {
        const PLAIN: StaticHeader = StaticHeader::new("content-type: text/plain");
        let mut headers = Headers::new();
        headers.append_static(&PLAIN);
        let mut other = Headers::new();
        other.append("Content-Type", "text/plain").expect("valid");
        assert_eq!(headers, other);
        assert_eq!(headers.get("content-type"), Some("text/plain"));
    }

    #[test]
    fn static_fields_join_others_and_leave_them() {
        const PLAIN: StaticHeader = StaticHeader::new("content-type: text/plain");
        const NO_STORE: StaticHeader = StaticHeader::new("cache-control: no-store");
        let mut headers = Headers::new();
        headers.append_static(&PLAIN);
        let alone = headers.clone();
        headers.append("x", "1").expect("valid");
        headers.append_static(&NO_STORE);
        let all = b"content-type: text/plain\r\nx: 1\r\ncache-control: no-store\r\n";
        assert_eq!(headers.wire_bytes(), all);
        assert_eq!((headers.get("x"), headers.get("Cache-Control")), (Some("1"), Some("no-store")));
        assert!(headers.remove("content-type") && !headers.remove("content-type"));
        assert_eq!(headers.wire_bytes(), b"x: 1\r\ncache-control: no-store\r\n");
        let mut other = alone.clone();
        other.insert("content-type", "text/html").expect("valid");
        assert_eq!(other.wire_bytes(), b"content-type: text/html\r\n");
        other.clear();
        assert!(other.is_empty());
        assert_eq!((alone.len(), alone.wire_bytes()), (1, &b"content-type: text/plain\r\n"[..]));
    }

    #[test]
    fn fields_of_one_connection_are_not_passed_on() {
        let mut headers = Headers::new();
        for (name, value) in [
            ("Connection", "X-One , close"),
            ("X-One", "1"),
            ("connection", "x-two, te"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "gzip, Trailers"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "websocket"),
            ("x-one", "again"),
            ("content-length", "3"),
        ] {
            headers.append(name, value).expect("valid");
        }
        headers.remove_hop_by_hop();
        assert_eq!(headers.wire_bytes(), b"x-three: 3\r\ncontent-length: 3\r\nte: trailers\r\n");
        let mut plain = sample();
        plain.append("te", "gzip").expect("valid");
        plain.remove_hop_by_hop();
        assert_eq!(plain, sample());
    }

    #[test]
    fn values_that_are_not_utf8_are_bytes() {
        let mut headers = Headers::new();
        headers.append("x", b"\xff\xfe").expect("obs-text is allowed");
        assert_eq!(headers.get("x"), None);
        assert_eq!(headers.get_bytes("x"), Some(&b"\xff\xfe"[..]));
    }

    #[test]
    fn clones_and_cleared_ones_keep_their_ground() {
        let mut headers = sample();
        let clone = headers.clone();
        headers.clear();
        assert!(headers.is_empty() && headers.wire_bytes().is_empty());
        assert_eq!(clone, sample());
    }
}
