//! Which address of a name is tried when: RFC 8305 as a state machine without sockets and clock.
//!
//! It takes answers and failures, with the time, and says what to do next. So it can be tested against any order of events,
//! and another kind of answer (an HTTPS record) is another input. The first attempt that connects ends it.
//!
//! Families take turns, and each attempt has a head start before the next one begins beside it. A failure brings
//! the next one at once. Addresses that have failed lately are tried after all others.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anywire_loops::clock;

use super::resolver::Records;

/// One dial to a name with any number of addresses.
#[derive(Debug)]
pub(crate) struct HappyEyeballs {
    /// The head start of an attempt.
    attempt_delay: Duration,
    /// What is asked for, and not answered yet.
    unanswered: Vec<Records>,
    v6: VecDeque<SocketAddr>,
    v4: VecDeque<SocketAddr>,
    /// Those that have failed lately.
    cooling: VecDeque<SocketAddr>,
    /// All that were ever given, so that none is tried twice.
    known: Vec<SocketAddr>,
    /// The family whose turn it is. `None` until an answer with a preference comes, or the first attempt begins.
    is_v6_next: Option<bool>,
    /// Attempts under way.
    running: usize,
    has_begun: bool,
    /// When the next attempt may begin. Before the first one: when the wait for IPv6 addresses is over.
    next_at: Option<Instant>,
}

/// What has happened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// A query was answered, or has failed: then there is no address.
    Answer { records: Records, addresses: &'a [Candidate] },
    /// An attempt has failed.
    Failed,
}

/// An address, and whether it has failed lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) address: SocketAddr,
    pub(crate) is_cooling: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Try this address, beside those that are being tried.
    Attempt(SocketAddr),
    /// Wait for an input, or until this time if there is one.
    Wait(Option<Instant>),
    /// All attempts have failed, and no address is left.
    Over,
}

impl HappyEyeballs {
    /// Waits for answers to these queries.
    pub(crate) fn new(attempt_delay: Duration, queries: &[Records]) -> Self {
        Self {
            attempt_delay,
            unanswered: queries.to_vec(),
            v6: VecDeque::new(),
            v4: VecDeque::new(),
            cooling: VecDeque::new(),
            known: Vec::new(),
            is_v6_next: None,
            running: 0,
            has_begun: false,
            next_at: None,
        }
    }

    pub(crate) fn process_input(&mut self, input: Input<'_>, now: Instant) {
        match input {
            Input::Answer { records, addresses } => {
                self.unanswered.retain(|one| *one != records);
                self.take(records, addresses);
                // RFC 8305 section 3: the first IPv4 addresses wait a little for those of IPv6.
                if !self.has_begun && self.next_at.is_none() && self.has_candidate() {
                    self.next_at = Some(clock::after(now, RESOLUTION_DELAY));
                }
            }
            Input::Failed => {
                self.running = self.running.saturating_sub(1);
                self.next_at = Some(now);
            }
        }
    }

    /// Asked again after each input, after each attempt that it asks for, and at the time that it says.
    pub(crate) fn next_output(&mut self, now: Instant) -> Output {
        if !self.has_candidate() {
            let is_over = self.running == 0 && self.unanswered.is_empty();
            return if is_over { Output::Over } else { Output::Wait(None) };
        }
        // Before the first attempt there is only one thing to wait for.
        let may_begin = self.has_begun || !self.unanswered.contains(&Records::V6) || !self.v6.is_empty();
        let must_wait = self.has_begun || !may_begin;
        if let Some(next_at) = self.next_at.filter(|next_at| must_wait && now < *next_at) {
            return Output::Wait(Some(next_at));
        }
        match self.next_candidate() {
            Some(address) => {
                self.has_begun = true;
                self.running += 1;
                self.next_at = Some(clock::after(now, self.attempt_delay));
                Output::Attempt(address)
            }
            None => Output::Wait(None),
        }
    }

    fn take(&mut self, records: Records, addresses: &[Candidate]) {
        for candidate in addresses {
            let address = candidate.address;
            if self.known.contains(&address) {
                continue;
            }
            self.known.push(address);
            // The resolver's first choice stays first (RFC 6724 has sorted them).
            if records == Records::Any && !candidate.is_cooling {
                self.is_v6_next.get_or_insert(address.is_ipv6());
            }
            let queue = match candidate.is_cooling {
                true => &mut self.cooling,
                false if address.is_ipv6() => &mut self.v6,
                false => &mut self.v4,
            };
            queue.push_back(address);
        }
    }

    fn has_candidate(&self) -> bool {
        !(self.v6.is_empty() && self.v4.is_empty() && self.cooling.is_empty())
    }

    /// RFC 8305 section 4: the families take turns.
    fn next_candidate(&mut self) -> Option<SocketAddr> {
        let (first, second) = match self.is_v6_next.unwrap_or(true) {
            true => (&mut self.v6, &mut self.v4),
            false => (&mut self.v4, &mut self.v6),
        };
        let next = first.pop_front().or_else(|| second.pop_front());
        if let Some(address) = next {
            self.is_v6_next = Some(!address.is_ipv6());
        }
        next.or_else(|| self.cooling.pop_front())
    }
}

/// How long IPv4 addresses wait for IPv6 addresses (RFC 8305 section 8).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
