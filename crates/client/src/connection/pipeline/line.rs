//! The requests that are on one connection, and the responses that come for them in the same order. Without a wire or a clock.
//!
//! A call is matched with its response by its place alone. So nothing is taken for the response of a request of which no byte
//! has left, and behind the first fault nothing is taken at all.

use std::collections::VecDeque;

use anywire_http::h1::{DecodeError, Framing, HeadInfo, Limits, ResponseDecoder, ResponseEvent};
use anywire_http::{Buffer, Headers, Method, ResponseHead};
use anywire_wire::Position;

/// The calls on a connection, the oldest first.
#[derive(Debug)]
pub(crate) struct Line<C> {
    decoder: ResponseDecoder,
    places: VecDeque<Place<C>>,
    /// Places whose callers have left.
    abandoned: usize,
    /// How much of the response to a caller who has left is read.
    drain_max: usize,
    front: Front,
    /// No response follows.
    is_over: bool,
}

#[derive(Debug)]
struct Place<C> {
    /// None: its caller has left, and its response is read and dropped.
    call: Option<C>,
    method: Method,
    begins_at: Position,
    ends_at: Position,
}

/// How far the response at the front has come.
#[derive(Debug, Default)]
struct Front {
    /// A head has come, if only an interim one.
    has_begun: bool,
    /// All of it has come.
    is_whole: bool,
    /// The final head allows another response behind it.
    keeps_alive: bool,
    drained: usize,
}

/// A part of the response to the oldest call.
#[derive(Debug)]
pub(crate) enum Part<'a, C> {
    Interim(&'a mut C, ResponseHead),
    Head(&'a mut C, ResponseHead, HeadInfo),
    Data(&'a mut C, &'a [u8]),
    Trailers(&'a mut C, Headers),
    /// The response is whole, and the call is no longer in the line.
    Whole(C),
}

/// A call in the line.
#[derive(Debug)]
pub(crate) struct Stands<'a, C> {
    /// Its place. Behind 0, the response of another one is due.
    pub(crate) at: usize,
    pub(crate) call: &'a mut C,
    /// Where its request begins and ends in all that the connection sends.
    pub(crate) begins_at: Position,
    pub(crate) ends_at: Position,
}

/// Why no more responses can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The response of the oldest call is none.
    Response(DecodeError),
    /// Bytes came that no request asked for.
    Stray,
    /// The response to a caller who has left is too long to be read to its end.
    Undrained,
}

/// A call without its whole response, when the connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rest<C> {
    pub(crate) call: C,
    /// Whether any byte of its request has left.
    pub(crate) is_sent: bool,
    /// Whether all of it has.
    pub(crate) is_sent_whole: bool,
    /// Whether any byte of its response has come.
    pub(crate) has_begun: bool,
    /// Whether it was the one whose response was due.
    pub(crate) is_due: bool,
}

impl<C> Line<C> {
    pub(crate) fn new(limits: Limits, drain_max: usize) -> Self {
        Self {
            decoder: ResponseDecoder::new(limits),
            places: VecDeque::new(),
            abandoned: 0,
            drain_max,
            front: Front::default(),
            is_over: false,
        }
    }

    /// Requests without their whole response, those of callers who have left included.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Keeps memory for so many.
    pub(crate) fn shrink_to(&mut self, places: usize) {
        self.places.shrink_to(places);
    }

    /// Calls whose callers wait.
    pub(crate) fn calls(&self) -> usize {
        self.places.len() - self.abandoned
    }

    /// Whether no response follows the last one that came.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether any byte of the response that is due has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.front.has_begun || !self.decoder.is_idle()
    }

    /// Whether the response that is due is read for nobody.
    pub(crate) fn is_drained(&self) -> bool {
        self.places.front().is_some_and(|place| place.call.is_none())
    }

    /// The call whose response is due, unless its caller has left.
    pub(crate) fn due(&mut self) -> Option<&mut C> {
        self.places.front_mut()?.call.as_mut()
    }

    /// All calls whose callers wait, the oldest first.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = Stands<'_, C>> {
        self.places.iter_mut().enumerate().filter_map(|(at, place)| {
            let Place { call, begins_at, ends_at, .. } = place;
            Some(Stands { at, call: call.as_mut()?, begins_at: *begins_at, ends_at: *ends_at })
        })
    }

    /// A request whose bytes stand between these positions goes behind the others.
    pub(crate) fn push(&mut self, call: C, method: &Method, begins_at: Position, ends_at: Position) {
        if self.places.is_empty() {
            self.decoder.request_method(method);
        }
        self.places.push_back(Place { call: Some(call), method: method.clone(), begins_at, ends_at });
    }

    /// Takes out the call at a place, whose caller has left or is told. Its response is read and dropped, unless
    /// [`forget_unsent`](Self::forget_unsent) forgets it.
    pub(crate) fn leave(&mut self, at: usize) -> Option<C> {
        let call = self.places.get_mut(at)?.call.take();
        self.abandoned += usize::from(call.is_some());
        call
    }

    /// Forgets abandoned requests at the end of the line if no byte of them has left. Returns where the first of them began:
    /// the output is cut there.
    pub(crate) fn forget_unsent(&mut self, taken: Position) -> Option<Position> {
        let mut begins_at = None;
        while let Some(last) = self.places.back()
            && last.call.is_none()
            && last.begins_at >= taken
        {
            begins_at = Some(last.begins_at);
            self.places.pop_back();
            self.abandoned -= 1;
        }
        begins_at
    }

    /// The next part of a response in `input`; none if more bytes are needed. The connection has `taken` the requests up to
    /// there.
    pub(crate) fn next<'a>(
        &'a mut self,
        input: &'a mut Buffer,
        taken: Position,
    ) -> Result<Option<Part<'a, C>>, Broken> {
        loop {
            if self.front.is_whole {
                match self.pop(taken) {
                    Some(call) => return Ok(Some(Part::Whole(call))),
                    None => continue,
                }
            }
            let Some(place) = self.places.front() else {
                return if input.is_empty() { Ok(None) } else { Err(self.fail(Broken::Stray)) };
            };
            if self.is_over {
                return Ok(None);
            }
            if place.begins_at >= taken && !input.is_empty() {
                return Err(self.fail(Broken::Stray));
            }
            if place.call.is_none() {
                match self.drain(input) {
                    Ok(true) => continue,
                    Ok(false) => return Ok(None),
                    Err(broken) => return Err(self.fail(broken)),
                }
            }
            break;
        }
        let event = match self.decoder.decode(input) {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.fail(Broken::Response(error))),
        };
        if let ResponseEvent::End = event {
            return Ok(self.pop(taken).map(Part::Whole));
        }
        let Self { places, front, .. } = self;
        // It was just looked at.
        let Some(Place { call: Some(call), .. }) = places.front_mut() else { return Ok(None) };
        Ok(match event {
            ResponseEvent::Informational(head) => {
                front.has_begun = true;
                Some(Part::Interim(call, head))
            }
            ResponseEvent::Head(head, info) => {
                front.begin(info);
                Some(Part::Head(call, head, info))
            }
            ResponseEvent::Data(data) => Some(Part::Data(call, data)),
            ResponseEvent::Trailers(fields) => Some(Part::Trailers(call, fields)),
            ResponseEvent::End => None,
        })
    }

    /// Reads on in a response that nobody waits for: whether that is to be asked again.
    fn drain(&mut self, input: &mut Buffer) -> Result<bool, Broken> {
        match self.decoder.decode(input).map_err(Broken::Response)? {
            None => return Ok(false),
            Some(ResponseEvent::Head(_, info)) => self.front.begin(info),
            Some(ResponseEvent::Data(data)) => self.front.drained += data.len(),
            Some(ResponseEvent::End) => self.front.is_whole = true,
            Some(ResponseEvent::Informational(_) | ResponseEvent::Trailers(_)) => {
                self.front.has_begun = true;
                // So that it has an end, whatever the peer sends.
                self.front.drained += INTERIM_BYTES;
            }
        }
        if self.front.drained > self.drain_max { Err(Broken::Undrained) } else { Ok(true) }
    }

    /// The peer sends nothing more: whether that ends the response that is due, whose [`Part::Whole`] is next.
    pub(crate) fn ended(&mut self) -> Result<bool, DecodeError> {
        let ends = !self.is_over && self.decoder.finish()?.is_some();
        self.front.is_whole |= ends;
        self.front.keeps_alive &= !ends;
        Ok(ends)
    }

    /// The calls that are left when the connection has ended, the oldest first.
    pub(crate) fn take_rest(&mut self, taken: Position) -> Vec<Rest<C>> {
        let has_begun = self.has_begun();
        self.is_over = true;
        self.abandoned = 0;
        let places = std::mem::take(&mut self.places).into_iter().enumerate();
        let rest = |(at, Place { call, begins_at, ends_at, .. })| {
            let call = call?;
            let (is_sent, is_sent_whole) = (taken > begins_at, taken >= ends_at);
            Some(Rest { call, is_sent, is_sent_whole, has_begun: has_begun && at == 0, is_due: at == 0 })
        };
        places.filter_map(rest).collect()
    }

    /// The response at the front is whole: its call, unless the caller has left.
    fn pop(&mut self, taken: Position) -> Option<C> {
        let front = std::mem::take(&mut self.front);
        let place = self.places.pop_front()?;
        // A response that came before its request was sent whole leaves the peer in the middle of that request.
        self.is_over |= !front.keeps_alive || place.ends_at > taken;
        if let Some(next) = self.places.front() {
            self.decoder.request_method(&next.method);
        }
        self.abandoned -= usize::from(place.call.is_none());
        place.call
    }

    fn fail(&mut self, broken: Broken) -> Broken {
        self.is_over = true;
        broken
    }
}

impl Front {
    fn begin(&mut self, info: HeadInfo) {
        self.has_begun = true;
        self.keeps_alive = info.keep_alive;
        self.is_whole = info.framing == Framing::None;
    }
}

/// What an interim response counts of those bytes that are read for nobody.
const INTERIM_BYTES: usize = 1024;
