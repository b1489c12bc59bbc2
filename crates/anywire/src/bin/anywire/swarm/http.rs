//! HTTP over a swarm: `GET` on connections that stay, through anywire's decoder and encoder at both ends.
//!
//! A message nearly always comes in one piece. It is decoded where all connections of the thread decode, so
//! that none of them holds a buffer; only one whose message came in parts takes a decoder and a buffer along
//! until it is whole.

use std::cell::RefCell;
use std::time::SystemTime;

use anywire::http::h1::encode::{ResponseParts, request_head, response_head};
use anywire::http::h1::{Framing, Limits, RequestDecoder, RequestEvent, ResponseDecoder, ResponseEvent};
use anywire::http::{Buffer, DateLine, Headers, Method, StaticHeader, StatusCode, Version};
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
            match take_answer(&mut conn, &mut part, record.number()) {
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
        let (tag, number) = match take_request(&mut conn, &mut part) {
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

/// A decoder and what it has not decoded yet.
struct Decoding<D> {
    decoder: D,
    input: Buffer,
    /// Bytes of the payload that were compared.
    compared: usize,
}

trait Decoder {
    fn new() -> Self;
}

impl Decoder for RequestDecoder {
    fn new() -> Self {
        Self::new(Limits::default())
    }
}

impl Decoder for ResponseDecoder {
    fn new() -> Self {
        Self::new(Limits::default())
    }
}

impl<D: Decoder> Decoding<D> {
    fn new() -> Self {
        Self { decoder: D::new(), input: Buffer::new(), compared: 0 }
    }

    /// Takes a message: with the decoder of all, or with the one that this message has begun with.
    #[inline]
    fn take<T>(
        &mut self,
        conn: &mut Conn,
        own: &mut Option<Box<Self>>,
        mut decode: impl FnMut(&mut Self) -> Taken<T>,
    ) -> Taken<T> {
        if let Some(begun) = own {
            conn.read(|bytes| begun.input.fill_from(bytes));
            let taken = decode(begun);
            if !matches!(taken, Taken::Part) {
                *own = None;
            }
            return taken;
        }
        conn.read(|bytes| self.input.fill_from(bytes));
        let taken = decode(self);
        match taken {
            Taken::Whole(_) => {}
            Taken::Part => *own = Some(Box::new(std::mem::replace(self, Self::new()))),
            Taken::Wrong => *self = Self::new(),
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
            requests: Decoding::new(),
            answers: Decoding::new(),
            out: Vec::with_capacity(2048),
            request_headers: Headers::new(),
            response_headers,
            date: DateLine::new(),
            second: None,
        }
    }
}

/// Sends `GET /TAG/NUMBER`; false if there is no room.
fn ask(conn: &mut Conn, number: u32) -> bool {
    let tag = conn.index();
    DESK.with_borrow_mut(|desk| {
        desk.out.clear();
        let target = target(tag, number);
        let target = std::str::from_utf8(&target).unwrap_or("/");
        let head =
            request_head(&mut desk.out, &Method::GET, target, HOST, &desk.request_headers, Framing::None);
        head.is_ok() && conn.write(desk.out.len(), |room| room.copy_from_slice(&desk.out))
    })
}

fn take_request(conn: &mut Conn, part: &mut Option<Box<Decoding<RequestDecoder>>>) -> Taken<(u32, u32)> {
    DESK.with_borrow_mut(|desk| {
        desk.requests.take(conn, part, |Decoding { decoder, input, .. }| match decoder.decode(input) {
            Ok(Some(RequestEvent::Head(head))) => {
                let is_asked =
                    *head.method() == Method::GET && head.framing() == Framing::None && input.is_empty();
                numbers(head.target().as_bytes()).filter(|_| is_asked).map_or(Taken::Wrong, Taken::Whole)
            }
            Ok(None) => Taken::Part,
            Ok(Some(_)) | Err(_) => Taken::Wrong,
        })
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

fn take_answer(conn: &mut Conn, part: &mut Option<Box<Decoding<ResponseDecoder>>>, number: u32) -> Taken<()> {
    let tag = conn.index();
    let length = BOOK.with(|book| book.payload_bytes.get());
    DESK.with_borrow_mut(|desk| {
        desk.answers.take(conn, part, |Decoding { decoder, input, compared }| {
            loop {
                match decoder.decode(input) {
                    Ok(Some(ResponseEvent::Head(head))) => {
                        if head.status() != StatusCode::OK || head.framing() != Framing::Length(length as u64)
                        {
                            return Taken::Wrong;
                        }
                        *compared = 0;
                    }
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
    })
}

/// `/TAG/NUMBER`, both in hexadecimal.
fn target(tag: u32, number: u32) -> [u8; TARGET_BYTES] {
    let mut text = *b"/00000000/00000000";
    text[1..9].copy_from_slice(&digits(tag));
    text[10..].copy_from_slice(&digits(number));
    text
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
            assert_eq!(text, *format!("/{:08x}/{:08x}", both.0, both.1).as_bytes());
            assert_eq!(numbers(&text), Some(both));
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
}
