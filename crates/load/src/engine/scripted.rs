//! A connection that sends a script: its users, the requests that wait to leave, and the answer that is coming.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use anywire_http::h1::ResponseView;
use anywire_http::{Method, StatusCode};
use anywire_loops::clock::{after, precise};
use anywire_loops::deadline::Deadline;

use crate::engine::tally::Tally;
use crate::errors::ErrorKind;
use crate::script::{Checks, EventScanner, Feed, Look, Sent, Users, Verdict};

/// What a connection of HTTP/1 has beside its session if it sends a script.
pub(crate) struct Scripted {
    feed: Rc<RefCell<Feed>>,
    users: Users,
    unsent: Unsent,
    /// Those on their way, the oldest first.
    sent: VecDeque<Sent>,
    /// Events of bodies are timed.
    has_events: bool,
    /// The answer to the oldest.
    reception: Reception,
    /// Armed for the next user that has waited after an answer.
    wake: Wake,
}

/// A fault of an answer: its kind and its words.
pub(crate) type Fault = (ErrorKind, String);

impl Scripted {
    /// The part of a new connection; `None` if the plan has no script.
    pub(crate) fn new(tally: &Rc<Tally>) -> Option<Box<Self>> {
        Some(Box::new(Self {
            feed: Rc::clone(tally.feed.as_ref()?),
            users: Users::new(tally.plan.depth),
            has_events: tally.plan.events,
            unsent: Unsent::default(),
            sent: VecDeque::new(),
            reception: Reception::default(),
            wake: Wake::new(),
        }))
    }

    /// How many users may send now.
    pub(crate) fn ready(&mut self, now: Instant) -> u32 {
        u32::try_from(self.users.ready(now)).unwrap_or(u32::MAX)
    }

    /// Encodes so many requests, each of a user that may send. Gives their bytes.
    pub(crate) fn send(&mut self, count: u32) -> usize {
        let mut feed = self.feed.borrow_mut();
        let out = self.unsent.buffer();
        let before = out.len();
        for _ in 0..count {
            let Some(sent) = self.users.next(&mut feed) else { break };
            feed.write_h1(&mut self.users, sent, out);
            self.sent.push_back(sent);
        }
        out.len() - before
    }

    /// The bytes that wait to leave.
    pub(crate) fn unwritten(&self) -> &[u8] {
        self.unsent.waiting()
    }

    /// The wire has taken so many bytes.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.unsent.wrote(count);
    }

    /// The method of the request that the next head answers.
    pub(crate) fn awaited(&self) -> Option<Method> {
        let sent = *self.sent.front()?;
        Some(self.feed.borrow().request(sent).method.clone())
    }

    /// Whether the oldest request says that it is the last.
    pub(crate) fn closes(&self) -> bool {
        self.sent.front().is_some_and(|sent| self.feed.borrow().request(*sent).closes)
    }

    /// The head of an answer has come, perhaps an interim one.
    pub(crate) fn head(&mut self, head: &ResponseView<'_>) {
        let Some(&sent) = self.sent.front() else { return };
        if head.status().is_informational() {
            return;
        }
        let field = |name: &str| {
            let mut fields = head.fields().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            fields.next().map(|(_, value)| value)
        };
        let set_cookie = || {
            let cookies = head.fields().filter(|(known, _)| known.eq_ignore_ascii_case("set-cookie"));
            cookies.map(|(_, value)| value)
        };
        let mut feed = self.feed.borrow_mut();
        self.users.head(sent, set_cookie, &mut feed);
        self.reception.head(&feed.request(sent).checks, self.has_events, field);
    }

    /// A piece of the body has come. Gives the events that end in it.
    pub(crate) fn data(&mut self, data: &[u8], now: Instant) -> Option<Events> {
        let sent = *self.sent.front()?;
        self.reception.data(&self.feed.borrow().request(sent).checks, data, now)
    }

    /// When something of an answer with events came last.
    pub(crate) fn heard_at(&self) -> Option<Instant> {
        self.reception.heard_at
    }

    /// The answer is whole. Gives the number of its request, and what is wrong with it.
    pub(crate) fn answered(
        &mut self,
        status: StatusCode,
        body_bytes: u64,
        now: Instant,
    ) -> (usize, Option<Fault>) {
        let Some(sent) = self.sent.pop_front() else { return (0, None) };
        let feed = self.feed.borrow();
        let Verdict { fault, values } =
            std::mem::take(&mut self.reception).end(&feed.request(sent).checks, status, body_bytes);
        self.users.answered(sent, values, &feed, now);
        (sent.request, fault)
    }

    /// Whether a user that has waited may send now; else the task is woken when one may.
    pub(crate) fn poll_wake(&self, context: &mut Context<'_>) -> bool {
        self.wake.poll(self.users.next_ready(), context)
    }
}

/// Requests that wait to leave.
#[derive(Debug, Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// How many of them have left.
    written: usize,
}

impl Unsent {
    /// Where more is appended. What has left is taken off once it is the larger part: a peer that is slower than this end takes
    /// a bit of each window, and never all of it, so that waiting for that would keep every byte of the run.
    fn buffer(&mut self) -> &mut Vec<u8> {
        if 2 * self.written >= self.bytes.len() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        &mut self.bytes
    }

    fn waiting(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn wrote(&mut self, count: usize) {
        self.written += count;
    }
}

/// Wakes a connection whose users wait.
pub(crate) struct Wake(Deadline);

impl Wake {
    /// On the present loop.
    pub(crate) fn new() -> Self {
        Self(Deadline::new())
    }

    /// Whether it is time for the next user; else the task is woken then.
    pub(crate) fn poll(&self, next: Option<Instant>, context: &mut Context<'_>) -> bool {
        let Some(at) = next else { return false };
        // Nothing wakes a connection whose users all wait when the last request of the run has left another one.
        self.0.set_at(at.min(after(precise(), IDLE_MAX)));
        self.0.poll_expired(context).is_ready()
    }
}

/// An answer that is coming, as far as a script looks at it.
#[derive(Debug, Default)]
pub(crate) struct Reception {
    look: Option<Box<Look>>,
    events: Option<EventScanner>,
    /// When the last event ended.
    event_at: Option<Instant>,
    /// When something of an answer with events came last.
    pub(crate) heard_at: Option<Instant>,
}

/// Events that ended in one piece of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(crate) count: u64,
    /// When the one before them ended.
    pub(crate) before: Option<Instant>,
}

impl Reception {
    /// The final head has come.
    pub(crate) fn head<'h>(
        &mut self,
        checks: &Checks,
        events: bool,
        field: impl Fn(&str) -> Option<&'h [u8]>,
    ) {
        if events {
            self.events = Some(EventScanner::of(field("content-type")));
        }
        if !checks.are_by_numbers() {
            self.look = Some(Look::head(checks, field));
        }
    }

    /// A piece of the body has come. Gives the events that end in it.
    pub(crate) fn data(&mut self, checks: &Checks, data: &[u8], now: Instant) -> Option<Events> {
        if let Some(look) = &mut self.look {
            look.data(checks, data);
        }
        let count = self.events.as_mut()?.data(data);
        self.heard_at = Some(now);
        if count == 0 {
            return None;
        }
        Some(Events { count, before: self.event_at.replace(now) })
    }

    /// The answer is whole.
    pub(crate) fn end(self, checks: &Checks, status: StatusCode, body_bytes: u64) -> Verdict {
        match self.look {
            Some(look) => look.end(checks, status, body_bytes),
            None => Verdict { fault: checks.by_numbers(status, body_bytes), values: Some(Vec::new()) },
        }
    }
}

/// How long a connection without a request in flight goes on to wait before it looks whether there is anything left to send.
const IDLE_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_left_are_not_kept_though_some_always_wait() {
        let (mut unsent, mut left) = (Unsent::default(), Vec::new());
        for round in 0..1000_u32 {
            unsent.buffer().extend_from_slice(&round.to_be_bytes());
            assert!(unsent.bytes.len() < 40, "{} bytes in round {round}", unsent.bytes.len());
            // All but one byte.
            let count = unsent.waiting().len() - 1;
            left.extend_from_slice(&unsent.waiting()[..count]);
            unsent.wrote(count);
        }
        left.extend_from_slice(unsent.waiting());
        assert_eq!(left, (0..1000).flat_map(u32::to_be_bytes).collect::<Vec<u8>>());
    }
}
