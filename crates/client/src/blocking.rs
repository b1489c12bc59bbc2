//! The client for programs without `async`: the same calls, each of which blocks its thread until it is over.
//!
//! The work is done on the loops of the client. On the thread of a loop, where all its other tasks would wait, a call is
//! [`OnLoop`](Error::OnLoop) at once. Within another runtime it would hold up a thread of that: await calls there.
//!
//! ```no_run
//! use anywire_client::{Error, blocking};
//!
//! fn main() -> Result<(), Error> {
//!     let client = blocking::Client::new();
//!     let response = client.get("http://127.0.0.1:8080/hello").send()?.error_for_status()?;
//!     println!("{}", response.text()?);
//!     Ok(())
//! }
//! ```

use std::io;

use anywire_http::{Body, Bytes, Headers, Method, StatusCode};
use anywire_loops::block_on;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::response;
use crate::{Error, client};

/// A client whose calls block. A clone is the same client, and [`from`](Self::from) shares one with code that awaits.
#[derive(Debug, Clone, Default)]
pub struct Client {
    client: client::Client,
}

impl From<client::Client> for Client {
    fn from(client: client::Client) -> Self {
        Self { client }
    }
}

impl Client {
    /// A client with default limits and deadlines. Others are set by the [builder](crate::Client::builder): `builder.build().into()`.
    pub fn new() -> Self {
        Self::default()
    }

    /// A `GET` call.
    pub fn get(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::GET, url)
    }

    /// A `POST` call.
    pub fn post(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::POST, url)
    }

    /// A `PUT` call.
    pub fn put(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::PUT, url)
    }

    /// A `PATCH` call.
    pub fn patch(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::PATCH, url)
    }

    /// A `DELETE` call.
    pub fn delete(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::DELETE, url)
    }

    /// A `HEAD` call.
    pub fn head(&self, url: impl AsRef<str>) -> Call {
        self.request(Method::HEAD, url)
    }

    /// A call with any method.
    pub fn request(&self, method: Method, url: impl AsRef<str>) -> Call {
        Call { call: self.client.request(method, url) }
    }
}

/// A call that is not sent yet.
#[derive(Debug)]
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    call: crate::Call,
}

impl Call {
    /// Adds a header field: see [`crate::Call::header`].
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.with(|call| call.header(name, value))
    }

    /// Adds pairs to the query: see [`crate::Call::query`].
    pub fn query<T: Serialize + ?Sized>(self, pairs: &T) -> Self {
        self.with(|call| call.query(pairs))
    }

    /// Sets the body.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.with(|call| call.body(body))
    }

    /// Sets the body to a value as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.with(|call| call.json(value))
    }

    /// Sets anything else that a [`crate::Call`] has, such as `call.with(|call| call.via("unix:/run/app.sock"))`.
    pub fn with(self, set: impl FnOnce(crate::Call) -> crate::Call) -> Self {
        Self { call: set(self.call) }
    }

    /// Sends the request, and waits for the head of the response.
    ///
    /// # Errors
    /// [`OnLoop`](Error::OnLoop), and those of [`crate::Call::send`].
    pub fn send(self) -> Result<Response, Error> {
        Ok(Response { response: wait(self.call.send())?, rest: Bytes::new() })
    }
}

/// A response whose head is here. Its body is read by [`Read`](io::Read), as it comes, or in one piece.
#[derive(Debug)]
pub struct Response {
    response: response::Response,
    /// Read from the wire, and not yet by the caller.
    rest: Bytes,
}

impl Response {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The header fields.
    pub fn headers(&self) -> &Headers {
        self.response.headers()
    }

    /// All that is known of the response.
    pub fn get(&self) -> &response::Response {
        &self.response
    }

    /// The response, unless its status is one of an error: see [`crate::Response::error_for_status`].
    ///
    /// # Errors
    /// As there.
    pub fn error_for_status(self) -> Result<Self, Error> {
        Ok(Self { response: self.response.error_for_status()?, rest: self.rest })
    }

    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// As of [`crate::Response::chunk`].
    pub fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match std::mem::take(&mut self.rest) {
            rest if rest.is_empty() => wait(self.response.chunk()),
            rest => Ok(Some(rest)),
        }
    }

    /// The body in one piece.
    ///
    /// # Errors
    /// As of [`crate::Response::bytes`].
    pub fn bytes(self) -> Result<Bytes, Error> {
        wait(self.response.bytes())
    }

    /// The body as text.
    ///
    /// # Errors
    /// As of [`crate::Response::text`].
    pub fn text(self) -> Result<String, Error> {
        wait(self.response.text())
    }

    /// The body read as JSON.
    ///
    /// # Errors
    /// As of [`crate::Response::json`].
    pub fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        wait(self.response.json())
    }
}

/// An error of the call is the cause of one of the kind [`Other`](io::ErrorKind::Other), or
/// [`TimedOut`](io::ErrorKind::TimedOut) if it is a deadline.
impl io::Read for Response {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && !buffer.is_empty() {
            let of_error = |error: Error| match error.is_timeout() {
                true => io::Error::new(io::ErrorKind::TimedOut, error),
                false => io::Error::other(error),
            };
            self.rest = self.chunk().map_err(of_error)?.unwrap_or_default();
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

/// Blocks until it is there, unless that would hold up a loop.
fn wait<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match anywire_loops::current() {
        Some(_) => Err(Error::OnLoop),
        None => block_on(future),
    }
}
