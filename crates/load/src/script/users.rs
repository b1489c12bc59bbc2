//! The users of one connection: each has a place in flight, a sequence that it makes, and the values that it carries on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Instant, SystemTime};

use super::feed::Feed;
use super::jar::Jar;

/// The users of one connection.
#[derive(Debug)]
pub(crate) struct Users {
    users: Vec<User>,
    /// How many there may be; those that have not sent yet are not made.
    most: usize,
    /// Those that may send now, the longest waiting first.
    ready: VecDeque<u32>,
    /// Those that wait after an answer, and until when.
    thinking: BinaryHeap<Reverse<(Instant, u32)>>,
}

/// One user.
#[derive(Debug)]
pub(super) struct User {
    /// Whether it is within a sequence.
    pub(super) is_under_way: bool,
    pub(super) sequence: usize,
    /// The request of the sequence that comes next, or is on its way.
    pub(super) step: usize,
    /// Its row of each table.
    pub(super) rows: Vec<usize>,
    pub(super) variables: Vec<Vec<u8>>,
    /// Empty unless the sequence keeps cookies.
    pub(super) jar: Jar,
}

/// A request that a user sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    user: u32,
    /// Its number among the requests of the script.
    pub(crate) request: usize,
    /// Its number in the run.
    pub(super) number: u64,
}

impl Users {
    /// So many users, none of whom has sent.
    pub(crate) fn new(most: usize) -> Self {
        Self { users: Vec::new(), most, ready: VecDeque::new(), thinking: BinaryHeap::new() }
    }

    /// How many may send at this time.
    pub(crate) fn ready(&mut self, now: Instant) -> usize {
        while let Some(Reverse((at, user))) = self.thinking.peek().copied()
            && at <= now
        {
            self.thinking.pop();
            self.ready.push_back(user);
        }
        self.ready.len() + self.most - self.users.len()
    }

    /// When the next one that waits may send.
    pub(crate) fn next_ready(&self) -> Option<Instant> {
        self.thinking.peek().map(|Reverse((at, _))| *at)
    }

    /// The next request of a user that may send; `None` if there is none.
    pub(crate) fn next(&mut self, feed: &mut Feed) -> Option<Sent> {
        let user = match self.ready.pop_front() {
            Some(user) => user,
            None if self.users.len() < self.most => {
                self.users.push(User::new());
                (self.users.len() - 1) as u32
            }
            None => return None,
        };
        let number = feed.next_number();
        let of = &mut self.users[user as usize];
        if !of.is_under_way {
            feed.begin(of, number);
            of.is_under_way = true;
        }
        let request = feed.compiled().sequences[of.sequence].first + of.step;
        Some(Sent { user, request, number })
    }

    /// The user of a request.
    pub(super) fn user(&mut self, sent: Sent) -> &mut User {
        &mut self.users[sent.user as usize]
    }

    /// The head of an answer has come: its user takes the cookies of the fields `set-cookie`, if the sequence keeps any.
    pub(crate) fn head<'h, F: Iterator<Item = &'h [u8]>>(
        &mut self,
        sent: Sent,
        set_cookie: impl FnOnce() -> F,
        feed: &mut Feed,
    ) {
        let (compiled, figures) = feed.cookies();
        let Some(site) = &compiled.requests[sent.request].cookies else { return };
        let jar = &mut self.users[sent.user as usize].jar;
        set_cookie().for_each(|line| jar.receive(site, line, SystemTime::now(), figures));
    }

    /// A request was answered. Without the values that were to be kept, the sequence ends.
    pub(crate) fn answered(
        &mut self,
        sent: Sent,
        values: Option<Vec<(usize, Vec<u8>)>>,
        feed: &Feed,
        now: Instant,
    ) {
        let user = &mut self.users[sent.user as usize];
        let Some(values) = values else { return self.lost(sent) };
        for (variable, value) in values {
            if let Some(place) = user.variables.get_mut(variable) {
                *place = value;
            }
        }
        let compiled = feed.compiled();
        user.step += 1;
        if user.step >= compiled.sequences[user.sequence].count {
            user.is_under_way = false;
        }
        let think = compiled.requests[sent.request].think;
        match now.checked_add(think) {
            Some(at) if !think.is_zero() => self.thinking.push(Reverse((at, sent.user))),
            _ => self.ready.push_back(sent.user),
        }
    }

    /// No answer comes: the user begins anew.
    pub(crate) fn lost(&mut self, sent: Sent) {
        self.users[sent.user as usize].is_under_way = false;
        self.ready.push_back(sent.user);
    }
}

impl User {
    fn new() -> Self {
        Self {
            is_under_way: false,
            sequence: 0,
            step: 0,
            rows: Vec::new(),
            variables: Vec::new(),
            jar: Jar::default(),
        }
    }
}
