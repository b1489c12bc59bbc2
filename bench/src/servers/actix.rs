//! actix-web 4: one worker. Its acceptor is a second thread, which sleeps once the connections are open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{HttpServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::error::ErrorUnauthorized;
use actix_web::http::KeepAlive;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpResponse, HttpServer, web};
use anyhow::Result;

use super::{Announce, BACKLOG, BODY, CONTENT_TYPE, Http, Server, api};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "actix-web",
    version: || versions::locked("actix-web"),
    settings: "1 worker, KeepAlive::Os and no request timeout (no timer a request), TCP_NODELAY, no default features",
    protocols: &[Http::Http1],
    serve,
};

fn serve(announce: &Announce, _: Http) -> Result<()> {
    let listener = super::listener()?;
    let address = listener.local_addr()?;
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(|| App::new().route("/", web::get().to(hello)).service(api()))
            .workers(1)
            .backlog(BACKLOG as u32)
            .keep_alive(KeepAlive::Os)
            .client_request_timeout(Duration::ZERO)
            .tcp_nodelay(true)
            .disable_signals()
            .listen(listener)?
            .run();
        announce.listening(address);
        server.await?;
        Ok(())
    })
}

async fn hello() -> HttpResponse {
    HttpResponse::Ok().content_type(CONTENT_TYPE).body(BODY)
}

/// See [`api`].
fn api() -> impl HttpServiceFactory {
    web::resource("/orders/{id}")
        .app_data(web::Data::new(AtomicU64::new(0)))
        .wrap(from_fn(authorised))
        .wrap(from_fn(counted))
        .wrap(from_fn(marked))
        .route(web::post().to(filed))
}

async fn filed(
    id: web::Path<u64>,
    wish: web::Query<api::Wish>,
    order: web::Json<api::Order>,
) -> web::Json<api::Filed> {
    web::Json(api::file(*id, &wish, order.into_inner()))
}

type Answer<B> = std::result::Result<ServiceResponse<B>, Error>;

async fn authorised<B: MessageBody>(request: ServiceRequest, next: Next<B>) -> Answer<B> {
    match api::is_authorised(request.headers().get("authorization").map(HeaderValue::as_bytes)) {
        true => next.call(request).await,
        false => Err(ErrorUnauthorized("")),
    }
}

async fn counted<B: MessageBody>(
    count: web::Data<AtomicU64>,
    request: ServiceRequest,
    next: Next<B>,
) -> Answer<B> {
    count.fetch_add(1, Ordering::Relaxed);
    next.call(request).await
}

async fn marked<B: MessageBody>(request: ServiceRequest, next: Next<B>) -> Answer<B> {
    let (name, value) = api::SERVED_BY;
    let mut response = next.call(request).await?;
    response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    Ok(response)
}
