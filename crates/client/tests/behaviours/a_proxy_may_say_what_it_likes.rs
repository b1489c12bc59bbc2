//! What a proxy says until its tunnel begins is read byte by byte as any peer's: cut anywhere it means the same, it is bounded, and it
//! never panics. The machine is asked without a network.

use anywire_client::proxy::{Handshake, HandshakeLimits, Proxy, ProxyReason, SocksReply};
use anywire_http::{HeadLimits, StatusCode};
use proptest::prelude::*;

fn start(url: &str, host: &str) -> Handshake {
    let proxy: Proxy = url.parse().expect("a proxy");
    Handshake::new(&proxy, host, 443, &HandshakeLimits::default()).expect("a host")
}

/// What was sent, and where the tunnel begins in these bytes, or why there is none. They come in pieces of so many bytes.
fn play(mut handshake: Handshake, said: &[u8], piece: usize) -> (Vec<u8>, Result<Option<usize>, String>) {
    let (mut sent, mut at) = (Vec::new(), 0);
    let mut send = |handshake: &mut Handshake| {
        sent.extend_from_slice(handshake.output());
        handshake.sent(handshake.output().len());
    };
    send(&mut handshake);
    for bytes in said.chunks(piece) {
        match handshake.receive(bytes) {
            Ok(None) => at += bytes.len(),
            Ok(Some(taken)) => return (sent, Ok(Some(at + taken))),
            Err(reason) => return (sent, Err(format!("{reason:?}"))),
        }
        send(&mut handshake);
    }
    (sent, Ok(None))
}

/// The outcome of these bytes, however they are cut.
#[track_caller]
fn outcome(url: &str, said: &[u8]) -> Result<Option<usize>, String> {
    let whole = play(start(url, "example.com"), said, 1).1;
    for piece in 2..=said.len().min(40) {
        let pieces = play(start(url, "example.com"), said, piece).1;
        // SOCKS5 takes turns, and two replies in one piece are out of turn.
        if pieces != Err("Early".to_owned()) {
            assert_eq!(pieces, whole, "in pieces of {piece}");
        }
    }
    whole
}

const OK: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

#[test]
fn what_is_behind_the_head_is_the_origins() {
    for head in [
        OK.to_owned(),
        "HTTP/1.0 200 OK\r\nProxy-agent: tinyproxy/1.11.1\r\n\r\n".to_owned(),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        // A length has no meaning here, and two that differ neither (RFC 9110 section 9.3.6).
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n".to_owned(),
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n{OK}"),
    ] {
        for behind in ["", "x", "HTTP/1.1 403 Forbidden\r\n\r\n", "\r\n"] {
            let said = format!("{head}{behind}");
            assert_eq!(outcome("http://p", said.as_bytes()), Ok(Some(head.len())), "{said:?}");
        }
        for cut in 0..head.len() {
            assert_eq!(outcome("http://p", &head.as_bytes()[..cut]), Ok(None), "half a head is none");
        }
    }
}

#[test]
fn a_refusal_has_its_reason() {
    let refused = |status: &str| {
        outcome("http://p", format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes())
    };
    assert_eq!(refused("403 Forbidden"), Err("Refused(403)".to_owned()));
    assert_eq!(refused("502 Bad Gateway"), Err("Refused(502)".to_owned()));
    assert_eq!(refused("101 Switching Protocols"), Err("Refused(101)".to_owned()));
    assert_eq!(refused("302 Found"), Err("Refused(302)".to_owned()));
    let wanted = b"HTTP/1.1 407 Who?\r\nproxy-authenticate: Basic realm=\"p\"\r\n\r\n";
    assert!(
        outcome("http://p", wanted)
            .is_err_and(|reason| reason.contains("LoginWanted") && reason.contains("realm"))
    );
    assert_eq!(outcome("http://me:no@p", wanted), Err("LoginRefused".to_owned()));
}

#[test]
fn what_is_not_http_is_said() {
    for said in [
        "\x05\x00",
        "\x15\x03\x01\x00\x02",
        "220 ftp\r\n",
        "\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 9 no\r\n\r\n",
    ] {
        let outcome = play(start("http://p", "h"), said.as_bytes(), 1).1;
        assert!(
            outcome.as_ref().is_err_and(|reason| reason.starts_with("Malformed")),
            "{said:?}: {outcome:?}"
        );
    }
}

#[test]
fn heads_are_limited() {
    let limits = HandshakeLimits::default();
    let flood = |said: String, piece| play(start("http://p", "h"), said.as_bytes(), piece).1;
    for piece in [1000, 1 << 20] {
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(limits.head.bytes * 3));
        assert!(flood(long, piece).is_err_and(|reason| reason.starts_with("Malformed")));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(limits.head.fields + 1));
        assert!(flood(many, piece).is_err_and(|reason| reason.starts_with("Malformed")));
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(limits.interim_responses + 1);
        assert_eq!(flood(interim, piece), Err(format!("Interim({})", limits.interim_responses + 1)));
        let enough = "HTTP/1.1 100 Continue\r\n\r\n".repeat(limits.interim_responses) + OK;
        assert_eq!(flood(enough.clone(), piece), Ok(Some(enough.len())));
    }
    // Limits of one's own hold.
    let proxy: Proxy = "http://p".parse().expect("a proxy");
    let small =
        HandshakeLimits { head: HeadLimits { bytes: 40, ..HeadLimits::default() }, interim_responses: 0 };
    let handshake = || Handshake::new(&proxy, "h", 1, &small).expect("a host");
    assert_eq!(play(handshake(), OK.as_bytes(), 7).1, Ok(Some(OK.len())));
    assert!(play(handshake(), format!("HTTP/1.1 200 OK\r\nserver: {OK}").as_bytes(), 7).1.is_err());
    assert_eq!(play(handshake(), b"HTTP/1.1 100 Continue\r\n\r\n", 7).1, Err("Interim(1)".to_owned()));
}

#[test]
fn an_answer_before_the_question_is_none() {
    let mut handshake = start("http://p", "h");
    assert!(matches!(handshake.receive(OK.as_bytes()), Err(ProxyReason::Early)));
    let mut handshake = start("http://p", "h");
    handshake.sent(5);
    // A refusal may come at any time.
    let refused = handshake.receive(b"HTTP/1.1 503 Busy\r\n\r\n");
    assert!(matches!(refused, Err(ProxyReason::Refused(StatusCode::SERVICE_UNAVAILABLE))), "{refused:?}");
    let mut handshake = start("socks5h://p", "h");
    assert!(matches!(handshake.receive(b"\x05\x00"), Err(ProxyReason::Early)));
    assert_eq!(
        play(start("socks5h://p", "h"), b"\x05\x00\x05\x00\x00\x01\0\0\0\0\0\0", 12).1,
        Err("Early".to_owned())
    );
}

#[test]
fn the_request_names_the_target_and_who_asks() {
    let sent = |url: &str, host: &str| String::from_utf8(start(url, host).output().to_vec()).expect("text");
    assert_eq!(sent("http://p", "h"), "CONNECT h:443 HTTP/1.1\r\nhost: h:443\r\n\r\n");
    assert_eq!(sent("http://p", "::1"), "CONNECT [::1]:443 HTTP/1.1\r\nhost: [::1]:443\r\n\r\n");
    assert_eq!(
        sent("http://Aladdin:open%20sesame@p", "h"),
        "CONNECT h:443 HTTP/1.1\r\nhost: h:443\r\nproxy-authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
    );
    let proxy: Proxy = "http://p".parse().expect("a proxy");
    for wrong in ["", "h h", "h\r\nx: y", "h/", "a@b"] {
        let made = Handshake::new(&proxy, wrong, 443, &HandshakeLimits::default());
        assert!(matches!(made.err(), Some(ProxyReason::Target)), "{wrong:?}");
    }
}

/// A reply of SOCKS5 with an address of this type.
fn reply(code: u8, address: &[u8]) -> Vec<u8> {
    [&[5, code, 0], address, &[0x1f, 0x90]].concat()
}

#[test]
fn socks_names_the_target_and_who_asks() {
    let success = reply(0, &[1, 127, 0, 0, 1]);
    let talk = [&b"\x05\x00"[..], &success].concat();
    for (host, address) in [
        ("example.com", &b"\x03\x0bexample.com"[..]),
        ("1.2.3.4", &[1, 1, 2, 3, 4]),
        ("::1", &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    ] {
        let (sent, outcome) = play(start("socks5h://p", host), &talk, 2);
        assert_eq!(sent, [b"\x05\x01\x00\x05\x01\x00", address, &[1, 0xbb]].concat());
        assert_eq!(outcome, Ok(Some(talk.len())));
    }
    let talk = [&b"\x05\x02\x01\x00"[..], &success].concat();
    let (sent, outcome) = play(start("socks5h://me:secret@p", "h"), &talk, 2);
    assert_eq!(sent, b"\x05\x02\x00\x02\x01\x02me\x06secret\x05\x01\x00\x03\x01h\x01\xbb");
    assert_eq!(outcome, Ok(Some(talk.len())));

    let long = "x".repeat(256);
    for (url, host) in [
        ("socks5h://p".to_owned(), long.as_str()),
        ("socks5h://p".to_owned(), ""),
        (format!("socks5h://{long}:y@p"), "h"),
        (format!("socks5h://x:{long}@p"), "h"),
        ("socks5h://:y@p".to_owned(), "h"),
    ] {
        let made = Handshake::new(&url.parse().expect("a proxy"), host, 1, &HandshakeLimits::default());
        assert!(matches!(made.err(), Some(ProxyReason::Target)), "{url} {host}");
    }
    let longest = start("socks5h://p", &long[1..]);
    assert_eq!(play(longest, &talk[..0], 1).1, Ok(None));
}

#[test]
fn a_reply_of_socks_ends_where_its_address_does() {
    let v6 = [&[4][..], &[0; 16]].concat();
    for address in
        [&[1, 0, 0, 0, 0][..], &v6, b"\x03\x00", b"\x03\x04name", &[&[3, 255][..], &[b'x'; 255]].concat()]
    {
        let talk = [&[5, 0][..], &reply(0, address)].concat();
        assert_eq!(outcome("socks5h://p", &talk), Ok(Some(talk.len())));
        let with_more = [&talk, &b"\x05\x00SSH"[..]].concat();
        assert_eq!(outcome("socks5h://p", &with_more), Ok(Some(talk.len())), "the rest is the origin's");
        for cut in 0..talk.len() {
            assert_eq!(outcome("socks5h://p", &talk[..cut]), Ok(None), "cut at {cut}");
        }
    }
}

#[test]
fn each_code_of_socks_has_a_meaning() {
    for code in 1..=255 {
        let talk = [&[5, 0][..], &reply(code, &[1, 0, 0, 0, 0])].concat();
        assert_eq!(outcome("socks5h://p", &talk), Err(format!("Socks(SocksReply({code}))")));
        // Some servers close behind the code.
        assert_eq!(outcome("socks5h://p", &talk[..4]), Err(format!("Socks(SocksReply({code}))")));
        assert!(SocksReply(code).to_string().contains(&format!("reply {code}")));
    }
    for method in 0..=255 {
        let expected = match method {
            0 => Ok(None),
            0xff => Err("LoginWanted { offers: None }".to_owned()),
            _ => Err("NotSocks".to_owned()),
        };
        assert_eq!(outcome("socks5h://p", &[5, method]), expected);
        let expected = match method {
            0 | 2 => Ok(None),
            0xff => Err("LoginRefused".to_owned()),
            _ => Err("NotSocks".to_owned()),
        };
        assert_eq!(outcome("socks5h://a:b@p", &[5, method]), expected);
    }
    assert_eq!(outcome("socks5h://a:b@p", b"\x05\x02\x01\x01"), Err("LoginRefused".to_owned()));
    for wrong in
        [&b"\x04\x00"[..], b"HTTP/1.1 400", b"\x05\x00\x04", b"\x05\x00\x05\x00\x00\x02", b"\x05\x02\x07"]
    {
        let outcome = play(start("socks5h://a:b@p", "h"), wrong, 1).1;
        assert_eq!(outcome, Err("NotSocks".to_owned()), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_no_cut_changes_what_they_mean(
        begin in prop_oneof![Just(&b""[..]), Just(&b"HTTP/1.1 "[..]), Just(&b"HTTP/1.1 200 OK\r\n"[..]), Just(&b"\x05\x00"[..]), Just(&b"\x05\x02\x01\x00"[..])],
        rest in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b':'), 0..6u8], 0..60),
        url in prop_oneof![Just("http://p"), Just("http://a:b@p"), Just("socks5h://p"), Just("socks5h://a:b@p")],
    ) {
        let said = [begin, &rest].concat();
        let outcome = |piece| play(start(url, "example.com"), &said, piece).1;
        let bytewise = outcome(1);
        for piece in 2..8 {
            match (&bytewise, &outcome(piece)) {
                (Ok(Some(one)), Ok(Some(other))) => prop_assert_eq!(one, other),
                // Two replies in one piece are out of turn.
                (Ok(Some(_)), Err(early)) => prop_assert!(early == "Early" && url.starts_with("socks"), "{}", early),
                // What is wrong with half a head may be seen before or after the rest has come.
                (one, other) => prop_assert!(!matches!((one, other), (_, Ok(Some(_))) | (Ok(Some(_)), _))),
            }
        }
        if let Ok(Some(begins)) = bytewise {
            prop_assert!(begins <= said.len());
            prop_assert_eq!(play(start(url, "example.com"), &said[..begins], 1).1, Ok(Some(begins)));
        }
    }
}
