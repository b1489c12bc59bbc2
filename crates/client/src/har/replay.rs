//! Playing again what was recorded, in the place of a server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anywire_http::{Body, Headers, Response, StatusCode};
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};

use super::format::{self, Entry, File};
use super::record::STRUCK_OUT;
use crate::Error;
use crate::call::request::CallRequest;
use crate::chain::{Calling, Interceptor, Next};

/// Responds with what was recorded, if it is added by [`intercept_attempts`](crate::ClientBuilder::intercept_attempts) behind all others.
/// Nothing goes to a server. A clone is the same.
///
/// A request has the first response of its method and URL that was not given yet, and then the last one again. A parameter of the query whose
/// value is struck out may have any. Other fields and the body of a request do not count.
#[derive(Clone)]
pub struct Replay {
    entries: Arc<Vec<Entry>>,
    given: Arc<Mutex<Vec<bool>>>,
}

/// A text is no HAR.
#[derive(Debug, thiserror::Error)]
#[error("cannot read what was recorded as HAR")]
pub struct InvalidHar(#[source] serde_json::Error);

/// Nothing of what was recorded is a response to this request. It is the cause of [`Error::Custom`].
#[derive(Debug, thiserror::Error)]
#[error("nothing is recorded for {method} {url}")]
pub struct NotRecorded {
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
}

impl Replay {
    /// Reads HAR 1.2, of a [`Recorder`](super::Recorder) or of a browser.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(har: &str) -> Result<Self, InvalidHar> {
        let File { log } = serde_json::from_str(har).map_err(InvalidHar)?;
        for (at, entry) in log.entries.iter().enumerate() {
            body(&entry.response).map_err(|cause| {
                let found = format!("log.entries[{at}].response.content.text is not base64: {cause}");
                InvalidHar(serde::de::Error::custom(found))
            })?;
        }
        let given = vec![false; log.entries.len()];
        Ok(Self { entries: Arc::new(log.entries), given: Arc::new(Mutex::new(given)) })
    }

    /// The number of responses that nobody has asked for.
    pub fn left(&self) -> usize {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.iter().filter(|is_given| !**is_given).count()
    }

    fn find(&self, request: &CallRequest) -> Option<&Entry> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |entry: &Entry| {
            entry.request.method == request.method().as_str()
                && is_same(&entry.request.url, request.url().as_str())
        };
        let mut last = None;
        for (at, _) in self.entries.iter().enumerate().filter(|(_, entry)| fits(entry)) {
            last = Some(at);
            if !given[at] {
                break;
            }
        }
        let at = last?;
        given[at] = true;
        self.entries.get(at)
    }
}

impl Interceptor for Replay {
    fn intercept(&self, request: CallRequest, _: Next) -> Calling {
        let response = match self.find(&request) {
            Some(entry) => Ok(request.respond(respond(&entry.response))),
            None => Err(Error::custom(NotRecorded {
                method: request.method().as_str().to_owned(),
                url: request.url().as_str().to_owned(),
            })),
        };
        Box::pin(async move { response })
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("entries", &self.entries.len()).field("left", &self.left()).finish()
    }
}

/// Whether a request is for a URL that was recorded.
fn is_same(recorded: &str, url: &str) -> bool {
    let split = |url: &str| url.split_once('?').map(|(before, query)| (before.to_owned(), query.to_owned()));
    let (Some((recorded, recorded_query)), Some((url, query))) = (split(recorded), split(url)) else {
        return recorded == url;
    };
    let (recorded_query, query): (Vec<_>, Vec<_>) =
        (recorded_query.split('&').collect(), query.split('&').collect());
    let is_same_parameter = |(recorded, sent): (&&str, &&str)| match recorded.split_once('=') {
        Some((name, STRUCK_OUT)) => sent.split_once('=').is_some_and(|(found, _)| found == name),
        _ => recorded == sent,
    };
    recorded == url
        && recorded_query.len() == query.len()
        && recorded_query.iter().zip(&query).all(is_same_parameter)
}

fn body(recorded: &format::Response) -> Result<Vec<u8>, DecodeError> {
    let text = recorded.content.text.as_deref().unwrap_or_default();
    match recorded.content.encoding.as_deref() {
        Some("base64") => STANDARD.decode(text),
        _ => Ok(text.as_bytes().to_vec()),
    }
}

fn respond(recorded: &format::Response) -> Response {
    // A body that cannot be decoded was refused when the recording was read.
    let body = body(recorded).unwrap_or_default();
    let mut headers = Headers::new();
    for field in &recorded.headers {
        // A browser has undone the coding, and framing is of the connection that was.
        let is_of_wire = ["content-encoding", "transfer-encoding", "content-length", "connection"];
        if !is_of_wire.iter().any(|name| name.eq_ignore_ascii_case(&field.name)) {
            // Names of HTTP/2 such as `:status` are none.
            let _ = headers.append(&field.name, &field.value);
        }
    }
    let status = StatusCode::from_u16(recorded.status).unwrap_or(StatusCode::BAD_GATEWAY);
    Response::from_parts(status, headers, Body::from(body))
}
