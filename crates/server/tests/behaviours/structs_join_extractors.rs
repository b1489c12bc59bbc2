//! A struct of extractors is an extractor: its fields are taken in order, and what they need is checked at start.

use anywire_http::Request;
use anywire_server::{
    Cookies, FromRequest, FromRequestParts, Header, Json, Path, Query, RouteError, Router, Server,
    ServerError, State,
};

#[derive(Clone)]
struct Shop {
    name: &'static str,
}

#[derive(serde::Deserialize)]
struct Paging {
    #[serde(default)]
    page: u32,
}

#[derive(FromRequestParts)]
#[from_request(crate = "anywire_server")]
struct Ask {
    shop: State<Shop>,
    #[from_request(via(Query))]
    paging: Paging,
    cookies: Cookies,
    agent: Option<Header<headers::UserAgent>>,
}

#[derive(FromRequest)]
#[from_request(crate = "anywire_server")]
struct Order {
    ask: Ask,
    #[from_request(via(Path))]
    id: u8,
    #[from_request(via(Json))]
    count: u8,
}

/// Without names, and generic.
#[derive(FromRequest)]
#[from_request(crate = "anywire_server")]
struct Two<A, B>(A, Json<B>)
where
    B: serde::de::DeserializeOwned;

#[derive(FromRequestParts)]
#[from_request(crate = "anywire_server")]
struct Nothing;

/// A struct whose last field leaves the body alone may derive both.
#[derive(FromRequest)]
#[from_request(crate = "anywire_server")]
struct HeadAlone {
    #[from_request(via(Path))]
    r#type: u8,
}

fn router() -> Router {
    let ask = async |ask: Ask, Nothing: Nothing| {
        let agent = ask.agent.map_or("nobody".to_owned(), |Header(agent)| agent.to_string());
        format!("{} {} {} {agent}", ask.shop.name, ask.paging.page, ask.cookies.get("a").unwrap_or("none"))
    };
    let order = async |order: Order| format!("{} {} {}", order.ask.shop.name, order.id, order.count);
    let two = async |Two(Path(id), Json(count)): Two<Path<u8>, u8>| format!("{id} {count}");
    Router::new()
        .get("/ask", ask)
        .post("/order/{id}", order)
        .post("/two/{id}", two)
        .get("/head/{id}", async |head: HeadAlone| head.r#type.to_string())
}

fn call(request: Request) -> (u16, String) {
    let router = router().state(Shop { name: "shop" });
    anywire_loops::block_on(async {
        let mut response = router.call(request).await;
        (response.status.as_u16(), response.body.text(1000).await.expect("text"))
    })
}

fn json(path: &str, body: &'static str) -> (u16, String) {
    call(Request::post(path).header("content-type", "application/json").body(body))
}

#[test]
fn fields_are_what_arguments_would_be() {
    assert_eq!(call(Request::get("/ask")), (200, "shop 0 none nobody".into()));
    let full = Request::get("/ask?page=3").header("cookie", "a=b").header("user-agent", "wire");
    assert_eq!(call(full), (200, "shop 3 b wire".into()));
    assert_eq!(json("/order/7", "8"), (200, "shop 7 8".into()));
    assert_eq!(json("/two/7", "8"), (200, "7 8".into()));
    assert_eq!(call(Request::get("/head/7")), (200, "7".into()));
}

#[test]
fn the_first_field_that_fails_answers() {
    assert_eq!(call(Request::get("/ask?page=x")).0, 400);
    assert_eq!(json("/order/7?page=x", "300").0, 400);
    assert_eq!(json("/order/300?page=1", "x").1, "the path does not fit: id: \"300\" is no u8");
    assert_eq!(json("/order/7", "300").0, 422);
    assert_eq!(call(Request::post("/two/7")).0, 415);
}

#[test]
fn what_fields_need_is_checked_at_start() {
    let refused = |router: Router| match Server::new(router).listen("memory:no-shop").start() {
        Err(ServerError::Route(error)) => error,
        _ => panic!("the server starts"),
    };
    let no_state = refused(router());
    assert!(matches!(&no_state, RouteError::State { .. }), "{no_state}");
    let routes = Router::new().state(Shop { name: "shop" });
    let no_parameter = refused(routes.post("/order", async |order: Order| order.id.to_string()));
    assert!(matches!(&no_parameter, RouteError::Parameters { .. }), "{no_parameter}");
}
