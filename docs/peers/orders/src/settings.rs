//! What the program is told at its start: `orders --help`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Takes orders, and keeps them in SQLite.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Settings {
    /// Where to listen, such as 0.0.0.0:8080
    #[arg(long, env = "ORDERS_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// The database, made if it is not there
    #[arg(long, env = "ORDERS_DATABASE", default_value = "orders.db")]
    pub database: PathBuf,
    /// Who may call: NAME=TOKEN, with commas between them
    #[arg(long, env = "ORDERS_TOKENS", hide_env_values = true, value_delimiter = ',', required = true)]
    pub tokens: Vec<Token>,
    /// Threads for the database
    #[arg(long, env = "ORDERS_THREADS", default_value_t = 4)]
    pub threads: usize,
    /// Requests that may wait for such a thread
    #[arg(long, env = "ORDERS_QUEUE", default_value_t = 100)]
    pub queue: usize,
    /// How long they may wait, in milliseconds
    #[arg(long, env = "ORDERS_WAIT_MS", value_name = "MS", value_parser = milliseconds, default_value = "500")]
    pub wait: Duration,
}

/// A customer and the secret by which the service knows them.
#[derive(Clone)]
pub struct Token {
    pub customer: String,
    pub secret: String,
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((customer, secret)) if !customer.is_empty() && secret.len() >= 8 => {
                Ok(Self { customer: customer.to_owned(), secret: secret.to_owned() })
            }
            _ => Err("it is not NAME=TOKEN with a token of 8 characters or more"),
        }
    }
}

/// A secret is not for logs.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("customer", &self.customer).finish_non_exhaustive()
    }
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}
