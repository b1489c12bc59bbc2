//! Takes orders over HTTP until SIGTERM or SIGINT, on axum.

mod app;
mod auth;
mod database;
mod document;
mod model;
mod orders;
mod problems;
mod settings;
#[path = "../../../../examples/orders/src/store.rs"]
mod store;

use std::process::ExitCode;

use clap::Parser;
use settings::Settings;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let settings = Settings::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(&settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orders: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: &Settings) -> Result<(), Box<dyn std::error::Error>> {
    let database = settings.database.display();
    let app = app::app(settings).map_err(|error| format!("cannot open the database {database}: {error}"))?;
    let listen = settings.listen;
    let listener =
        TcpListener::bind(listen).await.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let told = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    // Requests under way are finished first.
    axum::serve(listener, app).with_graceful_shutdown(told).await?;
    Ok(())
}
