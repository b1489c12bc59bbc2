//! Bytes of a server into response heads and bodies.

use http::{Method, StatusCode};

use super::body::{Body, Part};
use super::head::{self, Progress, Slots};
use super::{DecodeError, Framing, Limits, framing};
use crate::message::{ResponseHead, ResponseParts};
use crate::{Buffer, Headers, spare};

/// Decodes the responses of one connection, one after the other.
///
/// The drain rule is that of [`super::RequestDecoder`]. Before the head of each answer to HEAD or CONNECT
/// arrives, say so with [`ResponseDecoder::request_method`].
#[derive(Debug)]
pub struct ResponseDecoder {
    limits: Limits,
    state: State,
    answers: Answers,
}

/// What was found next. Interim heads, the head, then (unless its framing is [`Framing::None`]) data, perhaps
/// trailers, and the end.
#[derive(Debug)]
pub enum ResponseEvent<'b> {
    /// An interim response (1xx other than 101); the final one follows.
    Informational(ResponseHead),
    /// The final head. If [`ResponseHead::framing`] is [`Framing::None`], the response is complete and no
    /// `End` follows. After 101, and after a 2xx to CONNECT, what follows is not HTTP and not for this
    /// decoder.
    Head(ResponseHead),
    /// Bytes of the body, already taken out of the buffer; never empty.
    Data(&'b [u8]),
    /// The trailer fields of a chunked body; only if there are any.
    Trailers(Headers),
    /// The body is complete; what follows is the next response.
    End,
}

#[derive(Debug)]
enum State {
    Head(Progress),
    Body(Body),
    /// A body that lasted until the end was ended; nothing can follow.
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
    /// The same error again on each later call: what follows a malformed response cannot be trusted.
    #[inline]
    pub fn decode<'b>(&mut self, input: &'b mut Buffer) -> Result<Option<ResponseEvent<'b>>, DecodeError> {
        match &mut self.state {
            State::Head(_) => match self.decode_head(input) {
                Ok(Some(Found::Final(head, _))) => Ok(Some(ResponseEvent::Head(head))),
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

    // Apart, so that `decode` is small enough to melt into the caller's match on its event.
    #[inline(never)]
    fn decode_head(&mut self, input: &mut Buffer) -> Result<Option<Found>, DecodeError> {
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
        let mut slots = Slots::new();
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let room = slots.with_room_for(self.limits.headers);
        match config.parse_response_with_uninit_headers(&mut response, data, room) {
            Ok(httparse::Status::Complete(end)) => {
                let found = build(&data[..end], &response, &self.limits, self.answers)?;
                self.state = State::START;
                if let Found::Final(_, framing) = &found {
                    self.answers = Answers::Other;
                    if let Some(body) = Body::of(*framing) {
                        self.state = State::Body(body);
                    }
                }
                input.consume(end);
                Ok(Some(found))
            }
            Ok(httparse::Status::Partial) => {
                progress.parsed_partial(data);
                progress.check_partial(data, &self.limits, no_room)?;
                Ok(None)
            }
            Err(error) => Err(head::refusal(error, data, &self.limits)),
        }
    }
}

#[inline(always)]
fn build(
    head: &[u8],
    response: &httparse::Response<'_, '_>,
    limits: &Limits,
    answers: Answers,
) -> Result<Found, DecodeError> {
    let lines = head::field_lines(head, response.headers, limits)?;
    let mut parts = spare::draw_unclean::<ResponseParts>();
    let noticed = head::collect(&mut parts.headers, lines, response.headers)?;
    let code = response.code.unwrap_or_default();
    // RFC 9110 section 15: three digits, of which the first is 1 to 5.
    let status = StatusCode::from_u16(code).ok().filter(|_| code < 600).ok_or(DecodeError::StartLine)?;
    parts.status = status;
    parts.reason.clear();
    parts.reason.push_str(response.reason.unwrap_or_default());
    let version = head::version(response.version);
    parts.version = version;
    // Checked even where there is no body: a peer that sends both lengths is not to be trusted with the next
    // one.
    let declared = framing::declared(&parts.headers, &noticed, version)?;
    let framing =
        if has_no_body(status, answers) { Framing::None } else { declared.unwrap_or(Framing::UntilClose) };
    parts.framing = framing;
    parts.keep_alive =
        framing != Framing::UntilClose && framing::keep_alive(&parts.headers, noticed.present, version);
    let head = ResponseHead::from_parts(parts);
    Ok(if is_interim(status) { Found::Interim(head) } else { Found::Final(head, framing) })
}

/// A head, and what is to be known of it at once: reading it back out of the head was seen to stall.
enum Found {
    Interim(ResponseHead),
    Final(ResponseHead, Framing),
}

/// RFC 9112 section 6.3, rules 1 and 2.
#[inline]
fn has_no_body(status: StatusCode, answers: Answers) -> bool {
    answers == Answers::Head
        || answers == Answers::Connect && status.is_success()
        || super::encode::forbids_body(status)
}

/// 101 is final: after it the connection speaks another protocol.
#[inline]
fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}
