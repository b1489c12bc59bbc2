//! A body that is sent: cut into pieces that fit the windows, and the last piece ends the stream.

use std::borrow::Borrow;
use std::task::Poll;

use anywire_http::{Body, BodyError, Headers};
use bytes::Bytes;

use crate::Streams;

/// The part of a body that the engine does not have yet. `B` is the source of its pieces.
#[derive(Debug)]
pub struct Outgoing<B> {
    piece: Bytes,
    source: Option<B>,
}

/// A piece of a body.
#[derive(Debug, Default)]
pub struct Piece {
    /// The bytes.
    pub bytes: Bytes,
    /// Whether they come from a source, and are in memory only until they leave. Other pieces are references to a body that is there
    /// as a whole.
    pub is_streamed: bool,
}

/// The next step of a body. Only data needs a window (RFC 9113 section 6.9.1).
#[derive(Debug)]
pub enum Next<E = BodyError> {
    /// There is data.
    Data,
    /// The end, perhaps with trailers.
    End(Option<Headers>),
    /// There is nothing yet. The source wakes the stream.
    Later,
    /// The source has failed.
    Broken(E),
}

/// The state of a body after a [`send`].
#[derive(Debug)]
pub enum Sent<E = BodyError> {
    /// More of the body follows.
    Open,
    /// The engine has all of it.
    Ended,
    /// The source has failed, or the peer does not take the trailers.
    Broken(E),
}

impl<B: Borrow<Body>> Outgoing<B> {
    /// A body in one piece.
    pub fn whole(piece: Bytes) -> Self {
        Self { piece, source: None }
    }

    /// A body that comes in pieces.
    pub fn streamed(source: B) -> Self {
        Self { piece: Bytes::new(), source: Some(source) }
    }

    /// Whether there is a source of more pieces.
    pub fn is_streamed(&self) -> bool {
        self.source.is_some()
    }

    /// The source of its pieces, to be looked at.
    pub fn source(&self) -> Option<&B> {
        self.source.as_ref()
    }

    /// The source of its pieces, if there is one.
    pub fn into_source(self) -> Option<B> {
        self.source
    }

    /// Takes at most `room` bytes.
    #[inline]
    pub fn take(&mut self, room: usize) -> Piece {
        let bytes = self.piece.split_to(room.min(self.piece.len()));
        Piece { bytes, is_streamed: self.is_streamed() }
    }

    /// The next step. If the last piece is used up, `poll` asks the source for another one.
    #[inline]
    pub fn next<E>(&mut self, poll: impl FnOnce(&mut B) -> Poll<Result<Option<Bytes>, E>>) -> Next<E> {
        if !self.piece.is_empty() {
            return Next::Data;
        }
        let Some(source) = &mut self.source else { return Next::End(None) };
        match poll(source) {
            Poll::Pending => Next::Later,
            Poll::Ready(Ok(Some(piece))) => {
                self.piece = piece;
                Next::Data
            }
            Poll::Ready(Ok(None)) => Next::End((*source).borrow().trailers().cloned()),
            Poll::Ready(Err(error)) => Next::Broken(error),
        }
    }
}

/// Gives the engine a piece of the stream that has its turn, or an empty one. If the [next step](Outgoing::next) is the end,
/// the end goes with it.
#[inline]
pub fn send<S: Streams, E: From<BodyError>>(
    streams: &mut S,
    id: S::Id,
    piece: Piece,
    next: Next<E>,
) -> Sent<E> {
    let end = matches!(next, Next::End(None));
    if matches!(next, Next::Later | Next::End(Some(_))) {
        streams.wants_to_send(id, false);
    }
    if end || !piece.bytes.is_empty() {
        streams.data(id, piece, end);
    }
    match next {
        Next::Data => {
            streams.wants_to_send(id, true);
            Sent::Open
        }
        Next::Later => Sent::Open,
        Next::End(None) => Sent::Ended,
        Next::End(Some(trailers)) => match streams.trailers(id, &trailers) {
            Ok(()) => Sent::Ended,
            Err(error) => Sent::Broken(BodyError::failed(error).into()),
        },
        Next::Broken(error) => Sent::Broken(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use anywire_http::h2::{Code, ResponseParts, Unsent};
    use anywire_http::{StatusCode, Version};
    use anywire_wire::Position;

    use super::*;

    /// An engine without a protocol: it records what it is given.
    #[derive(Default)]
    struct Taken {
        data: Vec<(Bytes, bool)>,
        trailers: Vec<Headers>,
        wants: bool,
        refuses_trailers: bool,
    }

    impl Streams for Taken {
        type Id = u64;

        const VERSION: Version = Version::HTTP_3;

        fn position(&self) -> Position {
            Position::default()
        }

        fn next_to_send(&mut self) -> Option<(u64, usize)> {
            self.wants.then_some((7, 3))
        }

        fn wants_to_send(&mut self, _: u64, wants: bool) {
            self.wants = wants;
        }

        fn is_blocked(&self, _: u64) -> bool {
            false
        }

        fn has_window(&self, _: u64) -> bool {
            true
        }

        fn has_left(&self) -> bool {
            true
        }

        fn is_window_closed(&self) -> bool {
            false
        }

        fn respond(&mut self, _: u64, _: &ResponseParts<'_>, _: bool) -> Result<(), Unsent> {
            Ok(())
        }

        fn inform(&mut self, _: u64, _: StatusCode, _: &Headers) -> Result<(), Unsent> {
            Ok(())
        }

        fn data(&mut self, _: u64, piece: Piece, end: bool) {
            self.data.push((piece.bytes, end));
            self.wants &= !end;
        }

        fn send_at_once(&mut self, _: u64, _: &Bytes) -> bool {
            false
        }

        fn trailers(&mut self, _: u64, trailers: &Headers) -> Result<(), Unsent> {
            self.trailers.push(trailers.clone());
            if self.refuses_trailers { Err(Unsent::Gone) } else { Ok(()) }
        }

        fn reset(&mut self, _: u64, _: Code) {}

        fn consumed(&mut self, _: u64, _: usize) {}

        fn discarded(&mut self, _: u64, _: usize) {}

        fn keeps_peer_waiting(&self) -> bool {
            false
        }
    }

    /// The results of a source, poll by poll.
    type Polls = VecDeque<Poll<Result<Option<Bytes>, BodyError>>>;

    /// Sends as drivers do: first without a turn, then while the stream has turns.
    fn drive(taken: &mut Taken, body: &mut Outgoing<Body>, mut polls: Polls) -> Sent {
        let mut poll = |_: &mut Body| polls.pop_front().unwrap_or(Poll::Pending);
        let mut sent = send(taken, 7, Piece::default(), body.next(&mut poll));
        while let Some((id, room)) = taken.next_to_send()
            && matches!(sent, Sent::Open)
        {
            let piece = body.take(room);
            sent = send(taken, id, piece, body.next(&mut poll));
        }
        sent
    }

    fn pieces(taken: &Taken) -> Vec<(&[u8], bool)> {
        taken.data.iter().map(|(piece, end)| (&piece[..], *end)).collect()
    }

    #[test]
    fn the_last_piece_says_that_it_is() {
        let mut taken = Taken::default();
        let sent = drive(&mut taken, &mut Outgoing::whole(Bytes::from_static(b"seven b")), Polls::new());
        assert!(matches!(sent, Sent::Ended));
        assert_eq!(pieces(&taken), [(&b"sev"[..], false), (b"en ", false), (b"b", true)]);
    }

    #[test]
    fn a_source_that_has_nothing_gives_its_turn_away() {
        let (mut taken, mut body) = (Taken::default(), Outgoing::streamed(Body::empty()));
        let chunk = |text: &'static str| Poll::Ready(Ok(Some(Bytes::from_static(text.as_bytes()))));
        let sent = drive(&mut taken, &mut body, [chunk("abcd"), Poll::Pending].into());
        assert!(matches!(sent, Sent::Open) && !taken.wants);
        assert_eq!(pieces(&taken), [(&b"abc"[..], false), (b"d", false)]);
        // The end needs no turn.
        let sent = drive(&mut taken, &mut body, [Poll::Ready(Ok(None))].into());
        assert!(matches!(sent, Sent::Ended));
        assert_eq!(pieces(&taken).last(), Some(&(&b""[..], true)));
    }

    #[test]
    fn trailers_end_a_body_and_may_be_refused() {
        for refuses_trailers in [false, true] {
            let (mut sender, mut body) = Body::channel(10);
            let mut fields = Headers::new();
            fields.append("x-sum", "5").expect("a field");
            sender.trailers(fields.clone());
            sender.finish();
            let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
            assert!(matches!(body.poll_chunk(cx), Poll::Ready(Ok(None))));
            let mut taken = Taken { refuses_trailers, ..Taken::default() };
            let sent = drive(&mut taken, &mut Outgoing::streamed(body), [Poll::Ready(Ok(None))].into());
            assert_eq!(matches!(sent, Sent::Broken(_)), refuses_trailers);
            assert!(taken.data.is_empty() && taken.trailers.len() == 1);
            assert_eq!(taken.trailers[0].get("x-sum"), Some("5"));
        }
    }

    #[test]
    fn a_source_that_fails_breaks_it_off() {
        let failed = Poll::Ready(Err(BodyError::Timeout));
        let mut taken = Taken::default();
        let sent = drive(&mut taken, &mut Outgoing::streamed(Body::empty()), [failed].into());
        assert!(matches!(sent, Sent::Broken(BodyError::Timeout)) && taken.data.is_empty());
    }
}
