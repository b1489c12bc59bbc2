//! Layers, and services of the tower crates: of ours within a router of anywire, and of axum's within one of axum.

use anywire::loops::Loops;
use anywire::server::tower;
use anywire::{Next, Request, Router, Server};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::{self, from_fn};
use axum::routing::get;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::{bar, cost, done, ours, peers, result};

/// Two of our own layers, and one of tower-http, cost at most so many instructions.
const BAR: f64 = 300.0;

/// How [`run`] is told from the routes of extractors.
pub(crate) const ROUTE: &str = "layers";

/// The names of the rows, and whether they have a bar.
const ROWS: [(&str, bool); 4] =
    [("one function", false), ("two functions", true), (SET_HEADER, true), (WITHIN, false)];
const SET_HEADER: &str = "set-header of tower-http";
const WITHIN: &str = "a router as a service within another";
/// A router of ours within one of axum, whose server has another thread. Its cost is that over a route of axum.
const HANDED_OVER: &str = "a router as a service, from another thread";
const NONE: &str = "none";

/// Prints the costs of all rows, and returns them as the result file has them.
pub(crate) fn table() -> String {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    println!("| around a route | anywire | axum | anywire / axum |\n| --- | --- | --- | --- |");
    let [ours_alone, axum_alone] = ["anywire", "axum"].map(|library| cost(library, NONE, ROUTE, 1000));
    for (row, has_bar) in ROWS {
        let ours = cost("anywire", row, ROUTE, 1000) - ours_alone;
        let axum = cost("axum", row, ROUTE, 1000) - axum_alone;
        let ratio = ours / axum;
        println!("| {row} | {ours:.0} | {axum:.0} | {ratio:.2} |");
        rows.push(format!(
            r#"{{"layer": "{row}", "anywire": {ours:.0}, "axum": {axum:.0}, "ratio": {ratio:.3}}}"#
        ));
        if has_bar {
            bars.push(bar(&format!("{row}, instructions"), BAR, ours));
        }
    }
    let ours = cost("axum", HANDED_OVER, ROUTE, 1000) - axum_alone;
    println!("| {HANDED_OVER} | {ours:.0} | | |");
    rows.push(format!(r#"{{"layer": "{HANDED_OVER}", "anywire": {ours:.0}}}"#));
    result("layers", [("layers", rows), ("bars", bars)])
}

/// Sends so many requests to a route within these layers.
pub(crate) fn run(library: &str, row: &str, count: u32) {
    const REQUEST: &str = "GET /layers HTTP/1.1\r\nhost: x\r\n\r\n";
    match library {
        "anywire" => {
            let loops = Loops::start(1).expect("a loop starts");
            ours::serve(Server::new(of_ours(row, &loops)).on(&loops), REQUEST, count);
        }
        _ => peers::run(of_axum(row), REQUEST, count),
    }
}

fn of_ours(row: &str, loops: &Loops) -> Router {
    let pass = async |request: Request, next: Next| next.run(request).await;
    let router = route();
    match row {
        "one function" => router.layer(pass),
        "two functions" => router.layer(pass).layer(pass),
        SET_HEADER => router.layer(tower::layer(set_header())),
        WITHIN => {
            let service = router.into_service(loops).expect("the routes are right");
            Router::new().any("/layers", tower::service(service))
        }
        _ => router,
    }
}

fn of_axum(row: &str) -> axum::Router {
    let router = axum::Router::new().route("/layers", get(async || done(())));
    match row {
        "one function" => router.layer(from_fn(pass)),
        "two functions" => router.layer(from_fn(pass)).layer(from_fn(pass)),
        SET_HEADER => router.layer(set_header()),
        // A route takes no router there, and `nest` would take its routes apart.
        WITHIN => axum::Router::new().fallback_service(router),
        HANDED_OVER => {
            let loops = Loops::start(1).expect("a loop starts");
            axum::Router::new().fallback_service(route().into_service(&loops).expect("the routes are right"))
        }
        _ => router,
    }
}

fn route() -> Router {
    Router::new().get("/layers", async || done(()))
}

async fn pass(request: axum::extract::Request, next: middleware::Next) -> axum::response::Response {
    next.run(request).await
}

fn set_header() -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(HeaderName::from_static("x-layer"), HeaderValue::from_static("1"))
}
