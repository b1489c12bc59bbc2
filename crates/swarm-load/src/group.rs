//! Messages to all connections, posted by another thread: that thread, and the tasks of both ends.
//!
//! The thread posts each message once, and the server's swarm puts it into the mailbox of every connection. A mailbox holds
//! [`UNDER_WAY`] messages, and so many are under way: the next one is posted when all connections have received the earliest.
//! So no mailbox overflows. If one did, its connection would end, and the run with it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anywire_stack::swarm::{
    Conn, GroupId, Mail, MailError, MailLimits, Mailbox, Post, SharedPayload, SlowReader,
};

use crate::book::{Record, book, gate};
use crate::error::Error;
use crate::pattern::{self, TO_ALL};
use crate::plan::Plan;
use crate::roles::read;

/// The mail of so many connections.
pub(crate) fn mail(connections: u32) -> Mail<SharedPayload> {
    let (mailboxes, groups, messages) = (connections as usize, 1, UNDER_WAY);
    Mail::new(MailLimits { mailboxes, groups, messages, ..MailLimits::default() })
}

/// Makes the group, and starts the thread that posts to it. The thread begins when all connections are members, and ends with
/// the run.
pub(crate) fn start_posting(mail: &Mail<SharedPayload>, plan: &Plan) -> Result<GroupId, Error> {
    let group = mail.group(SlowReader::Disconnect).map_err(Error::setup)?;
    let (permits, permitted) = channel();
    book(|book| book.receipts.begin(plan.connections, permits));
    let (post, payload_bytes) = (mail.post(), plan.payload_bytes);
    let builder = thread::Builder::new().name("post".to_owned());
    builder.spawn(move || post_all(&post, group, payload_bytes, &permitted)).map_err(Error::setup)?;
    Ok(group)
}

/// Posts a message for each permit.
fn post_all(post: &Post<SharedPayload>, group: GroupId, payload_bytes: usize, permitted: &Receiver<()>) {
    for (number, ()) in (0..).zip(permitted) {
        let mut payload = vec![0; payload_bytes];
        pattern::fill(&mut payload, TO_ALL, number);
        if post.to_group(group, payload.into()).is_err() {
            return;
        }
    }
}

/// Sends the messages of its mailbox. Connections join it in the order of the run, and get each message in that order.
#[expect(clippy::manual_async_fn, reason = "an async fn keeps its arguments twice")]
pub(crate) fn server(
    mut conn: Conn,
    mut mailbox: Result<Mailbox<SharedPayload>, MailError>,
    group: GroupId,
) -> impl Future<Output = ()> {
    async move {
        gate().await;
        let Ok(mailbox) = &mut mailbox else { return };
        if mailbox.join(group).is_err() {
            return;
        }
        book(|book| book.receipts.note_member());
        while let Ok(message) = mailbox.recv().await {
            if conn.send(&*message).await < message.bytes().len() {
                return;
            }
        }
    }
}

/// Receives the messages to all. They must have numbers without a gap.
pub(crate) async fn client(mut conn: Conn) {
    let mut record = Record::new();
    let (mut number, mut seen) = (0, 0);
    while conn.readable().await {
        if read(&mut conn, &mut seen, TO_ALL, number) {
            seen = 0;
            record.complete();
            book(|book| book.receipts.note_received(number));
            number += 1;
        }
    }
}

/// Counts, for each message under way, the connections that have not received it.
#[derive(Default)]
pub(crate) struct Receipts {
    connections: Cell<u32>,
    members: Cell<u32>,
    /// Connections that have not received the message of this number, modulo the size.
    missing: [Cell<u32>; UNDER_WAY],
    /// Each lets the thread post one message. Dropped with the thread of the run, which ends the other one.
    permits: RefCell<Option<Sender<()>>>,
}

impl Receipts {
    fn begin(&self, connections: u32, permits: Sender<()>) {
        self.connections.set(connections);
        self.missing.iter().for_each(|missing| missing.set(connections));
        *self.permits.borrow_mut() = Some(permits);
    }

    /// One more connection has joined the group. The last one starts the messages.
    fn note_member(&self) {
        self.members.set(self.members.get() + 1);
        if self.members.get() == self.connections.get() {
            (0..UNDER_WAY).for_each(|_| self.permit());
        }
    }

    /// A connection has received this message. With the last one, the next message may be posted.
    #[inline(always)]
    fn note_received(&self, number: u32) {
        let missing = &self.missing[number as usize % UNDER_WAY];
        missing.set(missing.get() - 1);
        if missing.get() == 0 {
            missing.set(self.connections.get());
            self.permit();
        }
    }

    fn permit(&self) {
        if let Some(permits) = &*self.permits.borrow() {
            // It fails if the thread has ended: then nothing is left to be permitted.
            let _ = permits.send(());
        }
    }
}

/// Messages that are under way at the same time. With the second one, connections that have sent the first need not wait until
/// the last connection has received it.
const UNDER_WAY: usize = 2;

/// Bytes of a mailbox in lists that have just grown to twice their size, with its place among the members of the group.
pub(crate) const MAILBOX_BYTES: usize = 2 * (96 + 4) + 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_permitted_when_all_have_received_the_earliest_one() {
        let (permits, permitted) = channel();
        let receipts = Receipts::default();
        receipts.begin(2, permits);
        receipts.note_member();
        assert_eq!(permitted.try_iter().count(), 0);
        receipts.note_member();
        assert_eq!(permitted.try_iter().count(), UNDER_WAY);
        // One connection is ahead of the other.
        receipts.note_received(0);
        receipts.note_received(1);
        assert_eq!(permitted.try_iter().count(), 0);
        for number in 0..10 {
            receipts.note_received(number);
            assert_eq!(permitted.try_iter().count(), 1);
            receipts.note_received(number + 2);
        }
    }

    #[test]
    fn the_thread_posts_for_each_permit_and_ends_with_them() {
        let mail = mail(1);
        let group = mail.group(SlowReader::Disconnect).expect("there is none yet");
        let (permits, permitted) = channel();
        permits.send(()).expect("it is held");
        drop(permits);
        post_all(&mail.post(), group, 20, &permitted);
        assert_eq!(mail.counters().refused, 0);
    }
}
