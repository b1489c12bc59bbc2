//! Bytes of a server into response heads and bodies.

use http::{Method, StatusCode, Version};

use super::body::{Body, Part};
use super::chunked::Folds;
use super::head::{self, FieldRoom, Progress, Scanned};
use super::unfold::{self, Unfolded};
use super::{DecodeError, Framing, HeadInfo, Input, LastHead, Limits, ResponseView, framing, plain};
use crate::headers::Field;
use crate::message::{ResponseHead, ResponseHeadInner, forbids_body};
use crate::{Headers, free_list};

/// Decodes the responses of one connection, one after the other.
///
/// The drain rule is that of [`super::RequestDecoder`]. Before the head of each response to HEAD or CONNECT
/// arrives, say so with [`ResponseDecoder::request_method`].
#[derive(Debug)]
pub struct ResponseDecoder {
    limits: Limits,
    state: State,
    answers: Answers,
}

/// One part of a response: interim heads, the head, then (unless its framing is [`Framing::None`]) data, perhaps
/// trailers, and the end.
#[derive(Debug)]
pub enum ResponseEvent<'b, H = ResponseHead> {
    /// An interim response (1xx other than 101), or the value that [`ResponseDecoder::decode_with`] made of it. The
    /// final one follows.
    Informational(H),
    /// The final head, or the value that [`ResponseDecoder::decode_with`] made of it. If its framing is
    /// [`Framing::None`], the response is complete and no `End` follows. After 101, and after a 2xx to CONNECT, the
    /// next bytes are not HTTP and not for this decoder.
    Head(H, HeadInfo),
    /// Bytes of the body, already taken out of the input; never empty.
    Data(&'b [u8]),
    /// The trailer fields of a chunked body; only if there are any.
    Trailers(Headers),
    /// The body is complete. The next response follows.
    End,
}

#[derive(Debug)]
enum State {
    Head(Progress),
    Body(Body),
    /// The close of the connection ended a body. Nothing can follow.
    Closed,
    Failed(DecodeError),
}

impl State {
    const START: Self = Self::Head(Progress::IDLE);
}

/// The methods that change what a response's head means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Other,
    Head,
    Connect,
}

impl ResponseDecoder {
    /// A decoder before the first response of a connection.
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: State::START, answers: Answers::Other }
    }

    /// Says which method the next final head answers; needed for HEAD and CONNECT only. Holds for one
    /// response.
    pub fn request_method(&mut self, method: &Method) {
        self.answers = match *method {
            Method::HEAD => Answers::Head,
            Method::CONNECT => Answers::Connect,
            _ => Answers::Other,
        };
    }

    /// Takes the next event out of `input`; `None` means that more bytes are needed.
    ///
    /// # Errors
    ///
    /// The same error on each later call: bytes behind a malformed response cannot be trusted.
    #[inline]
    pub fn decode<'b>(
        &mut self,
        input: &'b mut impl Input,
    ) -> Result<Option<ResponseEvent<'b>>, DecodeError> {
        match &self.state {
            State::Head(progress) if progress.is_idle() => match self.plain_head(input) {
                Some(Ok(Found::Final(head, info))) => Ok(Some(ResponseEvent::Head(head, info))),
                Some(Ok(Found::Interim(head))) => Ok(Some(ResponseEvent::Informational(head))),
                Some(Err(error)) => Err(self.fail(error)),
                None => self.decode_by(input, build),
            },
            _ => self.decode_by(input, build),
        }
    }

    /// The head at the beginning of the input, if it is of the plain form.
    #[inline(never)]
    fn plain_head(&mut self, input: &mut impl Input) -> Option<Result<Found<ResponseHead>, DecodeError>> {
        // On the stack: a decoder of a connection that is idle has no room for it.
        let mut records = [Field::UNSET; plain::FIELDS_MAX];
        let plain = plain::parse_response(input.data(), &mut records)?;
        if !plain.is_within(&self.limits.head) {
            return None;
        }
        let Meaning { status, version, info } =
            match Meaning::of(plain.line.status, Version::HTTP_11, &plain.scanned, self.answers) {
                Ok(meaning) => meaning,
                Err(error) => return Some(Err(error)),
            };
        let mut parts = free_list::take_unclean::<ResponseHeadInner>();
        let room = parts.headers.refill(plain.lines, plain.fields);
        room.fields.copy_from_slice(&records[..plain.fields]);
        *room.present = plain.scanned.present;
        parts.set_line(status, version, plain.line.reason);
        let bytes = plain.bytes();
        let found = Found::of(status, info, ResponseHead::from_parts(parts));
        self.begin_body(&found);
        input.consume(bytes);
        Some(Ok(found))
    }

    /// Goes on to the body of a final head.
    #[inline]
    fn begin_body<H>(&mut self, found: &Found<H>) {
        if let Found::Final(_, info) = found {
            self.answers = Answers::Other;
            if let Some(body) = Body::of(info.framing, Folds::AreSpaces) {
                self.state = State::Body(body);
            }
        }
    }

    /// Like [`ResponseDecoder::decode`], but does not copy a head: `look` sees it in place. It sees interim heads too.
    ///
    /// ```
    /// use anywire_http::StatusCode;
    /// use anywire_http::h1::{Limits, ResponseDecoder, ResponseEvent};
    ///
    /// let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"[..];
    /// let mut decoder = ResponseDecoder::new(Limits::default());
    /// let event = decoder.decode_with(&mut input, |head| head.status())?;
    /// assert!(matches!(event, Some(ResponseEvent::Head(StatusCode::OK, _))));
    /// let event = decoder.decode_with(&mut input, |head| head.status())?;
    /// assert!(matches!(event, Some(ResponseEvent::Data(b"hi"))));
    /// # Ok::<(), anywire_http::h1::DecodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ResponseDecoder::decode`].
    #[inline]
    pub fn decode_with<'b, H>(
        &mut self,
        input: &'b mut impl Input,
        look: impl FnOnce(&ResponseView<'_>) -> H,
    ) -> Result<Option<ResponseEvent<'b, H>>, DecodeError> {
        self.decode_by(input, |head, response, limits, answers| view(head, response, limits, answers, look))
    }

    /// Like [`ResponseDecoder::decode_with`], for a server that repeats its heads: one with the same bytes as `last` is not parsed.
    /// What `look` has made of `last` holds for it too, so `look` is not called.
    ///
    /// ```
    /// use anywire_http::h1::{LastHead, Limits, ResponseDecoder, ResponseEvent};
    ///
    /// let mut input = &b"HTTP/1.1 204 No\r\n\r\nHTTP/1.1 204 No\r\n\r\n"[..];
    /// let mut decoder = ResponseDecoder::new(Limits::default());
    /// let (mut last, mut looks) = (LastHead::new(), 0);
    /// while let Some(event) = decoder.decode_repeated(&mut input, &mut last, |head| { looks += 1; head.status() })? {
    ///     assert!(matches!(event, ResponseEvent::Head(status, _) if status == 204));
    /// }
    /// assert_eq!(looks, 1);
    /// # Ok::<(), anywire_http::h1::DecodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ResponseDecoder::decode`].
    #[inline]
    pub fn decode_repeated<'b, H: Copy>(
        &mut self,
        input: &'b mut impl Input,
        last: &mut LastHead<H>,
        look: impl FnOnce(&ResponseView<'_>) -> H,
    ) -> Result<Option<ResponseEvent<'b, H>>, DecodeError> {
        // The answer to HEAD or CONNECT is framed otherwise than another one with the same head.
        if self.is_idle()
            && self.answers == Answers::Other
            && let Some((bytes, made, info)) = last.recall(input.data())
        {
            input.consume(bytes);
            self.begin_body(&Found::Final(made, info));
            return Ok(Some(ResponseEvent::Head(made, info)));
        }
        self.decode_by(input, |head, response, limits, answers| {
            let found = view(head, response, limits, answers, look)?;
            if let (Answers::Other, Found::Final(made, info)) = (answers, &found) {
                last.keep(head, *made, *info);
            }
            Ok(found)
        })
    }

    #[inline]
    fn decode_by<'b, H>(
        &mut self,
        input: &'b mut impl Input,
        make: impl FnOnce(&[u8], &httparse::Response<'_, '_>, &Limits, Answers) -> Result<Found<H>, DecodeError>,
    ) -> Result<Option<ResponseEvent<'b, H>>, DecodeError> {
        match &mut self.state {
            State::Head(_) => match self.decode_head(input, make) {
                Ok(Some(Found::Final(head, info))) => Ok(Some(ResponseEvent::Head(head, info))),
                Ok(Some(Found::Interim(head))) => Ok(Some(ResponseEvent::Informational(head))),
                Ok(None) => Ok(None),
                Err(error) => Err(self.fail(error)),
            },
            State::Body(body) => match body.decode(input, &self.limits) {
                Ok(None) => Ok(None),
                Ok(Some(Part::Data(data))) => Ok(Some(ResponseEvent::Data(data))),
                Ok(Some(Part::Trailers(trailers))) => Ok(Some(ResponseEvent::Trailers(trailers))),
                Ok(Some(Part::End)) => {
                    self.state = State::START;
                    Ok(Some(ResponseEvent::End))
                }
                Err(error) => Err(self.fail(error)),
            },
            State::Closed => Ok(None),
            State::Failed(error) => Err(*error),
        }
    }

    /// Says that the peer will send nothing more: ends a body that lasts until then, with `Some(End)`.
    ///
    /// # Errors
    ///
    /// If it stopped within a response, or an earlier error.
    pub fn finish(&mut self) -> Result<Option<ResponseEvent<'static>>, DecodeError> {
        match &self.state {
            State::Head(progress) if progress.is_idle() => Ok(None),
            State::Head(_) => Err(self.fail(DecodeError::HeadCutShort)),
            State::Body(Body::UntilClose) => {
                self.state = State::Closed;
                Ok(Some(ResponseEvent::End))
            }
            State::Body(_) => Err(self.fail(DecodeError::BodyCutShort)),
            State::Closed => Ok(None),
            State::Failed(error) => Err(*error),
        }
    }

    /// Whether the decoder stands between two responses and has seen nothing of the next head.
    pub fn is_idle(&self) -> bool {
        matches!(&self.state, State::Head(progress) if progress.is_idle())
    }

    #[cold]
    fn fail(&mut self, error: DecodeError) -> DecodeError {
        self.state = State::Failed(error);
        error
    }

    // Out of line to keep `decode` small enough to inline.
    #[inline(never)]
    fn decode_head<H>(
        &mut self,
        input: &mut impl Input,
        make: impl FnOnce(&[u8], &httparse::Response<'_, '_>, &Limits, Answers) -> Result<Found<H>, DecodeError>,
    ) -> Result<Option<Found<H>>, DecodeError> {
        let State::Head(progress) = &mut self.state else { return Ok(None) };
        let no_room = input.is_full();
        let data = input.data();
        match data.first() {
            None => return Ok(None),
            // The parser would skip empty lines; RFC 9112 section 2.2 allows them before a request only.
            Some(b'\r' | b'\n') => return Err(DecodeError::StartLine),
            Some(_) => {}
        }
        if !progress.is_worth_parsing(data) {
            progress.check_partial(data, &self.limits, no_room)?;
            return Ok(None);
        }
        let mut unfolded: Option<Unfolded> = None;
        // The parser refuses folds. Only a head that it refused is searched for them, and parsed again without.
        loop {
            let data = unfolded.as_ref().map_or(input.data(), |unfolded| &unfolded.bytes);
            let mut slots = FieldRoom::new();
            let mut response = httparse::Response::new(&mut []);
            let config = httparse::ParserConfig::default();
            let room = slots.with_room_for(self.limits.head.fields);
            match config.parse_response_with_uninit_headers(&mut response, data, room) {
                Ok(httparse::Status::Complete(end)) => {
                    let taken = match &unfolded {
                        None => end,
                        Some(unfolded) => unfolded.taken(end, &self.limits)?,
                    };
                    *progress = Progress::IDLE;
                    let found = make(&data[..end], &response, &self.limits, self.answers)?;
                    input.consume(taken);
                    self.begin_body(&found);
                    return Ok(Some(found));
                }
                Ok(httparse::Status::Partial) => {
                    let data = input.data();
                    progress.parsed_partial(data);
                    progress.check_partial(data, &self.limits, no_room)?;
                    return Ok(None);
                }
                Err(error) => {
                    let next = if unfolded.is_none() { unfold::head(data)? } else { None };
                    if next.is_none() {
                        return Err(head::refusal(error, data, &self.limits));
                    }
                    unfolded = next;
                }
            }
        }
    }
}

#[inline]
fn build(
    head: &[u8],
    response: &httparse::Response<'_, '_>,
    limits: &Limits,
    answers: Answers,
) -> Result<Found<ResponseHead>, DecodeError> {
    let lines = head::field_lines(head, response.headers, limits)?;
    let mut parts = free_list::take_unclean::<ResponseHeadInner>();
    let scanned = head::collect(&mut parts.headers, lines, response.headers)?;
    let Meaning { status, version, info } = Meaning::of_parsed(response, &scanned, answers)?;
    parts.set_line(status, version, reason(head, response.reason));
    Ok(Found::of(status, info, ResponseHead::from_parts(parts)))
}

/// Shows a parsed head to `look`.
#[inline]
fn view<H>(
    head: &[u8],
    response: &httparse::Response<'_, '_>,
    limits: &Limits,
    answers: Answers,
    look: impl FnOnce(&ResponseView<'_>) -> H,
) -> Result<Found<H>, DecodeError> {
    let lines = head::field_lines(head, response.headers, limits)?;
    let scanned = head::scan(lines, response.headers, |_| ())?;
    let Meaning { status, version, info } = Meaning::of_parsed(response, &scanned, answers)?;
    let (reason, fields) = (reason(head, response.reason), &*response.headers);
    let seen = look(&ResponseView { status, reason, version, info, fields });
    Ok(Found::of(status, info, seen))
}

/// The reason phrase as it came. The parser leaves one out that is not ASCII.
#[inline]
fn reason<'h>(head: &'h [u8], parsed: Option<&'h str>) -> &'h [u8] {
    match parsed {
        Some(reason) if !reason.is_empty() => reason.as_bytes(),
        _ => reason_of(head),
    }
}

#[cold]
fn reason_of(head: &[u8]) -> &[u8] {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    line.splitn(3, |byte| *byte == b' ').nth(2).unwrap_or_default()
}

/// The facts of a whole head.
struct Meaning {
    status: StatusCode,
    version: Version,
    info: HeadInfo,
}

impl Meaning {
    #[inline]
    fn of_parsed(
        response: &httparse::Response<'_, '_>,
        scanned: &Scanned<'_>,
        answers: Answers,
    ) -> Result<Self, DecodeError> {
        Self::of(response.code.unwrap_or_default(), head::version(response.version), scanned, answers)
    }

    #[inline]
    fn of(code: u16, version: Version, scanned: &Scanned<'_>, answers: Answers) -> Result<Self, DecodeError> {
        // RFC 9110 section 15: three digits, the first from 1 to 5. A first digit from 6 to 9 counts as a server error,
        // and its body is framed as that of a 5xx.
        let status = StatusCode::from_u16(code).map_err(|_| DecodeError::StartLine)?;
        // Checked even where there is no body: a peer that sends both lengths is not to be trusted with the next
        // one.
        let makes_tunnel = answers == Answers::Connect && status.is_success();
        // A tunnel has no message whose length could count (RFC 9110 section 9.3.6).
        let declared = if makes_tunnel { None } else { framing::declared(scanned, version)? };
        let framing = if has_no_body(status, answers) {
            Framing::None
        } else {
            declared.unwrap_or(Framing::UntilClose)
        };
        let keep_alive = framing != Framing::UntilClose && framing::keep_alive(scanned, version);
        Ok(Self { status, version, info: HeadInfo { framing, keep_alive, expects_continue: false } })
    }
}

/// A head, and the facts that are needed at once: reading them back out of the head was measured to stall.
enum Found<H> {
    Interim(H),
    Final(H, HeadInfo),
}

impl<H> Found<H> {
    #[inline]
    fn of(status: StatusCode, info: HeadInfo, head: H) -> Self {
        if is_interim(status) { Self::Interim(head) } else { Self::Final(head, info) }
    }
}

/// RFC 9112 section 6.3, rules 1 and 2.
#[inline]
fn has_no_body(status: StatusCode, answers: Answers) -> bool {
    answers == Answers::Head || answers == Answers::Connect && status.is_success() || forbids_body(status)
}

/// 101 is final: after it the connection speaks another protocol.
#[inline]
fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}
