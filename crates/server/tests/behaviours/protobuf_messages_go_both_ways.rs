//! `Protobuf<T>` reads a message from a body, and writes one as a response.

use anywire_http::{Request, StatusCode};
use anywire_server::{Limits, Protobuf, Router};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Order {
    #[prost(string, tag = "1")]
    item: String,
    #[prost(uint32, tag = "2")]
    count: u32,
}

fn router() -> Router {
    let twice =
        async |Protobuf(order): Protobuf<Order>| Protobuf(Order { item: order.item, count: 2 * order.count });
    let maybe = async |order: Option<Protobuf<Order>>| order.is_some().to_string();
    Router::new().post("/twice", twice).post("/maybe", maybe)
}

fn post(path: &str, kind: &str, body: Vec<u8>) -> (StatusCode, String, Vec<u8>) {
    anywire_loops::block_on(async {
        let request = Request::post(path).header("content-type", kind).body(body);
        let mut response = router().call(request).await;
        let kind = response.headers.get("content-type").unwrap_or_default().to_owned();
        let body = response.body.bytes(1000).await.expect("a body");
        (response.status, kind, body.to_vec())
    })
}

#[test]
fn a_message_goes_in_and_out() {
    let order = Order { item: "tea".into(), count: 3 };
    for kind in ["application/protobuf", "application/x-protobuf", "Application/VND.google.protobuf"] {
        let (status, answered, body) = post("/twice", kind, order.encode_to_vec());
        assert_eq!((status, &*answered), (StatusCode::OK, "application/protobuf"));
        assert_eq!(Order::decode(&*body).map(|order| order.count), Ok(6));
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let bytes = Order { item: "tea".into(), count: 3 }.encode_to_vec();
    assert_eq!(post("/twice", "application/json", bytes.clone()).0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let (status, _, text) = post("/twice", "application/protobuf", bytes[..bytes.len() - 1].to_vec());
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let text = String::from_utf8_lossy(&text);
    assert!(text.starts_with("the protobuf message does not fit: "), "{text}");
    let coded = Request::post("/twice").header("content-type", "application/protobuf");
    let coded = coded.header("content-encoding", "gzip").body(bytes);
    let status = anywire_loops::block_on(async { router().call(coded).await.status });
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "coded bytes may happen to be a message");
    let (status, _, answer) = post("/maybe", "application/protobuf", Vec::new());
    assert_eq!((status, &*answer), (StatusCode::OK, &b"false"[..]));
    let large = vec![0; Limits::default().body_bytes + 1];
    assert_eq!(post("/twice", "application/protobuf", large).0, StatusCode::PAYLOAD_TOO_LARGE);
}
