//! The routes in axum.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Form, Json, Path, Query};
use axum::routing::{get, post};
use axum_extra::TypedHeader;
use axum_extra::extract::CookieJar;
use axum_extra::headers::{Error, Header, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;

use crate::{FIELD, Search, ask, done};

struct Tenant(u32);

impl Header for Tenant {
    fn name() -> &'static HeaderName {
        static NAME: HeaderName = HeaderName::from_static(FIELD);
        &NAME
    }

    fn decode<'i, I: Iterator<Item = &'i HeaderValue>>(values: &mut I) -> Result<Self, Error> {
        let value = values.next().and_then(|value| value.to_str().ok()).ok_or_else(Error::invalid)?;
        value.parse().map(Self).map_err(|_| Error::invalid())
    }

    fn encode<E: Extend<HeaderValue>>(&self, _: &mut E) {}
}

/// Without extractors, but for the body as it is.
pub(crate) fn plain() -> Router {
    Router::new()
        .route("/path/ada/4711", get(async || done(())))
        .route("/query", get(async || done(())))
        .route("/header", get(async || done(())))
        .route("/form", post(async |body: Bytes| done(body.len())))
        .route("/json", post(async |body: Bytes| done(body.len())))
        .route("/cookies", get(async || done(())))
}

/// With an extractor each.
pub(crate) fn extracting() -> Router {
    let path = async |Path((user, id)): Path<(String, u64)>| done(id + user.len() as u64);
    let cookies = async |cookies: CookieJar| done(cookies.get("session").map(|cookie| cookie.value().len()));
    Router::new()
        .route("/path/{user}/{id}", get(path))
        .route("/query", get(async |Query(search): Query<Search>| done(search.sum())))
        .route("/header", get(async |TypedHeader(tenant): TypedHeader<Tenant>| done(tenant.0)))
        .route("/form", post(async |Form(search): Form<Search>| done(search.sum())))
        .route("/json", post(async |Json(search): Json<Search>| done(search.sum())))
        .route("/cookies", get(cookies))
}

pub(crate) fn run(router: Router, request: &'static str, count: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let service = TowerToHyperService::new(router);
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(theirs), service));
        ask(ours, request, count).await;
    });
}
