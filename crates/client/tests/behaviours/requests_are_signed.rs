//! A client signs each attempt anew, with what its peer gets, and takes only responses whose signature and digest are right.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use anywire_client::{Error, SignatureFault};
use anywire_http::signatures::{
    DigestError, Message, SignatureError, Signer, SigningKey, Verifier, VerifyingKey, check_content_digest,
    content_digest,
};
use anywire_http::{Body, Headers, StatusCode, Url};

use crate::support::{Peer, block_on, client, wire};

const SECRET: &[u8] = b"at least 32 bytes that nobody else knows";

fn signer() -> Signer {
    Signer::new("me", SigningKey::hmac_sha256(SECRET)).covers(["@method", "@target-uri", "content-digest"])
}

fn verifier() -> Verifier {
    Verifier::new(|_| Some(VerifyingKey::hmac_sha256(SECRET)))
}

#[test]
fn a_server_can_check_what_it_gets() {
    let nonces = Arc::new(Mutex::new(Vec::new()));
    let seen = nonces.clone();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let covered = ["@method", "@target-uri", "content-digest"];
            let message = Message::of_head(&request.head, "http");
            let verified = verifier().requires(covered).verify(&message, SystemTime::now()).expect("signed");
            check_content_digest(request.head.headers(), &request.body).expect("its body");
            seen.lock().expect("no panic").push(verified.nonce().expect("one").to_owned());
            match request.head.path() {
                "/hop" => {
                    talk.say("HTTP/1.1 307 Temporary Redirect\r\nlocation: /end\r\ncontent-length: 0\r\n\r\n")
                }
                "/busy" if seen.lock().expect("no panic").len() < 4 => {
                    talk.say(
                        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n",
                    );
                }
                _ => talk.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
            }
        }
    });
    let (_loops, client) = client(1, |builder| builder.sign(signer()));
    let send = |path: &str| {
        block_on(client.post(peer.url(path)).body("tea").send()).map(|response| response.status())
    };
    assert_eq!(send("/?a=b").expect("answered"), StatusCode::OK);
    assert_eq!(send("/hop").expect("answered"), StatusCode::OK);
    let mut nonces = nonces.lock().expect("no panic").clone();
    assert_eq!(nonces.len(), 3);
    nonces.dedup();
    assert_eq!(nonces.len(), 3);
}

#[test]
fn what_cannot_be_signed_is_not_sent() {
    let peer = Peer::answering(wire("tcp"), crate::support::OK);
    let (_loops, client) = client(1, |builder| builder);
    let streamed = Body::stream(Chunks(1));
    let error = block_on(client.post(peer.url("/")).body(streamed).sign(signer()).send());
    let error = error.expect_err("a stream has no digest");
    let missing =
        SignatureFault::Signature(SignatureError::Missing { component: "\"content-digest\"".into() });
    let Error::Signature { source, sent: false, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*source, missing);
    assert_eq!((peer.accepted(), error.may_have_been_processed()), (0, false));
    // One call alone, and with other components.
    let other = Signer::new("me", SigningKey::hmac_sha256(SECRET)).covers(["@method"]);
    let response = block_on(client.post(peer.url("/")).body(Body::stream(Chunks(1))).sign(other).send());
    assert_eq!(response.expect("answered").status(), StatusCode::OK);
}

struct Chunks(usize);

impl futures_core::Stream for Chunks {
    type Item = Result<&'static str, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let next = self.0.checked_sub(1).map(|left| {
            self.0 = left;
            Ok("piece")
        });
        std::task::Poll::Ready(next)
    }
}

/// A peer that signs its responses, each in the way that its path says.
fn signing() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let url = Url::parse(&format!(
                "http://{}{}",
                request.head.host().expect("a host"),
                request.head.target()
            ));
            let url = url.expect("a URL");
            let asked = Message::request(request.head.method(), &url, request.head.headers());
            let mut headers = Headers::new();
            let (digest, body) = match url.path_and_query() {
                "/other-body" => (content_digest(b"tea"), "ten"),
                _ => (content_digest(b"tea"), "tea"),
            };
            headers.append("content-digest", digest).expect("a field");
            let signer = Signer::new("peer", SigningKey::hmac_sha256(SECRET)).covers([
                "@status",
                "@path;req",
                "content-digest",
            ]);
            let status =
                if url.path_and_query() == "/other-status" { StatusCode::ACCEPTED } else { StatusCode::OK };
            let signed =
                signer.sign(&Message::response(status, &headers).to(&asked), SystemTime::now(), None);
            if url.path_and_query() != "/unsigned" {
                signed.expect("signed").append_to(&mut headers).expect("fields");
            }
            let fields = String::from_utf8(headers.wire_bytes().to_vec()).expect("text");
            talk.say(format!("HTTP/1.1 200 OK\r\n{fields}content-length: 3\r\n\r\n{body}"));
        }
    })
}

#[test]
fn only_responses_count_whose_signature_is_right() {
    let peer = signing();
    let (_loops, client) = client(1, |builder| {
        builder.verify_responses(verifier().requires(["@status", "@path;req", "content-digest"]))
    });
    let text = |path: &str| block_on(async { client.get(peer.url(path)).send().await?.text().await });
    assert_eq!(text("/right").expect("right"), "tea");
    for (path, fault) in [
        ("/other-body", SignatureFault::Digest(DigestError::Wrong)),
        ("/other-status", SignatureFault::Signature(SignatureError::Wrong)),
        ("/unsigned", SignatureFault::Signature(SignatureError::Unsigned)),
    ] {
        let error = text(path).expect_err(path);
        let Error::Signature { source, sent: true, .. } = &error else { panic!("{path}: {error:?}") };
        assert_eq!(*source, fault, "{path}");
        assert!(error.may_have_been_processed());
    }
}
