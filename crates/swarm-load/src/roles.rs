//! The two ends of a connection, as tasks in straight lines: one pair for each mode.

use std::future::Future;

use anywire_stack::swarm::Conn;
use anywire_tcp::Status;

use crate::book::{Record, book, gate, increment, now};
use crate::pattern;

/// Requests and answers as a client writes and reads them.
pub(crate) trait Protocol {
    /// The state of an answer that comes in parts.
    type Part: Default;

    /// Sends the request of this number; false if there is no room.
    fn ask(conn: &mut Conn, number: u32) -> bool;

    /// Reads the part of its answer that has arrived, and compares it.
    fn read(conn: &mut Conn, part: &mut Self::Part, number: u32) -> Taken<()>;
}

/// The result of decoding a message.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken<T> {
    Whole(T),
    Part,
    /// Not the expected message; the connection cannot recover.
    Wrong,
}

/// The payload as it is, there and back.
pub(crate) struct Echo;

impl Protocol for Echo {
    /// How many bytes came before.
    type Part = u16;

    #[inline(always)]
    fn ask(conn: &mut Conn, number: u32) -> bool {
        write(conn, number)
    }

    #[inline(always)]
    fn read(conn: &mut Conn, part: &mut u16, number: u32) -> Taken<()> {
        let tag = conn.index();
        if read(conn, part, tag, number) { Taken::Whole(()) } else { Taken::Part }
    }
}

/// Sends a request, waits for the answer, and does so for ever.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn keeps its argument twice: 36 bytes a slot and not 32"
)]
pub(crate) fn client<P: Protocol>(mut conn: Conn) -> impl Future<Output = ()> {
    async move {
        let mut record = Record::new();
        // Out here it lies in a gap of 3 bytes, within the loop in 4 of its own.
        let mut part = P::Part::default();
        gate().await;
        record.begin();
        loop {
            conn.writable().await;
            if !P::ask(&mut conn, record.number()) {
                if is_over(&conn) {
                    return;
                }
                continue;
            }
            loop {
                if !conn.readable().await {
                    return;
                }
                match P::read(&mut conn, &mut part, record.number()) {
                    Taken::Whole(()) => break,
                    Taken::Part => {}
                    Taken::Wrong => return note(false),
                }
            }
            part = P::Part::default();
            record.complete();
        }
    }
}

/// Sends every message back.
#[expect(clippy::manual_async_fn, reason = "as above")]
pub(crate) fn echo_server(mut conn: Conn) -> impl Future<Output = ()> {
    async move {
        while let Some(message) = conn.recv().await {
            conn.send(message).await;
        }
    }
}

/// The same until no message has come for the time of the idle deadline.
#[expect(clippy::manual_async_fn, reason = "as above")]
pub(crate) fn echo_server_with_deadline(mut conn: Conn) -> impl Future<Output = ()> {
    async move {
        let time = || book(|book| book.idle_deadline.get());
        conn.set_idle_deadline(Some(time()));
        while let Some(message) = conn.recv().await {
            conn.send(message).await;
            conn.set_idle_deadline(Some(time()));
        }
    }
}

/// One request, one answer, and the end by a FIN.
pub(crate) async fn short_client(mut conn: Conn) {
    conn.writable().await;
    while !write(&mut conn, 0) {
        if is_over(&conn) {
            return book(|book| increment(&book.ended_early));
        }
        conn.writable().await;
    }
    let mut seen = 0;
    loop {
        if !conn.readable().await {
            return book(|book| increment(&book.ended_early));
        }
        let tag = conn.index();
        if read(&mut conn, &mut seen, tag, 0) {
            break;
        }
    }
    book(|book| {
        let asked_at = book.asked_at.borrow().get(conn.index() as usize).copied();
        book.complete(now().wrapping_sub(asked_at.unwrap_or_else(now)));
    });
}

/// Sends a message whenever the ring lets it.
pub(crate) async fn push_server(mut conn: Conn) {
    gate().await;
    let mut number = 0;
    loop {
        conn.writable().await;
        if write(&mut conn, number) {
            number = number.wrapping_add(1);
        } else if is_over(&conn) {
            return;
        }
    }
}

/// Receives messages. They must all come from the same connection, with numbers without a gap.
pub(crate) async fn push_client(mut conn: Conn) {
    let mut record = Record::new();
    let (mut tag, mut number, mut seen) = (None, 0, 0);
    while conn.readable().await {
        if tag.is_none() {
            // The first message names the server's connection.
            conn.read(|bytes| {
                tag = pattern::numbers(bytes).map(|(tag, _)| tag);
                0
            });
        }
        if read(&mut conn, &mut seen, tag.unwrap_or(0), number) {
            seen = 0;
            number += 1;
            record.complete();
        }
    }
}

/// Writes the payload of a message; false if there is no room.
#[inline(always)]
fn write(conn: &mut Conn, number: u32) -> bool {
    let tag = conn.index();
    conn.write(book(|book| book.payload_bytes.get()), |out| pattern::fill(out, tag, number))
}

/// Reads the part of a message that has arrived, and compares it. `seen` counts the bytes that came before. Returns
/// whether the message is complete.
#[inline(always)]
pub(crate) fn read(conn: &mut Conn, seen: &mut u16, tag: u32, number: u32) -> bool {
    let length = book(|book| book.payload_bytes.get());
    let mut is_right = true;
    let taken = conn.read(|bytes| {
        if *seen == 0 && bytes.len() >= length {
            is_right = pattern::is_whole(&bytes[..length], tag, number);
            return length;
        }
        let taken = bytes.len().min(length - usize::from(*seen));
        is_right = pattern::is_part(&bytes[..taken], usize::from(*seen), tag, number);
        *seen += taken as u16;
        taken
    });
    note(is_right);
    taken == length || usize::from(*seen) == length
}

/// Counts a payload that differs from the one sent.
#[inline(always)]
pub(crate) fn note(is_right: bool) {
    if !is_right {
        book(|book| increment(&book.corrupt));
    }
}

/// Whether the connection can send no more. If it can, memory was short, and the next attempt may succeed.
#[cold]
pub(crate) fn is_over(conn: &Conn) -> bool {
    conn.status() != Status::Open
}
