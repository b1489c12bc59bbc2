//! Each limit of heads and trailers holds in each version of HTTP and in both roles, to the byte or the field, while the
//! others have their defaults.

use crate::support::h2::*;
use crate::support::{Event, requests, responses};
use anywire_http::h2::{Code, Limits, MessageError, ResponseParts};
use anywire_http::{HeadLimits, Headers, Method, RequestHead, StatusCode, h1};

/// What has become of a message of some size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Taken,
    /// Refused, and a server has answered so.
    Answered(u16),
    /// A stream was ended with this code.
    Reset(Code),
    /// A client has told its caller of a limit.
    Told,
}

/// The limit that an end of HTTP/2 has told its driver of.
fn limit_told(end: &End) -> Option<h1::DecodeError> {
    match end.why {
        Some(MessageError::Limit(limit)) => Some(limit),
        _ => None,
    }
}

/// How a limit is set, and what it counts of a message that has one byte or field more each time.
struct Case {
    name: &'static str,
    set: fn(usize) -> HeadLimits,
    /// What it counts of a message of this size, in a version and a role.
    counts: fn(usize, Version, Role) -> usize,
    /// A message of this size.
    make: fn(usize) -> Message,
    /// The status that a server answers with.
    status: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

#[derive(Debug, Default)]
struct Message {
    /// Of a request.
    path: String,
    authority: String,
    fields: Vec<(&'static str, String)>,
    trailers: Vec<(&'static str, String)>,
}

const CASES: &[Case] = &[
    Case {
        name: "bytes",
        set: |bytes| HeadLimits { bytes, ..HeadLimits::default() },
        counts: |size, version, role| match (version, role) {
            (Version::Http1, Role::Server) => {
                "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nx: \r\n\r\n".len() + size
            }
            (Version::Http1, Role::Client) => {
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx: \r\n\r\n".len() + size
            }
            // RFC 9113 section 6.5.2.
            (Version::Http2, Role::Server) => {
                ":methodPOST:schemehttp:path/:authorityax".len() + 5 * 32 + size
            }
            (Version::Http2, Role::Client) => ":status200x".len() + 2 * 32 + size,
        },
        make: |size| Message { fields: vec![("x", "v".repeat(size))], ..Message::of("/", "a") },
        status: 431,
    },
    Case {
        name: "target_bytes, by the path",
        set: |target_bytes| HeadLimits { target_bytes, ..HeadLimits::default() },
        counts: |size, version, role| match (version, role) {
            (Version::Http1, Role::Server) => "POST / HTTP/1.1".len() + size,
            (Version::Http2, Role::Server) => 1 + size,
            (Version::Http1, Role::Client) => "HTTP/1.1 200 OK".len(),
            (Version::Http2, Role::Client) => 0,
        },
        make: |size| Message::of(&format!("/{}", "p".repeat(size)), "a"),
        status: 414,
    },
    Case {
        name: "target_bytes, by the authority",
        set: |target_bytes| HeadLimits { target_bytes, ..HeadLimits::default() },
        counts: |size, version, role| match (version, role) {
            // There it is a field.
            (Version::Http1, Role::Server) => "POST / HTTP/1.1".len(),
            (Version::Http2, Role::Server) => size,
            (Version::Http1, Role::Client) => "HTTP/1.1 200 OK".len(),
            (Version::Http2, Role::Client) => 0,
        },
        make: |size| Message::of("/", &"a".repeat(size)),
        status: 414,
    },
    Case {
        name: "fields",
        set: |fields| HeadLimits { fields, ..HeadLimits::default() },
        counts: |size, version, role| match (version, role) {
            // `host` and `transfer-encoding`.
            (Version::Http1, Role::Server) => 2 + size,
            (Version::Http1, Role::Client) => 1 + size,
            (Version::Http2, _) => size,
        },
        make: |size| Message { fields: vec![("x", "v".to_owned()); size], ..Message::of("/", "a") },
        status: 431,
    },
    Case {
        name: "trailer_bytes",
        set: |trailer_bytes| HeadLimits { trailer_bytes, ..HeadLimits::default() },
        counts: |size, version, _| match version {
            Version::Http1 => "x: \r\n\r\n".len() + size,
            Version::Http2 => 1 + 32 + size,
        },
        make: |size| Message { trailers: vec![("x", "v".repeat(size))], ..Message::of("/", "a") },
        status: 431,
    },
    Case {
        name: "trailer_fields",
        set: |trailer_fields| HeadLimits { trailer_fields, ..HeadLimits::default() },
        counts: |size, _, _| size,
        make: |size| Message { trailers: vec![("x", "v".to_owned()); size], ..Message::of("/", "a") },
        status: 431,
    },
];

impl Message {
    fn of(path: &str, authority: &str) -> Self {
        Self { path: path.to_owned(), authority: authority.to_owned(), ..Self::default() }
    }

    /// By these limits, byte by byte.
    fn fate(&self, limits: HeadLimits, version: Version, role: Role) -> Fate {
        match (version, role) {
            (Version::Http1, _) => self.over_http1(limits.into(), role),
            (Version::Http2, Role::Server) => self.to_an_http2_server(limits),
            (Version::Http2, Role::Client) => self.to_an_http2_client(limits),
        }
    }

    fn over_http1(&self, limits: h1::Limits, role: Role) -> Fate {
        let lines = |fields: &[(&str, String)]| -> String {
            fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
        };
        let begin = match role {
            Role::Server => format!("POST {} HTTP/1.1\r\nhost: {}\r\n", self.path, self.authority),
            Role::Client => "HTTP/1.1 200 OK\r\n".to_owned(),
        };
        let (fields, trailers) = (lines(&self.fields), lines(&self.trailers));
        let bytes = format!("{begin}transfer-encoding: chunked\r\n{fields}\r\n0\r\n{trailers}\r\n");
        let (events, error) = match role {
            Role::Server => requests(bytes.as_bytes().chunks(1), limits),
            Role::Client => responses(bytes.as_bytes().chunks(1), &Method::GET, limits),
        };
        match (error, role) {
            (None, _) => {
                assert_eq!(events.last(), Some(&Event::End));
                Fate::Taken
            }
            (Some(error), Role::Server) => Fate::Answered(error.status().as_u16()),
            (Some(error), Role::Client) => {
                assert_eq!(error.fault(), anywire_http::Fault::Limit, "{error}");
                Fate::Told
            }
        }
    }

    fn to_an_http2_server(&self, head: HeadLimits) -> Fate {
        let mut server = End::server(head);
        let pseudo = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", &self.path),
            (":authority", &self.authority),
        ];
        let events = self.play(&mut server, 1, &literals(&pseudo));
        let answer = frames(&server.out).into_iter().find(|(kind, ..)| *kind == HEADERS);
        let reset = server.resets().pop();
        match (answer, &events[..]) {
            (None, [request, .., end]) => {
                assert!(
                    request.starts_with("1 POST ") && end.ends_with(" end") || end.contains("trailers"),
                    "{events:?}"
                );
                assert_eq!(reset, None);
                Fate::Taken
            }
            (Some((_, flags, 1, block)), [.., end]) => {
                assert_eq!((flags, end.as_str()), (END_HEADERS | END_STREAM, "1 reset NO_ERROR"));
                let told = limit_told(&server).expect("a limit");
                // `:status` by the static table, or as a literal with its name.
                let status = block.iter().position(u8::is_ascii_digit).expect("a status");
                let status = str::from_utf8(&block[status..status + 3]).expect("digits");
                assert_eq!(status, told.status().as_str(), "{told}");
                Fate::Answered(status.parse().expect("a number"))
            }
            other => panic!("{other:?}"),
        }
    }

    fn to_an_http2_client(&self, head: HeadLimits) -> Fate {
        let mut client = End::client(head);
        let mut request = RequestHead::new(Method::GET, "/").expect("a target");
        request.set_origin("http", "a").expect("an origin");
        let id = client.engine.open(&request, None, true, &mut client.out).expect("a slot").get();
        client.out.clear();
        let events = self.play(&mut client, id, &literals(&[(":status", "200")]));
        match (client.resets().pop(), &events[..]) {
            (None, [response, .., end]) => {
                assert!(
                    response.starts_with("1 200") && end.ends_with(" end") || end.contains("trailers"),
                    "{events:?}"
                );
                Fate::Taken
            }
            (Some((1, code)), [.., end]) => {
                assert_eq!(*end, format!("1 reset {code}"));
                assert!(limit_told(&client).is_some());
                Fate::Reset(code)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The frames of it, byte by byte.
    fn play(&self, end: &mut End, id: u32, pseudo: &[u8]) -> Vec<String> {
        let block = [pseudo, &literals(&strs(&self.fields))].concat();
        let last = if self.trailers.is_empty() {
            frame(DATA, END_STREAM, id, b"")
        } else {
            frame(HEADERS, END_HEADERS | END_STREAM, id, &literals(&strs(&self.trailers)))
        };
        let mut events = Vec::new();
        for byte in [frame(HEADERS, END_HEADERS, id, &block), last].concat().chunks(1) {
            events.extend(end.events(byte).expect("the connection lives"));
            if events.last().is_some_and(|event| event.contains("reset")) {
                break;
            }
        }
        events
    }
}

fn strs<'m>(fields: &'m [(&'static str, String)]) -> Vec<(&'static str, &'m str)> {
    fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

#[test]
fn to_the_byte_or_the_field() {
    for case in CASES {
        for version in [Version::Http1, Version::Http2] {
            for role in [Role::Server, Role::Client] {
                let counts = |size| (case.counts)(size, version, role);
                // The one that a message of three more takes up.
                let limit = counts(4);
                for size in 1..=8 {
                    let fate = (case.make)(size).fate((case.set)(limit), version, role);
                    let expected = match role {
                        _ if counts(size) <= limit => Fate::Taken,
                        Role::Server => Fate::Answered(case.status),
                        Role::Client if version == Version::Http1 => Fate::Told,
                        Role::Client if case.name.starts_with("trailer") => {
                            Fate::Reset(Code::ENHANCE_YOUR_CALM)
                        }
                        Role::Client => Fate::Reset(Code::CANCEL),
                    };
                    let what = format!("{} of {limit}, {version:?}, {role:?}: {}", case.name, counts(size));
                    assert_eq!(fate, expected, "{what}");
                }
            }
        }
    }
}

/// What a limit of heads allows, the limit of CONTINUATION frames does not take back.
#[test]
fn a_head_of_the_limit_s_size_is_taken_whatever_its_frames() {
    let head = HeadLimits { bytes: 1 << 20, fields: usize::MAX, ..HeadLimits::default() };
    let large = literals(&[("x", &"v".repeat(100))]).repeat(7_000);
    let frames = |id, start: &[u8]| {
        let block = [start, &large].concat();
        let pieces: Vec<_> = block.chunks(16 << 10).collect();
        let (last, first) = pieces.split_last().expect("some");
        let kind = |at| if at == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
        let frame = |(at, piece): (usize, &&[u8])| frame(kind(at).0, kind(at).1, id, piece);
        let before: Vec<u8> = first.iter().enumerate().flat_map(frame).collect();
        [before, self::frame(CONTINUATION, END_HEADERS, id, last)].concat()
    };
    let mut server = End::server(head);
    assert_eq!(server.events(&frames(1, REQUEST)), Ok(vec!["1 GET http://a/ end".into()]));
    let mut client = End::client(head);
    let mut request = RequestHead::new(Method::GET, "/").expect("a target");
    request.set_origin("http", "a").expect("an origin");
    client.engine.open(&request, None, true, &mut client.out).expect("a slot");
    assert_eq!(client.events(&frames(1, b"\x88")), Ok(vec!["1 200 end".into()]));
}

/// More fields than that are not taken, whatever a configuration says.
#[test]
fn ten_thousand_fields_are_the_most() {
    let head = HeadLimits {
        bytes: 1 << 20,
        fields: usize::MAX,
        trailer_bytes: 1 << 20,
        trailer_fields: usize::MAX,
        ..HeadLimits::default()
    };
    let mut server = End::server(head);
    // `range`, an entry of the static table.
    let fields = |count| vec![0x80 | 50; count];
    let whole = |stream, block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, stream, block);
    for (stream, count, head, trailers) in [
        (1, 10_000, "1 GET http://a/ end", "3 trailers "),
        (5, 10_001, "5 reset NO_ERROR", "7 reset NO_ERROR"),
    ] {
        let events = server.events(&whole(stream, &[REQUEST, &fields(count)].concat()));
        assert_eq!(events.expect("it lives"), [head]);
        let stream = stream + 2;
        let events = server.events(&[request(stream, false), whole(stream, &fields(count))].concat());
        assert!(events.expect("it lives")[1].starts_with(trailers));
    }
}

/// Trailers may be larger than heads. Those that are larger than trailers may be cost their stream alone.
#[test]
fn each_has_its_own_limit() {
    let (trailer_bytes, trailer_fields) = (133 * 100, 1000);
    let head = HeadLimits { bytes: 200, trailer_bytes, trailer_fields, ..HeadLimits::default() };
    for (count, expected) in [(100, Fate::Taken), (101, Fate::Answered(431))] {
        let message = Message { trailers: vec![("x", "v".repeat(100)); count], ..Message::of("/", "a") };
        assert_eq!(message.fate(head, Version::Http2, Role::Server), expected, "{count}");
    }
}

/// What cannot be answered is reset.
#[test]
fn without_an_answer_its_stream_ends() {
    let head = HeadLimits { bytes: 200, trailer_bytes: 200, ..HeadLimits::default() };
    let large = literals(&[("x", &*"v".repeat(100)); 2]);
    let reset = "1 reset ENHANCE_YOUR_CALM";
    // The peer takes not even the answer.
    for end in [0, END_STREAM] {
        let mut server = End::server(head);
        server.events(&frame(SETTINGS, 0, 0, &[0, 6, 0, 0, 0, 10])).expect("good");
        server.out.clear();
        let block = [REQUEST, &large].concat();
        assert_eq!(server.events(&frame(HEADERS, END_HEADERS | end, 1, &block)), Ok(vec![reset.into()]));
        assert!(limit_told(&server).is_some());
        assert_eq!(server.resets(), [(1, Code::ENHANCE_YOUR_CALM)]);
    }
    // More may follow.
    let mut server = End::server(head);
    server.events(&request(1, false)).expect("good");
    assert_eq!(server.events(&frame(HEADERS, END_HEADERS, 1, &large)), Ok(vec![reset.into()]));
    assert!(frames(&server.out).iter().all(|(kind, ..)| *kind != HEADERS), "no answer to half a request");
    assert_eq!(server.resets(), [(1, Code::ENHANCE_YOUR_CALM)]);
}

/// RFC 9113 section 8.2.3: a client sends each cookie as a field of its own, so that those that repeat shrink to a byte.
#[test]
fn the_pieces_of_a_cookie_are_one_field() {
    let usual = HeadLimits::default();
    let one = HeadLimits { fields: 1, ..usual };
    let two = HeadLimits { fields: 2, ..usual };
    let (cookie, other) = (("cookie", "a=1"), ("x", "1"));
    for (head, fields, expected) in [
        (usual, vec![cookie; 101], Fate::Taken),
        (usual, [vec![other; 99], vec![cookie; 50]].concat(), Fate::Taken),
        (usual, [vec![other; 100], vec![cookie]].concat(), Fate::Answered(431)),
        (one, vec![cookie; 5], Fate::Taken),
        (one, vec![cookie, cookie, other], Fate::Answered(431)),
        (one, vec![other, cookie], Fate::Answered(431)),
        (two, vec![cookie, other, cookie, cookie], Fate::Taken),
        (two, vec![cookie, other, cookie, other], Fate::Answered(431)),
        // Their bytes count.
        (HeadLimits { bytes: 500, ..usual }, vec![cookie; 10], Fate::Answered(431)),
    ] {
        let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let what = format!("{fields:?}");
        let message = Message { fields, ..Message::of("/", "a") };
        assert_eq!(message.fate(head, Version::Http2, Role::Server), expected, "{what}");
    }
}

/// The pseudo-header fields have no order, and a response to HEAD has no content (RFC 9110 section 9.3.2).
#[test]
fn a_method_behind_what_is_too_large_is_known() {
    let head = HeadLimits { bytes: 100, ..HeadLimits::default() };
    let mut server = End::server(head);
    server.engine.leave_refusals();
    let path = "/x".repeat(50);
    for (stream, method, told) in [(1, "HEAD", " HEAD"), (3, "GET", "")] {
        let block =
            literals(&[(":path", &path), (":method", method), (":scheme", "http"), (":authority", "a")]);
        let events = server.events(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        assert_eq!(events, Ok(vec![format!("{stream} refused HeadTooLarge {{ limit: 100 }}{told}")]));
    }
}

/// A driver that wants to word what is refused answers it by itself, and the stream ends behind that.
#[test]
fn what_is_too_large_may_be_left_to_the_driver() {
    let mut server = End::server(Limits::default());
    server.engine.leave_refusals();
    let fields = vec![0x80 | 50; 101];
    let too_many = |stream, flags, block: &[u8]| frame(HEADERS, flags, stream, &[block, &fields].concat());
    // Its method as a literal, where the other names an entry of the static table.
    let head: &[u8] = &[b"\x02\x04HEAD", &REQUEST[1..]].concat();
    for (stream, flags, block, asks_head) in [
        (1, END_HEADERS | END_STREAM, REQUEST, false),
        (3, END_HEADERS | END_STREAM, head, true),
        (5, END_HEADERS, REQUEST, false),
    ] {
        let events = server.events(&too_many(stream, flags, block)).expect("it lives");
        let method = if asks_head { " HEAD" } else { "" };
        assert_eq!(events, [format!("{stream} refused TooManyHeaders {{ limit: 100 }}{method}")]);
        let id = server.newest.expect("a stream");
        let fields = Headers::new();
        let parts = ResponseParts::new(StatusCode::URI_TOO_LONG, &fields);
        server.engine.respond(id, &parts, true, &mut server.out).expect("it is open");
        server.engine.reset(id, Code::NO_ERROR, &mut server.out);
        let is_reset = server.resets().contains(&(stream, Code::NO_ERROR));
        assert_eq!(is_reset, flags & END_STREAM == 0, "the rest of the request is not wanted");
        assert!(server.engine.is_idle());
    }
}
