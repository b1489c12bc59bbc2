//! HTTP over a swarm: `GET` on connections that stay, through anywire's decoder and encoder at both ends.
//!
//! A message nearly always comes in one piece. It is decoded where it lies, by the decoder of all connections
//! of the thread, so that none of them holds a buffer; only one whose message came in parts takes a decoder and
//! a buffer along until it is whole.

use std::cell::RefCell;
use std::time::SystemTime;

use anywire::http::h1::encode::{ResponseParts, request_head, response_head};
use anywire::http::h1::{
    Framing, Limits, RequestDecoder, RequestEvent, RequestView, ResponseDecoder, ResponseEvent, ResponseView,
};
use anywire::http::{DateLine, Headers, Method, StaticHeader, StatusCode, Version};
use anywire_stack::swarm::{Conn, now as round};

use super::book::{BOOK, Record, gate};
use super::pattern;
use super::roles::{is_over, note};

/// The longest head of an answer: what a payload leaves of a segment.
pub(super) const HEAD_BYTES_MAX: usize = 160;

/// Asks for a payload, compares the answer, and does so for ever.
pub(super) async fn client(mut conn: Conn) {
    let mut record = Record::new();
    gate(conn.index()).await;
    record.begin();
    loop {
        conn.turn().await;
        if !ask(&mut conn, record.number()) {
            if is_over(&conn) {
                return;
            }
            continue;
        }
        let mut part = None;
        loop {
            if !conn.readable().await {
                return;
            }
            let (tag, number) = (conn.index(), record.number());
            match arrived(&mut conn, |desk, bytes| desk.take_answer(bytes, &mut part, tag, number)) {
                Taken::Whole(()) => break,
                Taken::Part => {}
                Taken::Wrong => return note(false),
            }
        }
        record.complete();
    }
}

/// Answers each request with the payload that its target names.
pub(super) async fn server(mut conn: Conn) {
    let mut part = None;
    while conn.readable().await {
        let (tag, number) = match arrived(&mut conn, |desk, bytes| desk.take_request(bytes, &mut part)) {
            Taken::Whole(numbers) => numbers,
            Taken::Part => continue,
            Taken::Wrong => return note(false),
        };
        conn.turn().await;
        while !answer(&mut conn, tag, number) {
            if is_over(&conn) {
                return;
            }
            conn.turn().await;
        }
    }
}

/// What came of a message.
#[derive(Debug, PartialEq)]
enum Taken<T> {
    Whole(T),
    Part,
    Wrong,
}

/// The tools of one thread.
struct Desk {
    requests: Decoding<RequestDecoder>,
    answers: Decoding<ResponseDecoder>,
    out: Vec<u8>,
    /// None but `Host`, which the encoder writes: as other load generators do it.
    request_headers: Headers,
    response_headers: Headers,
    date: DateLine,
    /// The second of the run that the date was made in.
    second: Option<u64>,
}

/// A decoder, and what it needs of a message that comes in parts.
struct Decoding<D> {
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

thread_local! {
    static DESK: RefCell<Desk> = RefCell::new(Desk::new());
}

impl Desk {
    fn new() -> Self {
        let mut response_headers = Headers::new();
        response_headers.append_static(&CONTENT_TYPE);
        Self {
            requests: Decoding::new(request_decoder()),
            answers: Decoding::new(answer_decoder()),
            out: Vec::with_capacity(2048),
            request_headers: Headers::new(),
            response_headers,
            date: DateLine::new(),
            second: None,
        }
    }

    fn take_request(
        &mut self,
        bytes: &[u8],
        part: &mut Option<Box<Decoding<RequestDecoder>>>,
    ) -> Taken<(u32, u32)> {
        self.requests.take(bytes, part, request_decoder, |decoder, input, _| {
            match decoder.decode_with(input, asked_for) {
                Ok(Some(RequestEvent::Head(Some(numbers)))) => Taken::Whole(numbers),
                Ok(None) => Taken::Part,
                Ok(Some(_)) | Err(_) => Taken::Wrong,
            }
        })
    }

    fn take_answer(
        &mut self,
        bytes: &[u8],
        part: &mut Option<Box<Decoding<ResponseDecoder>>>,
        tag: u32,
        number: u32,
    ) -> Taken<()> {
        let length = BOOK.with(|book| book.payload_bytes.get());
        let is_ours = |head: &ResponseView<'_>| {
            head.status() == StatusCode::OK && head.framing() == Framing::Length(length as u64)
        };
        self.answers.take(bytes, part, answer_decoder, |decoder, input, compared| {
            loop {
                match decoder.decode_with(input, is_ours) {
                    Ok(Some(ResponseEvent::Head(true))) => *compared = 0,
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

/// Shows what has arrived to `take`, which takes all of it.
#[inline(always)]
fn arrived<T>(conn: &mut Conn, take: impl FnOnce(&mut Desk, &[u8]) -> Taken<T>) -> Taken<T> {
    let mut taken = Taken::Part;
    conn.read(|bytes| {
        taken = DESK.with_borrow_mut(|desk| take(desk, bytes));
        bytes.len()
    });
    taken
}

/// Sends `GET /TAG/NUMBER`; false if there is no room.
fn ask(conn: &mut Conn, number: u32) -> bool {
    let tag = conn.index();
    DESK.with_borrow_mut(|desk| {
        desk.out.clear();
        let target = target(tag, number);
        let target = std::str::from_utf8(&target.0).unwrap_or("/");
        let head =
            request_head(&mut desk.out, &Method::GET, target, HOST, &desk.request_headers, Framing::None);
        head.is_ok() && conn.write(desk.out.len(), |room| room.copy_from_slice(&desk.out))
    })
}

/// Sends the payload that was asked for; false if there is no room.
fn answer(conn: &mut Conn, tag: u32, number: u32) -> bool {
    let length = BOOK.with(|book| book.payload_bytes.get());
    DESK.with_borrow_mut(|desk| {
        let Desk { out, date, response_headers, second, .. } = desk;
        let this_second = Some(round().as_micros() / 1_000_000);
        if *second != this_second {
            *second = this_second;
            date.line(SystemTime::now());
        }
        out.clear();
        response_head(
            out,
            &ResponseParts {
                status: StatusCode::OK,
                headers: response_headers,
                framing: Framing::Length(length as u64),
                version: Version::HTTP_11,
                keep_alive: true,
                answers_head: false,
                date: Some(date.rendered()),
            },
        );
        conn.write(out.len() + length, |room| {
            let (head, body) = room.split_at_mut(out.len());
            head.copy_from_slice(out);
            pattern::fill(body, tag, number);
        })
    })
}

/// The text of a target, at a place from which it is checked word by word: byte by byte takes 130 instructions more.
#[repr(align(8))]
struct Target([u8; TARGET_BYTES]);

/// `/TAG/NUMBER`, both in hexadecimal.
fn target(tag: u32, number: u32) -> Target {
    let mut text = *b"/00000000/00000000";
    text[1..9].copy_from_slice(&digits(tag));
    text[10..].copy_from_slice(&digits(number));
    Target(text)
}

fn numbers(target: &[u8]) -> Option<(u32, u32)> {
    let target: &[u8; TARGET_BYTES] = target.try_into().ok()?;
    let [tag, number] = [target[1..9].first_chunk()?, target[10..].first_chunk()?].map(value);
    (target[0] == b'/' && target[9] == b'/').then_some((tag?, number?))
}

/// The eight hexadecimal digits of a number, all worked out at once.
const fn digits(number: u32) -> [u8; 8] {
    // Four bits to a byte, the first ones highest.
    let mut bits = number as u64;
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // From ten on, there is a carry to the next four if six are added, and letters come after the digits.
    let letters = ((bits + 6 * ONES) >> 4) & ONES;
    (bits + b'0' as u64 * ONES + (b'a' - b'0' - 10) as u64 * letters).to_be_bytes()
}

/// The number that these are the digits of, if they are any.
fn value(text: &[u8; 8]) -> Option<u32> {
    let word = u64::from_be_bytes(*text);
    let mut bits = (word & (15 * ONES)) + 9 * ((word >> 6) & ONES);
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    let number = (bits | bits >> 16) as u32;
    (digits(number) == *text).then_some(number)
}

/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
const TARGET_BYTES: usize = 18;
static CONTENT_TYPE: StaticHeader = StaticHeader::new("content-type: application/octet-stream");
const HOST: &str = "swarm.local";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_its_payload() {
        for both in [(0, 0), (1, 0x8000_0001), (u32::MAX, 0xabc), (0x0123_4567, 0x89ab_cdef)] {
            let text = target(both.0, both.1);
            assert_eq!(text.0, *format!("/{:08x}/{:08x}", both.0, both.1).as_bytes());
            assert_eq!(numbers(&text.0), Some(both));
        }
        for wrong in [
            "",
            "/",
            "/00000000-00000000",
            "/0000000g/00000000",
            "/0000000A/00000000",
            "/00000000/0000000",
            "/00000000/000000000",
        ] {
            assert_eq!(numbers(wrong.as_bytes()), None, "{wrong}");
        }
    }

    /// `GET /0000002a/00000007`, and its answer with a payload of 24 bytes.
    fn exchange() -> (Vec<u8>, Vec<u8>) {
        let mut request = Vec::new();
        let target = target(42, 7);
        let target = std::str::from_utf8(&target.0).expect("digits");
        request_head(&mut request, &Method::GET, target, HOST, &Headers::new(), Framing::None)
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
        let mut desk = Desk::new();
        for cut in 0..request.len() {
            let mut part = None;
            let (first, second) = request.split_at(cut);
            if cut > 0 {
                assert_eq!(desk.take_request(first, &mut part), Taken::Part, "{cut}");
            }
            assert_eq!(desk.take_request(second, &mut part), Taken::Whole((42, 7)), "{cut}");
            assert!(part.is_none());
        }
        for cut in 0..answer.len() {
            let mut part = None;
            let (first, second) = answer.split_at(cut);
            if cut > 0 {
                assert_eq!(desk.take_answer(first, &mut part, 42, 7), Taken::Part, "{cut}");
            }
            assert_eq!(desk.take_answer(second, &mut part, 42, 7), Taken::Whole(()), "{cut}");
            assert!(part.is_none());
        }
        assert_eq!(BOOK.with(|book| book.corrupt.get()), 0);
    }

    #[test]
    fn what_nobody_asked_for_is_wrong_and_spoils_nothing_else() {
        let (request, answer) = exchange();
        let mut desk = Desk::new();
        for wrong in [&b"GET /\n\n"[..], b"POST / HTTP/1.1\r\n\r\n", &[&request[..], b"G"].concat()] {
            assert_eq!(desk.take_request(wrong, &mut None), Taken::Wrong);
            assert_eq!(desk.take_request(&request, &mut None), Taken::Whole((42, 7)));
        }
        let mut other = answer.clone();
        other[9] = b'4';
        for wrong in [&other[..], b"HTTP/1.1 200 OK\r\n\r\n", &[&answer[..], b"H"].concat()] {
            assert_eq!(desk.take_answer(wrong, &mut None, 42, 7), Taken::Wrong);
            assert_eq!(desk.take_answer(&answer, &mut None, 42, 7), Taken::Whole(()));
        }
        assert_eq!(BOOK.with(|book| book.corrupt.get()), 0);
        assert_eq!(desk.take_answer(&answer, &mut None, 42, 8), Taken::Whole(()));
        assert_eq!(BOOK.with(|book| book.corrupt.replace(0)), 1, "another message's payload is noticed");
    }
}
