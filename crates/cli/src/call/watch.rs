//! What is seen of each attempt of a call: its heads for `-v`, and those of redirects for `-i`.

use std::sync::Arc;

use anywire::client::proxy::Proxies;
use anywire::client::{CallRequest, Error, Next, Response};
use anywire::http::Version;
use anywire::wire::Address;

use super::deadline::SoFar;
use super::facts::Sent;
use super::shown;
use crate::trust;

/// Goes with a call as one of its extensions.
#[derive(Clone)]
pub(super) struct Watch {
    so_far: Arc<SoFar>,
    /// Shows heads on stderr, those of requests in this version if there is no agreement on one.
    version: Option<&'static str>,
    proxies: Arc<Proxies>,
}

impl Watch {
    pub(super) fn new(
        so_far: &Arc<SoFar>,
        verbose: bool,
        version: &'static str,
        proxies: &Arc<Proxies>,
    ) -> Self {
        Self { so_far: so_far.clone(), version: verbose.then_some(version), proxies: proxies.clone() }
    }

    /// An attempt with a head of so many bytes begins.
    fn attempts(&self, request: &CallRequest, head_bytes: usize) {
        let referer = request.headers().get("referer");
        self.so_far.facts().attempts(Sent {
            head_bytes,
            body_bytes: request.body().as_full().map(|body| body.len() as u64),
            referer: referer.map(str::to_owned),
            is_proxied: request.via().is_none() && self.proxies.of(request.url()).is_some(),
        });
    }

    /// Shows the heads of interim responses.
    fn informed(&self) {
        let heads = self.so_far.facts().interim().to_vec();
        if self.version.is_some() && !heads.is_empty() {
            shown::show(b"< ", &heads);
        }
    }

    fn responded(&self, response: &Response) {
        let head = shown::head(response.head());
        if self.version.is_some() {
            shown::show(b"< ", &head);
        }
        self.so_far.facts().responded(&head, response.status().is_redirection());
    }
}

/// An interceptor of attempts.
pub(super) async fn attempt(request: CallRequest, next: Next) -> Result<Response, Error> {
    let Some(watch) = request.extensions().get::<Watch>().cloned() else { return next.call(request).await };
    let url = request.url();
    let head = shown::request_head(request.method(), url, request.headers(), request.body());
    watch.attempts(&request, head.as_ref().map_or(0, Vec::len));
    let head = head.filter(|_| watch.version.is_some());
    let show_sent = |version: &str| {
        if let Some(head) = &head {
            shown::show(b"> ", &shown::in_version(head, version));
        }
    };
    // The handshake of TLS has to agree on the version first.
    let is_agreed_on = url.is_https() || request.via().is_some_and(Address::has_tls);
    if !is_agreed_on {
        show_sent(watch.version.unwrap_or_default());
    }
    let response = next.call(request).await;
    watch.so_far.facts().attempted();
    if response.is_err() {
        watch.informed();
    }
    let response = response?;
    if let Some(tls) = response.tls().filter(|_| head.is_some()) {
        shown::show(b"* ", trust::lines(tls).as_bytes());
    }
    if is_agreed_on {
        show_sent(if response.version() == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" });
    }
    watch.informed();
    watch.responded(&response);
    Ok(response)
}
