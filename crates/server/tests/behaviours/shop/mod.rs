//! A service whose routes take all that can be taken and answer all that can be answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anywire_http::{Body, Bytes, Headers, Method, NoContent, Redirect, Response, SetCookie, StatusCode};
use anywire_server::codec::{Decoded, Format, Negotiated};
use anywire_server::guards::{header, host, param_matches, query};
use anywire_server::layers::{BearerAuth, Problem};
use anywire_server::openapi::{DescribeRequest, DescribeResponse, Info, RequestDoc, ResponseDoc, Schemas};
use anywire_server::{
    Blocking, Cookies, Error, Extension, Form, FromHeader, FromRequest, FromRequestParts, Handler, Header,
    Html, IntoResponse, Json, Languages, MatchedPath, Matrix, Parts, Path, PeerAddress, PeerGone, Protobuf,
    Query, Rejection, Request, RouteLimits, Router, State, Upgrade, Valid, Validate, Violations,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a customer has ordered.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Order {
    /// Its number.
    #[serde(default)]
    pub(crate) id: u64,
    /// What is to be brought.
    pub(crate) lines: Vec<Line>,
    pub(crate) state: Progress,
    /// A secret of the customer, which is never told.
    #[serde(skip_serializing, default)]
    #[expect(dead_code, reason = "it is taken, and never told")]
    pub(crate) password: Option<String>,
    /// Where it goes.
    pub(crate) to: Option<Address>,
    #[serde(default)]
    pub(crate) notes: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Line {
    pub(crate) item: String,
    /// How many.
    pub(crate) count: u32,
    /// A price in cents, and its currency.
    pub(crate) price: (u64, String),
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Address {
    pub(crate) street: String,
    pub(crate) city: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Progress {
    /// Nobody has looked at it.
    Open,
    Sent {
        /// By which the parcel is found.
        parcel: String,
    },
    Failed {
        reasons: Vec<String>,
    },
}

/// A schema within itself.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Category {
    pub(crate) name: String,
    pub(crate) within: Vec<Self>,
}

impl Validate for Order {
    type Context = ();

    fn validate(&self, _: &(), _: &mut Violations) {}
}

/// Which part of a list.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "the schema is what counts")]
pub(crate) struct Paging {
    /// The first is 1.
    #[serde(default)]
    page: u32,
    size: Option<u32>,
    sort: Sort,
    #[serde(default)]
    tag: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sort {
    Newest,
    Oldest,
}

mod old {
    use super::{Deserialize, JsonSchema};

    /// Another type of the same name.
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "the schema is what counts")]
    pub(crate) struct Order {
        number: String,
    }
}

/// `x-version`, whose value does not matter.
pub(crate) struct Version;

impl FromHeader for Version {
    type Error = String;

    fn name() -> &'static str {
        "x-version"
    }

    fn from_header(_: &str) -> Result<Self, String> {
        Ok(Self)
    }
}

/// An extractor of one's own.
struct Tenant;

impl FromRequestParts for Tenant {
    type Rejection = Error;

    async fn from_request_parts(_: &mut Parts) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl DescribeRequest for Tenant {
    fn describe(schemas: &mut Schemas) -> RequestDoc {
        let text = schemas.request::<String>();
        RequestDoc::new()
            .header("x-tenant", text.clone())
            .cookie("tenant", text)
            .refuses(StatusCode::FORBIDDEN, "The tenant is unknown.")
    }
}

struct SoldOut;

impl IntoResponse for SoldOut {
    fn into_response(self) -> Response {
        Problem::new(StatusCode::CONFLICT).into_response()
    }
}

impl DescribeResponse for SoldOut {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        ResponseDoc::of(StatusCode::CONFLICT).description("It is sold out.").problem(schemas)
    }
}

#[derive(FromRequest)]
#[from_request(crate = "anywire_server")]
struct Change {
    _peer: PeerAddress,
    #[from_request(via(Path))]
    _id: u64,
    #[from_request(via(Json))]
    _order: Order,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(string, tag = "1")]
    text: String,
}

async fn list(_: Query<Paging>, _: Option<Header<Version>>) -> Json<Vec<Order>> {
    Json(Vec::new())
}

async fn create(
    _: Valid<Json<Order>>,
) -> Result<(StatusCode, [(&'static str, String); 1], Json<Order>), SoldOut> {
    Err(SoldOut)
}

async fn order(_: Path<u64>) -> Result<Json<Order>, Error> {
    Err(Error::new(StatusCode::NOT_FOUND, "no such order"))
}

async fn change(_: Change) -> NoContent {
    NoContent
}

async fn remove(_: Path<u64>, _: Tenant) -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn replace_old(_: Json<old::Order>) -> Option<Html<&'static str>> {
    None
}

async fn given(
    _: State<u8>,
    _: Arc<String>,
    _: Option<Extension<u8>>,
    _: Method,
    _: Headers,
    _: MatchedPath,
    _: PeerGone,
) -> Redirect {
    Redirect::found("/")
}

async fn matrix(
    _: Matrix<Paging>,
    _: Cookies,
    _: Result<Path<String>, Rejection>,
) -> (SetCookie, &'static str) {
    (SetCookie::new("a", "b"), "text")
}

async fn sign_in(_: Form<Address>) -> (SetCookie, NoContent) {
    (SetCookie::new("a", "b"), NoContent)
}

async fn upgrade(_: Languages, _: Option<Upgrade>) -> Response {
    StatusCode::OK.into()
}

fn thumbnail(_: Path<(u64, String)>) -> Result<Vec<u8>, Error> {
    Ok(Vec::new())
}

/// All of it, each handler documented if it can be.
pub(crate) fn router() -> Router {
    let limits = RouteLimits { concurrency: Some(4), ..RouteLimits::default() };
    let formats = async |format: Format, _: Decoded<Order>| Negotiated(0_u8, format);
    let orders = Router::new()
        .get(
            "/",
            list.documented()
                .summary("All orders")
                .description("Newest first, unless they are sorted otherwise.")
                .tag("orders"),
        )
        .post(
            "/",
            create
                .documented()
                .summary("A new order")
                .tag("orders")
                .response(StatusCode::CREATED, "It is there.")
                .limits(limits),
        )
        .get(
            "/{id}",
            order
                .documented()
                .summary("One order")
                .tag("orders")
                .response(StatusCode::NOT_FOUND, "No such order."),
        )
        .put("/{id}", change.documented().summary("Another order in its place").tag("orders"))
        .delete(
            "/{id}",
            remove
                .documented()
                .summary("No order in its place")
                .tag("orders")
                .deprecated()
                .response(StatusCode::NO_CONTENT, "It is gone."),
        )
        .put("/{id}/old", replace_old.documented().tag("orders"))
        .layer(BearerAuth::new("the shop", |_, _| true));
    let second = async |_: Path<u64>| Json("version 2");
    Router::new()
        .state(1_u8)
        .state(Arc::new(String::new()))
        .nest("/orders", orders)
        .get(
            "/categories",
            (async || Json(Category { name: String::new(), within: Vec::new() }))
                .documented()
                .tag("categories"),
        )
        .post("/categories", (async |_: Json<Category>| ()).documented().tag("categories"))
        .get("/given/{id}", given.documented())
        .get("/matrix/{segment}", matrix.documented())
        .post("/sign-in", sign_in.documented().summary("A session").operation_id("signIn"))
        .get("/upgrade", upgrade.documented())
        .get(
            "/thumbnails/{id}/{size}",
            thumbnail
                .on_pool("cpu")
                .queue_deadline(Duration::from_secs(1))
                .documented()
                .summary("A picture of an order"),
        )
        .put("/files/{*rest}", (async |_: Path<String>, _: Body| ()).documented())
        .get("/files", async || "said nothing")
        .query("/search", (async |_: String| Bytes::new()).documented().summary("Orders that fit"))
        .any("/any/{thing}", (async |_: Request| "any").documented())
        .post("/message", (async |Protobuf(message): Protobuf<Message>| Protobuf(message)).documented())
        .post(
            "/formats",
            formats
                .documented()
                .produces(["application/json", "text/csv"])
                .consumes(["application/json", "application/*+json"]),
        )
        .get(
            "/both/{id}",
            second.documented().summary("The second version").when(header("x-version").equals("2")),
        )
        .get("/both/{id}", order.documented().summary("The first version"))
        .get(
            "/both/{id}",
            (async || Html("html")).documented().when(query("as").equals("page")).produces("text/html"),
        )
        .get(
            "/number/{id}",
            (async |_: Path<String>| "number").documented().when(param_matches("id", "[0-9]+")),
        )
        .get("/admin", (async || "admin").documented().when(host("admin.shop.example")))
        .get("/internal", (async || "internal").hidden())
}

/// What it says of itself.
pub(crate) fn info() -> Info {
    Info::new("The shop", "1.2.0")
        .description("Takes orders, and says what became of them.\n\nTimes are in UTC.")
        .tag("orders", "What customers have ordered.")
        .api_key("key", "x-key")
}
