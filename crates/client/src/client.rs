//! The client: what a user holds, clones and calls.

use std::sync::Arc;
use std::time::Duration;

use anywire_http::Method;
use anywire_http::body::Body;

use crate::call::Call;
use crate::counters::ClientCounters;
use crate::handle::{Closing, Handle};
use crate::sending::Sending;

/// An HTTP client: pools of connections on loops, usable from any thread and any executor.
///
/// A clone is the same client. When the last one is dropped, idle connections are closed, calls that are under way
/// finish, and loops that the client started for itself stop.
///
/// A call made on one of the client's loops stays on that loop. A call from elsewhere is handed to the loops in
/// turn; its future may be awaited on any executor.
///
/// ```no_run
/// # async fn example() -> Result<(), anywire_client::Error> {
/// let client = anywire_client::Client::new();
/// let response = client.get("http://127.0.0.1:8080/hello").header("accept", "text/plain").send().await?;
/// println!("{}: {}", response.status(), response.text().await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) handle: Arc<Handle>,
}

impl Client {
    /// A `GET` call. A bad URL is reported by [`send`](Call::send), for this and all methods below.
    pub fn get(&self, url: impl AsRef<str>) -> Call<'_> {
        self.request(Method::GET, url)
    }

    /// A `POST` call.
    pub fn post(&self, url: impl AsRef<str>) -> Call<'_> {
        self.request(Method::POST, url)
    }

    /// A `PUT` call.
    pub fn put(&self, url: impl AsRef<str>) -> Call<'_> {
        self.request(Method::PUT, url)
    }

    /// A `DELETE` call.
    pub fn delete(&self, url: impl AsRef<str>) -> Call<'_> {
        self.request(Method::DELETE, url)
    }

    /// A `HEAD` call: the answer has no body.
    pub fn head(&self, url: impl AsRef<str>) -> Call<'_> {
        self.request(Method::HEAD, url)
    }

    /// An `OPTIONS` call.
    pub fn options(&self, url: impl AsRef<str>) -> Call<'_> {
        self.request(Method::OPTIONS, url)
    }

    /// A `PATCH` call.
    pub fn patch(&self, url: impl AsRef<str>) -> Call<'_> {
        self.request(Method::PATCH, url)
    }

    /// A call with any method, extension methods included. `CONNECT` is refused by [`send`](Call::send): a tunnel is
    /// no call.
    pub fn request(&self, method: Method, url: impl AsRef<str>) -> Call<'_> {
        Call::new(&self.handle, method, url.as_ref())
    }

    /// Sends a request made of the `http` crate's types. Its URI is absolute.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let request = http::Request::put("http://127.0.0.1:8080/item").header("x-id", "7").body("text")?;
    /// let answer: http::Response<_> = client.send(request).await?.try_into()?;
    /// # Ok(()) }
    /// ```
    pub fn send<B: Into<Body>>(&self, request: http::Request<B>) -> Sending {
        let (parts, body) = request.into_parts();
        let mut call = self.request(parts.method, parts.uri.to_string()).body(body);
        for (name, value) in &parts.headers {
            // Written from the body, whose length is known here and need not be said again.
            if name != http::header::CONTENT_LENGTH {
                call = call.header(name, value);
            }
        }
        call.send()
    }

    /// What the client counted so far, per loop. Empty before the first call of a client with its own loops.
    pub fn counters(&self) -> ClientCounters {
        self.handle.counters()
    }

    /// Ends the client: new calls are [`Closed`](Error::Closed) from now on, calls that are under way have
    /// `deadline` to finish and are then cut. Returns how many were cut.
    pub async fn close(&self, deadline: Duration) -> Closing {
        self.handle.close(deadline).await
    }
}
