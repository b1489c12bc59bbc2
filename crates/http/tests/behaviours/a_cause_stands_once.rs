//! The message of an error does not repeat its cause, so that a printed chain shows each cause once.

use std::error::Error;
use std::io;

use anywire_advice::{Chain, Message};
use anywire_http::h1::DecodeError;
use anywire_http::{BodyError, ConvertError, RequestHead};

fn assert_each_cause_once(error: &(dyn Error + 'static)) {
    let chain = Chain(error).to_string();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        let found = Message::read(error).found;
        assert_eq!(chain.matches(&found).count(), 1, "{found:?} in {chain:?}");
        if let Some(cause) = next {
            assert!(!found.contains(&cause.to_string()), "{found:?} repeats {cause}");
        }
    }
    for prefix in
        ["reading a body: reading", "converting a request: converting", "building a request: building"]
    {
        assert!(!chain.contains(prefix), "{chain:?}");
    }
}

#[test]
fn errors_of_bodies() {
    let text = String::from_utf8(vec![0xff]).expect_err("no text").utf8_error();
    for error in [
        BodyError::Text(text),
        BodyError::Malformed(DecodeError::ChunkSize),
        BodyError::Malformed(DecodeError::BodyCutShort),
        BodyError::Wire(io::Error::other("the cable is cut")),
        BodyError::failed("the disk is gone"),
        BodyError::failed(BodyError::Incomplete),
    ] {
        assert_each_cause_once(&error);
    }
    assert!(matches!(BodyError::failed(BodyError::Incomplete), BodyError::Incomplete));
    assert!(BodyError::Malformed(DecodeError::ChunkSize).to_string().starts_with("reading a chunk: "));
}

#[test]
fn errors_of_conversions() {
    let target = RequestHead::new(anywire_http::Method::GET, "/a b").expect_err("a space");
    assert_each_cause_once(&ConvertError::from(target));
    let uri = "http://[".parse::<http::Uri>().expect_err("no URI");
    assert_each_cause_once(&ConvertError::from(uri));
    let name = http::HeaderName::from_bytes(b"a b").expect_err("no token");
    assert_each_cause_once(&ConvertError::Header(name.into()));
}
