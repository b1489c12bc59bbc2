//! What is known of a call, while it goes on and at its end.

use std::time::{Duration, Instant};

use anywire::client::{Response, Timeline, Trace, TracedAttempt};
use anywire::http::{Headers, Url, Version};
use anywire::wire::Negotiated;

use super::trace::{self, Span};

/// What is known of a call.
#[derive(Debug)]
pub(super) struct Facts {
    begun: Instant,
    /// When the client began with it.
    called: Duration,
    trace: Trace,
    /// What the last response said.
    pub(super) status: u16,
    pub(super) version: Option<Version>,
    pub(super) headers: Headers,
    pub(super) url: String,
    /// Where it would lead on.
    pub(super) location: Option<String>,
    pub(super) redirects: usize,
    pub(super) bytes: u64,
    pub(super) file: Option<String>,
    /// Heads of interim responses that belong to the next response.
    interim: Vec<u8>,
    /// The heads of responses that may lead on, each with those of its interim ones.
    heads: Vec<Vec<u8>>,
    /// Bytes of all heads.
    pub(super) head_bytes: usize,
    /// What the last attempt sends.
    pub(super) sent: Sent,
    /// Bytes of the heads of all requests that had a connection, as HTTP/1 writes them.
    pub(super) request_bytes: usize,
    /// What the handshake of the last response has agreed on.
    pub(super) tls: Option<Negotiated>,
}

/// What an attempt sends.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Bytes of its head, as HTTP/1 writes it.
    pub(super) head_bytes: usize,
    /// Bytes of its body. None: it is read while it is sent.
    pub(super) body_bytes: Option<u64>,
    pub(super) referer: Option<String>,
    /// It goes through a proxy.
    pub(super) is_proxied: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            called: Duration::ZERO,
            trace: Trace::new(),
            status: 0,
            version: None,
            headers: Headers::new(),
            url: String::new(),
            location: None,
            redirects: 0,
            bytes: 0,
            file: None,
            interim: Vec::new(),
            heads: Vec::new(),
            head_bytes: 0,
            sent: Sent::default(),
            request_bytes: 0,
            tls: None,
        }
    }
}

impl Facts {
    /// The client begins, and this is to see where the time goes.
    pub(super) fn calls(&mut self) -> Trace {
        self.called = self.elapsed();
        self.trace.clone()
    }

    /// The head has come.
    pub(super) fn answered(&mut self, response: &Response) {
        self.status = response.status().as_u16();
        self.version = Some(response.version());
        self.headers = response.headers().clone();
        self.url = response.url().to_string();
        self.redirects = response.history().len();
        self.tls = response.tls().cloned();
        let location = response.headers().get("location").filter(|_| response.status().is_redirection());
        let to = location.and_then(|location| Url::parse(&self.url).ok()?.resolve(location).ok());
        self.location = to.map(|url| url.as_str().to_owned());
    }

    /// How long it has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// An interim response has come.
    pub(super) fn informed(&mut self, head: &[u8]) {
        self.interim.extend_from_slice(head);
    }

    /// The heads of interim responses, those of the last response alone.
    pub(super) fn interim(&self) -> &[u8] {
        &self.interim
    }

    /// An attempt begins.
    pub(super) fn attempts(&mut self, sent: Sent) {
        self.interim.clear();
        self.sent = sent;
    }

    /// It has its response, or none.
    pub(super) fn attempted(&mut self) {
        if self.timeline().attempts.last().is_some_and(|last| last.acquired.is_some()) {
            self.request_bytes += self.sent.head_bytes;
        }
    }

    /// The head of a response has come, which may lead to another URL.
    pub(super) fn responded(&mut self, head: &[u8], may_lead_on: bool) {
        self.head_bytes += self.interim.len() + head.len();
        if may_lead_on {
            self.heads.push([self.interim.as_slice(), head].concat());
        }
    }

    /// The heads of responses that led on, and of the last one's interim responses.
    pub(super) fn heads(&self) -> Vec<u8> {
        // The last response may be one that was not followed.
        let led_on = self.heads.iter().take(self.redirects).flatten();
        led_on.chain(&self.interim).copied().collect()
    }

    /// More of the body has come.
    pub(super) fn received(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The file that the body goes to.
    pub(super) fn written_to(&mut self, file: String) {
        self.file = Some(file);
    }

    /// What the client has noted.
    pub(super) fn timeline(&self) -> Timeline {
        self.trace.timeline()
    }

    /// A time of the timeline from the begin of all, as long as it is one at all.
    pub(super) fn since_begun(&self, at: Option<Duration>) -> Duration {
        at.map_or(Duration::ZERO, |at| self.called + at)
    }

    /// Where its time went: a bar for each attempt, and one for each of its phases.
    pub(super) fn chart(&self, coloured: bool) -> String {
        let (total, mut spans) = (self.elapsed(), Vec::new());
        let timeline = self.timeline();
        for attempt in &timeline.attempts {
            let phases = attempt.phases();
            let until = phases.last().map_or(attempt.queued, |last| last.until);
            let span =
                |name, from, until| Span { name, from: self.called + from, until: self.called + until };
            spans.push(span(name_of(attempt), attempt.queued, until));
            spans.extend(
                phases.iter().map(|phase| span(format!("  {}", phase.phase), phase.from, phase.until)),
            );
        }
        trace::chart(&spans, total, coloured)
    }
}

/// An attempt in a few words.
fn name_of(attempt: &TracedAttempt) -> String {
    let TracedAttempt { method, url, .. } = attempt;
    let place = url.split_once("://").map_or(&**url, |(_, place)| place);
    match attempt.status {
        Some(status) => format!("{method} {place}: {}", status.as_u16()),
        None => format!("{method} {place}: no response"),
    }
}
