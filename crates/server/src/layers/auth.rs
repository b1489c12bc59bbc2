//! Passwords and tokens.

use std::fmt;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use anywire_http::{IntoResponse, Response, StatusCode};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use crate::layer::LayerFault;
use crate::request::{Parts, Request};
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// Answers 401 without a name and a password of which a function says that they are right (RFC 7617).
///
/// Use it over TLS alone: the password travels as it is. The function may leave who it is among the extensions of the request. Compare
/// secrets by [`same_secret`], which tells nobody how much of them was right.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::Router;
/// use anywire_server::layers::{BasicAuth, same_secret};
///
/// let auth = BasicAuth::new("the shop", |_, name, password| name == "ada" && same_secret(password, "analytical"));
/// let router = Router::new().get("/", async || "Hello, Ada!").layer(auth);
/// # anywire_loops::block_on(async {
/// let response = router.call(anywire_http::Request::get("/")).await;
/// assert_eq!(response.status, StatusCode::UNAUTHORIZED);
/// let right = anywire_http::Request::get("/").header("authorization", "Basic YWRhOmFuYWx5dGljYWw=");
/// assert_eq!(router.call(right).await.status, StatusCode::OK);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct BasicAuth {
    realm: String,
    allows: Arc<KnowsPassword>,
}

impl BasicAuth {
    /// `realm` is what a browser shows. The function gets the request, the name and the password.
    pub fn new(realm: &str, allows: impl Fn(&mut Parts, &str, &str) -> bool + Send + Sync + 'static) -> Self {
        Self { realm: realm.to_owned(), allows: Arc::new(allows) }
    }
}

/// Answers 401 without a token of which a function says that it is right (RFC 6750).
///
/// The function may leave what the token says among the extensions of the request. It cannot wait: a layer that asks another server
/// is an `async` function of its own.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::Router;
/// use anywire_server::layers::{BearerAuth, same_secret};
///
/// let auth = BearerAuth::new("the shop", |_, token| same_secret(token, "mF_9.B5f-4.1JqM"));
/// let router = Router::new().get("/", async || "Hello!").layer(auth);
/// # anywire_loops::block_on(async {
/// let wrong = anywire_http::Request::get("/").header("authorization", "Bearer x");
/// let response = router.call(wrong).await;
/// assert_eq!(response.status, StatusCode::UNAUTHORIZED);
/// assert_eq!(response.headers.get("www-authenticate"), Some(r#"Bearer realm="the shop", error="invalid_token""#));
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct BearerAuth {
    realm: String,
    allows: Arc<KnowsToken>,
}

impl BearerAuth {
    /// The function gets the request and the token.
    pub fn new(realm: &str, allows: impl Fn(&mut Parts, &str) -> bool + Send + Sync + 'static) -> Self {
        Self { realm: realm.to_owned(), allows: Arc::new(allows) }
    }
}

type KnowsPassword = dyn Fn(&mut Parts, &str, &str) -> bool + Send + Sync;
type KnowsToken = dyn Fn(&mut Parts, &str) -> bool + Send + Sync;

/// Whether two secrets are the same. The comparison takes constant time, so a secret cannot be guessed byte by byte. The
/// lengths are not secret.
///
/// ```
/// use anywire_server::layers::same_secret;
///
/// assert!(same_secret("analytical", "analytical"));
/// assert!(!same_secret("analytical", "analytics!"));
/// ```
pub fn same_secret(one: impl AsRef<[u8]>, other: impl AsRef<[u8]>) -> bool {
    let (one, other) = (one.as_ref(), other.as_ref());
    // The black box keeps the compiler from leaving at the first difference.
    let bytes = one.iter().zip(other);
    let differences = bytes.fold(0, |so_far: u8, (one, other)| black_box(so_far | (one ^ other)));
    one.len() == other.len() && differences == 0
}

impl SyncLayer for BasicAuth {
    type Local = Self;
    type Kept = ();

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(local: &Rc<Self>, request: &mut Request) -> Result<(), Response> {
        let decoded = sent(request, "basic").and_then(|text| LENIENT.decode(text).ok());
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        match pair.is_some_and(|(name, password)| (local.allows)(request, name, password)) {
            true => Ok(()),
            false => Err(refused(&format!("Basic realm=\"{}\", charset=\"UTF-8\"", local.realm))),
        }
    }

    fn after(_: &Rc<Self>, (): (), _: &mut Response) {}

    fn fault(&self) -> Option<LayerFault> {
        realm_fault(&self.realm)
    }

    #[cfg(feature = "openapi")]
    fn describe(&self, _: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        crate::openapi::LayerDoc::new().security(crate::openapi::BASIC)
    }
}

sync_layer!(BasicAuth, Self);

impl SyncLayer for BearerAuth {
    type Local = Self;
    type Kept = ();

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(local: &Rc<Self>, request: &mut Request) -> Result<(), Response> {
        let token = sent(request, "bearer").map(str::to_owned);
        match &token {
            Some(token) if (local.allows)(request, token) => Ok(()),
            // Nothing is said of what is wrong unless a token was tried (RFC 6750 section 3.1).
            Some(_) => Err(refused(&format!("Bearer realm=\"{}\", error=\"invalid_token\"", local.realm))),
            None => Err(refused(&format!("Bearer realm=\"{}\"", local.realm))),
        }
    }

    fn after(_: &Rc<Self>, (): (), _: &mut Response) {}

    fn fault(&self) -> Option<LayerFault> {
        realm_fault(&self.realm)
    }

    #[cfg(feature = "openapi")]
    fn describe(&self, _: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        crate::openapi::LayerDoc::new().security(crate::openapi::BEARER)
    }
}

sync_layer!(BearerAuth, Self);

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth").field("realm", &self.realm).finish_non_exhaustive()
    }
}

impl fmt::Debug for BearerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuth").field("realm", &self.realm).finish_non_exhaustive()
    }
}

/// What a peer sends by this scheme, whose name has no case (RFC 9110 section 11.1). Two fields are none: which would count?
fn sent<'r>(request: &'r Parts, scheme: &str) -> Option<&'r str> {
    let mut fields = request.headers().get_all("authorization");
    let field = fields.next()?;
    if fields.next().is_some() {
        return None;
    }
    let (name, rest) = str::from_utf8(field).ok()?.split_once(' ')?;
    name.eq_ignore_ascii_case(scheme).then(|| rest.trim_start_matches(' '))
}

fn refused(challenge: &str) -> Response {
    let response = (StatusCode::UNAUTHORIZED, "this needs credentials that are right").into_response();
    response.header("www-authenticate", challenge)
}

/// A realm stands between quotes.
fn realm_fault(realm: &str) -> Option<LayerFault> {
    let is_fine = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
    let fault = || LayerFault::new(format!("has the realm {realm:?}"), "write it in ASCII, without quotes");
    (!realm.bytes().all(is_fine)).then(fault)
}

/// Clients differ in whether they pad.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
