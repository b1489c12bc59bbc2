//! Requests and the answers that they must get, in their order, from a service with no orders and the tokens [`TOKENS`].
//!
//! One table for every program that is to be the same service.

use serde_json::Value;

/// Ada and Bob are customers.
pub const TOKENS: &str = "ada=analytical,bob=biological";
const ADA: &str = "Bearer analytical";
const BOB: &str = "Bearer biological";

/// A request.
pub struct Ask {
    pub method: &'static str,
    pub target: &'static str,
    pub authorization: Option<&'static str>,
    /// With its type.
    pub content: Option<(&'static str, String)>,
}

/// An answer, as far as it is looked at.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in small letters.
    pub fields: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// An error is a problem document, which says the same as the head.
    #[track_caller]
    pub fn check_problem(&self) {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        let document: Value = serde_json::from_str(&self.body).expect("a problem document is JSON");
        assert_eq!(document["status"], self.status, "{self:?}");
        assert!(document["type"].is_string() && document["title"].is_string(), "{self:?}");
        assert!(document["instance"].is_string(), "{self:?}");
        assert_eq!(document["request_id"].as_str(), self.field("x-request-id"), "{self:?}");
    }
}

/// Asks for everything in the table.
pub fn check(ask: impl Fn(&Ask) -> Answer) {
    for (request, status, fields, body) in table() {
        let answer = ask(&request);
        let place = format!("{} {}: {answer:?}", request.method, request.target);
        assert_eq!(answer.status, status, "{place}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{place}");
        assert!(answer.field("x-request-id").is_some(), "{place}");
        for (name, value) in fields {
            let found = answer.field(name).unwrap_or_else(|| panic!("no {name}: {place}"));
            assert!(found.contains(value), "{name}: {place}");
        }
        if status >= 400 {
            answer.check_problem();
        }
        if !body.is_empty() {
            let found = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no JSON: {place}"));
            assert!(has(&found, &serde_json::from_str(body).expect("the table has JSON")), "{body}: {place}");
        }
    }
}

/// Whether `found` has all that is expected: an object may have further members.
fn has(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(name, expected)| found.get(name).is_some_and(|found| has(found, expected)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| has(found, expected))
        }
        _ => found == expected,
    }
}

/// A request, its status, fields with a part of their values, and some of the JSON.
type Row = (Ask, u16, Vec<(&'static str, &'static str)>, &'static str);

fn table() -> Vec<Row> {
    let none = Vec::new;
    vec![
        // Anybody may ask whether it runs.
        (get("/health").by(None), 200, vec![("content-type", "text/plain")], ""),
        (
            get("/nowhere").by(None),
            404,
            none(),
            r#"{"type": "about:blank", "title": "Not Found", "instance": "/nowhere"}"#,
        ),
        (post("/health", "1").by(None), 405, vec![("allow", "GET")], r#"{"title": "Method Not Allowed"}"#),
        (get("/openapi.json").by(None), 200, vec![("content-type", "application/json")], DESCRIBED),
        // Only customers see orders.
        (get("/orders").by(None), 401, vec![("www-authenticate", "Bearer")], r#"{"title": "Unauthorized"}"#),
        (get("/orders").by(Some("Bearer guessed-it")), 401, vec![("www-authenticate", "Bearer")], ""),
        (get("/orders").by(Some("Basic YWRhOmFuYWx5dGljYWw=")), 401, none(), ""),
        (order().by(None), 401, none(), ""),
        // Making and reading.
        (get("/orders"), 200, vec![("content-type", "application/json")], r#"{"orders": [], "next": null}"#),
        (
            order(),
            201,
            vec![("location", "/orders/1")],
            r#"{"id": 1, "item": "tea", "count": 2, "cancelled": false}"#,
        ),
        (get("/orders/1"), 200, none(), r#"{"id": 1, "item": "tea", "count": 2, "cancelled": false}"#),
        (get("/orders/1").by(Some(BOB)), 404, none(), r#"{"title": "Not Found"}"#),
        (get("/orders/2"), 404, none(), r#"{"title": "Not Found", "instance": "/orders/2"}"#),
        (get("/orders/one"), 400, none(), r#"{"title": "Bad Request"}"#),
        // What is no order.
        (
            post("/orders", r#"{"item": "", "count": 100}"#),
            422,
            none(),
            r#"{"errors": [{"field": "count", "message": "greater than 99"}, {"field": "item", "message": "length is lower than 1"}]}"#,
        ),
        (
            post("/orders", r#"{"item": "tea", "count": "two"}"#),
            422,
            none(),
            r#"{"title": "Unprocessable Entity"}"#,
        ),
        (post("/orders", r#"{"item": "tea"}"#), 422, none(), ""),
        (post("/orders", r#"{"item": "tea", "#), 400, none(), ""),
        (Ask { content: Some(("text/plain", "tea".to_owned())), ..order() }, 415, none(), ""),
        (post("/orders", &format!(r#"{{"item": "{}", "count": 2}}"#, "x".repeat(20_000))), 413, none(), ""),
        // Pages.
        (order(), 201, vec![("location", "/orders/2")], ""),
        (order(), 201, vec![("location", "/orders/3")], ""),
        (
            get("/orders?limit=2"),
            200,
            none(),
            r#"{"orders": [{"id": 1}, {"id": 2}], "next": "/orders?after=2&limit=2"}"#,
        ),
        (get("/orders?after=2&limit=2"), 200, none(), r#"{"orders": [{"id": 3}], "next": null}"#),
        (get("/orders").by(Some(BOB)), 200, none(), r#"{"orders": [], "next": null}"#),
        (
            get("/orders?limit=0"),
            422,
            none(),
            r#"{"errors": [{"field": "limit", "message": "lower than 1"}]}"#,
        ),
        (get("/orders?limit=two"), 400, none(), ""),
        // Cancelling, once.
        (post("/orders/1/cancel", ""), 200, none(), r#"{"id": 1, "cancelled": true}"#),
        (
            post("/orders/1/cancel", ""),
            409,
            none(),
            r#"{"type": "https://orders.example/problems/cancelled", "title": "Cancelled before", "order": 1}"#,
        ),
        (post("/orders/9/cancel", ""), 404, none(), r#"{"detail": "there is no order 9"}"#),
        (get("/orders/1/cancel"), 405, vec![("allow", "POST")], ""),
        (get("/orders/1"), 200, none(), r#"{"id": 1, "cancelled": true}"#),
    ]
}

/// Some of the description of the routes.
const DESCRIBED: &str = r##"{
    "openapi": "3.1.0",
    "info": {"title": "Orders"},
    "paths": {
        "/health": {"get": {"summary": "Whether it runs"}},
        "/orders/{id}": {"get": {"responses": {"200": {}, "401": {}, "404": {}}, "security": [{"bearer": []}]}},
        "/orders/{id}/cancel": {"post": {"responses": {"200": {}, "401": {}, "404": {}, "409": {}}}}
    },
    "components": {"schemas": {"NewOrder": {"properties": {"count": {"maximum": 99}}}}}
}"##;

fn get(target: &'static str) -> Ask {
    Ask { method: "GET", target, authorization: Some(ADA), content: None }
}

/// An order of Ada's.
pub fn order() -> Ask {
    post("/orders", r#"{"item": "tea", "count": 2}"#)
}

fn post(target: &'static str, json: &str) -> Ask {
    let content = (!json.is_empty()).then(|| ("application/json", json.to_owned()));
    Ask { method: "POST", content, ..get(target) }
}

impl Ask {
    fn by(self, authorization: Option<&'static str>) -> Self {
        Self { authorization, ..self }
    }
}
