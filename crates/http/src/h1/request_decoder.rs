//! Bytes of a client into request heads and bodies.

use std::cell::OnceCell;

use http::{Method, Version};

use super::body::{Body, Part};
use super::chunked::Folds;
use super::head::{self, FieldRoom, Progress, Scanned, refuse};
use super::host::KnownHost;
use super::{DecodeError, Framing, HeadInfo, Input, Limits, RequestView, framing, plain};
use crate::headers::{Field, Kind};
use crate::message::{RequestHead, RequestHeadInner, Target, has_fragment};
use crate::{Headers, free_list};

/// Decodes the requests of one connection, one after the other (pipelined ones too).
///
/// The drain rule: whenever bytes were added to the input, call [`RequestDecoder::decode`] until it gives `None` or an
/// error. Between two calls bytes may only be added, because the decoder remembers how far it has searched.
#[derive(Debug)]
pub struct RequestDecoder {
    limits: Limits,
    state: State,
    known_host: KnownHost,
    /// Room for the records of a plain head, here so that it is not cleared for each one.
    records: [Field; plain::FIELDS_MAX],
}

/// One part of a request: the head, then (unless its framing is [`Framing::None`]) data, perhaps trailers, and the end.
#[derive(Debug)]
pub enum RequestEvent<'b, H = RequestHead> {
    /// A head, or the value that [`RequestDecoder::decode_with`] made of it. If its framing is [`Framing::None`], the
    /// request is complete and no `End` follows.
    Head(H, HeadInfo),
    /// Bytes of the body, already taken out of the input; never empty.
    Data(&'b [u8]),
    /// The trailer fields of a chunked body; only if there are any.
    Trailers(Headers),
    /// The body is complete. The next request follows.
    End,
}

#[derive(Debug)]
enum State {
    Head { progress: Progress, blank_lines: u8 },
    Body(Body),
    Failed(DecodeError),
}

impl State {
    const START: Self = Self::Head { progress: Progress::IDLE, blank_lines: 0 };
}

impl RequestDecoder {
    /// A decoder before the first request of a connection.
    pub fn new(limits: Limits) -> Self {
        let records = [Field::UNSET; plain::FIELDS_MAX];
        Self { limits, state: State::START, known_host: KnownHost::NONE, records }
    }

    /// Takes the next event out of `input`; `None` means that more bytes are needed.
    ///
    /// # Errors
    ///
    /// The same error on each later call: bytes behind a malformed request cannot be trusted.
    #[inline]
    pub fn decode<'b>(&mut self, input: &'b mut impl Input) -> Result<Option<RequestEvent<'b>>, DecodeError> {
        self.decode_by(input, Self::build, RequestHead::from_parts)
    }

    /// Like [`RequestDecoder::decode`], but does not copy a head: `look` sees it in place.
    ///
    /// ```
    /// use anywire_http::h1::{Limits, RequestDecoder, RequestEvent};
    ///
    /// let mut input = &b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n"[..];
    /// let mut decoder = RequestDecoder::new(Limits::default());
    /// let event = decoder.decode_with(&mut input, |head| head.target() == "/a")?;
    /// assert!(matches!(event, Some(RequestEvent::Head(true, _))));
    /// # Ok::<(), anywire_http::h1::DecodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RequestDecoder::decode`].
    #[inline]
    pub fn decode_with<'b, H>(
        &mut self,
        input: &'b mut impl Input,
        look: impl FnOnce(&RequestView<'_>) -> H,
    ) -> Result<Option<RequestEvent<'b, H>>, DecodeError> {
        self.decode_by(input, |decoder, head, request| decoder.view(head, request, look), |seen| seen)
    }

    /// Takes the next head out of `input`, and skips what is left of the body before it. `None` means that more bytes are
    /// needed. It builds no event, which saves 25 instructions a request.
    ///
    /// # Errors
    ///
    /// As [`RequestDecoder::decode`].
    #[inline]
    pub fn next_head(
        &mut self,
        input: &mut impl Input,
    ) -> Result<Option<(RequestHead, HeadInfo)>, DecodeError> {
        while !matches!(self.state, State::Head { .. }) {
            if self.decode(input)?.is_none() {
                return Ok(None);
            }
        }
        // A drained buffer is empty here, once after each request.
        if input.data().is_empty() {
            return Ok(None);
        }
        if let Some(made) = self.plain_head(input) {
            return made.map(Some).map_err(|error| self.fail(error));
        }
        match self.decode_head(input, Self::build) {
            Ok(made) => Ok(made.map(|(parts, info)| (RequestHead::from_parts(parts), info))),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// The head at the beginning of the input, if it is of the plain form.
    #[inline(never)]
    fn plain_head(&mut self, input: &mut impl Input) -> Option<Result<(RequestHead, HeadInfo), DecodeError>> {
        let State::Head { progress, blank_lines } = &mut self.state else { return None };
        if !progress.is_idle() {
            return None;
        }
        let plain = plain::parse(input.data(), &mut self.records)?;
        if !plain.is_within(&self.limits.head) {
            return None;
        }
        let target = str::from_utf8(plain.line.target).ok()?;
        *blank_lines = 0;
        let mut parts = free_list::take_unclean::<RequestHeadInner>();
        let room = parts.headers.refill(plain.lines, plain.fields);
        room.fields.copy_from_slice(&self.records[..plain.fields]);
        *room.present = plain.scanned.present;
        let made = self.complete(&mut parts, plain.line.method, target, Version::HTTP_11, &plain.scanned);
        let bytes = plain.bytes();
        Some(made.map(|info| {
            input.consume(bytes);
            (RequestHead::from_parts(parts), info)
        }))
    }

    // Inlined into each caller's match on the event: building the event in memory took 32 instructions a request.
    #[inline(always)]
    fn decode_by<'b, T, H>(
        &mut self,
        input: &'b mut impl Input,
        make: impl FnOnce(
            &mut Self,
            &[u8],
            &httparse::Request<'_, '_>,
        ) -> Result<Option<(T, HeadInfo)>, DecodeError>,
        finish: impl FnOnce(T) -> H,
    ) -> Result<Option<RequestEvent<'b, H>>, DecodeError> {
        match &mut self.state {
            State::Head { .. } => match self.decode_head(input, make) {
                Ok(Some((made, info))) => Ok(Some(RequestEvent::Head(finish(made), info))),
                Ok(None) => Ok(None),
                Err(error) => Err(self.fail(error)),
            },
            State::Body(body) => match body.decode(input, &self.limits) {
                Ok(None) => Ok(None),
                Ok(Some(Part::Data(data))) => Ok(Some(RequestEvent::Data(data))),
                Ok(Some(Part::Trailers(trailers))) => Ok(Some(RequestEvent::Trailers(trailers))),
                Ok(Some(Part::End)) => {
                    self.state = State::START;
                    Ok(Some(RequestEvent::End))
                }
                Err(error) => Err(self.fail(error)),
            },
            State::Failed(error) => Err(*error),
        }
    }

    /// Says that the peer will send nothing more.
    ///
    /// # Errors
    ///
    /// If it stopped within a request, or an earlier error.
    pub fn finish(&mut self) -> Result<(), DecodeError> {
        match &self.state {
            State::Head { progress, .. } if progress.is_idle() => Ok(()),
            State::Head { .. } => Err(self.fail(DecodeError::HeadCutShort)),
            State::Body(_) => Err(self.fail(DecodeError::BodyCutShort)),
            State::Failed(error) => Err(*error),
        }
    }

    /// Whether the decoder stands between two requests and has seen nothing of the next head: the connection
    /// may be closed, or its idle time counted, without cutting a request.
    pub fn is_idle(&self) -> bool {
        matches!(&self.state, State::Head { progress, blank_lines: 0 } if progress.is_idle())
    }

    /// Forgets the empty lines that came since the last request. Returns whether there were any and nothing of a head
    /// behind them: then the decoder is idle again, fit for another connection.
    pub fn forget_blank_lines(&mut self) -> bool {
        match &mut self.state {
            State::Head { progress, blank_lines } if progress.is_idle() => std::mem::take(blank_lines) > 0,
            _ => false,
        }
    }

    /// How much of the current body is still to be decoded, if its length is known: 0 between two requests, `None`
    /// within a chunked body.
    pub fn body_left(&self) -> Option<u64> {
        match &self.state {
            State::Body(body) => body.left(),
            State::Head { .. } | State::Failed(_) => Some(0),
        }
    }

    #[cold]
    fn fail(&mut self, error: DecodeError) -> DecodeError {
        self.state = State::Failed(error);
        error
    }

    // Out of line to keep `decode` small enough to inline. Returns the value of `make`, which is a box and not a head,
    // because the `None` of a box takes no word of its own.
    #[inline(never)]
    fn decode_head<T>(
        &mut self,
        input: &mut impl Input,
        make: impl FnOnce(
            &mut Self,
            &[u8],
            &httparse::Request<'_, '_>,
        ) -> Result<Option<(T, HeadInfo)>, DecodeError>,
    ) -> Result<Option<(T, HeadInfo)>, DecodeError> {
        let State::Head { progress, blank_lines } = &mut self.state else { return Ok(None) };
        let Some(&first) = input.data().first() else { return Ok(None) };
        // The parser refuses other bytes below CR.
        if first <= b'\r' && !skip_blank_lines(input, blank_lines)? {
            return Ok(None);
        }
        let data = input.data();
        if !progress.is_worth_parsing(data) {
            progress.check_partial(data, &self.limits, input.is_full())?;
            return Ok(None);
        }
        let as_http_1_1 = OnceCell::new();
        let mut data = data;
        // Once more for a version that is later than ours. One call of the parser, so that it is inlined.
        loop {
            let mut slots = FieldRoom::new();
            let mut request = httparse::Request::new(&mut []);
            let error =
                match request.parse_with_uninit_headers(data, slots.with_room_for(self.limits.head.fields)) {
                    Ok(httparse::Status::Complete(end)) => {
                        (*progress, *blank_lines) = (Progress::IDLE, 0);
                        let made = make(self, &data[..end], &request);
                        if made.is_ok() {
                            input.consume(end);
                        }
                        return made;
                    }
                    Ok(httparse::Status::Partial) => {
                        progress.parsed_partial(data);
                        progress.check_partial(data, &self.limits, input.is_full())?;
                        return Ok(None);
                    }
                    Err(error) => error,
                };
            match head::as_http_1_1(error, data) {
                Some(same) => data = as_http_1_1.get_or_init(|| same),
                None => return Err(head::refusal(error, data, &self.limits)),
            }
        }
    }

    /// Makes a head of a parsed one, and enters the state of its body. Always `Some`, in the form that the caller
    /// returns.
    // Out of line, because the inlined parser leaves no registers.
    #[inline(never)]
    fn build(
        &mut self,
        head: &[u8],
        request: &httparse::Request<'_, '_>,
    ) -> Result<Option<(Box<RequestHeadInner>, HeadInfo)>, DecodeError> {
        let lines = head::field_lines(head, request.headers, &self.limits)?;
        let mut parts = free_list::take_unclean::<RequestHeadInner>();
        let scanned = head::collect(&mut parts.headers, lines, request.headers)?;
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return refuse(DecodeError::StartLine);
        };
        let info =
            self.complete(&mut parts, method.as_bytes(), target, head::version(request.version), &scanned)?;
        Ok(Some((parts, info)))
    }

    /// Sets what a head has beside its fields, checks it as a whole, and enters the state of its body.
    #[inline(always)]
    fn complete(
        &mut self,
        parts: &mut RequestHeadInner,
        method: &[u8],
        target: &str,
        version: Version,
        scanned: &Scanned<'_>,
    ) -> Result<HeadInfo, DecodeError> {
        // Most often the reused box has the method already. Moving a method was measured to stall on its copies.
        if !(method == b"GET" && parts.method == Method::GET) {
            set_method(&mut parts.method, method)?;
        }
        if !parts.set_target(target) {
            return refuse(DecodeError::Target);
        }
        parts.version = version;
        let info = self.accept(version, scanned)?;
        self.go_on(info.framing);
        Ok(info)
    }

    /// Shows a parsed head to `look`, and enters the state of its body.
    #[inline]
    fn view<H>(
        &mut self,
        head: &[u8],
        request: &httparse::Request<'_, '_>,
        look: impl FnOnce(&RequestView<'_>) -> H,
    ) -> Result<Option<(H, HeadInfo)>, DecodeError> {
        let lines = head::field_lines(head, request.headers, &self.limits)?;
        let scanned = head::scan(lines, request.headers, |_| ())?;
        let (Some(name), Some(target)) = (request.method, request.path) else {
            return refuse(DecodeError::StartLine);
        };
        let mut method = Method::GET;
        if name != "GET" {
            set_method(&mut method, name.as_bytes())?;
        }
        let version = head::version(request.version);
        let is_plain = Target::is_origin_form(&method, target) && !has_fragment(target);
        if !is_plain && Target::parse(&method, target).is_none() {
            return refuse(DecodeError::Target);
        }
        let info = self.accept(version, &scanned)?;
        let fields = &*request.headers;
        let seen = look(&RequestView { method, target, version, info, fields });
        // Not earlier: if `look` panics, the head is still in the input and must not be read as its own body.
        self.go_on(info.framing);
        Ok(Some((seen, info)))
    }

    /// Enters the state of the body, if there is one.
    #[inline]
    fn go_on(&mut self, framing: Framing) {
        if let Some(body) = Body::of(framing, Folds::AreRefused) {
            self.state = State::Body(body);
        }
    }

    /// Checks a head as a whole, and finds the facts about its connection.
    #[inline]
    fn accept(&mut self, version: Version, scanned: &Scanned<'_>) -> Result<HeadInfo, DecodeError> {
        check_host(scanned, version, &mut self.known_host)?;
        let framing = framing::declared(scanned, version)?.unwrap_or(Framing::None);
        Ok(HeadInfo {
            framing,
            keep_alive: framing::keep_alive(scanned, version),
            expects_continue: framing::expects_continue(scanned, version, framing),
        })
    }
}

/// Skips empty lines before a request line, a few of them (RFC 9112 section 2.2). Says whether something
/// follows.
#[cold]
fn skip_blank_lines(input: &mut impl Input, skipped: &mut u8) -> Result<bool, DecodeError> {
    loop {
        match input.data() {
            [] | [b'\r'] => return Ok(false),
            [b'\r', b'\n', ..] => {
                *skipped += 1;
                if *skipped > BLANK_LINES_MAX {
                    return Err(DecodeError::StartLine);
                }
                input.consume(2);
            }
            [b'\r' | b'\n', ..] => return Err(DecodeError::LineEnding),
            _ => return Ok(true),
        }
    }
}

#[inline(never)]
fn set_method(method: &mut Method, name: &[u8]) -> Result<(), DecodeError> {
    if method.as_str().as_bytes() != name {
        *method = Method::from_bytes(name).map_err(|_| DecodeError::StartLine)?;
    }
    Ok(())
}

/// RFC 9112 section 3.2: exactly one `Host` in 1.1, at most one in 1.0, and it must be one.
#[inline]
fn check_host(scanned: &Scanned<'_>, version: Version, known: &mut KnownHost) -> Result<(), DecodeError> {
    if scanned.repeated.contains(Kind::Host) {
        return refuse(DecodeError::DuplicateHost);
    }
    match scanned.host {
        Some(host) if known.is(host) || known.checked(host) => Ok(()),
        Some(_) => refuse(DecodeError::InvalidHost),
        None if version == Version::HTTP_11 => refuse(DecodeError::MissingHost),
        None => Ok(()),
    }
}

/// Some clients send an empty line after a body, but not many lines.
const BLANK_LINES_MAX: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_head_is_found_behind_an_unread_body() {
        let mut decoder = RequestDecoder::new(Limits::default());
        let mut next = |mut input: &[u8]| {
            let head = decoder.next_head(&mut input)?;
            Ok(head.map(|(head, info)| (head.path().to_owned(), info.framing)))
        };
        let post = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n";
        assert_eq!(next(post), Ok(Some(("/a".to_owned(), Framing::Length(9)))));
        assert_eq!(next(b"abc"), Ok(None));
        let get = b"defghiGET /b HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!(next(get), Ok(Some(("/b".to_owned(), Framing::None))));
        assert_eq!(next(b"\0"), Err(DecodeError::StartLine));
        assert_eq!(
            next(get),
            Err(DecodeError::StartLine),
            "bytes behind a malformed request are not trusted"
        );
    }

    #[test]
    fn what_is_left_of_a_body_is_known_if_it_has_a_length() {
        let mut decoder = RequestDecoder::new(Limits::default());
        let mut left_after = |mut input: &[u8]| {
            while let Ok(Some(_)) = decoder.decode(&mut input) {}
            decoder.body_left()
        };
        assert_eq!(left_after(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc"), Some(6));
        assert_eq!(left_after(b"defghi"), Some(0));
        assert_eq!(left_after(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"), None);
        assert_eq!(left_after(b"0\r\n\r\n"), Some(0));
    }
}
