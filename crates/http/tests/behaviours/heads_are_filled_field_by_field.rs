//! A version of HTTP without text heads fills heads from pairs of name and value, and reads them again as pairs. Nothing
//! of HTTP/1 takes part.

use anywire_http::{Method, RequestHead, ResponseHead, StatusCode, Version};

/// As a decoder of HTTP/2 gives them: pseudo-header fields first, names in lower case.
const REQUEST: [(&[u8], &[u8]); 8] = [
    (b":method", b"POST"),
    (b":scheme", b"https"),
    (b":authority", b"shop.example"),
    (b":path", b"/orders?page=2"),
    (b"content-type", b"application/json"),
    (b"cookie", b"a=1"),
    (b"cookie", b"b=\xff"),
    (b"content-length", b"8"),
];

fn filled(fields: &[(&[u8], &[u8])]) -> RequestHead {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
    let value =
        |name: &[u8]| text(fields.iter().find(|field| field.0 == name).expect("a pseudo-header field").1);
    let method = Method::from_bytes(value(b":method").as_bytes()).expect("a method");
    let mut head = RequestHead::new(method, &value(b":path")).expect("a path");
    head.set_origin(&value(b":scheme"), &value(b":authority")).expect("an origin");
    head.set_version(Version::HTTP_2);
    for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(b":")) {
        head.headers_mut().append(name, value).expect("a field");
    }
    head
}

/// What an encoder of HTTP/2 would write.
fn pairs(head: &RequestHead) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pseudo = [
        (":method", head.method().as_str()),
        (":scheme", head.scheme().unwrap_or("https")),
        (":authority", head.host().unwrap_or_default()),
        (":path", head.path_and_query()),
    ];
    let pseudo = pseudo.into_iter().map(|(name, value)| (name, value.as_bytes()));
    pseudo.chain(head.headers().iter()).map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn a_request_goes_in_and_comes_out_as_pairs() {
    let head = filled(&REQUEST);
    assert_eq!((head.path(), head.query(), head.host()), ("/orders", Some("page=2"), Some("shop.example")));
    assert_eq!(
        (head.version(), head.headers().get("Content-Type")),
        (Version::HTTP_2, Some("application/json"))
    );
    let expected: Vec<_> = REQUEST.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    assert_eq!(pairs(&head), expected);
}

#[test]
fn a_field_that_would_break_a_head_of_text_is_refused() {
    let mut head = filled(&REQUEST);
    for (name, value) in [(&b"x y"[..], &b"1"[..]), (b"x\xff", b"1"), (b"x", b"1\r\ny: 2"), (b":path", b"/")]
    {
        assert!(head.headers_mut().append(name, value).is_err(), "{}", name.escape_ascii());
    }
    assert_eq!(head.headers().len(), 4);
}

#[test]
fn a_response_goes_in_and_comes_out_as_pairs() {
    let mut head = ResponseHead::new(StatusCode::NOT_FOUND);
    head.set_version(Version::HTTP_2);
    head.headers_mut().append(b"content-length", b"0").expect("a field");
    assert_eq!((head.status().as_str(), head.reason(), head.version()), ("404", "", Version::HTTP_2));
    assert_eq!(head.headers().iter().collect::<Vec<_>>(), [("content-length", &b"0"[..])]);
}
