//! HTTP over a swarm: `GET /TAG/NUMBER` on connections that stay, through anywire's decoder and encoder at both ends.
//!
//! Decoders and output buffers belong to the thread, so an idle connection holds neither. A message nearly always comes
//! in one piece and is decoded in place. If it comes in parts, the connection stores the bytes and decodes them again
//! when more arrive.

use std::cell::RefCell;
use std::time::SystemTime;

use anywire_http::h1::encode::{FramedHead, request_head, response_head};
use anywire_http::h1::{Framing, Limits, RequestDecoder, RequestEvent, ResponseDecoder, ResponseEvent};
use anywire_http::{DateLine, Headers, Method, StaticHeader, StatusCode, Version};
use anywire_stack::swarm::{Conn, now as round};

use crate::book::book;
use crate::pattern;
use crate::roles::{Protocol, Taken, is_over, note};

/// The longest head of an answer: a payload must leave room for it in a segment.
pub(crate) const HEAD_BYTES_MAX: usize = 160;

/// Asks for a payload and compares the answer.
pub(crate) struct Http;

impl Protocol for Http {
    type Part = Part;

    fn ask(conn: &mut Conn, number: u32) -> bool {
        let target = target(conn.index(), number);
        TOOLS.with_borrow_mut(|tools| {
            tools.out.clear();
            let target = std::str::from_utf8(&target.0).unwrap_or("/");
            let head = request_head(
                &mut tools.out,
                &Method::GET,
                target,
                HOST,
                &tools.request_headers,
                Framing::None,
            );
            head.is_ok() && conn.write(tools.out.len(), |room| room.copy_from_slice(&tools.out))
        })
    }

    fn read(conn: &mut Conn, part: &mut Part, number: u32) -> Taken<()> {
        let tag = conn.index();
        arrived(conn, |tools, bytes| tools.take_answer(bytes, part, tag, number))
    }
}

/// Answers each request with the payload that its target names.
pub(crate) async fn server(mut conn: Conn) {
    let mut part = None;
    while conn.readable().await {
        let (tag, number) = match arrived(&mut conn, |tools, bytes| tools.take_request(bytes, &mut part)) {
            Taken::Whole(numbers) => numbers,
            Taken::Part => continue,
            Taken::Wrong => return note(false),
        };
        conn.writable().await;
        while !answer(&mut conn, tag, number) {
            if is_over(&conn) {
                return;
            }
            conn.writable().await;
        }
    }
}

/// The bytes of a message that has not come whole. Boxed, because each task has room for one: 8 bytes, and not 24.
type Part = Option<Box<Vec<u8>>>;

/// What the connections of one thread share.
struct Tools {
    requests: RequestDecoder,
    answers: ResponseDecoder,
    out: Vec<u8>,
    /// Empty: the encoder writes `Host`, and other load generators send no more either.
    request_headers: Headers,
    response_headers: Headers,
    date: DateLine,
    /// The second of the run that the date was made in.
    second: Option<u64>,
}

thread_local! {
    static TOOLS: RefCell<Tools> = RefCell::new(Tools::new());
}

impl Tools {
    fn new() -> Self {
        let mut response_headers = Headers::new();
        response_headers.append_static(&CONTENT_TYPE);
        Self {
            requests: RequestDecoder::new(Limits::default()),
            answers: ResponseDecoder::new(Limits::default()),
            out: Vec::with_capacity(2048),
            request_headers: Headers::new(),
            response_headers,
            date: DateLine::new(),
            second: None,
        }
    }

    /// Takes the numbers that a request asks for.
    fn take_request(&mut self, bytes: &[u8], part: &mut Part) -> Taken<(u32, u32)> {
        take(&mut self.requests, RequestDecoder::new, bytes, part, |decoder, mut input| {
            let numbers = decoder.decode_with(&mut input, |head| {
                let is_ours = *head.method() == Method::GET && head.framing() == Framing::None;
                numbers(head.target().as_bytes()).filter(|_| is_ours)
            });
            match numbers {
                Ok(Some(RequestEvent::Head(Some(numbers), _))) => whole(numbers, input),
                Ok(None) => Taken::Part,
                Ok(Some(_)) | Err(_) => Taken::Wrong,
            }
        })
    }

    /// Takes an answer, and compares its payload with the one of these numbers.
    fn take_answer(&mut self, bytes: &[u8], part: &mut Part, tag: u32, number: u32) -> Taken<()> {
        let length = book(|book| book.payload_bytes.get());
        take(&mut self.answers, ResponseDecoder::new, bytes, part, |decoder, mut input| {
            loop {
                let event = decoder.decode_with(&mut input, |head| {
                    head.status() == StatusCode::OK && head.framing() == Framing::Length(length as u64)
                });
                match event {
                    Ok(Some(ResponseEvent::Head(true, _))) => {
                        if input.len() < length {
                            return Taken::Part;
                        }
                    }
                    Ok(Some(ResponseEvent::Data(bytes))) => {
                        note(bytes.len() == length && pattern::is_whole(bytes, tag, number));
                    }
                    Ok(Some(ResponseEvent::End)) => return whole((), input),
                    Ok(None) => return Taken::Part,
                    Ok(Some(_)) | Err(_) => return Taken::Wrong,
                }
            }
        })
    }
}

/// Decodes a message from the bytes that have arrived and the part that came before.
#[inline(always)]
fn take<D, T>(
    decoder: &mut D,
    new: impl FnOnce(Limits) -> D,
    bytes: &[u8],
    part: &mut Part,
    decode: impl FnOnce(&mut D, &[u8]) -> Taken<T>,
) -> Taken<T> {
    let taken = match part {
        None => decode(decoder, bytes),
        Some(kept) => {
            kept.extend_from_slice(bytes);
            decode(decoder, kept)
        }
    };
    match &taken {
        Taken::Whole(_) => {
            if part.is_some() {
                *part = None;
            }
        }
        Taken::Part => {
            *decoder = new(Limits::default());
            part.get_or_insert_with(|| Box::new(bytes.to_vec()));
        }
        Taken::Wrong => *decoder = new(Limits::default()),
    }
    taken
}

/// Clients do not pipeline, so bytes after a message are an error.
const fn whole<T: Copy>(message: T, rest: &[u8]) -> Taken<T> {
    if rest.is_empty() { Taken::Whole(message) } else { Taken::Wrong }
}

/// Passes the bytes that have arrived to `take`, which consumes all of them.
#[inline(always)]
fn arrived<T>(conn: &mut Conn, take: impl FnOnce(&mut Tools, &[u8]) -> Taken<T>) -> Taken<T> {
    let mut taken = Taken::Part;
    conn.read(|bytes| {
        taken = TOOLS.with_borrow_mut(|tools| take(tools, bytes));
        bytes.len()
    });
    taken
}

/// Sends the payload that was asked for; false if there is no room.
fn answer(conn: &mut Conn, tag: u32, number: u32) -> bool {
    let length = book(|book| book.payload_bytes.get());
    TOOLS.with_borrow_mut(|tools| {
        let Tools { out, date, response_headers, second, .. } = tools;
        let this_second = Some(round().as_micros() / 1_000_000);
        if *second != this_second {
            *second = this_second;
            date.line(SystemTime::now());
        }
        out.clear();
        response_head(
            out,
            &FramedHead {
                status: StatusCode::OK,
                headers: response_headers,
                framing: Framing::Length(length as u64),
                stated_length: None,
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

/// The text of a target. Aligned for checks by words; by bytes they take 130 instructions more.
#[repr(align(8))]
struct Target([u8; TARGET_BYTES]);

/// `/TAG/NUMBER`, both in hexadecimal.
fn target(tag: u32, number: u32) -> Target {
    let mut text = *b"/00000000/00000000";
    text[1..9].copy_from_slice(&digits(tag));
    text[10..].copy_from_slice(&digits(number));
    Target(text)
}

/// The numbers of a target, or `None` if it has another form.
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
        book(|book| book.payload_bytes.set(24));
        (request, answer)
    }

    #[test]
    fn messages_are_taken_whole_and_in_parts() {
        let (request, answer) = exchange();
        let mut tools = Tools::new();
        for cut in 0..request.len() {
            let mut part = None;
            let (first, second) = request.split_at(cut);
            if cut > 0 {
                assert_eq!(tools.take_request(first, &mut part), Taken::Part, "{cut}");
            }
            assert_eq!(tools.take_request(second, &mut part), Taken::Whole((42, 7)), "{cut}");
            assert!(part.is_none());
        }
        for cut in 0..answer.len() {
            let mut part = None;
            let (first, second) = answer.split_at(cut);
            if cut > 0 {
                assert_eq!(tools.take_answer(first, &mut part, 42, 7), Taken::Part, "{cut}");
            }
            assert_eq!(tools.take_answer(second, &mut part, 42, 7), Taken::Whole(()), "{cut}");
            assert!(part.is_none());
        }
        assert_eq!(book(|book| book.corrupt.get()), 0);
    }

    #[test]
    fn messages_are_taken_byte_by_byte() {
        let (request, answer) = exchange();
        let mut tools = Tools::new();
        let (mut request_part, mut answer_part) = (None, None);
        for (at, byte) in request.iter().enumerate() {
            let taken = tools.take_request(&[*byte], &mut request_part);
            let whole = Taken::Whole((42, 7));
            assert_eq!(taken, if at + 1 < request.len() { Taken::Part } else { whole }, "{at}");
        }
        for (at, byte) in answer.iter().enumerate() {
            let taken = tools.take_answer(&[*byte], &mut answer_part, 42, 7);
            assert_eq!(taken, if at + 1 < answer.len() { Taken::Part } else { Taken::Whole(()) }, "{at}");
        }
        assert!(request_part.is_none() && answer_part.is_none());
        assert_eq!(book(|book| book.corrupt.get()), 0);
    }

    #[test]
    fn what_nobody_asked_for_is_wrong_and_spoils_nothing_else() {
        let (request, answer) = exchange();
        let mut tools = Tools::new();
        for wrong in [&b"GET /\n\n"[..], b"POST / HTTP/1.1\r\n\r\n", &[&request[..], b"G"].concat()] {
            assert_eq!(tools.take_request(wrong, &mut None), Taken::Wrong);
            assert_eq!(tools.take_request(&request, &mut None), Taken::Whole((42, 7)));
        }
        let mut other = answer.clone();
        other[9] = b'4';
        for wrong in [&other[..], b"HTTP/1.1 200 OK\r\n\r\n", &[&answer[..], b"H"].concat()] {
            assert_eq!(tools.take_answer(wrong, &mut None, 42, 7), Taken::Wrong);
            assert_eq!(tools.take_answer(&answer, &mut None, 42, 7), Taken::Whole(()));
        }
        assert_eq!(book(|book| book.corrupt.get()), 0);
        assert_eq!(tools.take_answer(&answer, &mut None, 42, 8), Taken::Whole(()));
        assert_eq!(book(|book| book.corrupt.replace(0)), 1, "another message's payload is noticed");
    }

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
}
