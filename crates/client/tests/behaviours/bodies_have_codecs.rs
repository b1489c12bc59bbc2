//! Values go out and come in by the codecs of a client and of a call, in their order, with advice around them; what does not fit says why.

use std::any::Any;
use std::collections::BTreeMap;

use anywire_client::codec::{
    BytesCodec, Codec, CodecAdvice, CodecError, Codecs, ProtobufCodec, Source, Target, TextCodec,
};
use anywire_client::{Call, Error, Response};
use anywire_http::accept::MediaType;
use anywire_http::{Bytes, ResponseHead, StatusCode};
use serde::de::DeserializeSeed;

use crate::support::{Peer, block_on, client, wire};

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Order {
    item: String,
    count: u32,
}

fn order() -> Order {
    Order { item: "tea".to_owned(), count: 2 }
}

/// A peer that sends back each body with its type, or with the type that the query names. The field `x-accept` is what it was asked for.
fn echo() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let headers = request.head.headers();
            let field = |name: &str| headers.get(name).unwrap_or("none").to_owned();
            let content_type = request.head.query().map_or_else(|| field("content-type"), str::to_owned);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nx-accept: {}\r\ncontent-length: {}\r\n\r\n",
                field("accept"),
                request.body.len()
            );
            talk.say([head.as_bytes(), &request.body].concat());
        }
    })
}

fn send(call: Call) -> Response {
    block_on(call.send()).expect("answered")
}

#[test]
fn each_type_has_its_codec() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder);
    let call = || client.post(peer.url("/"));
    let typed = |kind: &str| call().header("content-type", kind);
    let kind = |response: &Response| response.headers().get("content-type").expect("one").to_owned();

    let response = send(call().encode(order()));
    assert_eq!(
        (kind(&response), response.headers().get("x-accept")),
        ("application/json".to_owned(), Some("none"))
    );
    assert_eq!(block_on(response.decode::<Order>()).expect("JSON"), order());

    let response = send(typed("application/x-www-form-urlencoded").encode(order()));
    assert_eq!(block_on(response.decode::<Order>()).expect("a form"), order());
    let response = send(typed("application/vnd.shop+json").encode(order()));
    assert_eq!(block_on(response.decode::<Order>()).expect("JSON"), order());
    let response = send(typed("text/markdown").encode("*tea*".to_owned()));
    assert_eq!(block_on(response.decode::<String>()).expect("text"), "*tea*");
    let response = send(typed("image/png").encode(vec![0xff_u8, 0]));
    assert_eq!(block_on(response.decode::<Vec<u8>>()).expect("bytes"), [0xff, 0]);
    // A type that no other codec reads, and any type for bytes.
    let response = send(typed("text/plain").encode("tea"));
    assert_eq!(block_on(response.decode::<Vec<u8>>()).expect("bytes"), b"tea");
}

#[test]
fn without_a_type_each_codec_may_be_the_one() {
    let peer = Peer::answering(
        wire("tcp"),
        "HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\n{\"item\":\"tea\",\"count\":2}",
    );
    let (_loops, client) = client(1, |builder| builder);
    let response = || send(client.get(peer.url("/")));
    assert_eq!(block_on(response().decode::<Order>()).expect("JSON"), order());
    assert_eq!(block_on(response().decode::<Vec<u8>>()).ok(), None);
    let only = send(client.get(peer.url("/")).only_codec(BytesCodec));
    assert_eq!(block_on(only.decode::<Vec<u8>>()).expect("bytes").len(), 24);
}

#[test]
fn texts_have_charsets() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder);
    let call = || client.post(peer.url("/?text/plain;charset=iso-8859-1")).body(&b"\xe4 \x80"[..]);
    assert_eq!(block_on(send(call()).decode::<String>()).expect("text"), "\u{e4} \u{20ac}");
    assert_eq!(block_on(send(call()).text()).expect("text"), "\u{e4} \u{20ac}");
    let odd = client.post(peer.url("/?text/plain;charset=odd")).body("a");
    assert!(matches!(block_on(send(odd).text()), Err(Error::Unreadable { .. })));
}

#[derive(Clone, PartialEq, prost::Message, serde::Serialize, serde::Deserialize)]
struct Message {
    #[prost(string, tag = "1")]
    item: String,
}

/// Numbers as their digits, doubled.
struct Doubled;

impl Codec for Doubled {
    fn media_types(&self) -> &[&str] {
        &["application/vnd.doubled"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        let half = &body[..body.len() / 2];
        Ok(target.deserialize(&mut serde_json::Deserializer::from_slice(half))?)
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        Ok(serde_json::to_string(&value)?.repeat(2).into())
    }
}

#[test]
fn codecs_of_a_call_come_first_or_alone() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder.codecs(Codecs::new().json().text()));
    let call = || client.post(peer.url("/"));
    let accept = |response: &Response| response.headers().get("x-accept").expect("one").to_owned();

    let response = send(call().codec(Doubled).encode(7));
    let both =
        "application/vnd.doubled, application/json, application/*+json, text/plain; charset=utf-8, text/*";
    assert_eq!(accept(&response), both);
    assert_eq!(block_on(response.decode::<u32>()).expect("7"), 7);
    let response = send(call().only_codec(Doubled).encode(8));
    assert_eq!(accept(&response), "application/vnd.doubled");
    assert_eq!(block_on(response.decode::<u32>()).expect("8"), 8);
    let response = send(call().header("accept", "text/html").encode(9));
    assert_eq!(accept(&response), "text/html");
    assert_eq!(block_on(response.bytes()).expect("a body"), "9");

    let message = Message { item: "tea".to_owned() };
    let response = send(call().codec(ProtobufCodec::<Message, Message>::new()).encode(message.clone()));
    assert_eq!(response.headers().get("content-type"), Some("application/protobuf"));
    assert_eq!(block_on(response.decode::<Message>()).expect("a message"), message);
    // A codec for another type leaves the value to the next one.
    let response = send(call().codec(ProtobufCodec::<Message, Message>::new()).encode(order()));
    assert_eq!(response.headers().get("content-type"), Some("application/json"));
}

#[test]
fn what_does_not_fit_says_why() {
    let peer = echo();
    let (_loops, client) = client(1, |builder| builder.codecs(Codecs::new().json()));
    let page = "<html>".repeat(40);
    let response = send(client.post(peer.url("/?text/html")).body(page));
    let error = block_on(response.decode::<Order>()).expect_err("no JSON");
    let Error::Unreadable { status, content_type, start, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*status, &**content_type, start.len()), (StatusCode::OK, "text/html", 64));
    assert!(start.starts_with("<html>") && error.to_string().contains("<html>"), "{error}");
    let response = send(client.post(peer.url("/?application/json")).body("{\"item\": 7}"));
    assert!(matches!(block_on(response.decode::<Order>()), Err(Error::Unreadable { .. })));

    let accepted = peer.accepted();
    for call in
        [client.post(peer.url("/")).only_codec(TextCodec), client.post(peer.url("/")).only_codec(BytesCodec)]
    {
        let error = block_on(call.encode(order()).send()).expect_err("none fits");
        assert!(matches!(error, Error::Unwritable(_)), "{error:?}");
    }
    assert_eq!(peer.accepted(), accepted);
}

/// Notes its name in values, and puts its bytes around bodies.
struct Note(&'static str);

impl CodecAdvice for Note {
    fn before_encode(&self, _: &MediaType, value: &mut dyn Any) -> Result<(), CodecError> {
        if let Some(map) = value.downcast_mut::<BTreeMap<String, u32>>() {
            let number = u32::try_from(map.len())?;
            map.insert(format!("encode-{}", self.0), number);
        }
        Ok(())
    }

    fn after_encode(&self, media_type: &MediaType, bytes: Bytes) -> Result<Bytes, CodecError> {
        assert_eq!(media_type.as_str(), "application/json");
        Ok([self.0.as_bytes(), &bytes].concat().into())
    }

    fn before_decode(&self, _: &ResponseHead, bytes: Bytes) -> Result<Bytes, CodecError> {
        Ok(bytes.strip_prefix(self.0.as_bytes()).map(Bytes::copy_from_slice).ok_or("no mark")?)
    }

    fn after_decode(&self, head: &ResponseHead, value: &mut dyn Any) -> Result<(), CodecError> {
        assert_eq!(head.status(), StatusCode::OK);
        if let Some(map) = value.downcast_mut::<BTreeMap<String, u32>>() {
            let number = u32::try_from(map.len())?;
            map.insert(format!("decode-{}", self.0), number);
        }
        Ok(())
    }
}

#[test]
fn advice_is_around_codecs() {
    let peer = echo();
    let codecs = Codecs::new().json().advice(Note("a")).advice(Note("b"));
    let (_loops, client) = client(1, |builder| builder.codecs(codecs));
    let response = send(client.post(peer.url("/")).encode(BTreeMap::<String, u32>::new()));
    let map = block_on(response.decode::<BTreeMap<String, u32>>()).expect("with both marks");
    let map: Vec<_> = map.iter().map(|(name, number)| (&**name, *number)).collect();
    assert_eq!(map, [("decode-a", 3), ("decode-b", 2), ("encode-a", 0), ("encode-b", 1)]);
    let response = send(client.post(peer.url("/?application/json")).body("{}"));
    let error = block_on(response.decode::<BTreeMap<String, u32>>()).expect_err("without a mark");
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
}
