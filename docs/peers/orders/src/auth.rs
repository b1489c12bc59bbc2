//! Who calls: a customer, known by a token.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum_extra::TypedHeader;
use axum_extra::headers::Authorization;
use axum_extra::headers::authorization::Bearer;
use axum_extra::typed_header::TypedHeaderRejection;
use subtle::ConstantTimeEq;

use crate::settings::Token;

/// The customer of a request: `Extension<Customer>` in handlers within [`known`].
#[derive(Clone)]
pub struct Customer(Arc<str>);

impl Deref for Customer {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[derive(Clone)]
pub struct Tokens(Arc<[Token]>);

impl From<&Vec<Token>> for Tokens {
    fn from(tokens: &Vec<Token>) -> Self {
        Self(tokens.as_slice().into())
    }
}

/// Answers 401 without one of these tokens.
pub async fn known(
    State(tokens): State<Tokens>,
    sent: Result<TypedHeader<Authorization<Bearer>>, TypedHeaderRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_sent = |known: &&Token| {
        let sent = sent.as_ref().map_or("", |field| field.token());
        known.secret.as_bytes().ct_eq(sent.as_bytes()).into()
    };
    let Some(Token { customer, .. }) = tokens.0.iter().find(is_sent) else {
        let challenge = if sent.is_ok() {
            r#"Bearer realm="orders", error="invalid_token""#
        } else {
            r#"Bearer realm="orders""#
        };
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    };
    request.extensions_mut().insert(Customer(customer.as_str().into()));
    next.run(request).await
}
