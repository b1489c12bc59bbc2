//! A head, or trailers, that are larger than the peer takes are not sent: whoever made them is told (RFC 9113 sections 6.5.2 and
//! 10.5.1). To the byte, and without those fields that do not leave.

use anywire_http::h2::{Limits, Refused, ResponseParts, StreamId, Unsent};
use anywire_http::{DateLine, Headers, Method, RequestHead, StatusCode};

use crate::support::h2::*;

/// The peer's `SETTINGS_MAX_HEADER_LIST_SIZE`.
const LIMIT: usize = 400;

fn limit(end: &mut End) {
    let [.., high, low] = LIMIT.to_be_bytes();
    end.events(&frame(SETTINGS, 0, 0, &[0, 6, 0, 0, high, low])).expect("good");
    end.out.clear();
}

/// A field that counts so many bytes, and others that stay here.
fn fields(bytes: usize) -> Headers {
    let mut fields = Headers::new();
    for (name, value) in [("connection", "x"), ("te", "gzip"), ("upgrade", "y"), ("content-length", "1")] {
        fields.append(name, value).expect("a field");
    }
    fields.append("keep-alive", "z".repeat(LIMIT)).expect("a field");
    fields.append("x", "v".repeat(bytes - "x".len() - 32)).expect("a field");
    fields
}

/// A field that counts so many bytes, and no others.
fn field(bytes: usize) -> Headers {
    let mut fields = Headers::new();
    fields.append("x", "v".repeat(bytes - "x".len() - 32)).expect("a field");
    fields
}

/// Sends fields beside those that count `own` bytes: once as many as fit, and before that one byte more.
#[track_caller]
fn fit(end: &mut End, own: usize, mut send: impl FnMut(&mut End, &Headers) -> Option<(usize, usize)>) {
    for make in [field, fields] {
        assert_eq!(send(end, &make(LIMIT - own + 1)), Some((LIMIT + 1, LIMIT)));
        assert_eq!(end.out, [], "nothing was written");
    }
    assert_eq!(send(end, &fields(LIMIT - own)), None);
    assert_eq!(frames(&std::mem::take(&mut end.out)).len(), 1);
}

fn too_large(sent: Result<(), Unsent>) -> Option<(usize, usize)> {
    match sent {
        Ok(()) => None,
        Err(Unsent::TooLarge { bytes, limit }) => Some((bytes, limit)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn of_a_request() {
    let mut client = End::client(Limits::default());
    limit(&mut client);
    let mut head = RequestHead::new(Method::GET, "/").expect("a target");
    head.set_origin("http", "a").expect("an origin");
    let pseudo = ":methodGET:schemehttp:path/:authoritya".len() + 4 * 32;
    for (length, own) in [(None, pseudo), (Some(12), pseudo + "content-length12".len() + 32)] {
        fit(&mut client, own, |client, fields| {
            *head.headers_mut() = fields.clone();
            head.headers_mut().append("host", "a".repeat(LIMIT)).expect("a field");
            match client.engine.open(&head, length, false, &mut client.out) {
                Ok(_) => None,
                Err(Refused::TooLarge { bytes, limit }) => Some((bytes, limit)),
                Err(error) => panic!("{error}"),
            }
        });
    }
    assert_eq!(client.engine.open_streams(), 2, "what was not sent has opened no stream");
}

/// It has no scheme and no path.
#[test]
fn of_a_request_for_a_tunnel() {
    let mut client = End::client(Limits::default());
    limit(&mut client);
    let mut head = RequestHead::new(Method::CONNECT, "a:80").expect("a target");
    fit(&mut client, ":methodCONNECT:authoritya:80".len() + 2 * 32, |client, fields| {
        *head.headers_mut() = fields.clone();
        match client.engine.open(&head, None, false, &mut client.out) {
            Ok(_) => None,
            Err(Refused::TooLarge { bytes, limit }) => Some((bytes, limit)),
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn of_a_response_and_its_trailers() {
    let mut server = End::server(Limits::default());
    limit(&mut server);
    let ask = |server: &mut End, id: u32| -> StreamId {
        server.events(&request(id, true)).expect("good");
        server.newest.expect("a request")
    };
    let status = ":status200".len() + 32;
    let date = "dateTue, 15 Nov 1994 08:12:31 GMT".len() + 32;
    let mut line = DateLine::new();
    let line: &[u8; DateLine::BYTES] = line.line(std::time::UNIX_EPOCH).try_into().expect("a date");
    for (stream, length, date, own) in [
        (1, None, None, status),
        (3, Some(7), None, status + "content-length7".len() + 32),
        (5, None, Some(line), status + date),
    ] {
        let id = ask(&mut server, stream);
        fit(&mut server, own, |server, headers| {
            let parts = ResponseParts { status: StatusCode::OK, headers, length, date };
            too_large(server.engine.respond(id, &parts, false, &mut server.out))
        });
        fit(&mut server, 0, |server, trailers| {
            too_large(server.engine.send_trailers(id, trailers, &mut server.out))
        });
    }
    let id = ask(&mut server, 7);
    fit(&mut server, status, |server, headers| {
        too_large(server.engine.inform(id, StatusCode::EARLY_HINTS, headers, &mut server.out))
    });
}

/// Before the peer has said anything, and as long as it does not limit heads, all are sent.
#[test]
fn without_a_limit() {
    let mut server = End::server(Limits::default());
    server.events(&request(1, true)).expect("good");
    let id = server.newest.expect("a request");
    let headers = fields(100_000);
    let parts = ResponseParts::new(StatusCode::OK, &headers);
    assert_eq!(server.engine.respond(id, &parts, true, &mut server.out), Ok(()));
}
