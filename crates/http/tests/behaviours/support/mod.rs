//! What the behaviour tests share: decoding of pieces into events that can be compared.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub(crate) mod h2;
pub(crate) mod near;
pub(crate) mod windows;

use anywire_http::h1::{
    DecodeError, Limits, RequestDecoder, RequestEvent, RequestView, ResponseDecoder, ResponseEvent,
    ResponseView,
};
use anywire_http::{Buffer, Headers, Method, RequestHead};

/// An event, owned; neighbouring data joined, as a split may fall anywhere in a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// `METHOD target version framing keep-alive` or `status version framing keep-alive`.
    Head(String, Headers),
    Data(Vec<u8>),
    Trailers(Headers),
    End,
}

/// The events of requests that arrive in `pieces`, then the end of the connection.
pub(crate) fn requests<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    limits: Limits,
) -> (Vec<Event>, Option<DecodeError>) {
    let mut decoder = RequestDecoder::new(limits);
    let mut events = Vec::new();
    let fed = feed(pieces, |input| {
        while let Some(event) = decoder.decode(input)? {
            push(
                &mut events,
                match event {
                    RequestEvent::Head(head, info) => Event::Head(
                        format!(
                            "{} {} {:?} {:?} {}",
                            head.method(),
                            head.target(),
                            head.version(),
                            info.framing,
                            info.keep_alive
                        ),
                        head.headers().clone(),
                    ),
                    RequestEvent::Data(data) => Event::Data(data.to_vec()),
                    RequestEvent::Trailers(trailers) => Event::Trailers(trailers),
                    RequestEvent::End => Event::End,
                },
            );
        }
        Ok(())
    });
    let end = fed.and_then(|()| decoder.finish());
    (events, end.err())
}

/// The events of responses (to requests of `method`) that arrive in `pieces`, then the end of the connection.
pub(crate) fn responses<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    method: &Method,
    limits: Limits,
) -> (Vec<Event>, Option<DecodeError>) {
    let mut decoder = ResponseDecoder::new(limits);
    decoder.request_method(method);
    let mut events = Vec::new();
    let fed = feed(pieces, |input| {
        while let Some(event) = decoder.decode(input)? {
            push(
                &mut events,
                match event {
                    ResponseEvent::Informational(head) => {
                        let text = format!("{} {:?} interim", head.status(), head.version());
                        Event::Head(text, head.headers().clone())
                    }
                    ResponseEvent::Head(head, info) => Event::Head(
                        format!(
                            "{} {:?} {:?} {}",
                            head.status(),
                            head.version(),
                            info.framing,
                            info.keep_alive
                        ),
                        head.headers().clone(),
                    ),
                    ResponseEvent::Data(data) => Event::Data(data.to_vec()),
                    ResponseEvent::Trailers(trailers) => Event::Trailers(trailers),
                    ResponseEvent::End => Event::End,
                },
            );
        }
        Ok(())
    });
    let end = fed.and_then(|()| decoder.finish()).map(|end| {
        if end.is_some() {
            events.push(Event::End);
        }
    });
    (events, end.err())
}

/// The error that `bytes` give as requests, copied and in place.
pub(crate) fn request_error(bytes: &[u8]) -> Option<DecodeError> {
    let (events, error) = requests([bytes], Limits::default());
    assert_eq!(requests_in_place([bytes], Limits::default()), (events, error), "{}", bytes.escape_ascii());
    error
}

/// The error that `bytes` give as responses to GET, copied and in place.
pub(crate) fn response_error(bytes: &[u8]) -> Option<DecodeError> {
    let (events, error) = responses([bytes], &Method::GET, Limits::default());
    let in_place = responses_in_place([bytes], &Method::GET, Limits::default());
    assert_eq!(in_place, (events, error), "{}", bytes.escape_ascii());
    error
}

/// Like [`requests`], but nothing is copied on its way: heads are looked at where they lie.
pub(crate) fn requests_in_place<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    limits: Limits,
) -> (Vec<Event>, Option<DecodeError>) {
    let mut decoder = RequestDecoder::new(limits);
    let mut events = Vec::new();
    let look = |head: &RequestView<'_>| {
        let (version, framing) = (head.version(), head.framing());
        // A copied head has the path `/` where a URL has none.
        let built = RequestHead::new(head.method().clone(), head.target()).expect("it was decoded");
        let (method, target) = (built.method(), built.target());
        let text = format!("{method} {target} {version:?} {framing:?} {}", head.keep_alive());
        Event::Head(text, copied(head.fields()))
    };
    let shown = show(pieces, |input| {
        while let Some(event) = decoder.decode_with(input, look)? {
            let event = match event {
                RequestEvent::Head(head, _) => head,
                RequestEvent::Data(data) => Event::Data(data.to_vec()),
                RequestEvent::Trailers(trailers) => Event::Trailers(trailers),
                RequestEvent::End => Event::End,
            };
            push(&mut events, event);
        }
        Ok(())
    });
    let end = shown.and_then(|()| decoder.finish());
    (events, end.err())
}

/// Like [`responses`], but nothing is copied on its way: heads are looked at where they lie.
pub(crate) fn responses_in_place<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    method: &Method,
    limits: Limits,
) -> (Vec<Event>, Option<DecodeError>) {
    let mut decoder = ResponseDecoder::new(limits);
    decoder.request_method(method);
    let mut events = Vec::new();
    let look = |head: &ResponseView<'_>| {
        let (version, framing) = (head.version(), head.framing());
        let text = format!("{} {version:?} {framing:?} {}", head.status(), head.keep_alive());
        Event::Head(text, copied(head.fields()))
    };
    let shown = show(pieces, |input| {
        while let Some(event) = decoder.decode_with(input, look)? {
            let event = match event {
                ResponseEvent::Informational(Event::Head(text, fields)) => {
                    let text = text.split(" None ").next().unwrap_or_default();
                    Event::Head(format!("{text} interim"), fields)
                }
                ResponseEvent::Informational(head) | ResponseEvent::Head(head, _) => head,
                ResponseEvent::Data(data) => Event::Data(data.to_vec()),
                ResponseEvent::Trailers(trailers) => Event::Trailers(trailers),
                ResponseEvent::End => Event::End,
            };
            push(&mut events, event);
        }
        Ok(())
    });
    let end = shown.and_then(|()| decoder.finish()).map(|end| {
        if end.is_some() {
            events.push(Event::End);
        }
    });
    (events, end.err())
}

fn copied<'h>(fields: impl Iterator<Item = (&'h str, &'h [u8])>) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name, value).expect("what was decoded can be sent");
    }
    headers
}

fn feed<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    mut drain: impl FnMut(&mut Buffer) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut input = Buffer::new();
    for mut piece in pieces {
        while !piece.is_empty() {
            let copied = input.fill_from(piece);
            assert!(copied > 0, "a decoder left a full buffer standing without an error");
            piece = &piece[copied..];
            drain(&mut input)?;
        }
    }
    Ok(())
}

/// Like [`feed`], but passes the rest again, followed by the next piece.
fn show<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    mut drain: impl FnMut(&mut &[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut left = Vec::new();
    for piece in pieces {
        left.extend_from_slice(piece);
        let mut input = &left[..];
        drain(&mut input)?;
        left.drain(..left.len() - input.len());
    }
    Ok(())
}

fn push(events: &mut Vec<Event>, event: Event) {
    match (events.last_mut(), event) {
        (Some(Event::Data(before)), Event::Data(data)) => before.extend_from_slice(&data),
        (_, event) => events.push(event),
    }
}
