//! Signatures of messages (RFC 9421) and digests of their bodies (RFC 9530), with the feature `signatures`.
//!
//! A [`Signer`] says by two fields who has made a message and which parts of it are as they were made: the
//! [`Component`]s. A [`Verifier`] checks that, on either side. Both take the time as a parameter. The body is covered by way of its
//! [digest](content_digest): cover the field `content-digest`, and [check](check_content_digest) it once the body is there.
//!
//! ```
//! use std::time::SystemTime;
//!
//! use anywire_http::signatures::{Message, Signer, SigningKey, Verifier, VerifyingKey, content_digest};
//! use anywire_http::{Headers, Method, Url};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (url, now) = (Url::parse("https://shop.example/orders?limit=2")?, SystemTime::now());
//! let mut headers = Headers::new();
//! headers.append("content-digest", content_digest(b"tea"))?;
//!
//! let secret = b"at least 32 bytes that nobody else knows";
//! let signer = Signer::new("me", SigningKey::hmac_sha256(secret)).covers(["@method", "@target-uri", "content-digest"]);
//! signer.sign(&Message::request(&Method::POST, &url, &headers), now, None)?.append_to(&mut headers)?;
//!
//! let verifier = Verifier::new(|input| (input.key_id()? == "me").then(|| VerifyingKey::hmac_sha256(secret)))
//!     .requires(["@method", "@target-uri", "content-digest"]);
//! let verified = verifier.verify(&Message::request(&Method::POST, &url, &headers), now)?;
//! assert_eq!(verified.key_id(), Some("me"));
//! assert!(verifier.verify(&Message::request(&Method::DELETE, &url, &headers), now).is_err());
//! # Ok(()) }
//! ```
//!
//! The algorithms are `hmac-sha256` and `ed25519`, by the crate `ring`. Of the parameters of components `bs`, `req` and `name` are known;
//! `sf`, `key` and `tr` are an error.

mod component;
mod digest;
mod error;
mod key;
mod message;
mod signer;
mod structured;
mod verifier;

pub use component::Component;
pub use digest::{DigestError, check_content_digest, content_digest};
pub use error::SignatureError;
pub use key::{InvalidKey, SigningKey, VerifyingKey};
pub use message::Message;
pub use signer::{Signature, Signer};
pub use verifier::{SignatureInput, Verifier};
