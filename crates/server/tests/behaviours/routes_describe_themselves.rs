//! The document of OpenAPI says what the types of handlers say.

use std::convert::Infallible;
use std::rc::Rc;

use anywire_http::{Bytes, Created, Method, NoContent, Redirect, SetCookie, StatusCode};
use anywire_server::codec::{Codec, CodecError, Decoded, Format, Negotiated, Source, Target};
use anywire_server::guards::{header, query};
use anywire_server::layers::{Codecs, ConcurrencyLimit};
use anywire_server::openapi::{Document, Info, LayerDoc};
use anywire_server::{
    Cookies, Error, Form, FromHeader, Handler, Header, Html, Json, Layer, Matrix, Next, Path, Query,
    Rejection, Request, Response, Router, State, Tunnel, Valid, Validate, Violations,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::shop::Version;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    /// Its number.
    id: u64,
    item: String,
}

impl Validate for Order {
    type Context = ();

    fn validate(&self, _: &(), _: &mut Violations) {}
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "their schema is what counts")]
struct Paging {
    /// The first is 1.
    #[serde(default)]
    page: u32,
    #[serde(default)]
    size: Option<u32>,
    sort: String,
}

fn document(router: &Router) -> Document {
    router.openapi_document(&Info::new("Orders", "1.0.0")).expect("the routes are right")
}

fn operation(router: &Router, path: &str, method: &str) -> Value {
    document(router).as_value()["paths"][path][method].clone()
}

fn order_ref() -> Value {
    json!({ "$ref": "#/components/schemas/Order" })
}

fn parameters(operation: &Value) -> Vec<(&str, &str, bool)> {
    let of = |parameter: &'_ Value| {
        let text = |name: &str| parameter[name].as_str().map(str::to_owned).unwrap_or_default();
        (text("in"), text("name"), parameter["required"] == true)
    };
    let all = operation["parameters"].as_array().map(|all| all.iter().map(of).collect::<Vec<_>>());
    all.unwrap_or_default()
        .into_iter()
        .map(|(place, name, is_required)| (&*place.leak(), &*name.leak(), is_required))
        .collect()
}

fn statuses(operation: &Value) -> Vec<String> {
    operation["responses"].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn a_route_that_says_nothing_has_method_path_and_variables() {
    let router = Router::new().get("/orders/{id}/{*rest}", async || "an order");
    let expected = json!({
        "parameters": [
            { "in": "path", "name": "id", "required": true, "schema": { "type": "string" } },
            {
                "in": "path", "name": "rest", "required": true, "schema": { "type": "string" }, "x-rest": true,
                "description": "The rest of the path, with its slashes.",
            },
        ],
        "responses": { "default": { "description": "Not described." } },
    });
    assert_eq!(operation(&router, "/orders/{id}/{rest}", "get"), expected);
}

#[test]
fn variables_of_paths_have_the_types_that_are_taken() {
    async fn one(_: Path<u64>) {}
    async fn two(_: Path<(String, u8)>) {}
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "its schema is what counts")]
    struct Both {
        /// Whose it is.
        user: String,
        order: u32,
    }
    async fn by_name(_: Path<Both>) {}
    let router = Router::new()
        .get("/one/{id}", one.documented())
        .get("/two/{user}/{order}", two.documented())
        .get("/both/{order}/{user}", by_name.documented());
    let of = |path: &str, index: usize| operation(&router, path, "get")["parameters"][index].clone();
    assert_eq!(of("/one/{id}", 0)["schema"]["type"], "integer");
    assert_eq!(of("/two/{user}/{order}", 0)["schema"]["type"], "string");
    assert_eq!(of("/two/{user}/{order}", 1)["schema"]["maximum"], 255);
    assert_eq!(of("/both/{order}/{user}", 0)["schema"]["type"], "integer");
    assert_eq!(of("/both/{order}/{user}", 1)["description"], "Whose it is.");
}

#[test]
fn fields_of_a_query_are_parameters() {
    async fn list(_: Query<Paging>) {}
    async fn perhaps(_: Option<Query<Paging>>) {}
    let router = Router::new().get("/a", list.documented()).get("/b", perhaps.documented());
    let listed = operation(&router, "/a", "get");
    assert_eq!(
        parameters(&listed),
        [("query", "page", false), ("query", "size", false), ("query", "sort", true)]
    );
    assert_eq!(listed["parameters"][0]["description"], "The first is 1.");
    assert_eq!(listed["parameters"][1]["schema"]["type"], "integer");
    assert_eq!(listed["parameters"][1]["schema"].get("default"), None, "what is absent is not null");
    assert_eq!(statuses(&listed), ["200", "400", "414"]);
    assert!(parameters(&operation(&router, "/b", "get")).iter().all(|(_, _, is_required)| !is_required));
}

#[test]
fn what_may_be_absent_is_not_null() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    enum Hue {
        Red,
        Blue,
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "its schema is what counts")]
    struct Paint {
        hue: Option<Hue>,
    }
    async fn paints(_: Query<Paint>) {}
    let of_query = operation(&Router::new().get("/", paints.documented()), "/", "get");
    assert_eq!(parameters(&of_query), [("query", "hue", false)]);
    assert_eq!(of_query["parameters"][0]["schema"], json!({ "type": "string", "enum": ["red", "blue"] }));
}

#[test]
fn a_stated_success_has_not_the_content_of_an_error() {
    async fn begins() -> Result<StatusCode, Error> {
        Ok(StatusCode::ACCEPTED)
    }
    let later = begins.documented().response(StatusCode::ACCEPTED, "It goes on.");
    let stated = later.response(StatusCode::GONE, "It is gone.").layer(ConcurrencyLimit::new(1));
    let stated = operation(&Router::new().get("/", stated), "/", "get");
    let responses = &stated["responses"];
    assert_eq!(responses["202"], json!({ "description": "It goes on." }));
    assert!(responses["410"]["content"]["text/plain"].is_object(), "{responses}");
    assert!(responses["503"]["headers"]["retry-after"].is_object(), "its layer refuses: {responses}");
}

#[test]
fn bodies_have_their_media_type_and_what_is_refused() {
    async fn json(_: Json<Order>) {}
    async fn valid(_: Valid<Json<Order>>) {}
    async fn form(_: Form<Paging>) {}
    async fn maybe_form(_: Option<Form<Paging>>) {}
    async fn result(_: Result<Form<Paging>, Rejection>) {}
    async fn text(_: String) {}
    async fn bytes(_: Option<Bytes>) {}
    let router = Router::new()
        .post("/json", json.documented())
        .post("/valid", valid.documented())
        .post("/form", form.documented())
        .get("/form", form.documented())
        .get("/maybe-form", maybe_form.documented())
        .get("/result", result.documented())
        .post("/text", text.documented())
        .post("/bytes", bytes.documented());
    let of = |path: &str| operation(&router, path, "post");
    let expected = json!({ "content": { "application/json": { "schema": order_ref() } }, "required": true });
    assert_eq!(of("/json")["requestBody"], expected);
    assert_eq!(statuses(&of("/json")), ["200", "400", "413", "415", "422"]);
    let refused = &of("/valid")["responses"]["422"];
    assert_eq!(
        refused["content"]["application/problem+json"]["schema"]["$ref"],
        "#/components/schemas/Problem"
    );
    assert_eq!(refused["description"], "The JSON has another shape. A value breaks a rule.");
    assert!(of("/form")["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"].is_object());
    let in_query = operation(&router, "/form", "get");
    assert_eq!((parameters(&in_query).len(), in_query.get("requestBody")), (3, None));
    assert_eq!(statuses(&in_query), ["200", "400", "414"], "as a query");
    assert_eq!(statuses(&of("/form")), ["200", "400", "413", "415", "422"]);
    assert_eq!(statuses(&operation(&router, "/maybe-form", "get")), ["200", "400", "414"]);
    assert_eq!(statuses(&operation(&router, "/result", "get")), ["200"], "the handler has what is wrong");
    assert_eq!(statuses(&of("/bytes")), ["200", "400", "413"]);
    assert_eq!(of("/text")["requestBody"]["content"]["text/plain"]["schema"]["type"], "string");
    assert_eq!(of("/bytes")["requestBody"], json!({ "content": { "application/octet-stream": {} } }));
}

#[test]
fn formats_are_those_of_the_innermost_codecs() {
    struct Of(&'static str);

    impl Codec for Of {
        fn media_types(&self) -> &[&str] {
            std::slice::from_ref(&self.0)
        }

        fn decode(&self, _: &Bytes, _: Target<'_>) -> Result<(), CodecError> {
            Err("nothing is read")?
        }

        fn encode(&self, _: Source<'_>) -> Result<Bytes, CodecError> {
            Err("nothing is written")?
        }
    }

    async fn any(format: Format, Valid(Decoded(order)): Valid<Decoded<Order>>) -> Negotiated<Order> {
        Negotiated(order, format)
    }

    let inner = Router::new()
        .post("/inner", any.documented())
        .post("/own", any.documented().layer(Codecs::new().with(Of("text/csv"))))
        // It reads each type of the range, and writes none.
        .post("/ranges", any.documented().layer(Codecs::new().with(Of("text/*"))))
        .post("/json", (async |order: Json<Order>| order).documented())
        .layer(Codecs::new())
        .layer(Codecs::new().with(Of("text/csv")).json());
    let router = Router::new()
        .merge(inner)
        .post("/outer", any.documented())
        .post("/consumes", any.documented().consumes("text/csv"))
        .layer(Codecs::new().json());
    let document = document(&router);
    let types = |of: &Value| of.as_object().expect("content").keys().cloned().collect::<Vec<_>>();
    for (path, read, written) in [
        (
            "/inner",
            &["application/*+json", "application/json", "text/csv"][..],
            &["application/json", "text/csv"][..],
        ),
        ("/own", &["text/csv"], &["text/csv"]),
        ("/ranges", &["text/*"], &[]),
        ("/json", &["application/json"], &["application/json"]),
        ("/outer", &["application/*+json", "application/json"], &["application/json"]),
        ("/consumes", &["text/csv"], &["application/json"]),
    ] {
        let operation = &document.as_value()["paths"][path]["post"];
        assert_eq!(types(&operation["requestBody"]["content"]), read, "{path}");
        let content = &operation["responses"]["200"]["content"];
        assert_eq!(content.as_object().map_or_else(Vec::new, |_| types(content)), written, "{path}");
    }
    let alone = operation(&Router::new().post("/", any.documented()), "/", "post");
    assert_eq!(types(&alone["requestBody"]["content"]), ["application/*+json", "application/json"]);
}

/// It has no path, and so no place in the document.
#[test]
fn a_handler_of_tunnels_may_be_documented() {
    let router =
        Router::new().connect((async |_: Tunnel| "").documented()).get("/", (async || "").documented());
    let paths =
        document(&router).as_value()["paths"].as_object().expect("paths").keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths, ["/"]);
}

#[test]
fn what_is_taken_from_elsewhere() {
    async fn many(
        _: Header<Version>,
        _: Cookies,
        _: State<u8>,
        _: Matrix<Paging>,
        _: Result<Path<u8>, Rejection>,
    ) {
    }
    let router = Router::new().state(1_u8).get("/{id}", many.documented());
    let many = operation(&router, "/{id}", "get");
    assert_eq!(parameters(&many), [("path", "id", true), ("header", "x-version", true)]);
    assert_eq!(many["x-matrix"].as_array().map(Vec::len), Some(3));
    assert_eq!(statuses(&many), ["200", "400", "414", "431"]);
    assert!(!many["responses"]["400"]["description"].as_str().unwrap().contains("path"), "it answers itself");
}

#[test]
fn results_are_responses() {
    async fn created() -> Result<(StatusCode, SetCookie, Json<Order>), Error> {
        Err(Error::new(StatusCode::CONFLICT, "no"))
    }
    async fn made() -> Created<Json<Order>> {
        Created::at("/", Json(Order { id: 1, item: String::new() }))
    }
    async fn perhaps() -> Option<Html<&'static str>> {
        None
    }
    async fn gone() -> NoContent {
        NoContent
    }
    async fn elsewhere() -> Redirect {
        Redirect::found("/")
    }
    async fn status() -> StatusCode {
        StatusCode::OK
    }
    let router = Router::new()
        .post(
            "/created",
            created
                .documented()
                .response(StatusCode::CREATED, "It is there.")
                .response(StatusCode::CONFLICT, "Not now."),
        )
        .get("/unsaid", created.documented())
        .get("/made", made.documented())
        .get("/perhaps", perhaps.documented())
        .get("/gone", gone.documented())
        .get("/elsewhere", elsewhere.documented())
        .get("/status", status.documented().response(StatusCode::ACCEPTED, "Later."));
    let created = operation(&router, "/created", "post");
    assert_eq!(statuses(&created), ["201", "409", "default"]);
    assert_eq!(created["responses"]["201"]["description"], "It is there.");
    assert_eq!(created["responses"]["201"]["content"]["application/json"]["schema"], order_ref());
    assert!(created["responses"]["201"]["headers"]["set-cookie"].is_object());
    assert!(created["responses"]["409"]["content"]["application/problem+json"].is_object());
    let of = |path: &str| statuses(&operation(&router, path, "get"));
    assert_eq!(of("/unsaid"), ["2XX", "default"]);
    let made = operation(&router, "/made", "get");
    assert_eq!(statuses(&made), ["201"]);
    assert_eq!(made["responses"]["201"]["content"]["application/json"]["schema"], order_ref());
    assert!(made["responses"]["201"]["headers"]["location"].is_object());
    assert_eq!(of("/perhaps"), ["200", "404"]);
    assert_eq!(of("/gone"), ["204"]);
    assert_eq!(of("/elsewhere"), ["3XX"]);
    assert_eq!(of("/status"), ["202"]);
}

/// A field of which the name is not in lower case.
struct Shop;

impl FromHeader for Shop {
    type Error = Infallible;

    fn name() -> &'static str {
        "X-Shop"
    }

    fn from_header(_: &str) -> Result<Self, Infallible> {
        Ok(Self)
    }
}

#[test]
fn a_header_field_is_one_parameter_whatever_its_case() {
    let two = async |_: Header<Shop>, _: Option<Header<Shop>>| "two";
    let router = Router::new()
        .get("/one", two.documented().when(header("x-SHOP")))
        .get("/two", two.documented().when(query("a")))
        .get("/two", (async || "none").documented().when(header("x-shop").equals("1")));
    let one = operation(&router, "/one", "get");
    assert_eq!(parameters(&one), [("header", "X-Shop", true)]);
    let joined = operation(&router, "/two", "get");
    assert_eq!(parameters(&joined), [("header", "X-Shop", true), ("query", "a", false)]);
}

/// Also one that the handler could do without.
#[test]
fn what_a_guard_asks_for_is_required() {
    #[derive(serde::Deserialize, JsonSchema)]
    struct Asked {
        version: Option<String>,
        page: Option<u8>,
        other: Option<u8>,
    }

    let asked = async |Query(Asked { version, page, other }): Query<Asked>, _: Option<Header<Shop>>| {
        format!("{version:?} {page:?} {other:?}")
    };
    let guards = [query("version").equals("2"), query("page").equals("7"), header("x-shop").equals("1")];
    let guarded = guards.into_iter().fold(Router::new().get("/", asked.documented()), Router::when);
    let one = operation(&guarded, "/", "get");
    let expected = [
        ("header", "X-Shop", true),
        ("query", "other", false),
        ("query", "page", true),
        ("query", "version", true),
    ];
    let mut found = parameters(&one);
    found.sort_unstable();
    assert_eq!(found, expected);
    let of = |name: &str| {
        let all = one["parameters"].as_array().expect("parameters");
        all.iter().find(|parameter| parameter["name"] == name).expect("it is there")["schema"]["const"]
            .clone()
    };
    assert_eq!((of("version"), of("page"), of("X-Shop")), (json!("2"), json!(7), json!("1")));
}

/// Also the timeout of a router around the handler, and none without one.
#[test]
fn a_timeout_is_told() {
    let of = |router: Router| {
        let document = router.openapi_document(&Info::new("Orders", "1")).expect("right routes");
        document.as_value()["paths"]["/"]["get"]["responses"]["503"].is_object()
    };
    let limits = anywire_server::RouteLimits {
        handler_timeout: Some(std::time::Duration::from_secs(1)),
        ..Default::default()
    };
    let plain = || Router::new().get("/", (async || "").documented());
    assert!(!of(plain()));
    assert!(of(plain().limits(limits)) && of(Router::new().merge(plain()).limits(limits)));
    assert!(of(Router::new().get("/", (async || "").limits(limits))));
}

/// Lets in who has a key, and few at a time.
struct Keys;

impl Layer for Keys {
    type Local = ();

    fn local(&self) {}

    async fn call(_: Rc<()>, request: Request, next: Next) -> Response {
        next.run(request).await
    }

    fn describe(&self, method: Option<&Method>) -> LayerDoc {
        let doc = LayerDoc::new().security("key").refuses(StatusCode::FORBIDDEN, "The key does not fit.");
        if method == Some(&Method::GET) { doc } else { doc.is_full_at_times() }
    }
}

/// On whichever way the layer comes around the handler.
#[test]
fn a_layer_of_a_user_says_what_it_adds() {
    let operations = |router: Router| {
        let info = Info::new("Orders", "1").api_key("key", "x-key");
        let document = router.openapi_document(&info).expect("right routes");
        ["get", "put"].map(|method| document.as_value()["paths"]["/"][method].clone())
    };
    let handler = || (async || "").documented();
    let plain = || Router::new().get("/", handler()).put("/", handler());
    let [get, put] = operations(plain());
    assert!(get.get("security").is_none() && statuses(&put) == ["200"], "{get} {put}");
    for layered in [
        plain().layer(Keys),
        Router::new().merge(plain()).layer(Keys),
        Router::new().get("/", handler().layer(Keys)).put("/", handler().layer(Keys)),
    ] {
        let [get, put] = operations(layered);
        assert_eq!(get["security"], json!([{ "key": [] }]));
        assert_eq!(statuses(&get), ["200", "401", "403"]);
        assert_eq!(statuses(&put), ["200", "401", "403", "503"]);
        assert!(put["responses"]["503"]["headers"]["retry-after"].is_object(), "{put}");
    }
}
