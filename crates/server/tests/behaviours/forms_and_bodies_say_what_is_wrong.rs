//! Forms, queries, JSON and cookies: each kind of fault has its status, and the response names the field. In both versions of HTTP.

use std::collections::HashMap;

use anywire_server::codec::Decoded;
use anywire_server::layers::Problems;
use anywire_server::{Cookies, Form, Json, Limits, Query, Router};

use crate::support::{Scene, Served};

#[derive(serde::Deserialize)]
struct Order {
    item: String,
    #[serde(default)]
    count: Vec<u8>,
}

#[derive(serde::Deserialize)]
struct Cart {
    orders: Vec<Order>,
    #[serde(default)]
    price: f64,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
}

fn served() -> Served {
    let form = async |Form(order): Form<Order>| format!("{} {:?}", order.item, order.count);
    let maybe = async |form: Option<Form<Order>>| form.is_some().to_string();
    let cart = async |Json(cart): Json<Cart>| format!("{} {}", cart.orders.len(), cart.price);
    let query = async |Query(fields): Query<HashMap<String, String>>| fields.len().to_string();
    let cookies = async |cookies: Cookies| cookies.iter().count().to_string();
    let maybe_cookies = async |cookies: Option<Cookies>| cookies.is_some().to_string();
    let router = Router::new()
        .get("/form", form)
        .post("/form", form)
        .get("/maybe", maybe)
        .post("/maybe", maybe)
        .post("/json", cart)
        .post("/any", async |Json(any): Json<serde_json::Value>| any.to_string())
        .post("/text", async |text: String| text)
        .get("/query", query)
        .get("/cookies", cookies)
        .get("/maybe-cookies", maybe_cookies);
    Scene::tcp().serve_with(router, Limits { form_fields: 3, body_bytes: 1000, ..Limits::default() })
}

fn get(served: &Served, path: &str, fields: &str) -> (u16, String) {
    let fields: Vec<_> = fields.lines().filter_map(|line| line.split_once(": ")).collect();
    let reply = served.alike(&format!("GET {path}"), &fields, "");
    (reply.status, reply.text)
}

fn post(served: &Served, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
    // One or several.
    let fields: Vec<_> = kind.lines().map(|kind| ("content-type", kind)).collect();
    let reply = served.alike(&format!("POST {path}"), &fields, body);
    (reply.status, reply.text)
}

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn a_form_is_in_the_query_or_in_the_body() {
    let served = served();
    assert_eq!(get(&served, "/form?item=a+b&count=1&count=2", ""), (200, "a b [1, 2]".into()));
    for kind in [
        FORM,
        "Application/X-WWW-Form-Urlencoded; charset=UTF-8",
        "application/x-www-form-urlencoded; charset=\"utf-8\"",
    ] {
        assert_eq!(post(&served, "/form", kind, b"count=3&item=%C3%A4"), (200, "ä [3]".into()));
    }
    assert_eq!(get(&served, "/maybe", ""), (200, "false".into()));
    assert_eq!(get(&served, "/maybe?item=a", ""), (200, "true".into()));
    assert_eq!(get(&served, "/maybe?", "").0, 400);
    assert_eq!(post(&served, "/maybe", "text/plain", b""), (200, "false".into()));
    assert_eq!(post(&served, "/maybe", FORM, b"item=a"), (200, "true".into()));
}

/// Coded bytes may happen to be a form.
#[test]
fn a_coded_form_is_not_read() {
    let served = served();
    let fields = [("content-type", FORM), ("content-encoding", "gzip")];
    assert_eq!(served.alike("POST /form", &fields, "item=a").status, 415);
    let fields = [("content-type", FORM), ("content-encoding", "identity")];
    assert_eq!(served.alike("POST /form", &fields, "item=a").status, 200);
}

/// A value or a name may be as long as the body. What is said of it is short.
#[test]
fn long_values_do_not_come_back() {
    let number = async |_: Form<HashMap<String, u32>>| "fine";
    let colour = async |_: Form<HashMap<String, Colour>>| "fine";
    let json = async |_: Json<HashMap<String, u32>>| "fine";
    let router = Router::new()
        .post("/number", number)
        .post("/colour", colour)
        .post("/json", json)
        .post("/decoded", async |_: Decoded<HashMap<String, u32>>| "fine")
        .merge(Router::new().post("/problem", number).post("/problem-json", json).layer(Problems::new()));
    let served = Scene::tcp().serve(router);
    let long = "\u{1}\u{e4}".repeat(100_000);
    let json = "application/json";
    for (path, kind, body) in [
        ("/number", FORM, format!("n={long}")),
        ("/number", FORM, format!("{long}=x")),
        ("/colour", FORM, format!("n={long}")),
        ("/problem", FORM, format!("{long}={long}")),
        ("/json", json, format!("{{\"n\":\"{}\"}}", "\u{e4}".repeat(100_000))),
        ("/json", json, format!("{{\"{}\":\"x\"}}", "\u{e4}".repeat(100_000))),
        ("/decoded", json, format!("{{\"n\":\"{}\"}}", "\u{e4}".repeat(100_000))),
        ("/problem-json", json, format!("{{\"n\":\"{}\"}}", "\u{e4}".repeat(100_000))),
    ] {
        let (status, text) = post(&served, path, kind, body.as_bytes());
        assert_eq!(status, 422, "{path}");
        // As UTF-8, and as a problem document it is there twice.
        assert!(text.len() < 3 << 10, "{path}: {} bytes", text.len());
    }
    let (_, text) = post(&served, "/number", FORM, format!("n={}", "ab".repeat(1000)).as_bytes());
    assert_eq!(text, format!("the form does not fit: n: \"{}\".. is no u32", "ab".repeat(32)));
    // What was expected, and where, is behind the value.
    let (_, text) = post(&served, "/json", json, format!("{{\"n\":\"{}\"}}", "a".repeat(1000)).as_bytes());
    assert!(text.starts_with("n in the JSON body does not fit: invalid type: string \"aaa"), "{text}");
    assert!(text.ends_with("aaa\", expected u32 at line 1 column 1007"), "{text}");
}

#[test]
fn each_fault_of_a_form_has_its_status() {
    let served = served();
    let form = |kind: &str, body: &[u8]| post(&served, "/form", kind, body);
    assert_eq!(form(FORM, b"count=1"), (422, "the form does not fit: item: it is missing".into()));
    assert_eq!(form(FORM, b"item=a&count=300").1, "the form does not fit: count: \"300\" is no u8");
    assert_eq!(
        form(FORM, b"item=a&item=b"),
        (422, "the form does not fit: item: it stands more than once".into())
    );
    assert_eq!(form(FORM, b"item=%FF").0, 400);
    assert_eq!(form(FORM, b"item=\xff").0, 400);
    assert_eq!(
        form(FORM, b"a=1&b=2&c=3&item=4"),
        (413, "the form does not fit: there are more than 3 fields".into())
    );
    assert_eq!(form(FORM, &[b'a'; 1001]).0, 413);
    assert_eq!(form("application/x-www-form-urlencoded; charset=iso-8859-1", b"item=a").0, 415);
    let (status, text) = form("multipart/form-data; boundary=x", b"item=a");
    assert_eq!(status, 415);
    assert!(text.ends_with("expected application/x-www-form-urlencoded"), "{text}");
    let wrong = get(&served, "/form?count=1", "");
    assert_eq!(wrong, (400, "the query does not fit: item: it is missing".into()));
}

#[test]
fn a_query_has_only_so_many_fields() {
    let served = served();
    assert_eq!(get(&served, "/query?a&b&c", ""), (200, "3".into()));
    assert_eq!(get(&served, "/query?a&b&c&d", "").0, 414);
    assert_eq!(
        get(&served, "/query?a=%80", "").1,
        "the query does not fit: a: it is not UTF-8 after percent-decoding"
    );
}

#[test]
fn a_fault_in_json_has_a_place() {
    let served = served();
    let json = |body: &str| post(&served, "/json", "application/json", body.as_bytes());
    assert_eq!(json(r#"{"orders":[{"item":"a"}],"price":1e3}"#), (200, "1 1000".into()));
    for (status, part, body) in [
        (
            422,
            "orders[1].count[0] in the JSON body does not fit: invalid value: integer `300`, expected u8 at line 2 column 26",
            "{\"orders\":[{\"item\":\"a\"},\n  {\"item\":\"b\",\"count\":[300]}]}",
        ),
        (422, "orders[0] in the JSON body does not fit: missing field `item`", r#"{"orders":[{}]}"#),
        (422, "the JSON body does not fit: missing field `orders`", "{}"),
        (400, "the JSON body does not fit: trailing characters at line 1 column 15", r#"{"orders":[]} x"#),
        (400, "price in the JSON body does not fit: number out of range", r#"{"orders":[],"price":1e999}"#),
        (400, "orders in the JSON body does not fit: EOF while parsing", r#"{"orders":["#),
        (400, "the JSON body does not fit: EOF while parsing", ""),
    ] {
        let (found, text) = json(body);
        assert!(text.starts_with(part), "{text}");
        assert_eq!(found, status, "{text}");
    }
}

#[test]
fn json_nests_only_so_deep() {
    let served = served();
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let any = |depth: usize| post(&served, "/any", "application/json", nested(depth).as_bytes());
    assert_eq!(any(127), (200, nested(127)));
    let (status, text) = any(128);
    assert_eq!(status, 400);
    assert!(text.contains("does not fit: recursion limit exceeded at line 1 column 128"), "{text}");
    // What is skipped needs no stack.
    let skipped = format!("{{\"orders\":[],\"other\":{}}}", nested(450));
    assert_eq!(post(&served, "/json", "application/json", skipped.as_bytes()).0, 200);
}

#[test]
fn a_body_of_another_type_or_character_set_is_not_read() {
    let served = served();
    let json = |kind: &str| post(&served, "/json", kind, br#"{"orders":[]}"#);
    for kind in [
        "application/json",
        "application/json;charset=\"utf-8\"",
        "application/vnd.shop+json",
        // JSON has no such parameter, and it has no effect (RFC 8259 section 11).
        "application/json; charset=utf-16",
    ] {
        assert_eq!(json(kind).0, 200, "{kind}");
    }
    let utf_16: Vec<u8> = r#"{"orders":[]}"#.encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(post(&served, "/json", "application/json; charset=utf-16", &utf_16).0, 400);
    for kind in ["text/json", "application/json2", "application/json\ntext/plain"] {
        assert_eq!(json(kind).0, 415, "{kind}");
    }
    assert_eq!(post(&served, "/text", "text/plain; charset=utf-8", b"hi"), (200, "hi".into()));
    let refused = (415, "the character set is \"latin1\", expected utf-8".into());
    assert_eq!(post(&served, "/text", "text/plain; charset=latin1", b"hi"), refused);
}

#[test]
fn cookies_are_read_from_all_fields() {
    let served = served();
    assert_eq!(get(&served, "/cookies", ""), (200, "0".into()));
    assert_eq!(get(&served, "/cookies", "cookie: a=1; b\r\ncookie: c=\r\n"), (200, "2".into()));
    let many = (431, "there are more than 3 cookies; send fewer".into());
    assert_eq!(get(&served, "/cookies", "cookie: a=1; b=2; c=3; d=4\r\n"), many);
    let fields = "cookie: a=1\r\ncookie: b=2\r\ncookie: c=3\r\n";
    assert_eq!(get(&served, "/cookies", fields), (200, "3".into()));
    assert_eq!(get(&served, "/cookies", &format!("{fields}cookie: d=4\r\n")), many);
    // A `;` at the end ends the last one and begins none.
    assert_eq!(get(&served, "/cookies", "cookie: a=1; b=2; c=3;\r\n"), (200, "3".into()));
    assert_eq!(get(&served, "/maybe-cookies", ""), (200, "false".into()));
    assert_eq!(get(&served, "/maybe-cookies", "cookie: \r\n"), (200, "true".into()));
}

#[test]
fn a_name_that_is_none_has_no_name() {
    let served = served();
    for (body, expected) in [
        ("{", "the JSON body does not fit: EOF while parsing an object at line 1 column 1"),
        ("{'orders': []}", "the JSON body does not fit: key must be a string at line 1 column 2"),
        (
            "{\"orders\": [{]}",
            "orders[0] in the JSON body does not fit: key must be a string at line 1 column 14",
        ),
    ] {
        assert_eq!(post(&served, "/json", "application/json", body.as_bytes()), (400, expected.to_owned()));
    }
}

#[test]
fn json_nests_as_deep_as_its_limit_says() {
    let any = async |Json(any): Json<serde_json::Value>| any.to_string();
    let decoded = async |Decoded(any): Decoded<serde_json::Value>| any.to_string();
    let router = Router::new().post("/any", any).post("/decoded", decoded);
    let served = Scene::tcp().serve_with(router, Limits { json_depth: 3, ..Limits::default() });
    for path in ["/any", "/decoded"] {
        let ask = |body: &str| post(&served, path, "application/json", body.as_bytes());
        for body in [r#"{"a":[1,2]}"#, "[[],[],{}]", r#"["[[[[","\\\"[[[",{"{{{{":"\\\\"}]"#] {
            assert_eq!(ask(body).0, 200, "{body}");
        }
        let refused = (400, "the JSON body nests 3 deep; send it in more parts".to_owned());
        for body in ["[[[]]]", r#"{"a":[{}]}"#, "[[[", r#"["\\\\",[[1]]]"#] {
            assert_eq!(ask(body), refused, "{body}");
        }
        assert_eq!(ask("]]]]").0, 400);
    }
    assert_eq!(served.running.counters().refused, 20);
}

/// A `HEAD` gets the fields of a `GET`, also as a question about a form that may be absent.
#[test]
fn a_form_of_a_head_is_in_the_query() {
    let shown = async |Form(order): Form<Order>| order.item;
    let router = Router::new().get("/form", shown);
    let ask = |target: &str| {
        let request = anywire_http::Request::new(anywire_http::Method::HEAD, target);
        anywire_loops::block_on(router.call(request)).status.as_u16()
    };
    assert_eq!((ask("/form?item=a&count=1"), ask("/form?count=x")), (200, 400));
}

/// What a coding has made of JSON or of a form is neither.
#[test]
fn a_coded_body_is_named_as_such() {
    let router = Router::new()
        .post("/json", async |Json(number): Json<u8>| number.to_string())
        .post("/form", async |Form(order): Form<Order>| order.item);
    for (path, kind) in [("/json", "application/json"), ("/form", FORM)] {
        for (coding, status) in [("gzip", 415), ("br, gzip", 415), ("identity", 400)] {
            let request = anywire_http::Request::post(path).header("content-type", kind);
            let request = request.header("content-encoding", coding).body(&b"\x1f\x8b\xff"[..]);
            let response = anywire_loops::block_on(router.call(request));
            assert_eq!(response.status.as_u16(), status, "{path} {coding}");
            let accepted = Some("identity").filter(|_| status == 415);
            assert_eq!(response.headers.get("accept-encoding"), accepted, "{path} {coding}");
        }
    }
}
