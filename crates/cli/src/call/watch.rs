//! What is seen of each attempt of a call: its heads, for `-v`, and those of redirects, for `-i`.

use std::sync::{Arc, Mutex, PoisonError};

use anywire::client::{CallRequest, Error, Next, Response};
use anywire::http::Version;
use anywire::wire::Address;

use super::shown;
use crate::trust;

/// Goes with a call as one of its extensions.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The version that is spoken without an agreement; shown on stderr if it is there.
    version: Option<&'static str>,
    /// Of responses that led on.
    heads: Mutex<Vec<u8>>,
}

impl Watch {
    /// Shows heads on stderr, if so, those of requests in this version.
    pub(super) fn new(verbose: bool, version: &'static str) -> Self {
        Self(Arc::new(Seen { version: verbose.then_some(version), ..Seen::default() }))
    }

    /// The heads of responses that led on.
    pub(super) fn heads(&self) -> Vec<u8> {
        self.0.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn responded(&self, response: &Response) {
        let head = shown::head(response);
        if self.0.version.is_some() {
            shown::show(b"< ", &head);
        }
        if response.status().is_redirection() {
            self.0.heads.lock().unwrap_or_else(PoisonError::into_inner).extend(head);
        }
    }
}

/// An interceptor of attempts.
pub(super) async fn attempt(request: CallRequest, next: Next) -> Result<Response, Error> {
    let Some(watch) = request.extensions().get::<Watch>().cloned() else { return next.call(request).await };
    let url = request.url();
    let head = watch
        .0
        .version
        .and_then(|_| shown::request_head(request.method(), url, request.headers(), request.body()));
    let show_sent = |version: &str| {
        if let Some(head) = &head {
            shown::show(b"> ", &shown::in_version(head, version));
        }
    };
    // The handshake of TLS has to agree on the version first.
    let is_agreed_on = url.is_https() || request.via().is_some_and(Address::has_tls);
    if !is_agreed_on {
        show_sent(watch.0.version.unwrap_or_default());
    }
    let response = next.call(request).await?;
    if let Some(tls) = response.tls().filter(|_| head.is_some()) {
        shown::show(b"* ", trust::lines(tls).as_bytes());
    }
    if is_agreed_on {
        show_sent(if response.version() == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" });
    }
    watch.responded(&response);
    Ok(response)
}
