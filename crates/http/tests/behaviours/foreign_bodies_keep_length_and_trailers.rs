//! A body is an `http_body::Body`, and is made from one: its length, its trailers and its faults stay.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use anywire_http::{Body, BodyError, Fault, Headers};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};

/// A body of frames that are ready.
struct Frames {
    frames: VecDeque<Result<Frame<BytesMut>, io::Error>>,
    length: Option<u64>,
}

impl http_body::Body for Frames {
    type Data = BytesMut;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BytesMut>, io::Error>>> {
        Poll::Ready(self.frames.pop_front())
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

fn data(text: &str) -> Result<Frame<BytesMut>, io::Error> {
    Ok(Frame::data(text.into()))
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("sum".parse().expect("a name"), "7".parse().expect("a value"))])
}

fn chunk(body: &mut Body) -> Result<Option<Bytes>, BodyError> {
    match body.poll_chunk(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(chunk) => chunk,
        Poll::Pending => panic!("all frames are ready"),
    }
}

fn frame(body: &mut Body) -> Option<Result<Frame<Bytes>, BodyError>> {
    match Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(frame) => frame,
        Poll::Pending => panic!("all frames are ready"),
    }
}

#[test]
fn data_and_trailers_of_a_foreign_body_are_read() {
    let frames = [data("ab"), data(""), data("c"), Ok(Frame::trailers(trailers()))];
    let mut body = Body::wrap(Frames { frames: frames.into(), length: Some(3) });
    assert_eq!((body.length(), body.size_hint().exact()), (Some(3), Some(3)));
    assert_eq!(chunk(&mut body).expect("data"), Some("ab".into()));
    assert_eq!(body.length(), Some(1));
    assert_eq!(chunk(&mut body).expect("data"), Some("c".into()));
    assert_eq!(chunk(&mut body).expect("the end"), None);
    assert_eq!(body.trailers().and_then(|trailers| trailers.get("sum")), Some("7"));
}

#[test]
fn a_foreign_body_of_unknown_length_has_none() {
    let body = Body::wrap(Frames { frames: [data("ab")].into(), length: None });
    assert_eq!((body.length(), body.size_hint().exact()), (None, None));
}

#[test]
fn a_foreign_body_that_fails_is_its_makers_fault() {
    let frames = [data("ab"), Err(io::Error::other("the disk is gone"))];
    let mut body = Body::wrap(Frames { frames: frames.into(), length: None });
    chunk(&mut body).expect("data");
    let error = chunk(&mut body).expect_err("it fails");
    assert!(matches!(&error, BodyError::Failed(_)) && error.fault() == Fault::Caller, "{error}");
    assert!(matches!(chunk(&mut body), Ok(None)));
}

#[test]
fn frames_are_data_and_then_the_trailers() {
    let (mut sender, mut body) = Body::channel(16);
    sender.try_send("abc").expect("room");
    let mut sum = Headers::new();
    sum.append("sum", "7").expect("valid");
    sender.trailers(sum);
    sender.finish();
    assert!(!body.is_end_stream());
    let first = frame(&mut body).expect("data").expect("no fault");
    assert_eq!(first.into_data().expect("data"), "abc");
    let last = frame(&mut body).expect("trailers").expect("no fault");
    assert_eq!(last.into_trailers().expect("trailers"), trailers());
    assert!(frame(&mut body).is_none() && body.is_end_stream());
}

#[test]
fn a_body_of_ours_is_not_wrapped_again() {
    let body = Body::wrap(Body::from("whole"));
    assert_eq!(body.into_full().expect("as it was"), "whole");
    assert!(Body::wrap(Body::empty()).is_end_stream());
}

/// As of the `http-body` crate's users, which stop where a body says that it has ended.
#[test]
fn a_body_has_ended_once_its_trailers_are_taken() {
    let (mut sender, mut body) = Body::channel(16);
    sender.trailers(Headers::from(&trailers()));
    sender.finish();
    assert!(matches!(chunk(&mut body), Ok(None)));
    assert_eq!((body.length(), body.is_end_stream()), (Some(0), false));
    assert!(frame(&mut body).is_some_and(|frame| frame.is_ok_and(|frame| frame.is_trailers())));
    assert!(body.is_end_stream() && frame(&mut body).is_none());
    let nothing = Body::wrap(Ended);
    assert_eq!(nothing.length(), Some(0));
}

/// A body that is at its end before anything is asked of it.
struct Ended;

impl http_body::Body for Ended {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}
