//! The line against a model: any split of the bytes, callers who leave at any time, a connection that ends anywhere.

use anywire_http::h1::Limits;
use anywire_http::{Buffer, Method};
use anywire_wire::{Output, Position};
use proptest::collection::vec;
use proptest::prelude::*;

use super::line::{Broken, Line, Part, Rest};

/// A call of the tests, with what has come for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    id: usize,
    interim: usize,
    status: Option<u16>,
    body: Vec<u8>,
}

impl Call {
    fn new(id: usize) -> Self {
        Self { id, interim: 0, status: None, body: Vec::new() }
    }
}

/// How a server answers a request.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Length(usize),
    Chunks(usize),
    Head,
    NoContent,
    Interim(usize),
    /// Nothing follows it.
    Close(usize),
    UntilClose(usize),
}

impl Answer {
    fn method(self) -> Method {
        if let Self::Head = self { Method::HEAD } else { Method::GET }
    }

    fn is_last(self) -> bool {
        matches!(self, Self::Close(_) | Self::UntilClose(_))
    }

    fn body(self, id: usize) -> Vec<u8> {
        let length = match self {
            Self::Length(length) | Self::Chunks(length) | Self::Close(length) | Self::UntilClose(length) => {
                length
            }
            Self::Interim(_) => 3,
            Self::Head | Self::NoContent => 0,
        };
        (0..length).map(|at| b'a' + ((id * 7 + at) % 26) as u8).collect()
    }

    fn bytes(self, id: usize) -> Vec<u8> {
        let body = self.body(id);
        let head = match self {
            Self::Length(length) => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"),
            Self::Chunks(_) => {
                let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
                for chunk in body.chunks(5) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\nx-sum: 1\r\n\r\n");
                return bytes;
            }
            Self::Head => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_owned(),
            Self::NoContent => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            Self::Interim(count) => {
                let interim = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(count);
                format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
            }
            Self::Close(length) => {
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
            }
            Self::UntilClose(_) => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        };
        [head.as_bytes(), &body].concat()
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => (0_usize..40).prop_map(Answer::Length),
        2 => (0_usize..40).prop_map(Answer::Chunks),
        1 => Just(Answer::Head),
        1 => Just(Answer::NoContent),
        1 => (1_usize..3).prop_map(Answer::Interim),
        1 => (0_usize..9).prop_map(Answer::Close),
        1 => (0_usize..9).prop_map(Answer::UntilClose),
    ]
}

/// A step of a connection's life.
#[derive(Debug, Clone, Copy)]
enum Step {
    Call,
    /// The wire takes so many bytes.
    Take(usize),
    /// The peer's bytes come, so many.
    Give(usize),
    /// The caller of one of them leaves.
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Call),
        3 => (1_usize..60).prop_map(Step::Take),
        3 => (1_usize..90).prop_map(Step::Give),
        1 => (0_usize..16).prop_map(Step::Leave),
    ]
}

/// Positions up to a length.
fn positions(length: usize) -> Vec<Position> {
    let mut output = Output::new();
    let at = |_| {
        let at = output.end();
        output.buffer().push(0);
        at
    };
    (0..=length).map(at).collect()
}

/// A request in the output of the model.
#[derive(Debug, Clone, Copy)]
struct Request {
    id: usize,
    begins_at: usize,
    ends_at: usize,
}

const REQUEST_BYTES: usize = 20;
const DRAIN_MAX: usize = 4096;

fn take_all(
    line: &mut Line<Call>,
    input: &mut Buffer,
    taken: Position,
    whole: &mut Vec<Call>,
) -> Option<Broken> {
    loop {
        match line.next(input, taken) {
            Ok(None) => return None,
            Ok(Some(Part::Interim(call, _))) => call.interim += 1,
            Ok(Some(Part::Head(call, head, _))) => call.status = Some(head.status().as_u16()),
            Ok(Some(Part::Data(call, data))) => call.body.extend(data),
            Ok(Some(Part::Trailers(..))) => {}
            Ok(Some(Part::Whole(call))) => whole.push(call),
            Err(broken) => return Some(broken),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn each_call_gets_its_own_response_or_is_told_whether_it_was_sent(
        answers in vec(answer(), 24),
        steps in vec(step(), 1..120),
    ) {
        let positions = positions(24 * REQUEST_BYTES);
        let mut line = Line::new(Limits::default(), DRAIN_MAX);
        let (mut input, mut whole, mut left) = (Buffer::new(), Vec::new(), Vec::new());
        let (mut requests, mut taken, mut end): (Vec<Request>, _, _) = (Vec::new(), 0, 0);
        // What the server has to say, and how many requests it has answered.
        let (mut speech, mut answered, mut closes) = (Vec::new(), 0, false);
        let mut calls = 0;
        for step in steps {
            match step {
                Step::Call if calls < answers.len() && !line.is_over() => {
                    let (begins_at, ends_at) = (end, end + REQUEST_BYTES);
                    line.push(Call::new(calls), &answers[calls].method(), positions[begins_at], positions[ends_at]);
                    requests.push(Request { id: calls, begins_at, ends_at });
                    (end, calls) = (ends_at, calls + 1);
                }
                Step::Call => {}
                Step::Take(count) => taken = end.min(taken + count),
                Step::Give(count) => {
                    while let Some(request) = requests.get(answered).filter(|it| it.ends_at <= taken && !closes) {
                        speech.extend(answers[request.id].bytes(request.id));
                        closes = answers[request.id].is_last();
                        answered += 1;
                    }
                    let count = count.min(speech.len());
                    prop_assert_eq!(input.fill_from(&speech[..count]), count);
                    speech.drain(..count);
                    prop_assert_eq!(take_all(&mut line, &mut input, positions[taken], &mut whole), None);
                }
                Step::Leave(at) => {
                    left.extend(line.leave(at).map(|call| call.id));
                    if let Some(position) = line.forget_unsent(positions[taken]) {
                        end = positions.iter().position(|it| *it == position).expect("a position");
                        requests.retain(|request| request.begins_at < end);
                    }
                }
            }
        }
        if closes && speech.is_empty() {
            let ended = line.ended();
            prop_assert!(ended.is_ok(), "{ended:?}");
            prop_assert_eq!(take_all(&mut line, &mut input, positions[taken], &mut whole), None);
        }
        prop_assert!(whole.is_sorted_by_key(|call| call.id));
        for call in &whole {
            prop_assert!(!left.contains(&call.id));
            prop_assert_eq!(&call.body, &answers[call.id].body(call.id));
            let status = if let Answer::NoContent = answers[call.id] { 204 } else { 200 };
            prop_assert_eq!(call.status, Some(status));
        }
        let rest = line.take_rest(positions[taken]);
        prop_assert!(rest.is_sorted_by_key(|rest| rest.call.id));
        for Rest { call, is_sent, is_sent_whole, has_begun, .. } in &rest {
            let request = requests.iter().find(|request| request.id == call.id).expect("its request");
            prop_assert_eq!(*is_sent, taken > request.begins_at);
            prop_assert_eq!(*is_sent_whole, taken >= request.ends_at);
            prop_assert!(*has_begun || call.status.is_none() && call.interim == 0);
        }
        // Each caller is told once.
        let mut all: Vec<_> = whole.iter().map(|call| call.id).chain(left).collect();
        all.extend(rest.iter().map(|rest| rest.call.id));
        all.sort_unstable();
        prop_assert_eq!(all, (0..calls).collect::<Vec<_>>());
    }

    #[test]
    fn no_bytes_of_a_peer_make_it_panic_or_give_two_responses(
        bytes in vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b' '), any::<u8>()], 0..200),
        good in 0_usize..3,
        split in 1_usize..50,
    ) {
        let positions = positions(3 * REQUEST_BYTES);
        let mut line = Line::new(Limits::default(), DRAIN_MAX);
        for id in 0..3 {
            let (begins_at, ends_at) = (positions[id * REQUEST_BYTES], positions[(id + 1) * REQUEST_BYTES]);
            line.push(Call::new(id), &Method::GET, begins_at, ends_at);
        }
        let speech = [Answer::Length(5).bytes(0).repeat(good), bytes].concat();
        let (mut input, mut whole) = (Buffer::new(), Vec::new());
        for piece in speech.chunks(split) {
            prop_assert_eq!(input.fill_from(piece), piece.len());
            if take_all(&mut line, &mut input, positions[3 * REQUEST_BYTES], &mut whole).is_some() {
                break;
            }
        }
        prop_assert!(whole.len() >= good);
        let mut all: Vec<_> = whole.iter().map(|call| call.id).collect();
        all.extend(line.take_rest(positions[0]).iter().map(|rest| rest.call.id));
        prop_assert_eq!(all, vec![0, 1, 2]);
    }
}

/// Two requests, of which the wire has taken so many bytes, and what the peer says.
fn two(taken: usize, said: &[u8]) -> (Line<Call>, Vec<Call>, Option<Broken>) {
    let positions = positions(2 * REQUEST_BYTES);
    let mut line = Line::new(Limits::default(), DRAIN_MAX);
    for id in 0..2 {
        line.push(
            Call::new(id),
            &Method::GET,
            positions[id * REQUEST_BYTES],
            positions[(id + 1) * REQUEST_BYTES],
        );
    }
    let (mut input, mut whole) = (Buffer::new(), Vec::new());
    input.fill_from(said);
    let broken = take_all(&mut line, &mut input, positions[taken], &mut whole);
    (line, whole, broken)
}

#[test]
fn a_response_before_its_request_is_nobodys() {
    let (mut line, whole, broken) = two(REQUEST_BYTES, &Answer::Length(5).bytes(0).repeat(2));
    assert_eq!((whole.len(), broken), (1, Some(Broken::Stray)));
    let rest = line.take_rest(positions(REQUEST_BYTES)[REQUEST_BYTES]);
    assert!(rest.iter().all(|rest| !rest.is_sent && !rest.has_begun), "{rest:?}");
}

#[test]
fn behind_a_response_that_came_before_the_end_of_its_request_nothing_is_read() {
    let (line, whole, broken) = two(REQUEST_BYTES / 2, &Answer::Length(5).bytes(0));
    assert_eq!((whole.len(), broken), (1, None));
    assert!(line.is_over());
}

#[test]
fn behind_all_responses_any_byte_is_a_stray_one() {
    let said = [&Answer::Length(5).bytes(0).repeat(2)[..], b"x"].concat();
    let (_, whole, broken) = two(2 * REQUEST_BYTES, &said);
    assert_eq!((whole.len(), broken), (2, Some(Broken::Stray)));
}

#[test]
fn a_response_that_nobody_waits_for_is_read_up_to_a_limit() {
    for (length, ends) in [(DRAIN_MAX, None), (DRAIN_MAX + 1, Some(Broken::Undrained))] {
        let positions = positions(2 * REQUEST_BYTES);
        let mut line = Line::new(Limits::default(), DRAIN_MAX);
        line.push(Call::new(0), &Method::GET, positions[0], positions[REQUEST_BYTES]);
        line.push(Call::new(1), &Method::GET, positions[REQUEST_BYTES], positions[2 * REQUEST_BYTES]);
        assert!(line.leave(0).is_some() && line.leave(0).is_none());
        assert_eq!((line.len(), line.calls()), (2, 1));
        let (mut input, mut whole) = (Buffer::new(), Vec::new());
        input.fill_from(&[Answer::Length(length).bytes(0), Answer::Length(5).bytes(1)].concat());
        let broken = take_all(&mut line, &mut input, positions[2 * REQUEST_BYTES], &mut whole);
        let answered = ends.is_none().then(|| Answer::Length(5).body(1));
        assert_eq!(broken, ends, "{length} bytes");
        assert_eq!(whole.first().map(|call| call.body.clone()), answered);
    }
}
