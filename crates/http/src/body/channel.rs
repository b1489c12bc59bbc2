//! The channel behind a streaming body: bounded by bytes, and its sender knows whether the reader has asked for data.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anywire_advice::Advice;
use bytes::Bytes;

use super::BodyError;
use crate::Headers;

/// Fills a body that was made with [`super::Body::channel`].
///
/// Give it chunks with [`Sender::send`], and end with [`Sender::finish`]. Dropping it before that
/// tells the reader that the body is [`BodyError::Incomplete`].
///
/// The task that polled the sender last is woken when the reader leaves, even if that poll was ready. So a sender that
/// waits for its own source learns at once that the reader is gone.
pub struct Sender {
    shared: Arc<Shared>,
}

impl Sender {
    /// Waits until there is room for a chunk.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`] if the reader is gone.
    pub async fn ready(&mut self) -> Result<(), SendError> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// The polling form of [`Sender::ready`].
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_until(cx, State::has_room)
    }

    /// Waits until the reader has asked for bytes at least once and there is room.
    ///
    /// A server waits for this before it reads from the wire. So an unread body costs nothing, and a client gets its
    /// `100 Continue` only when a handler reads.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`] if the reader is gone.
    pub fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_until(cx, |state| state.wanted && state.has_room())
    }

    /// Waits until there is room, and hands over a chunk. An empty one is ignored.
    ///
    /// ```
    /// # async fn example() -> Result<(), anywire_http::body::SendError> {
    /// let (mut sender, body) = anywire_http::Body::channel(64 * 1024);
    /// sender.send("hello").await?;
    /// sender.finish();
    /// # drop(body);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`] if the reader is gone.
    pub async fn send(&mut self, chunk: impl Into<Bytes>) -> Result<(), SendError> {
        self.ready().await?;
        self.try_send(chunk)
    }

    /// Hands over a chunk if there is room. An empty one is ignored.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] without room (see [`Sender::ready`]), [`SendError::Closed`] if the reader is gone.
    pub fn try_send(&mut self, chunk: impl Into<Bytes>) -> Result<(), SendError> {
        let chunk = chunk.into();
        let state = self.shared.lock();
        if !state.reader_gone && !state.has_room() {
            return Err(SendError::Full { chunk });
        }
        Self::hand_over(state, chunk)
    }

    /// Hands over a chunk, even without room: for a sender that holds what has come already, and can hold it no longer.
    /// An empty one is ignored.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`] if the reader is gone.
    pub fn send_anyway(&mut self, chunk: impl Into<Bytes>) -> Result<(), SendError> {
        Self::hand_over(self.shared.lock(), chunk.into())
    }

    fn hand_over(mut state: MutexGuard<'_, State>, chunk: Bytes) -> Result<(), SendError> {
        if state.reader_gone {
            return Err(SendError::Closed);
        }
        if chunk.is_empty() {
            return Ok(());
        }
        state.queued_bytes += chunk.len();
        state.queue.push(chunk);
        let waker = state.reader.take();
        state.waited = Duration::ZERO;
        drop(state);
        wake(waker);
        Ok(())
    }

    /// Sets the trailer fields that the reader finds after the end.
    pub fn trailers(&mut self, trailers: Headers) {
        self.shared.lock().trailers = Some(Box::new(trailers));
    }

    /// Ends the body.
    pub fn finish(self) {
        self.end(BodyEnd::Complete);
    }

    /// Aborts the body: the reader gets `error` after the chunks sent so far.
    pub fn abort(self, error: BodyError) {
        self.end(BodyEnd::Broken(error));
    }

    /// Whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().reader_gone
    }

    /// Whether the reader waits for a chunk now: it has asked, and has read all chunks sent so far.
    pub fn is_awaited(&self) -> bool {
        let state = self.shared.lock();
        state.reader.is_some() && state.queue.is_empty()
    }

    /// From here the channel knows by this clock how long its reader [has waited](Self::awaited_for). This module has no clock of
    /// its own.
    pub fn keep_time(&self, clock: fn() -> Instant) {
        self.shared.lock().clock = Some(clock);
    }

    /// How long the reader has waited for a chunk since it got the last one, not counting the time in which it did not ask.
    /// Only if it [keeps the time](Self::keep_time); else zero.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let (sender, body) = anywire_http::Body::channel(1024);
    /// sender.keep_time(Instant::now);
    /// assert_eq!(sender.awaited_for(Instant::now()), Duration::ZERO, "nobody has asked");
    /// # drop(body);
    /// ```
    pub fn awaited_for(&self, now: Instant) -> Duration {
        self.shared.lock().awaited_for(now)
    }

    fn end(&self, end: BodyEnd) {
        let mut state = self.shared.lock();
        if matches!(state.end, BodyEnd::Open) {
            state.end = end;
            let reader = state.reader.take();
            // Nothing is left to tell the sender.
            let sender = state.sender.take();
            drop(state);
            wake(reader);
            drop(sender);
        }
    }

    fn poll_until(
        &self,
        cx: &Context<'_>,
        condition: impl FnOnce(&State) -> bool,
    ) -> Poll<Result<(), SendError>> {
        let mut state = self.shared.lock();
        if state.reader_gone {
            return Poll::Ready(Err(SendError::Closed));
        }
        // Registered even if ready: the reader may leave while the sender waits for its own source.
        let replaced = keep_waker(&mut state.sender, cx);
        let polled = if condition(&state) { Poll::Ready(Ok(())) } else { Poll::Pending };
        drop(state);
        drop(replaced);
        polled
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.end(BodyEnd::Broken(BodyError::Incomplete));
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}

/// Why a chunk was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The reader is gone. No fault; stop producing the body.
    #[error("sending a body's chunk: its reader is gone{help}", help = Advice("stop making the body"))]
    Closed,
    /// The channel holds as many bytes as it may. Fault of the caller, who did not wait until there was room.
    #[error(
        "sending a body's chunk: the channel is full{help}",
        help = Advice("use Sender::send, which waits for room")
    )]
    Full {
        /// The chunk that was not taken.
        chunk: Bytes,
    },
}

pub(super) struct Receiver {
    shared: Arc<Shared>,
}

impl Receiver {
    pub(super) fn poll_chunk(&self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let mut state = self.shared.lock();
        let first_ask = !std::mem::replace(&mut state.wanted, true);
        if state.chunks_in_a_row >= CHUNKS_IN_A_ROW_MAX {
            state.chunks_in_a_row = 0;
            drop(state);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(chunk) = state.queue.pop() {
            state.chunks_in_a_row += 1;
            let was_full = !state.has_room();
            state.queued_bytes -= chunk.len();
            let waker = if first_ask || was_full { state.sender.take() } else { None };
            drop(state);
            wake(waker);
            return Poll::Ready(Ok(Some(chunk)));
        }
        match std::mem::replace(&mut state.end, BodyEnd::Complete) {
            BodyEnd::Complete => Poll::Ready(Ok(None)),
            BodyEnd::Broken(error) => Poll::Ready(Err(error)),
            BodyEnd::Open => {
                state.end = BodyEnd::Open;
                state.chunks_in_a_row = 0;
                if state.reader.is_none()
                    && let Some(clock) = state.clock
                {
                    state.waits_since = Some(clock());
                }
                let replaced = keep_waker(&mut state.reader, cx);
                let waker = if first_ask { state.sender.take() } else { None };
                drop(state);
                drop(replaced);
                wake(waker);
                Poll::Pending
            }
        }
    }

    /// The reader waits for no chunk any more, without having got one.
    pub(super) fn wait_no_more(&self) {
        let mut state = self.shared.lock();
        if let Some(clock) = state.clock {
            state.waited = state.awaited_for(clock());
        }
        let waker = state.reader.take();
        drop(state);
        drop(waker);
    }

    pub(super) fn take_trailers(&self) -> Option<Box<Headers>> {
        self.shared.lock().trailers.take()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.reader_gone = true;
        let queue = std::mem::take(&mut state.queue);
        let waker = state.sender.take();
        drop(state);
        wake(waker);
        drop(queue);
    }
}

struct Shared {
    state: Mutex<State>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State {
    queue: Queue,
    queued_bytes: usize,
    limit_bytes: usize,
    /// The reader has asked for data at least once.
    wanted: bool,
    /// Chunks that the reader got since its last pending poll.
    chunks_in_a_row: u32,
    reader_gone: bool,
    end: BodyEnd,
    trailers: Option<Box<Headers>>,
    /// Set while the reader waits.
    reader: Option<Waker>,
    sender: Option<Waker>,
    /// Where the time comes from, if it counts.
    clock: Option<fn() -> Instant>,
    /// When the reader began to wait, if it does.
    waits_since: Option<Instant>,
    /// How long it had waited before, for the same chunk.
    waited: Duration,
}

impl State {
    fn has_room(&self) -> bool {
        self.queued_bytes < self.limit_bytes
    }

    fn awaited_for(&self, now: Instant) -> Duration {
        let since = self.waits_since.filter(|_| self.reader.is_some());
        self.waited.saturating_add(since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)))
    }
}

/// Chunks that wait for their reader. Small ones are joined while others wait before them: each by itself would take 64 bytes
/// and more, so that single bytes would hold 64 times what the limit says.
#[derive(Default)]
struct Queue {
    chunks: VecDeque<Bytes>,
    /// Small chunks, joined, behind all others.
    small: Vec<u8>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.small.is_empty()
    }

    fn push(&mut self, chunk: Bytes) {
        // With a reader that keeps up nothing waits, and nothing is copied.
        if chunk.len() < JOINED_BYTES_MIN && !self.is_empty() {
            self.small.extend_from_slice(&chunk);
            if self.small.len() >= JOINED_BYTES_MIN {
                self.chunks.push_back(std::mem::take(&mut self.small).into());
            }
            return;
        }
        if !self.small.is_empty() {
            self.chunks.push_back(std::mem::take(&mut self.small).into());
        }
        self.chunks.push_back(chunk);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let first = self.chunks.pop_front();
        first.or_else(|| {
            Some(std::mem::take(&mut self.small).into()).filter(|small: &Bytes| !small.is_empty())
        })
    }
}

enum BodyEnd {
    Open,
    Complete,
    Broken(BodyError),
}

pub(super) fn channel(limit_bytes: usize) -> (Sender, Receiver) {
    let state = State {
        queue: Queue::default(),
        queued_bytes: 0,
        limit_bytes: limit_bytes.max(1),
        wanted: false,
        chunks_in_a_row: 0,
        reader_gone: false,
        end: BodyEnd::Open,
        trailers: None,
        reader: None,
        sender: None,
        clock: None,
        waits_since: None,
        waited: Duration::ZERO,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state) });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// Call this without the lock: a waker may run or drop arbitrary code.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Registers the waker of `cx`, without cloning one that is registered already. Returns the replaced waker. Drop it
/// without the lock: the last waker of a task may drop the task, and with it the other end.
#[must_use]
fn keep_waker(place: &mut Option<Waker>, cx: &Context<'_>) -> Option<Waker> {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => None,
        _ => place.replace(cx.waker().clone()),
    }
}

/// Chunks that a reader gets before one poll is pending, though more are there. Otherwise a fast sender would keep the
/// reader's task from its other work, such as deadlines.
const CHUNKS_IN_A_ROW_MAX: u32 = 32;
/// A chunk that is shorter is joined with those around it: beside so many bytes, what a chunk takes does not count.
const JOINED_BYTES_MIN: usize = 1024;
