//! The body of a request on its way to the handler. Its window opens as the handler reads.

use std::task::{Context, Poll};

use anywire_http::body::Sender;
use anywire_http::h2::Arrived;
use anywire_http::{BodyError, Headers};

/// A request body on its way to its reader.
pub(super) struct Upload {
    /// `None` once the reader is gone, or has all.
    sender: Option<Sender>,
    arrived: Arrived,
    trailers: Option<Headers>,
    /// All of it has come.
    ended: bool,
    /// The rest of it does not come.
    is_cut_short: bool,
    /// The peer waits for `100 Continue` before it sends the body.
    awaits_continue: bool,
    /// The reader wants more than has come.
    lacks_input: bool,
    /// Its reader was told that the rest does not come.
    is_aborted: bool,
}

/// What a look at an upload has led to.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Bytes that the reader has taken.
    pub(super) bytes: usize,
    /// Bytes that nobody will read.
    pub(super) discarded: usize,
    /// The reader was given something: data, or the end.
    pub(super) any: bool,
    /// The peer is to be told to send the body.
    pub(super) ask: bool,
}

impl Upload {
    pub(super) fn new(sender: Sender, awaits_continue: bool) -> Self {
        Self {
            sender: Some(sender),
            arrived: Arrived::default(),
            trailers: None,
            ended: false,
            is_cut_short: false,
            awaits_continue,
            lacks_input: false,
            is_aborted: false,
        }
    }

    /// Keeps what has come, until the reader asks for it. Returns false if there is no reader.
    pub(super) fn received(&mut self, data: &[u8], end: bool) -> bool {
        self.awaits_continue = false;
        if self.sender.is_some() {
            self.arrived.push(data);
        }
        self.ended |= end;
        self.sender.is_some()
    }

    pub(super) fn ended_by(&mut self, trailers: Headers) {
        self.trailers = Some(trailers);
        self.ended = true;
    }

    /// Nothing more comes. If that is not all of it, its reader learns so behind what has come.
    pub(super) fn cut_short(&mut self) {
        self.is_cut_short = !self.ended;
    }

    /// Whether the handler waits for bytes that the peer has yet to send.
    pub(super) fn waits_for_peer(&self) -> bool {
        self.lacks_input && self.sender.as_ref().is_some_and(Sender::is_awaited)
    }

    /// Whether somebody may read more than has come.
    pub(super) fn has_reader(&self) -> bool {
        self.sender.is_some()
    }

    /// Gives the reader what it asks for, as far as it has come.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = Moved::default();
        self.lacks_input = false;
        while let Some(sender) = &mut self.sender {
            match sender.poll_wanted(cx) {
                Poll::Pending => break,
                Poll::Ready(Err(_)) => {
                    self.sender = None;
                    break;
                }
                Poll::Ready(Ok(())) => {}
            }
            if let Some(chunk) = self.arrived.pop() {
                (moved.bytes, moved.any) = (moved.bytes + chunk.len(), true);
                // There is room, and a reader that has gone meanwhile shows at the next look.
                let _ = sender.try_send(chunk);
            } else if self.ended {
                if let Some(trailers) = self.trailers.take() {
                    sender.trailers(trailers);
                }
                if let Some(sender) = self.sender.take() {
                    sender.finish();
                }
                moved.any = true;
            } else if self.is_cut_short {
                self.abort(BodyError::Incomplete);
                moved.any = true;
            } else {
                moved.ask = std::mem::take(&mut self.awaits_continue);
                self.lacks_input = true;
                break;
            }
        }
        if self.sender.is_none() {
            moved.discarded = self.arrived.clear();
        }
        moved
    }

    /// Nobody reads it any more. Returns how many bytes have come and wait for their reader.
    pub(super) fn into_unread(mut self) -> usize {
        self.arrived.clear()
    }

    /// The body breaks off: its reader is told.
    pub(super) fn abort(&mut self, why: BodyError) {
        self.lacks_input = false;
        if let Some(sender) = self.sender.take() {
            sender.abort(why);
            self.is_aborted = true;
        }
    }

    /// Whether its reader was told that the rest does not come.
    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted
    }
}
