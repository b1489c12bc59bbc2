//! actix-web 4: one worker. Its acceptor is a second thread, which sleeps once the connections are open.

use std::time::Duration;

use actix_web::http::KeepAlive;
use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::Result;

use super::{Announce, BACKLOG, BODY, CONTENT_TYPE, Http, Server};
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
        let server = HttpServer::new(|| App::new().route("/", web::get().to(hello)))
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
