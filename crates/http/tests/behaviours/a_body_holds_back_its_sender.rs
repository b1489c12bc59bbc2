//! A streaming body takes no more than its limit ahead of its reader, and each end learns what became of the
//! other.

use std::cell::Cell;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use anywire_http::body::{Body, BodyError, SendError, Sender};
use anywire_http::{Fault, Headers, h1};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    fn rung(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), bell.into())
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits for something"),
    }
}

fn is_ready(sender: &mut Sender, waker: &Waker) -> bool {
    sender.poll_ready(&mut Context::from_waker(waker)).is_ready()
}

fn is_wanted(sender: &mut Sender, waker: &Waker) -> bool {
    sender.poll_wanted(&mut Context::from_waker(waker)).is_ready()
}

fn next(body: &mut Body, waker: &Waker) -> Poll<Result<Option<Bytes>, BodyError>> {
    body.poll_chunk(&mut Context::from_waker(waker))
}

#[test]
fn there_is_room_until_the_limit_and_again_when_the_reader_took_some() {
    let (bell, waker) = bell();
    let (mut sender, mut body) = Body::channel(10);
    assert!(is_ready(&mut sender, &waker));
    sender.try_send(Bytes::from_static(b"12345678")).expect("room");
    assert!(is_ready(&mut sender, &waker));
    sender.try_send(Bytes::from_static(b"90abc")).expect("room for the last chunk");
    assert!(!is_ready(&mut sender, &waker));
    let refused = sender.try_send(Bytes::from_static(b"d"));
    assert_eq!(refused, Err(SendError::Full { chunk: Bytes::from_static(b"d") }));
    assert_eq!(bell.rung(), 0);
    assert_eq!(now(body.chunk()).expect("no error").as_deref(), Some(&b"12345678"[..]));
    assert_eq!(bell.rung(), 1);
    assert!(is_ready(&mut sender, &waker));
}

#[test]
fn nothing_is_wanted_before_the_reader_asked() {
    let (bell, waker) = bell();
    let (reader_bell, reader_waker) = self::bell();
    let (mut sender, mut body) = Body::channel(10);
    assert!(is_ready(&mut sender, &waker) && !is_wanted(&mut sender, &waker));
    assert!(next(&mut body, &reader_waker).is_pending());
    assert_eq!(bell.rung(), 1);
    assert!(is_wanted(&mut sender, &waker));
    sender.try_send(Bytes::from_static(b"x")).expect("room");
    assert_eq!(reader_bell.rung(), 1);
    assert!(matches!(next(&mut body, &reader_waker), Poll::Ready(Ok(Some(_)))));
}

#[test]
fn nothing_more_is_wanted_until_the_reader_has_taken_what_fills_the_channel() {
    let (bell, waker) = bell();
    let (mut sender, mut body) = Body::channel(1);
    assert!(next(&mut body, Waker::noop()).is_pending() && is_wanted(&mut sender, &waker));
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert!(!is_wanted(&mut sender, &waker));
    assert!(next(&mut body, Waker::noop()).is_ready());
    assert_eq!(bell.rung(), 1);
    assert!(is_wanted(&mut sender, &waker));
}

#[test]
fn the_first_question_is_told_though_it_finds_a_chunk() {
    let (bell, waker) = bell();
    let (mut sender, mut body) = Body::channel(10);
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert!(!is_wanted(&mut sender, &waker));
    assert!(next(&mut body, Waker::noop()).is_ready());
    assert_eq!(bell.rung(), 1);
    assert!(is_wanted(&mut sender, &waker));
}

#[test]
fn a_sender_is_awaited_while_its_reader_waits_and_then_alone() {
    let (mut sender, mut body) = Body::channel(10);
    assert!(!sender.is_awaited(), "nobody has asked");
    assert!(next(&mut body, Waker::noop()).is_pending());
    assert!(sender.is_awaited());
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert!(!sender.is_awaited(), "the reader has something to take");
    assert!(next(&mut body, Waker::noop()).is_ready());
    assert!(!sender.is_awaited(), "the reader works on what it has");
}

#[test]
fn a_reader_that_turns_to_something_else_waits_no_more() {
    let (mut sender, mut body) = Body::channel(10);
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut chunk = pin!(body.chunk());
        assert!(chunk.as_mut().poll(&mut cx).is_pending());
        assert!(sender.is_awaited());
    }
    assert!(!sender.is_awaited(), "it was dropped, as by select!");
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert!(pin!(body.chunk()).poll(&mut cx).is_ready(), "nothing is lost");
}

thread_local! {
    /// The time of a test, which it moves by hand.
    static NOW: Cell<Instant> = Cell::new(crate::support::h2::clock());
}

#[test]
fn a_sender_that_keeps_the_time_knows_for_how_long_it_is_awaited() {
    const SECOND: Duration = Duration::from_secs(1);
    let passes = |seconds: u32| NOW.set(NOW.get() + SECOND * seconds);
    let (mut sender, mut body) = Body::channel(10);
    sender.keep_time(|| NOW.get());
    let waited = |sender: &Sender| sender.awaited_for(NOW.get()).as_secs();
    passes(1);
    assert_eq!(waited(&sender), 0, "nobody has asked");
    let mut cx = Context::from_waker(Waker::noop());
    for turn in 1..=3 {
        let mut chunk = pin!(body.chunk());
        assert!(chunk.as_mut().poll(&mut cx).is_pending());
        passes(1);
        assert!(chunk.as_mut().poll(&mut cx).is_pending(), "asking again is no new question");
        passes(1);
        assert_eq!(waited(&sender), turn * 2);
    }
    passes(1);
    assert_eq!(waited(&sender), 6, "it has turned to something else");
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert_eq!(waited(&sender), 0, "the next chunk is another one");
    assert!(pin!(body.chunk()).poll(&mut cx).is_ready());
    passes(1);
    assert_eq!(waited(&sender), 0, "the reader works on what it has");
}

#[test]
fn each_error_says_who_is_at_fault() {
    let faults = [
        (BodyError::Incomplete, Fault::Wire),
        (BodyError::TooLarge { limit_bytes: 1 }, Fault::Limit),
        (h1::DecodeError::ChunkSize.into(), Fault::Peer),
        (h1::DecodeError::HeadTooLarge { limit: 1 }.into(), Fault::Limit),
        (BodyError::Wire(io::ErrorKind::ConnectionReset.into()), Fault::Wire),
        (io::Error::from(io::ErrorKind::NotFound).into(), Fault::Caller),
        (BodyError::Timeout, Fault::Peer),
        (BodyError::failed("no more"), Fault::Caller),
    ];
    for (error, fault) in faults {
        assert_eq!(error.fault(), fault, "{error}");
    }
}

#[test]
fn what_was_sent_comes_before_the_end_and_the_trailers_after() {
    let (mut sender, mut body) = Body::channel(10);
    let mut trailers = Headers::new();
    trailers.append("sum", "1").expect("valid");
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    sender.try_send(Bytes::new()).expect("ignored");
    sender.try_send(Bytes::from_static(b"b")).expect("room");
    sender.trailers(trailers.clone());
    sender.finish();
    assert!(body.trailers().is_none());
    assert_eq!(now(body.bytes(2)).expect("no error"), "ab");
    assert_eq!(body.trailers(), Some(&trailers));
    assert!(matches!(now(body.chunk()), Ok(None)));
}

#[test]
fn a_sender_that_goes_away_leaves_the_body_incomplete() {
    let (bell, waker) = bell();
    let (mut sender, mut body) = Body::channel(10);
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert!(matches!(next(&mut body, &waker), Poll::Ready(Ok(Some(_)))));
    assert!(next(&mut body, &waker).is_pending());
    drop(sender);
    assert_eq!(bell.rung(), 1);
    assert!(matches!(now(body.chunk()), Err(BodyError::Incomplete)));
    assert!(matches!(now(body.chunk()), Ok(None)));
}

#[test]
fn a_sender_that_gives_up_says_why() {
    let (sender, mut body) = Body::channel(10);
    sender.abort(h1::DecodeError::BodyCutShort.into());
    assert!(matches!(now(body.chunk()), Err(BodyError::Malformed(h1::DecodeError::BodyCutShort))));
}

#[test]
fn a_reader_that_goes_away_closes_the_sender() {
    let (bell, waker) = bell();
    let (mut sender, body) = Body::channel(1);
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert!(!is_ready(&mut sender, &waker));
    drop(body);
    assert_eq!(bell.rung(), 1);
    assert_eq!(now(sender.ready()), Err(SendError::Closed));
    assert_eq!(sender.try_send(Bytes::from_static(b"b")), Err(SendError::Closed));
    assert!(sender.is_closed());
}

#[test]
fn a_reader_that_goes_away_wakes_a_sender_that_had_room() {
    let (bell, waker) = bell();
    let (mut sender, mut body) = Body::channel(10);
    assert!(is_ready(&mut sender, &waker));
    sender.try_send(Bytes::from_static(b"a")).expect("room");
    assert!(matches!(next(&mut body, &waker), Poll::Ready(Ok(Some(_)))));
    assert!(next(&mut body, &waker).is_pending());
    assert!(is_wanted(&mut sender, &waker));
    bell.rung();
    drop(body);
    assert_eq!(bell.rung(), 1);
    assert_eq!(now(sender.ready()), Err(SendError::Closed));
}

#[test]
fn a_sender_that_has_finished_is_not_woken() {
    let (bell, waker) = bell();
    let (mut sender, body) = Body::channel(10);
    assert!(is_ready(&mut sender, &waker));
    sender.finish();
    drop(body);
    assert_eq!(bell.rung(), 0);
}

#[test]
fn a_reader_of_a_busy_sender_lets_others_run() {
    let (bell, waker) = bell();
    let (mut sender, mut body) = Body::channel(10);
    let mut in_a_row = 0;
    for round in 1..=10_000 {
        sender.try_send(Bytes::from_static(b"x")).expect("room");
        match next(&mut body, &waker) {
            Poll::Ready(_) => in_a_row += 1,
            Poll::Pending => {
                assert_eq!(bell.rung(), 1, "a chunk is there, so the reader goes on by itself");
                assert!(next(&mut body, &waker).is_ready());
                assert!(round > 1, "the first chunk is given at once");
                return;
            }
        }
    }
    panic!("{in_a_row} chunks without a pause");
}

#[test]
fn bytes_stop_at_their_limit() {
    assert_eq!(now(Body::from("hello").bytes(5)).expect("fits"), "hello");
    assert!(matches!(now(Body::from("hello").bytes(4)), Err(BodyError::TooLarge { limit_bytes: 4 })));
    let (mut sender, mut body) = Body::channel(10);
    for _ in 0..3 {
        sender.try_send(Bytes::from_static(b"abc")).expect("room");
    }
    assert!(matches!(now(body.bytes(8)), Err(BodyError::TooLarge { limit_bytes: 8 })));
    let (mut sender, mut body) = Body::channel(10);
    sender.try_send(Bytes::from_static(b"abc")).expect("room");
    sender.finish();
    assert!(matches!(now(body.bytes(2)), Err(BodyError::TooLarge { limit_bytes: 2 })), "in its only chunk");
    let (_sender, body) = Body::channel(10);
    assert!(now(body.with_length(9).bytes(8)).expect_err("declared too long").is_too_large());
}

/// Gives its items, one a poll.
struct Items(Vec<Result<Bytes, BodyError>>);

impl Stream for Items {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.pop())
    }
}

#[test]
fn streams_skip_what_is_empty_and_count_down_their_length() {
    let items = vec![Ok(Bytes::from_static(b"c")), Ok(Bytes::new()), Ok(Bytes::from_static(b"ab"))];
    let mut body = Body::stream(Items(items)).with_length(3);
    assert_eq!((body.length(), h1::Framing::of_response(&body)), (Some(3), h1::Framing::Length(3)));
    assert_eq!(now(body.chunk()).expect("no error").as_deref(), Some(&b"ab"[..]));
    assert_eq!(body.length(), Some(1));
    assert_eq!(now(body.chunk()).expect("no error").as_deref(), Some(&b"c"[..]));
    assert!(matches!(now(body.chunk()), Ok(None)));
}

#[test]
fn a_body_that_does_not_keep_to_its_length_fails() {
    for (length, how) in
        [(1, "longer than its stated length, by 1 bytes"), (3, "shorter than its stated length, by 1 bytes")]
    {
        let mut body = Body::stream(Items(vec![Ok(Bytes::from_static(b"ab"))])).with_length(length);
        let read = std::iter::repeat_with(|| now(body.chunk())).find(Result::is_err);
        let error = read.and_then(Result::err).expect("it fails");
        assert_eq!(error.fault(), Fault::Caller);
        let reason = std::error::Error::source(&error).expect("a reason").to_string();
        assert!(reason.contains(how), "{reason}");
        assert!(matches!(now(body.chunk()), Ok(None)), "an error comes once");
    }
}

#[test]
fn a_stream_of_empty_items_lets_others_run() {
    struct Nothing;
    impl Stream for Nothing {
        type Item = Result<Bytes, BodyError>;
        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(Some(Ok(Bytes::new())))
        }
    }
    let (bell, waker) = bell();
    assert!(next(&mut Body::stream(Nothing), &waker).is_pending());
    assert_eq!(bell.rung(), 1);
}

#[test]
fn an_error_ends_a_stream() {
    let reset = BodyError::Wire(io::ErrorKind::ConnectionReset.into());
    let mut body = Body::stream(Items(vec![Ok(Bytes::from_static(b"never")), Err(reset)]));
    assert_eq!(h1::Framing::of_response(&body), h1::Framing::Chunked);
    assert_eq!(now(body.chunk()).expect_err("reset").fault(), Fault::Wire);
    assert!(matches!(now(body.chunk()), Ok(None)));
}

/// A task that holds the other end of the channel, and that only its waker keeps alive.
struct Keeps<T>(T);

impl<T: Send + Sync> Wake for Keeps<T> {
    fn wake(self: Arc<Self>) {
        let Self(_kept) = &*self;
    }
}

#[test]
fn a_waker_that_is_replaced_may_hold_the_other_end() {
    let (done, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut noop = Context::from_waker(Waker::noop());
        let (sender, mut body) = Body::channel(10);
        let waker = Waker::from(Arc::new(Keeps(sender)));
        assert!(body.poll_chunk(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert!(body.poll_chunk(&mut noop).is_pending());
        assert!(matches!(body.poll_chunk(&mut noop), Poll::Ready(Err(BodyError::Incomplete))));

        let (mut sender, body) = Body::channel(10);
        let waker = Waker::from(Arc::new(Keeps(Mutex::new(body))));
        assert!(sender.poll_wanted(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert!(sender.poll_wanted(&mut noop).is_pending());
        assert!(sender.is_closed());
        done.send(()).expect("the test listens");
    });
    told.recv_timeout(Duration::from_secs(60)).expect("no lock is held while a waker is dropped");
}

#[test]
fn what_has_come_already_goes_without_room() {
    let (mut sender, mut body) = Body::channel(1);
    sender.try_send("one").expect("room");
    assert!(matches!(sender.try_send("two"), Err(SendError::Full { .. })));
    sender.send_anyway("two").expect("a reader");
    sender.send_anyway("").expect("a reader");
    sender.send_anyway("three").expect("a reader");
    sender.finish();
    assert_eq!(now(body.text(100)).expect("whole"), "onetwothree");
    let (mut sender, body) = Body::channel(1);
    drop(body);
    assert_eq!(sender.send_anyway("more"), Err(SendError::Closed));
}

#[test]
fn chunks_take_no_more_memory_than_their_bytes_however_small_they_are() {
    const LIMIT: usize = 64 << 10;
    // With a large one before each so many small ones, too.
    for (size, large_each) in
        [(1, usize::MAX), (7, usize::MAX), (1, 10), (1, 2000), (1023, usize::MAX), (1024, 3)]
    {
        let (mut sender, mut body) = Body::channel(LIMIT);
        let mut sent = Vec::new();
        for number in 0.. {
            let len = if number % large_each == large_each - 1 { 1024 } else { size };
            let chunk = vec![(number % 251) as u8; len];
            if sender.try_send(chunk.clone()).is_err() {
                break;
            }
            sent.extend(chunk);
        }
        sender.finish();
        assert!(sent.len() >= LIMIT && sent.len() < LIMIT + 1024);
        let (mut read, mut chunks, mut held) = (Vec::new(), 0, 0);
        loop {
            match next(&mut body, Waker::noop()) {
                Poll::Pending => {}
                Poll::Ready(Ok(None)) => break,
                Poll::Ready(chunk) => {
                    let chunk = chunk.expect("no error").expect("a chunk");
                    assert!(!chunk.is_empty());
                    read.extend_from_slice(&chunk);
                    chunks += 1;
                    held += BytesMut::from(chunk).capacity();
                }
            }
        }
        assert!(read == sent, "chunks of {size} bytes stay in order");
        assert!(chunks <= 2 * LIMIT / 1024 + 2, "chunks of {size} bytes: {chunks}");
        assert!(held <= 2 * LIMIT + 4096, "chunks of {size} bytes: {held} bytes");
    }
}

#[test]
fn a_reader_that_keeps_up_gets_each_chunk_as_it_was_sent() {
    let (mut sender, mut body) = Body::channel(10_000);
    for chunk in ["a", "", "bc"] {
        let chunk = Bytes::from(chunk);
        sender.try_send(chunk.clone()).expect("room");
        if !chunk.is_empty() {
            let read = now(body.chunk()).expect("no error").expect("a chunk");
            assert_eq!((&read, read.as_ptr()), (&chunk, chunk.as_ptr()), "it was not copied");
        }
    }
}
