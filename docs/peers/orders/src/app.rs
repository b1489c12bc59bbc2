//! The routes and the layers around them.

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::{DefaultOnResponse, TraceLayer};
use tracing::{Level, Span, info_span};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::auth::{Tokens, known};
use crate::database::Database;
use crate::document::Api;
use crate::orders;
use crate::problems::problems;
use crate::settings::Settings;

/// The service by its settings.
pub fn app(settings: &Settings) -> rusqlite::Result<Router> {
    let database = Database::open(settings)?;
    let tokens = Tokens::from(&settings.tokens);
    let orders = orders::routes().layer(from_fn_with_state(tokens, known)).with_state(database);
    let layers = ServiceBuilder::new()
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(span)
                .on_response(DefaultOnResponse::new().level(Level::INFO)),
        )
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(field(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(field(header::X_FRAME_OPTIONS, "DENY"))
        .layer(field(header::REFERRER_POLICY, "no-referrer"))
        .layer(from_fn(problems))
        .layer(CatchPanicLayer::new())
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(10)))
        .layer(DefaultBodyLimit::max(16 * 1024));
    let app = OpenApiRouter::with_openapi(Api::openapi()).routes(routes!(health)).nest("/orders", orders);
    let (app, document) = app.split_for_parts();
    Ok(app.merge(SwaggerUi::new("/openapi").url("/openapi.json", document)).layer(layers))
}

#[utoipa::path(get, path = "/health", summary = "Whether it runs", responses((status = 200, body = str)))]
async fn health() -> &'static str {
    "ok\n"
}

fn field(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

/// What the log says of a request.
fn span(request: &Request) -> Span {
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
    info_span!("request", method = %request.method(), path = request.uri().path(), id)
}
