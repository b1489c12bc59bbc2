//! `Valid<E>` answers 422 for a value that breaks rules, and names field, rule and reason.

use std::collections::BTreeMap;

use anywire_http::Request;
use anywire_server::codec::Decoded;
use anywire_server::{
    Form, InnerValue, Json, Path, Query, RouteError, Router, Server, ServerError, Valid, ValidRejection,
    Validate, ValidationMessages, Violations,
};
use serde_json::{Value, json};

#[derive(serde::Deserialize, garde::Validate)]
struct Order {
    #[garde(length(min = 2, max = 8))]
    item: String,
    #[garde(range(min = 1, max = 9))]
    count: u32,
    #[serde(default)]
    #[garde(dive)]
    parts: Vec<Part>,
}

#[derive(serde::Deserialize, garde::Validate)]
struct Part {
    #[garde(custom(even))]
    size: u32,
}

fn even(size: &u32, (): &()) -> garde::Result {
    match size.is_multiple_of(2) {
        true => Ok(()),
        false => Err(garde::Error::new("is odd")),
    }
}

/// Rules by hand.
#[derive(serde::Deserialize)]
struct Id(u32);

impl Validate for Id {
    type Context = ();

    fn validate(&self, (): &(), violations: &mut Violations) {
        if self.0 == 0 {
            violations.add("", "not_zero", "counting begins at 1");
        }
    }
}

#[derive(serde::Deserialize)]
struct Ids(Vec<u32>);

impl Validate for Ids {
    type Context = ();

    fn validate(&self, (): &(), violations: &mut Violations) {
        for (index, _) in self.0.iter().enumerate().filter(|(_, number)| **number == 0) {
            violations.add(format!("[{index}]"), "not_zero", "counting begins at 1");
        }
    }
}

#[derive(Clone)]
struct Stock {
    most: u32,
}

#[derive(serde::Deserialize)]
struct Wanted {
    count: u32,
}

impl Validate for Wanted {
    type Context = Stock;

    fn validate(&self, stock: &Stock, violations: &mut Violations) {
        if self.count > stock.most {
            violations.add("count", "in_stock", format!("there are {}", stock.most));
        }
    }
}

fn router() -> Router {
    Router::new()
        .post("/json", async |Valid(Json(order)): Valid<Json<Order>>| order.parts.len().to_string())
        .post("/decoded", async |Valid(Decoded(order)): Valid<Decoded<Order>>| order.item)
        .post("/form", async |Valid(Form(order)): Valid<Form<Order>>| order.item)
        .get("/query", async |Valid(Query(order)): Valid<Query<Order>>| order.item)
        .get("/path/{id}", async |Valid(Path(id)): Valid<Path<Id>>| id.0.to_string())
        .get("/maybe", async |order: Option<Valid<Query<Order>>>| order.is_some().to_string())
        .post("/maybe", async |order: Option<Valid<Json<Order>>>| order.is_some().to_string())
        .post("/result", async |order: Result<Valid<Json<Order>>, ValidRejection<_>>| match order {
            Err(ValidRejection::Invalid(invalid)) => invalid.violations().iter().count().to_string(),
            Err(ValidRejection::Extractor(refused)) => format!("{refused}"),
            _ => "fine".to_owned(),
        })
}

fn call(router: &Router, request: Request) -> (u16, String) {
    anywire_loops::block_on(async {
        let mut response = router.call(request).await;
        let kind = response.headers.get("content-type").unwrap_or_default().to_owned();
        let text = response.body.text(10_000).await.expect("text");
        assert_eq!(kind == "application/problem+json", text.starts_with('{'), "{kind}: {text}");
        (response.status.as_u16(), text)
    })
}

fn errors(text: &str) -> Value {
    let mut document: Value = serde_json::from_str(text).expect("a problem document");
    assert_eq!(document["title"], "Unprocessable Entity");
    assert_eq!(document["status"], 422);
    document["errors"].take()
}

fn post(path: &str, kind: &str, body: &str) -> Request {
    Request::post(path).header("content-type", kind).body(body.to_owned())
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn each_violation_has_field_rule_and_message() {
    let wrong = r#"{"item":"x","count":10,"parts":[{"size":2},{"size":3}]}"#;
    let (status, text) = call(&router(), post("/json", JSON, wrong));
    assert_eq!(status, 422);
    let expected = json!([
        {"field": "count", "rule": "range_max", "message": "greater than 9"},
        {"field": "item", "rule": "length_min", "message": "length is lower than 2"},
        {"field": "parts[1].size", "rule": "custom", "message": "is odd"},
    ]);
    assert_eq!(errors(&text), expected);
    let right = r#"{"item":"tea","count":9,"parts":[{"size":2}]}"#;
    assert_eq!(call(&router(), post("/json", JSON, right)), (200, "1".into()));
}

#[test]
fn every_extractor_of_a_value_may_be_checked() {
    let router = router();
    let field = |(status, text): (u16, String)| (status, errors(&text)[0]["field"].clone());
    assert_eq!(
        field(call(&router, post("/decoded", JSON, r#"{"item":"x","count":1}"#))),
        (422, json!("item"))
    );
    assert_eq!(call(&router, post("/decoded", JSON, r#"{"item":"tea","count":1}"#)), (200, "tea".into()));
    assert_eq!(field(call(&router, post("/form", FORM, "item=tea&count=0"))), (422, json!("count")));
    assert_eq!(call(&router, post("/form", FORM, "item=tea&count=1")), (200, "tea".into()));
    assert_eq!(field(call(&router, Request::get("/query?item=t&count=1"))), (422, json!("item")));
    assert_eq!(call(&router, Request::get("/query?item=tea&count=1")), (200, "tea".into()));
    assert_eq!(field(call(&router, Request::get("/path/0"))), (422, json!("")));
    assert_eq!(call(&router, Request::get("/path/7")), (200, "7".into()));
}

#[test]
fn what_the_extractor_refuses_stays_its_answer() {
    let router = router();
    assert_eq!(call(&router, post("/json", "text/plain", "{}")).0, 415);
    assert_eq!(call(&router, post("/json", JSON, "{")).0, 400);
    assert_eq!(call(&router, Request::get("/query?item=tea")).0, 400);
    assert_eq!(call(&router, Request::get("/maybe")), (200, "false".into()));
    assert_eq!(call(&router, Request::get("/maybe?item=t&count=1")).0, 422);
    assert_eq!(call(&router, Request::post("/maybe")), (200, "false".into()));
    assert_eq!(call(&router, post("/result", JSON, r#"{"item":"","count":0}"#)), (200, "2".into()));
    assert_eq!(call(&router, post("/result", JSON, "")).1, "the JSON body does not fit");
}

#[test]
fn messages_may_be_in_the_language_of_the_peer() {
    let messages = ValidationMessages::new(|violation, languages| {
        let limit = violation.limit.as_deref()?;
        match (languages.best(&["en", "de"])?, &*violation.rule) {
            ("de", "range_min") => Some(format!("mindestens {limit}")),
            _ => None,
        }
    });
    let router = Router::new().nest("/", router()).state(messages);
    let ask = |languages: &str| {
        let request = Request::get("/query?item=t&count=0").header("accept-language", languages);
        let errors = errors(&call(&router, request).1);
        (errors[0]["message"].clone(), errors[1]["message"].clone())
    };
    assert_eq!(ask("de-AT"), (json!("mindestens 1"), json!("length is lower than 2")));
    assert_eq!(ask("fr"), (json!("lower than 1"), json!("length is lower than 2")));
}

#[test]
fn rules_may_need_a_state() {
    let wanted = async |Valid(Query(wanted)): Valid<Query<Wanted>>| wanted.count.to_string();
    let form = async |Valid(Form(wanted)): Valid<Form<Wanted>>| wanted.count.to_string();
    let routes = || Router::new().get("/", wanted).post("/", form);
    let stocked = routes().state(Stock { most: 3 });
    assert_eq!(call(&stocked, Request::get("/?count=3")), (200, "3".into()));
    let (status, text) = call(&stocked, post("/", FORM, "count=4"));
    assert_eq!(
        (status, errors(&text)),
        (422, json!([{"field": "count", "rule": "in_stock", "message": "there are 3"}]))
    );
    let Err(error) = Server::new(routes()).listen("memory:no-stock").start() else { panic!("no state") };
    assert!(matches!(error, ServerError::Route(RouteError::State { .. })), "{error}");
}

/// A peer chooses how many rules it breaks, and how long the names of its fields are. What it gets is short.
#[test]
fn a_peer_that_breaks_each_rule_gets_a_short_response() {
    #[derive(serde::Deserialize, garde::Validate)]
    struct Numbers(#[garde(inner(range(min = 1)))] Vec<u32>);

    #[derive(serde::Deserialize, garde::Validate)]
    struct Sizes(#[garde(dive)] BTreeMap<String, Part>);

    let router = Router::new()
        .post("/garde", async |_: Valid<Json<Numbers>>| "fine")
        .post("/names", async |_: Valid<Json<Sizes>>| "fine")
        .post("/own", async |_: Valid<Json<Ids>>| "fine")
        .post("/few", async |numbers: Result<Valid<Json<Numbers>>, ValidRejection<_>>| match numbers {
            Err(ValidRejection::Invalid(invalid)) => {
                let violations = invalid.violations();
                format!("{} and {}", violations.iter().len(), violations.left_out())
            }
            _ => "fine".to_owned(),
        });
    let zeros = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    let name = |number: usize| format!("{number}{}", "x".repeat(5000));
    let names: Vec<_> = (0..200).map(|number| format!("\"{}\":{{\"size\":1}}", name(number))).collect();
    for (path, body, broken) in [
        ("/garde", zeros(100_000), 100_000),
        ("/own", zeros(100_000), 100_000),
        ("/names", format!("{{{}}}", names.join(",")), 200),
    ] {
        let (status, document) = anywire_loops::block_on(async {
            let mut response = router.call(post(path, JSON, &body)).await;
            (response.status.as_u16(), response.body.text(64 << 10).await.expect("a short text"))
        });
        assert_eq!(status, 422, "{path}");
        assert_eq!(errors(&document).as_array().map(Vec::len), Some(Violations::MAX), "{path}");
        let document: Value = serde_json::from_str(&document).expect("a problem document");
        assert_eq!(document["detail"], format!("{broken} rules are broken, the first 100 are listed"));
    }
    let few = |count| call(&router, post("/few", JSON, &zeros(count))).1;
    assert_eq!(few(Violations::MAX), "100 and 0");
    assert_eq!(few(Violations::MAX + 1), "100 and 1");
}

/// An extractor of a program's own may be checked, too.
#[test]
fn own_extractors_may_be_checked() {
    struct Number(Id);

    impl anywire_server::FromRequestParts for Number {
        type Rejection = std::convert::Infallible;

        async fn from_request_parts(parts: &mut anywire_server::Parts) -> Result<Self, Self::Rejection> {
            Ok(Self(Id(parts.headers().len() as u32)))
        }
    }

    impl InnerValue for Number {
        type Value = Id;

        fn inner(&self) -> &Id {
            &self.0
        }
    }

    let router = Router::new().get("/", async |Valid(number): Valid<Number>| number.0.0.to_string());
    assert_eq!(call(&router, Request::get("/")).0, 422);
    assert_eq!(call(&router, Request::get("/").header("a", "b")), (200, "1".into()));
}
