//! HTTP over a swarm: `GET` on connections that stay, through anywire's decoder and encoder at both ends.
//!
//! Decoders, and what messages are written from, are the thread's: a connection that waits holds none of it.

use std::cell::RefCell;
use std::time::SystemTime;

use anywire::http::h1::encode::{ResponseParts, request_head, response_head};
use anywire::http::h1::{Framing, RequestDecoder, ResponseDecoder};
use anywire::http::{DateLine, Headers, Method, StaticHeader, StatusCode, Version};
use anywire_stack::swarm::{Conn, now as round};

use super::book::{BOOK, Record, gate};
use super::decoding::{Decoding, Taken};
use super::pattern;
use super::roles::{is_over, note};
use super::target::target;

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
            match arrived(&mut conn, |desk, bytes| desk.answers.take_answer(bytes, &mut part, tag, number)) {
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
        let (tag, number) =
            match arrived(&mut conn, |desk, bytes| desk.requests.take_request(bytes, &mut part)) {
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

thread_local! {
    static DESK: RefCell<Desk> = RefCell::new(Desk::new());
}

impl Desk {
    fn new() -> Self {
        let mut response_headers = Headers::new();
        response_headers.append_static(&CONTENT_TYPE);
        Self {
            requests: Decoding::requests(),
            answers: Decoding::answers(),
            out: Vec::with_capacity(2048),
            request_headers: Headers::new(),
            response_headers,
            date: DateLine::new(),
            second: None,
        }
    }
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

static CONTENT_TYPE: StaticHeader = StaticHeader::new("content-type: application/octet-stream");
const HOST: &str = "swarm.local";
