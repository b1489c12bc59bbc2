//! The routes in anywire.

use std::num::ParseIntError;

use anywire::server::FromHeader;
use anywire::{Bytes, Cookies, Form, Header, Json, Path, Query, Router, Server};

use crate::{FIELD, Search, ask, done};

#[derive(Clone, Copy)]
struct Tenant(u32);

impl FromHeader for Tenant {
    type Error = ParseIntError;

    fn name() -> &'static str {
        FIELD
    }

    fn from_header(value: &str) -> Result<Self, ParseIntError> {
        value.parse().map(Self)
    }
}

/// Without extractors, but for the body as it is.
pub(crate) fn plain() -> Router {
    Router::new()
        .get("/path/ada/4711", async || done(()))
        .get("/query", async || done(()))
        .get("/header", async || done(()))
        .post("/form", async |body: Bytes| done(body.len()))
        .post("/json", async |body: Bytes| done(body.len()))
        .get("/cookies", async || done(()))
}

/// With an extractor each.
pub(crate) fn extracting() -> Router {
    Router::new()
        .get("/path/{user}/{id}", async |Path((user, id)): Path<(String, u64)>| done(id + user.len() as u64))
        .get("/query", async |Query(search): Query<Search>| done(search.sum()))
        .get("/header", async |Header(tenant): Header<Tenant>| done(tenant.0))
        .post("/form", async |Form(search): Form<Search>| done(search.sum()))
        .post("/json", async |Json(search): Json<Search>| done(search.sum()))
        .get("/cookies", async |cookies: Cookies| done(cookies.get("session").map(str::len)))
}

/// Two routes of each service, so that there are twice as many.
pub(crate) fn services(count: u32) -> Router {
    (0..count).fold(Router::new(), |router, number| {
        router
            .get(&format!("/service{number}/items/{{id}}"), async |Path(id): Path<u64>| done(id))
            .get(&format!("/literal{number}/items"), async || done(()))
    })
}

pub(crate) fn run(router: Router, request: &'static str, count: u32) {
    serve(Server::new(router).loops(1), request, count);
}

pub(crate) fn serve(server: Server, request: &'static str, count: u32) {
    let running = server.listen("memory:extractors").start().expect("the server starts");
    let client = running.loops().get(0).spawn(move || async move {
        let dialer = anywire::wire::Dialer::default();
        let connection = dialer.dial("memory:extractors").await.expect("the server listens");
        ask(connection, request, count).await;
    });
    client.wait().expect("the client does not panic");
}
