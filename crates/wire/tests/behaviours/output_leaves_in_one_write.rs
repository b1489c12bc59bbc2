//! Whatever waits in an output leaves in one call of the wire, and a wire that takes a part is asked again for the
//! rest only.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use anywire_wire::{Address, Connection, Output, Transport};

/// Takes as many bytes as scripted, call by call, and records them.
#[derive(Default)]
struct Script {
    /// For each call how many bytes are taken; 0 is "not now". Everything once there are no more.
    takes: Vec<usize>,
    calls: usize,
    vectored: usize,
    taken: Vec<u8>,
}

struct Scripted(Rc<RefCell<Script>>);

impl Scripted {
    fn connection(takes: &[usize]) -> (Connection, Rc<RefCell<Script>>) {
        let script = Script { takes: takes.to_vec(), ..Script::default() };
        let script = Rc::new(RefCell::new(script));
        (Connection::new(Self(Rc::clone(&script))), script)
    }
}

impl Transport for Scripted {
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.poll_write_vectored(cx, &[IoSlice::new(bytes)]);
        self.0.borrow_mut().vectored -= 1;
        written
    }
    fn poll_write_vectored(
        &mut self,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut script = self.0.borrow_mut();
        let call = script.calls;
        script.calls += 1;
        script.vectored += 1;
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let takes = script.takes.get(call).map_or(all.len(), |&takes| takes.min(all.len()));
        if takes == 0 {
            return Poll::Pending;
        }
        script.taken.extend_from_slice(&all[..takes]);
        Poll::Ready(Ok(takes))
    }
    fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn abort(&mut self) {}
    fn local(&self) -> Address {
        "memory:scripted".parse().expect("an address")
    }
    fn peer(&self) -> Address {
        self.local()
    }
}

/// Three heads and two large bodies, as of pipelined answers.
fn answers() -> (Output, Vec<u8>) {
    let mut output = Output::new();
    for body in [vec![b'a'; 5000], vec![b'b'; 100], vec![b'c'; 70_000]] {
        output.buffer().extend_from_slice(b"head");
        output.push_bytes(body.into());
    }
    let expected =
        [b"head".as_slice(), &[b'a'; 5000], b"head", &[b'b'; 100], b"head", &[b'c'; 70_000]].concat();
    assert_eq!(output.len(), expected.len());
    (output, expected)
}

fn flush(output: &mut Output, connection: &mut Connection) -> Poll<io::Result<()>> {
    output.poll_flush(&mut Context::from_waker(Waker::noop()), connection)
}

#[test]
fn heads_and_bodies_leave_in_one_vectored_write() {
    let (mut output, expected) = answers();
    let (mut connection, script) = Scripted::connection(&[]);
    assert!(matches!(flush(&mut output, &mut connection), Poll::Ready(Ok(()))));
    let script = script.borrow();
    assert_eq!((script.calls, script.vectored), (1, 1));
    assert!(script.taken == expected && output.is_empty());
}

#[test]
fn small_parts_leave_in_one_plain_write() {
    let mut output = Output::new();
    output.buffer().extend_from_slice(b"head");
    output.push_bytes(b"body".as_slice().into());
    let (mut connection, script) = Scripted::connection(&[]);
    assert!(matches!(flush(&mut output, &mut connection), Poll::Ready(Ok(()))));
    assert_eq!((script.borrow().calls, script.borrow().vectored), (1, 0));
    assert_eq!(script.borrow().taken, b"headbody");
}

#[test]
fn nothing_is_not_written() {
    let mut output = Output::new();
    let (mut connection, script) = Scripted::connection(&[]);
    assert!(matches!(flush(&mut output, &mut connection), Poll::Ready(Ok(()))));
    let (mut filled, _) = answers();
    filled.clear();
    assert!(filled.is_empty());
    assert!(matches!(flush(&mut filled, &mut connection), Poll::Ready(Ok(()))));
    assert_eq!(script.borrow().calls, 0);
}

#[test]
fn what_is_not_taken_waits_in_order_and_more_may_follow() {
    let (mut output, mut expected) = answers();
    let (mut connection, script) = Scripted::connection(&[3, 4000, 0, 2000, 0]);
    assert!(flush(&mut output, &mut connection).is_pending());
    assert_eq!(output.len(), expected.len() - 4003);
    output.buffer().extend_from_slice(b"more");
    expected.extend_from_slice(b"more");
    assert!(flush(&mut output, &mut connection).is_pending());
    assert!(matches!(flush(&mut output, &mut connection), Poll::Ready(Ok(()))));
    assert!(script.borrow().taken == expected && output.is_empty());
    assert_eq!(script.borrow().calls, 6);
}
