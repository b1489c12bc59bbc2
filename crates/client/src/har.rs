//! Calls that are recorded as HAR 1.2, the format of browsers, and played again without a server: for tests.
//!
//! Both are [interceptors](crate::Interceptor) of attempts, so that redirects, cookies and retries are those of the client. Secrets are struck
//! out: the fields `authorization`, `proxy-authorization`, `cookie` and `set-cookie`, and what else is [named](Recorder::secret_fields).
//!
//! ```no_run
//! use anywire_client::Client;
//! use anywire_client::har::{Recorder, Replay};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let recorder = Recorder::new().secret_parameters(["token"]);
//! let client = Client::builder().intercept_attempts(recorder.clone()).build();
//! client.get("http://shop.example/orders?token=7").send().await?;
//! std::fs::write("orders.har", recorder.to_json())?;
//!
//! let replay = Replay::parse(&std::fs::read_to_string("orders.har")?)?;
//! let client = Client::builder().intercept_attempts(replay).build();
//! let response = client.get("http://shop.example/orders?token=other").send().await?;
//! # drop(response); Ok(()) }
//! ```

mod format;
mod record;
mod replay;

pub use record::Recorder;
pub use replay::{InvalidHar, NotRecorded, Replay};
