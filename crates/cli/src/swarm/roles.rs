//! The two ends of a connection, as tasks in straight lines: one pair for each mode but HTTP.

use std::future::Future;

use anywire_stack::swarm::Conn;
use anywire_tcp::Status;

use super::book::{BOOK, Record, gate, now};
use super::pattern;

/// Sends a request, waits for it to come back, and does so for ever.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn keeps its argument twice: 36 bytes a slot and not 32"
)]
pub(super) fn echo_client(mut conn: Conn) -> impl Future<Output = ()> {
    async move {
        let mut record = Record::new();
        gate(conn.index()).await;
        record.begin();
        loop {
            conn.turn().await;
            if !write(&mut conn, record.number()) {
                if is_over(&conn) {
                    return;
                }
                continue;
            }
            let mut seen = 0;
            loop {
                if !conn.readable().await {
                    return;
                }
                let tag = conn.index();
                if read(&mut conn, &mut seen, tag, record.number()) {
                    break;
                }
            }
            record.complete();
        }
    }
}

/// Sends back whatever comes.
pub(super) async fn echo_server(mut conn: Conn) {
    while let Some(message) = conn.recv().await {
        conn.send(message).await;
    }
}

/// One request, one answer, and the end by a FIN.
pub(super) async fn short_client(mut conn: Conn) {
    conn.turn().await;
    while !write(&mut conn, 0) {
        if is_over(&conn) {
            return BOOK.with(|book| book.ended_early.set(book.ended_early.get() + 1));
        }
        conn.turn().await;
    }
    let mut seen = 0;
    loop {
        if !conn.readable().await {
            return BOOK.with(|book| book.ended_early.set(book.ended_early.get() + 1));
        }
        let tag = conn.index();
        if read(&mut conn, &mut seen, tag, 0) {
            break;
        }
    }
    BOOK.with(|book| {
        let asked_at = book.asked_at.borrow().get(conn.index() as usize).copied();
        book.complete(now().wrapping_sub(asked_at.unwrap_or_else(now)));
    });
}

/// Sends a message whenever it is its turn.
pub(super) async fn push_server(mut conn: Conn) {
    gate(conn.index()).await;
    let mut number = 0;
    loop {
        conn.turn().await;
        if write(&mut conn, number) {
            number = number.wrapping_add(1);
        } else if is_over(&conn) {
            return;
        }
    }
}

/// Takes what comes: messages that are numbered without a gap, all from the same connection.
pub(super) async fn push_client(mut conn: Conn) {
    let mut record = Record::new();
    let (mut tag, mut number, mut seen) = (None, 0, 0);
    while conn.readable().await {
        if tag.is_none() {
            // The first message says which connection of the server's this is.
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
    let length = BOOK.with(|book| book.payload_bytes.get());
    conn.write(length, |out| pattern::fill(out, tag, number))
}

/// Reads what has come of a message, and compares it. `seen` is how much of it came before. Whether it is
/// whole.
#[inline(always)]
fn read(conn: &mut Conn, seen: &mut u16, tag: u32, number: u32) -> bool {
    let length = BOOK.with(|book| book.payload_bytes.get());
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

/// Counts what was not as it was sent.
#[inline(always)]
pub(super) fn note(is_right: bool) {
    if !is_right {
        BOOK.with(|book| book.corrupt.set(book.corrupt.get() + 1));
    }
}

/// Whether the connection sends no more; else there was no memory, and another turn may bring some.
#[cold]
pub(super) fn is_over(conn: &Conn) -> bool {
    conn.status() != Status::Open
}
