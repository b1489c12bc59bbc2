//! CONNECT to an HTTP proxy (RFC 9110 section 9.3.6).

use anywire_http::h1::encode::request_head;
use anywire_http::h1::{Framing, ResponseDecoder, ResponseEvent};
use anywire_http::{Buffer, Headers, Method, ResponseHead, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::server::Login;
use super::{HandshakeLimits, ProxyReason};

/// The request, and its response up to the end of the head.
pub(super) struct Connect {
    decoder: ResponseDecoder,
    input: Buffer,
    interim: usize,
    interim_max: usize,
    has_login: bool,
}

impl Connect {
    pub(super) fn new(
        login: Option<&Login>,
        host: &str,
        port: u16,
        limits: &HandshakeLimits,
        output: &mut Vec<u8>,
    ) -> Result<Self, ProxyReason> {
        if host.is_empty() {
            return Err(ProxyReason::Target);
        }
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut headers = Headers::new();
        if let Some(login) = login {
            headers.append("proxy-authorization", basic(login)).map_err(|_| ProxyReason::Target)?;
        }
        request_head(output, &Method::CONNECT, &target, &target, &headers, Framing::None)
            .map_err(|_| ProxyReason::Target)?;
        let mut decoder = ResponseDecoder::new(limits.head.into());
        decoder.request_method(&Method::CONNECT);
        Ok(Self {
            decoder,
            input: Buffer::with_limit(limits.head.bytes.saturating_mul(2)),
            interim: 0,
            interim_max: limits.interim_responses,
            has_login: login.is_some(),
        })
    }

    /// Takes bytes; how many of them are the head's, if that ends here. A proxy may refuse before it has the whole request, and make no
    /// tunnel.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        has_asked: bool,
    ) -> Result<Option<usize>, ProxyReason> {
        let given = bytes.len();
        loop {
            let taken = self.input.fill_from(bytes);
            bytes = &bytes[taken..];
            match self.decoder.decode(&mut self.input).map_err(ProxyReason::Malformed)? {
                None if bytes.is_empty() => return Ok(None),
                // A full buffer is over the limit, which the decoder says.
                None => {}
                Some(ResponseEvent::Informational(_)) => {
                    self.interim += 1;
                    if self.interim > self.interim_max {
                        return Err(ProxyReason::Interim(self.interim));
                    }
                }
                Some(ResponseEvent::Head(head, _)) => {
                    self.judge(&head, has_asked)?;
                    return Ok(Some(given - bytes.len() - self.input.len()));
                }
                // Nothing is behind a head of this kind.
                Some(_) => return Err(ProxyReason::Early),
            }
        }
    }

    fn judge(&self, head: &ResponseHead, has_asked: bool) -> Result<(), ProxyReason> {
        match head.status() {
            status if status.is_success() && has_asked => Ok(()),
            status if status.is_success() => Err(ProxyReason::Early),
            StatusCode::PROXY_AUTHENTICATION_REQUIRED if self.has_login => Err(ProxyReason::LoginRefused),
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                let offers = head.headers().get("proxy-authenticate").map(str::to_owned);
                Err(ProxyReason::LoginWanted { offers })
            }
            status => Err(ProxyReason::Refused(status)),
        }
    }
}

/// The value of `proxy-authorization` (RFC 7617 section 2).
pub(super) fn basic(login: &Login) -> String {
    let pair = [&*login.user, b":", &*login.password].concat();
    format!("Basic {}", STANDARD.encode(pair))
}
