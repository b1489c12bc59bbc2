//! A request's body and its reader, in every protocol.

use std::task::{Context, Poll};

use anywire_http::body::Sender;
use anywire_http::{BodyError, Headers, StatusCode};

/// A request body on its way to its reader.
pub(crate) struct Upload {
    reader: Reader,
    awaited: Awaited,
}

enum Reader {
    Here(Sender),
    /// It is gone, or has read all.
    Gone,
    /// The body broke off, and the reader knows. This is the status if the handler responds with none of its own.
    Aborted(StatusCode),
}

/// What the peer or the reader waits for.
enum Awaited {
    Nothing,
    /// The peer waits for `100 Continue` before it sends the body.
    Continue,
    /// The reader waits for more than was received.
    Data,
}

impl Upload {
    pub(crate) fn new(sender: Sender, expects_continue: bool) -> Self {
        let awaited = if expects_continue { Awaited::Continue } else { Awaited::Nothing };
        Self { reader: Reader::Here(sender), awaited }
    }

    /// The reader, if there is one. Whether it waits for data has to be found out anew.
    pub(crate) fn look(&mut self) -> Option<&mut Sender> {
        if matches!(self.awaited, Awaited::Data) {
            self.awaited = Awaited::Nothing;
        }
        if let Reader::Here(sender) = &mut self.reader { Some(sender) } else { None }
    }

    /// The reader, if it asks for more. Otherwise it wakes the task when it does.
    pub(crate) fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Option<&mut Sender> {
        match self.look()?.poll_wanted(cx) {
            Poll::Ready(Ok(())) => self.look(),
            Poll::Ready(Err(_)) => {
                self.drop_reader();
                None
            }
            Poll::Pending => None,
        }
    }

    /// Whether the peer waits for `100 Continue`.
    pub(crate) fn awaits_continue(&self) -> bool {
        matches!(self.awaited, Awaited::Continue)
    }

    /// The same. From now on it does not.
    pub(crate) fn take_continue(&mut self) -> bool {
        let awaits = self.awaits_continue();
        if awaits {
            self.awaited = Awaited::Nothing;
        }
        awaits
    }

    /// The reader waits for more than was received.
    pub(crate) fn lack_data(&mut self) {
        self.awaited = Awaited::Data;
    }

    /// Whether the handler waits for bytes that the peer has yet to send.
    pub(crate) fn waits_for_peer(&self) -> bool {
        matches!((&self.awaited, &self.reader), (Awaited::Data, Reader::Here(sender)) if sender.is_awaited())
    }

    /// Whether there is a reader, which may have gone meanwhile.
    pub(crate) fn has_reader(&self) -> bool {
        matches!(self.reader, Reader::Here(_))
    }

    /// Whether the reader has gone. It may still read when the response begins, as an echo does.
    pub(crate) fn is_abandoned(&self) -> bool {
        !matches!(&self.reader, Reader::Here(sender) if !sender.is_closed())
    }

    /// The reader is gone.
    pub(crate) fn drop_reader(&mut self) {
        self.reader = Reader::Gone;
    }

    /// The reader has read all.
    pub(crate) fn finish(&mut self, trailers: Option<Headers>) {
        if let Reader::Here(mut sender) = std::mem::replace(&mut self.reader, Reader::Gone) {
            if let Some(trailers) = trailers {
                sender.trailers(trailers);
            }
            sender.finish();
        }
    }

    /// The body breaks off. The reader gets this error.
    pub(crate) fn abort(&mut self, why: BodyError) {
        let status = match &why {
            BodyError::Malformed(error) => error.status(),
            BodyError::Timeout => StatusCode::REQUEST_TIMEOUT,
            _ => StatusCode::BAD_REQUEST,
        };
        self.awaited = Awaited::Nothing;
        if let Reader::Here(sender) = std::mem::replace(&mut self.reader, Reader::Aborted(status)) {
            sender.abort(why);
        }
    }

    /// The status for a body that broke off.
    pub(crate) fn fault(&self) -> Option<StatusCode> {
        if let Reader::Aborted(status) = self.reader { Some(status) } else { None }
    }
}
