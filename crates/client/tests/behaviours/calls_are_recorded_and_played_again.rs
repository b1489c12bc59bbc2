//! What a client calls is recorded without its secrets, and a client gets the same responses from the record, without a server.

use anywire_client::har::{NotRecorded, Recorder, Replay};
use anywire_client::{Error, Response};
use anywire_http::StatusCode;

use crate::support::{Peer, block_on, client, wire};

fn peer() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        let mut number = 0;
        while let Some(request) = talk.request() {
            number += 1;
            match request.head.path() {
                "/old" => talk.say("HTTP/1.1 302 Found\r\nlocation: /new\r\nset-cookie: id=hidden\r\ncontent-length: 0\r\n\r\n"),
                "/bytes" => talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\x00"),
                _ => talk.say(format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1\r\n\r\n{number}")),
            }
        }
    })
}

fn send(call: anywire_client::Call) -> Result<Response, Error> {
    block_on(call.send())
}

#[test]
fn a_record_holds_calls_and_no_secrets() {
    let peer = peer();
    let recorder = Recorder::new().secret_fields(["x-key"]).secret_parameters(["token"]);
    let (_loops, recording) = client(1, |builder| builder.intercept_attempts(recorder.clone()));
    let text = |call: anywire_client::Call| block_on(async { call.send().await?.text().await });
    let url = peer.url("/a?b=c&token=hidden");
    assert_eq!(text(recording.get(&url).bearer("hidden").header("x-key", "hidden")).expect("answered"), "1");
    assert_eq!(text(recording.get(&url).header("cookie", "a=hidden")).expect("answered"), "2");
    assert_eq!(text(recording.post(peer.url("/old")).body("tea")).expect("answered"), "4");
    assert_eq!(
        block_on(send(recording.get(peer.url("/bytes"))).expect("answered").bytes()).expect("a body"),
        &b"\xff\0"[..]
    );
    assert_eq!((recorder.len(), recorder.is_empty()), (5, false));

    let har = recorder.to_json();
    assert!(!har.contains("hidden"), "{har}");
    let read: serde_json::Value = serde_json::from_str(&har).expect("JSON");
    let entry = |at: usize| &read["log"]["entries"][at];
    assert_eq!(
        (&read["log"]["version"], &entry(2)["request"]["postData"]["text"]),
        (&"1.2".into(), &"tea".into())
    );
    assert_eq!(
        (&entry(2)["response"]["status"], &entry(2)["response"]["redirectURL"]),
        (&302.into(), &"/new".into())
    );
    assert_eq!(entry(0)["request"]["queryString"][0]["value"], "c");
    assert!(entry(0)["startedDateTime"].as_str().is_some_and(|time| time.ends_with('Z')));

    // Nobody is there any more.
    drop(peer);
    let replay = Replay::parse(&har).expect("its own text");
    let (_loops, client) = client(1, |builder| builder.intercept_attempts(replay.clone()));
    let url = url.replace("hidden", "another");
    assert_eq!(replay.left(), 5);
    assert_eq!(text(client.get(&url)).expect("recorded"), "1");
    for _ in 0..2 {
        assert_eq!(text(client.get(&url)).expect("recorded"), "2");
    }
    let old = url.replace("/a?b=c&token=another", "/old");
    assert_eq!(text(client.post(&old).body("other")).expect("recorded"), "4");
    let bytes = send(client.get(old.replace("/old", "/bytes"))).expect("recorded");
    assert_eq!((bytes.status(), replay.left()), (StatusCode::OK, 0));
    assert_eq!(block_on(bytes.bytes()).expect("a body"), &b"\xff\0"[..]);
    for other in [client.get(&old), client.get(url.replace("b=c", "b=d")), client.get(format!("{url}&e=f"))] {
        let error = send(other).expect_err("it was not recorded");
        let Error::Custom(cause) = &error else { panic!("{error:?}") };
        assert!(cause.is::<NotRecorded>(), "{error:?}");
    }
}

#[test]
fn a_text_that_is_no_record_is_an_error() {
    for wrong in ["", "{}", "{\"log\": {\"entries\": [{}]}}"] {
        assert!(Replay::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_body_that_is_broken_is_an_error_when_it_is_read() {
    let record = |text: &str| {
        format!(
            r#"{{"log": {{"version": "1.2", "creator": {{"name": "x", "version": "1"}}, "entries": [{{
            "startedDateTime": "2026-01-01T00:00:00.000Z", "time": 1,
            "request": {{"method": "GET", "url": "http://h/a", "httpVersion": "HTTP/1.1", "headers": [], "queryString": [],
                "cookies": [], "headersSize": -1, "bodySize": 0}},
            "response": {{"status": 200, "statusText": "", "httpVersion": "HTTP/1.1", "redirectURL": "", "headers": [],
                "cookies": [], "headersSize": -1, "bodySize": 1,
                "content": {{"size": 1, "mimeType": "", "encoding": "base64", "text": "{text}"}}}},
            "cache": {{}}, "timings": {{"send": 0, "wait": 0, "receive": 0}}}}]}}}}"#
        )
    };
    assert_eq!(Replay::parse(&record("YQ==")).expect("HAR").left(), 1);
    for broken in ["YQ=", "!", "YQ"] {
        let error = Replay::parse(&record(broken)).expect_err(broken);
        let cause = std::error::Error::source(&error).expect("what is wrong").to_string();
        assert!(cause.contains("log.entries[0].response.content.text"), "{cause}");
    }
}

/// As a browser writes it: with fields that we do not know, and without some that we write.
#[test]
fn a_record_of_a_browser_is_played() {
    let har = r#"{"log": {"version": "1.2", "creator": {"name": "b", "version": "1"}, "pages": [], "entries": [{
        "startedDateTime": "2026-01-01T00:00:00.000Z", "time": 1, "_priority": "High", "cache": {"beforeRequest": null},
        "timings": {"blocked": 1, "send": 0, "wait": 1, "receive": 0},
        "request": {"method": "GET", "url": "https://h.example/a", "httpVersion": "h2", "headersSize": -1, "bodySize": 0,
            "headers": [{"name": ":authority", "value": "h.example"}]},
        "response": {"status": 404, "statusText": "", "httpVersion": "h2", "redirectURL": "", "headersSize": -1, "bodySize": 9,
            "headers": [{"name": ":status", "value": "404"}, {"name": "Content-Encoding", "value": "br"}, {"name": "X-A", "value": "1"}],
            "content": {"size": 4, "mimeType": "text/plain", "text": "gone"}}}]}}"#;
    let replay = Replay::parse(har).expect("HAR");
    let (_loops, client) = client(1, |builder| builder.intercept_attempts(replay));
    let url = if cfg!(feature = "tls") { "https://h.example/a" } else { return };
    let response = send(client.get(url)).expect("recorded");
    assert_eq!((response.status().as_u16(), response.headers().get("x-a")), (404, Some("1")));
    assert_eq!(block_on(response.text()).expect("text"), "gone");
}

#[test]
fn where_a_redirect_leads_is_recorded_without_secrets() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while talk.request().is_some() {
            talk.say("HTTP/1.1 302 Found\r\nlocation: /next?token=hush&a=1\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let recorder = Recorder::new().secret_parameters(["token"]);
    let (_loops, client) = client(1, |builder| builder.intercept_attempts(recorder.clone()).redirects(0));
    let referer = "http://shop.example/?token=hush";
    block_on(client.get(peer.url("/")).header("referer", referer).send()).expect("an answer");
    let har = recorder.to_json();
    assert!(!har.contains("hush") && har.matches("a=1").count() == 2, "{har}");
}
