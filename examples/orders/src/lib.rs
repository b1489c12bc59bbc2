//! A service that takes orders: what the program `orders` serves, and what its tests call.

mod auth;
mod model;
mod orders;
mod settings;
pub mod store;

use std::sync::Arc;
use std::time::Duration;

use anywire::loops::PoolLimits;
use anywire::server::Limits;
use anywire::server::layers::{Problems, RequestIds, SecurityHeaders};
use anywire::server::openapi::Info;
use anywire::{Handler, Router, Server};

pub use settings::{Settings, Token};

/// The service by its settings. It listens nowhere yet.
pub fn server(settings: &Settings) -> rusqlite::Result<Server> {
    let store = Arc::new(store::Store::open(&settings.database)?);
    let orders = orders::routes(settings.wait).layer(auth::layer(settings.tokens.clone()));
    let app = Router::new()
        .get("/health", (async || "ok\n").documented().summary("Whether it runs"))
        .nest("/orders", orders)
        .openapi("/openapi", Info::new("Orders", env!("CARGO_PKG_VERSION")))
        .state(store);
    let limits =
        Limits { body_bytes: 16 * 1024, handler_timeout: Duration::from_secs(10), ..Limits::default() };
    let pool = PoolLimits { threads: settings.threads, queue: settings.queue, ..PoolLimits::default() };
    let server = Server::new(app).pool("db", pool).limits(limits).log_requests();
    // Outermost first. The names of requests are around the documents, which tell them.
    Ok(server.layer(RequestIds::new()).layer(SecurityHeaders::new()).problems(Problems::new().with_path()))
}
