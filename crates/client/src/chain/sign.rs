//! The innermost link: it signs requests, and checks the signatures of responses (RFC 9421).

use std::sync::Arc;
use std::time::SystemTime;

use anywire_http::Headers;
use anywire_http::signatures::{Message, Signer, Verifier, check_content_digest, content_digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};

use crate::call::attempt::{Attempt, Reply};
use crate::call::request::CallRequest;
use crate::client::handle::ClientRef;
use crate::{Error, Response, SignatureFault};

/// What is done with the signatures of an attempt.
pub(super) struct Signing {
    signer: Option<Arc<Signer>>,
    verifier: Option<Arc<Verifier>>,
}

impl Signing {
    /// None if nothing is to be done.
    pub(super) fn of(client: &ClientRef, request: &CallRequest) -> Option<Self> {
        let config = &client.inner().config().signatures;
        let signer = request.options.signer.as_ref().or(config.signer.as_ref()).cloned();
        let signing = Self { signer, verifier: config.verifier.clone() };
        (signing.signer.is_some() || signing.verifier.is_some()).then_some(signing)
    }

    pub(super) async fn send(self, client: ClientRef, mut request: Box<CallRequest>) -> Reply {
        if let Some(signer) = &self.signer {
            sign(signer, &mut request)?;
        }
        let Some(verifier) = self.verifier else { return Attempt::new(client, request).await };
        let (method, url, headers) = (request.method.clone(), request.url.clone(), request.headers.clone());
        let mut response = Attempt::new(client, request).await?;
        let asked = Message::request(&method, &url, &headers);
        verify(&verifier, &asked, &mut response).await?;
        Ok(response)
    }
}

fn sign(signer: &Signer, request: &mut CallRequest) -> Result<(), Error> {
    if signer.covers_field("content-digest")
        && !request.headers.contains("content-digest")
        && let Some(body) = request.body.get().as_full()
    {
        request.headers.append("content-digest", content_digest(body))?;
    }
    // The signature of an earlier attempt.
    for name in ["signature-input", "signature"] {
        request.headers.remove(name);
    }
    let mut nonce = [0; NONCE_BYTES];
    // Without randomness the time alone tells repeated requests.
    let nonce = SystemRandom::new().fill(&mut nonce).ok().map(|()| STANDARD.encode(nonce));
    let message = Message::request(&request.method, &request.url, &request.headers);
    let signed = signer.sign(&message, SystemTime::now(), nonce.as_deref());
    let signature = signed.map_err(|source| fault(request.url.origin(), source, false))?;
    Ok(signature.append_to(&mut request.headers)?)
}

async fn verify(verifier: &Verifier, asked: &Message<'_>, response: &mut Response) -> Result<(), Error> {
    let origin = response.url().origin().to_owned();
    let head: &Headers = response.headers();
    let message = Message::response(response.status(), head);
    let verified = verifier
        .verify(&message.to(asked), SystemTime::now())
        .map_err(|source| fault(&origin, source, true))?;
    if verified.covers("content-digest") {
        let body = response.hold().await?;
        check_content_digest(response.headers(), &body).map_err(|source| fault(&origin, source, true))?;
    }
    Ok(())
}

fn fault(origin: &str, source: impl Into<SignatureFault>, sent: bool) -> Error {
    Error::Signature { origin: origin.to_owned(), source: source.into(), sent }
}

/// Of the text by which a signature is different from all others.
const NONCE_BYTES: usize = 16;
