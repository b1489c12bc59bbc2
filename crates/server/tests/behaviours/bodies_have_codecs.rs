//! Bodies come and go in the formats of their route: by `Content-Type` and `Accept`, with advice around them.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anywire_http::accept::MediaType;
use anywire_http::{Bytes, StatusCode};
use anywire_loops::PoolLimits;
use anywire_server::codec::{
    Codec, CodecAdvice, CodecError, CodecRejection, Decoded, Format, Negotiated, ProtobufCodec, Source,
    Target,
};
use anywire_server::layers::{Codecs, Problems};
use anywire_server::{Blocking, Error, Handler, Parts, RouteLimits, Router, Server};
use serde::de::DeserializeSeed;

use crate::support::{Served, serve};

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Order {
    item: String,
    count: u32,
}

/// Forms, as far as serde knows them.
struct Form;

impl Codec for Form {
    fn media_types(&self) -> &[&str] {
        &["application/x-www-form-urlencoded", "text/x-form"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        let pairs: Vec<(String, String)> = serde_urlencoded::from_bytes(body)?;
        let of_number = |(name, value): (String, String)| match value.parse::<u32>() {
            Ok(number) => (name, number.into()),
            Err(_) => (name, value.into()),
        };
        let map: serde_json::Map<String, serde_json::Value> = pairs.into_iter().map(of_number).collect();
        Ok(target.deserialize(serde_json::Value::from(map))?)
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        Ok(serde_urlencoded::to_string(value)?.into())
    }
}

/// With bounds of its own: orders alone, as `2 tea`.
struct Plain;

impl Codec for Plain {
    fn media_types(&self) -> &[&str] {
        &["text/plain"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        let text = str::from_utf8(body)?;
        let Some((count, item)) = text.split_once(' ') else {
            return Err(CodecError::new(StatusCode::UNPROCESSABLE_ENTITY, "an order is a count and an item"));
        };
        let order = Order { item: item.to_owned(), count: count.parse()? };
        target.put(order)
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        let order: &Order = value.value()?;
        Ok(format!("{} {}", order.count, order.item).into())
    }
}

async fn echo(format: Format, Decoded(order): Decoded<Order>) -> Negotiated<Order> {
    Negotiated(order, format)
}

const JSON: &str = r#"{"item":"tea","count":2}"#;

/// What an order of this type becomes: status, type and text.
#[track_caller]
fn post(served: &Served, path: &str, [of, accept]: [&str; 2], body: &str) -> (u16, Option<String>, String) {
    let reply = served.alike(&format!("POST {path}"), &[("content-type", of), ("accept", accept)], body);
    (reply.status, reply.field("content-type").map(str::to_owned), reply.text)
}

#[test]
fn each_peer_gets_what_it_likes_best() {
    let router = Router::new().post("/", echo).layer(Codecs::new().json().with(Form).with(Plain));
    let served = serve(router);
    let form = "application/x-www-form-urlencoded";
    for (of, accept, body, expected, text) in [
        ("application/json", "*/*", JSON, "application/json", JSON),
        ("application/vnd.shop+json; charset=utf-8", "", JSON, "application/json", JSON),
        ("application/json", form, JSON, form, "item=tea&count=2"),
        (form, "application/json;q=0.5, text/plain", "item=tea&count=2", "text/plain", "2 tea"),
        (
            "Text/X-Form",
            "text/*;q=0.1, application/*;q=0",
            "count=2&item=tea",
            "text/x-form",
            "item=tea&count=2",
        ),
        ("text/plain", "image/png, */*;q=0.1", "2 tea", "application/json", JSON),
    ] {
        let found = post(&served, "/", [of, accept], body);
        assert_eq!(found, (200, Some(expected.to_owned()), text.to_owned()), "{of} {accept}");
    }
    let reply = served.alike("POST /", &[("content-type", "text/plain")], "2 tea");
    assert_eq!((&*reply.text, reply.field("vary")), (JSON, Some("accept")));
}

#[test]
fn what_does_not_fit_is_refused_before_the_handler_runs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = {
        let runs = Arc::clone(&runs);
        async move |format: Format, Decoded(order): Decoded<Order>| {
            runs.fetch_add(1, Ordering::Relaxed);
            Negotiated(order, format)
        }
    };
    let small = RouteLimits { body_bytes: Some(30), ..RouteLimits::default() };
    let router = Router::new().post("/", counted.limits(small)).layer(Codecs::new().json().with(Plain));
    let served = serve(router.layer(Problems::new()));
    let detail = |types: [&str; 2], body: &str| {
        let (status, _, text) = post(&served, "/", types, body);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| text.into());
        (status, document)
    };
    let json = "application/json";
    let (status, document) = detail(["text/css", json], JSON);
    assert_eq!((status, &document["supported"][2]), (415, &"text/plain".into()), "{document}");
    let (status, document) = detail([json, "image/png, application/problem+json"], JSON);
    assert_eq!(
        (status, document["available"].to_string()),
        (406, r#"["application/json","text/plain"]"#.to_owned())
    );
    for (of, body, status, text) in [
        (json, "{", 400, "the JSON body does not fit"),
        (json, r#"{"item":1}"#, 422, "the JSON body does not fit"),
        (json, &*format!("{JSON}          "), 413, "larger than 30 bytes"),
        ("text/plain", "tea", 422, "the body does not fit: an order is a count and an item"),
        ("text/plain", "two tea", 400, "the body does not fit: invalid digit found in string"),
        ("", "", 415, "expected application/json, application/*+json, text/plain"),
    ] {
        let (found, document) = detail([of, "*/*"], body);
        assert_eq!(found, status, "{of} {body}");
        assert!(document["detail"].as_str().is_some_and(|detail| detail.contains(text)), "{document}");
    }
    let reply = served.alike("POST /", &[("content-type", "text/css")], "x");
    assert_eq!(reply.field("accept"), Some("application/json, application/*+json, text/plain"));
    let coded = [("content-type", "text/plain"), ("content-encoding", "gzip")];
    let reply = served.alike("POST /", &coded, "x");
    assert_eq!((reply.status, reply.field("accept-encoding")), (415, Some("identity")));
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert_eq!(post(&served, "/", [json, json], JSON).0, 200);
}

#[test]
fn without_codecs_there_is_json() {
    let optional = async |order: Option<Decoded<Order>>| order.map_or("none", |_| "some");
    let asks =
        async |order: Result<Decoded<Order>, CodecRejection>| -> Result<String, Error> { Ok(order?.0.item) };
    let served = serve(Router::new().post("/", echo).post("/optional", optional).post("/asks", asks));
    let json = "application/json";
    assert_eq!(post(&served, "/", [json, "*/*"], JSON), (200, Some(json.to_owned()), JSON.to_owned()));
    assert_eq!(post(&served, "/", [json, "text/plain"], JSON).0, 406);
    assert_eq!(post(&served, "/", ["text/plain", json], "2 tea").0, 415);
    assert_eq!(served.alike("POST /optional", &[], "").text, "none");
    assert_eq!(post(&served, "/asks", ["text/plain", json], "2 tea").0, 415);
}

#[test]
fn an_inner_layer_replaces_the_codecs_of_an_outer_one() {
    let nested = Router::new()
        .post("/kept", echo.layer(Codecs::new()))
        .post("/own", echo.layer(Codecs::new().with(Form)))
        .post("/outer", echo)
        .layer(Codecs::new().with(Plain));
    let served = serve(Router::new().nest("/a", nested).layer(Codecs::new().json()));
    for (path, of, body) in [
        ("/a/kept", "text/plain", "2 tea"),
        ("/a/own", "text/x-form", "item=tea&count=2"),
        ("/a/outer", "text/plain", "2 tea"),
    ] {
        assert_eq!(post(&served, path, [of, "*/*"], body).0, 200, "{path}");
        assert_eq!(post(&served, path, ["application/json", "*/*"], JSON).0, 415, "{path}");
    }
}

#[test]
fn what_a_handler_produces_is_chosen_by_the_router() {
    let (json, plain) = ("application/json", "text/plain");
    let router = Router::new()
        .post("/both", echo.produces([plain, json]))
        .post("/other", echo.produces("image/png"))
        .format_parameter("format")
        .layer(Codecs::new().json().with(Plain));
    let served = serve(router);
    assert_eq!(post(&served, "/both", [json, "*/*"], JSON).2, "2 tea");
    assert_eq!(post(&served, "/both?format=json", [json, plain], JSON).2, JSON);
    assert_eq!(post(&served, "/both", [json, "image/png"], JSON).0, 406);
    // No codec writes what it says.
    assert_eq!(post(&served, "/other", [json, "image/png"], JSON).0, 500);
}

#[test]
fn messages_of_protobuf_are_one_of_the_formats() {
    #[derive(Clone, PartialEq, prost::Message, serde::Serialize, serde::Deserialize)]
    struct Sent {
        #[prost(uint32, tag = "1")]
        count: u32,
    }

    #[derive(Clone, PartialEq, prost::Message, serde::Serialize)]
    struct Given {
        #[prost(string, tag = "1")]
        text: String,
    }

    let gives = async |format: Format, Decoded(sent): Decoded<Sent>| {
        Negotiated(Given { text: sent.count.to_string() }, format)
    };
    let codecs = || Codecs::new().json().with(ProtobufCodec::<Sent, Given>::new());
    let router = Router::new().post("/", gives).post("/orders", echo).layer(codecs());
    let served = serve(router);
    let (json, protobuf) = ("application/json", "application/x-protobuf");
    assert_eq!(post(&served, "/", [protobuf, json], "\u{8}\u{7}").2, r#"{"text":"7"}"#);
    let found = post(&served, "/", [json, protobuf], r#"{"count":7}"#);
    assert_eq!(found, (200, Some(protobuf.to_owned()), "\n\u{1}7".to_owned()));
    assert_eq!(post(&served, "/", [protobuf, json], "\u{8}").0, 400);
    for types in [[protobuf, json], [json, protobuf]] {
        let body = if types[0] == json { JSON } else { "\u{8}\u{7}" };
        assert_eq!(post(&served, "/orders", types, body).0, 500, "it is for other types");
    }
}

#[test]
fn a_function_on_a_pool_writes_there() {
    let doubled = |format: Format, Decoded(order): Decoded<Order>| {
        Negotiated(Order { count: order.count * 2, ..order }, format)
    };
    let router = Router::new().post("/", doubled.on_pool("cpu")).layer(Codecs::new().json().with(Plain));
    let server = Server::new(router).pool("cpu", PoolLimits::default());
    let served = crate::support::Scene::tcp().serve_by(server);
    assert_eq!(post(&served, "/", ["application/json", "text/plain"], JSON).2, "4 tea");
}

type Log = Arc<Mutex<Vec<String>>>;

/// Tells when it is asked, and changes or refuses what is of its name.
struct Told {
    name: &'static str,
    log: Log,
}

impl Told {
    fn tell(&self, what: &str) {
        self.log.lock().expect("no panic").push(format!("{} {what}", self.name));
    }
}

impl CodecAdvice for Told {
    fn before_decode(&self, parts: &Parts, bytes: Bytes) -> Result<Bytes, Error> {
        self.tell("before decode");
        match parts.headers().get("x-fails") {
            Some("bytes") => Err(Error::new(StatusCode::FORBIDDEN, "no such bytes")),
            Some("panic") => panic!("on purpose"),
            _ => Ok(bytes.strip_prefix(b"!").map_or(bytes.clone(), |rest| bytes.slice_ref(rest))),
        }
    }

    fn after_decode(&self, parts: &Parts, value: &mut dyn Any) -> Result<(), Error> {
        self.tell("after decode");
        if parts.headers().contains("x-refused") {
            return Err(Error::new(StatusCode::CONFLICT, "no such order"));
        }
        let order: &mut Order = value.downcast_mut().ok_or(std::fmt::Error)?;
        order.item.push_str(self.name);
        Ok(())
    }

    fn before_encode(&self, media_type: &MediaType, value: &mut dyn Any) -> Result<(), Error> {
        self.tell(&format!("before encode as {}", media_type.as_str()));
        let order: &mut Order = value.downcast_mut().ok_or(std::fmt::Error)?;
        order.count += 1;
        match order.count {
            100.. => Err(Error::new(StatusCode::INSUFFICIENT_STORAGE, "too many")),
            _ => Ok(()),
        }
    }

    fn after_encode(&self, _: &MediaType, bytes: Bytes) -> Result<Bytes, Error> {
        self.tell("after encode");
        Ok([&bytes[..], self.name.as_bytes()].concat().into())
    }
}

#[test]
fn advice_runs_around_the_codecs() {
    let log = Log::default();
    let told = |name| Told { name, log: Arc::clone(&log) };
    let route = echo.layer(Codecs::new().advice(told("C")));
    let router =
        Router::new().post("/", route).layer(Codecs::new().with(Plain).advice(told("A")).advice(told("B")));
    let served = serve(router);
    let plain = ["text/plain", "text/plain"];
    assert_eq!(post(&served, "/", plain, "!2 tea").2, "5 teaCBACBA");
    let expected = [
        "A before decode",
        "B before decode",
        "C before decode",
        "C after decode",
        "B after decode",
        "A after decode",
        "A before encode as text/plain",
        "B before encode as text/plain",
        "C before encode as text/plain",
        "C after encode",
        "B after encode",
        "A after encode",
    ];
    // Once in each version.
    assert_eq!(log.lock().expect("no panic").split_off(expected.len()), expected);
    let (status, _, text) = post(&served, "/", plain, "99 tea");
    assert_eq!((status, &*text), (507, "too many"));
    for (field, status, text) in
        [("bytes", 403, "no such bytes"), ("panic", 500, "the server failed to answer this request")]
    {
        let reply = served.alike("POST /", &[("content-type", "text/plain"), ("x-fails", field)], "2 tea");
        assert_eq!((reply.status, &*reply.text), (status, text));
    }
    let reply = served.alike("POST /", &[("content-type", "text/plain"), ("x-refused", "1")], "2 tea");
    assert_eq!((reply.status, &*reply.text), (409, "no such order"));
    served.assert_alive();
}

/// Fails in each way that there is.
struct Bad;

impl Codec for Bad {
    fn media_types(&self) -> &[&str] {
        &["application/x-bad"]
    }

    fn decode(&self, body: &Bytes, _: Target<'_>) -> Result<(), CodecError> {
        match &body[..] {
            b"nothing" => Ok(()),
            _ => panic!("on purpose"),
        }
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        match value.value::<Order>() {
            Ok(order) if order.count == 0 => Err(std::io::Error::other("a secret"))?,
            _ => panic!("on purpose"),
        }
    }
}

#[test]
fn a_codec_that_fails_costs_its_own_request() {
    let router = Router::new().post("/", echo).layer(Codecs::new().json().with(Bad));
    let served = serve(router);
    let failed = (500, "the server failed to answer this request".to_owned());
    let (json, bad) = ("application/json", "application/x-bad");
    for (types, body) in [
        ([bad, json], "nothing"),
        ([bad, json], "panic"),
        ([json, bad], r#"{"item":"tea","count":0}"#),
        ([json, bad], JSON),
    ] {
        let (status, _, text) = post(&served, "/", types, body);
        assert_eq!((status, text), failed, "{types:?} {body}");
    }
    assert_eq!(served.running.counters().panics, 4);
    served.assert_alive();
}

#[test]
fn a_type_that_a_codec_does_not_know_is_its_own_fault() {
    let numbers = async |format: Format, Decoded(number): Decoded<u32>| Negotiated(number, format);
    let served = serve(Router::new().post("/", numbers).layer(Codecs::new().json().with(Plain)));
    let (json, plain) = ("application/json", "text/plain");
    assert_eq!(post(&served, "/", [json, json], "7").2, "7");
    assert_eq!(post(&served, "/", [plain, json], "2 tea").0, 500);
    assert_eq!(post(&served, "/", [json, plain], "7").0, 500);
}

#[test]
fn a_media_type_that_is_none_is_an_error_at_start() {
    struct Nameless;

    impl Codec for Nameless {
        fn media_types(&self) -> &[&str] {
            &["pretty"]
        }

        fn decode(&self, _: &Bytes, _: Target<'_>) -> Result<(), CodecError> {
            Ok(())
        }

        fn encode(&self, _: Source<'_>) -> Result<Bytes, CodecError> {
            Ok(Bytes::new())
        }
    }

    let text =
        Router::new().post("/", echo).layer(Codecs::new().with(Nameless)).describe().expect_err("no type");
    let text = text.to_string();
    assert!(text.contains("pretty") && text.contains("bodies_have_codecs.rs"), "{text}");
}
