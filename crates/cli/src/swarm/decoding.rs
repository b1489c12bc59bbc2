//! Taking requests and answers of a swarm out of what has arrived.
//!
//! A message nearly always comes in one piece. It is decoded where it lies, by the decoder of all connections
//! of the thread, so that none of them holds a buffer; only one whose message came in parts takes a decoder and
//! a buffer along until it is whole.

use anywire::http::h1::{
    Framing, Limits, RequestDecoder, RequestEvent, RequestView, ResponseDecoder, ResponseEvent, ResponseView,
};
use anywire::http::{Method, StatusCode};

use super::book::BOOK;
use super::pattern;
use super::roles::note;
use super::target::numbers;

/// What came of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Taken<T> {
    Whole(T),
    Part,
    Wrong,
}

/// A decoder, and what it needs of a message that comes in parts.
pub(super) struct Decoding<D> {
    decoder: D,
    /// What it has not decoded yet; without memory until there is some.
    left: Vec<u8>,
    /// Bytes of the payload that were compared.
    compared: usize,
}

impl<D> Decoding<D> {
    const fn new(decoder: D) -> Self {
        Self { decoder, left: Vec::new(), compared: 0 }
    }

    /// Takes a message out of what has arrived: with the decoder of all, or with the one that it has begun with.
    #[inline(always)]
    fn take<T>(
        &mut self,
        bytes: &[u8],
        own: &mut Option<Box<Self>>,
        new: impl FnOnce() -> D,
        mut decode: impl FnMut(&mut D, &mut &[u8], &mut usize) -> Taken<T>,
    ) -> Taken<T> {
        let Self { decoder, left, compared } = own.as_deref_mut().unwrap_or(self);
        let joined;
        let mut input = bytes;
        if !left.is_empty() {
            joined = [left, bytes].concat();
            input = &joined;
        }
        let taken = match decode(decoder, &mut input, compared) {
            // Nobody asks before the answer has come: nothing may stand behind a message.
            Taken::Whole(_) if !input.is_empty() => Taken::Wrong,
            taken => taken,
        };
        match taken {
            Taken::Whole(_) => {
                if own.is_some() {
                    *own = None;
                }
            }
            Taken::Part => {
                *left = input.to_vec();
                if own.is_none() {
                    *own = Some(Box::new(std::mem::replace(self, Self::new(new()))));
                }
            }
            Taken::Wrong => *self = Self::new(new()),
        }
        taken
    }
}

impl Decoding<RequestDecoder> {
    /// Takes requests.
    pub(super) fn requests() -> Self {
        Self::new(request_decoder())
    }

    /// Takes the numbers that a request asks for.
    pub(super) fn take_request(&mut self, bytes: &[u8], part: &mut Option<Box<Self>>) -> Taken<(u32, u32)> {
        self.take(bytes, part, request_decoder, |decoder, input, _| {
            match decoder.decode_with(input, asked_for) {
                Ok(Some(RequestEvent::Head(Some(numbers), _))) => Taken::Whole(numbers),
                Ok(None) => Taken::Part,
                Ok(Some(_)) | Err(_) => Taken::Wrong,
            }
        })
    }
}

impl Decoding<ResponseDecoder> {
    /// Takes answers.
    pub(super) fn answers() -> Self {
        Self::new(answer_decoder())
    }

    /// Takes an answer, and compares its payload with the one of these numbers.
    pub(super) fn take_answer(
        &mut self,
        bytes: &[u8],
        part: &mut Option<Box<Self>>,
        tag: u32,
        number: u32,
    ) -> Taken<()> {
        let length = BOOK.with(|book| book.payload_bytes.get());
        let is_ours = |head: &ResponseView<'_>| {
            head.status() == StatusCode::OK && head.framing() == Framing::Length(length as u64)
        };
        self.take(bytes, part, answer_decoder, |decoder, input, compared| {
            loop {
                match decoder.decode_with(input, is_ours) {
                    Ok(Some(ResponseEvent::Head(true, _))) => *compared = 0,
                    Ok(Some(ResponseEvent::Data(bytes))) => {
                        let is_right = if bytes.len() == length {
                            pattern::is_whole(bytes, tag, number)
                        } else {
                            pattern::is_part(bytes, *compared, tag, number)
                        };
                        note(is_right);
                        *compared += bytes.len();
                    }
                    Ok(Some(ResponseEvent::End)) if *compared == length => return Taken::Whole(()),
                    Ok(None) => return Taken::Part,
                    Ok(Some(_)) | Err(_) => return Taken::Wrong,
                }
            }
        })
    }
}

fn request_decoder() -> RequestDecoder {
    RequestDecoder::new(Limits::default())
}

fn answer_decoder() -> ResponseDecoder {
    ResponseDecoder::new(Limits::default())
}

/// What a request asks for; nothing if it is none of ours.
fn asked_for(head: &RequestView<'_>) -> Option<(u32, u32)> {
    let is_ours = *head.method() == Method::GET && head.framing() == Framing::None;
    numbers(head.target().as_bytes()).filter(|_| is_ours)
}

#[cfg(test)]
mod tests {
    use anywire::http::Headers;
    use anywire::http::h1::encode::request_head;

    use super::super::target::target;
    use super::*;

    /// `GET /0000002a/00000007`, and its answer with a payload of 24 bytes.
    fn exchange() -> (Vec<u8>, Vec<u8>) {
        let mut request = Vec::new();
        let target = target(42, 7);
        let target = std::str::from_utf8(&target.0).expect("digits");
        request_head(&mut request, &Method::GET, target, "swarm.local", &Headers::new(), Framing::None)
            .expect("valid");
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\n".to_vec();
        let head = answer.len();
        answer.resize(head + 24, 0);
        pattern::fill(&mut answer[head..], 42, 7);
        BOOK.with(|book| book.payload_bytes.set(24));
        (request, answer)
    }

    #[test]
    fn messages_are_taken_whole_and_in_parts() {
        let (request, answer) = exchange();
        let (mut requests, mut answers) = (Decoding::requests(), Decoding::answers());
        for cut in 0..request.len() {
            let mut part = None;
            let (first, second) = request.split_at(cut);
            if cut > 0 {
                assert_eq!(requests.take_request(first, &mut part), Taken::Part, "{cut}");
            }
            assert_eq!(requests.take_request(second, &mut part), Taken::Whole((42, 7)), "{cut}");
            assert!(part.is_none());
        }
        for cut in 0..answer.len() {
            let mut part = None;
            let (first, second) = answer.split_at(cut);
            if cut > 0 {
                assert_eq!(answers.take_answer(first, &mut part, 42, 7), Taken::Part, "{cut}");
            }
            assert_eq!(answers.take_answer(second, &mut part, 42, 7), Taken::Whole(()), "{cut}");
            assert!(part.is_none());
        }
        assert_eq!(BOOK.with(|book| book.corrupt.get()), 0);
    }

    #[test]
    fn messages_are_taken_byte_by_byte() {
        let (request, answer) = exchange();
        let (mut requests, mut answers) = (Decoding::requests(), Decoding::answers());
        let (mut request_part, mut answer_part) = (None, None);
        for (at, byte) in request.iter().enumerate() {
            let taken = requests.take_request(&[*byte], &mut request_part);
            let whole = Taken::Whole((42, 7));
            assert_eq!(taken, if at + 1 < request.len() { Taken::Part } else { whole }, "{at}");
        }
        for (at, byte) in answer.iter().enumerate() {
            let taken = answers.take_answer(&[*byte], &mut answer_part, 42, 7);
            assert_eq!(taken, if at + 1 < answer.len() { Taken::Part } else { Taken::Whole(()) }, "{at}");
        }
        assert!(request_part.is_none() && answer_part.is_none());
        assert_eq!(BOOK.with(|book| book.corrupt.get()), 0);
    }

    #[test]
    fn what_nobody_asked_for_is_wrong_and_spoils_nothing_else() {
        let (request, answer) = exchange();
        let (mut requests, mut answers) = (Decoding::requests(), Decoding::answers());
        for wrong in [&b"GET /\n\n"[..], b"POST / HTTP/1.1\r\n\r\n", &[&request[..], b"G"].concat()] {
            assert_eq!(requests.take_request(wrong, &mut None), Taken::Wrong);
            assert_eq!(requests.take_request(&request, &mut None), Taken::Whole((42, 7)));
        }
        let mut other = answer.clone();
        other[9] = b'4';
        for wrong in [&other[..], b"HTTP/1.1 200 OK\r\n\r\n", &[&answer[..], b"H"].concat()] {
            assert_eq!(answers.take_answer(wrong, &mut None, 42, 7), Taken::Wrong);
            assert_eq!(answers.take_answer(&answer, &mut None, 42, 7), Taken::Whole(()));
        }
        assert_eq!(BOOK.with(|book| book.corrupt.get()), 0);
        assert_eq!(answers.take_answer(&answer, &mut None, 42, 8), Taken::Whole(()));
        assert_eq!(BOOK.with(|book| book.corrupt.replace(0)), 1, "another message's payload is noticed");
    }
}
