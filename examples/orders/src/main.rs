//! Takes orders over HTTP until SIGTERM or SIGINT: `orders --help`.

use std::process::ExitCode;

use anywire::Chain;
use clap::Parser;
use orders::Settings;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let settings = Settings::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orders: {}", Chain(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Settings) -> Result<(), Box<dyn std::error::Error>> {
    let database = settings.database.display();
    let server =
        orders::server(settings).map_err(|error| format!("cannot open the database {database}: {error}"))?;
    // Requests under way are finished first.
    server.listen(&settings.listen).run()?;
    Ok(())
}
