//! Who calls: a customer, known by a token.

use std::ops::Deref;
use std::sync::Arc;

use anywire::server::layers::{BearerAuth, same_secret};

use crate::settings::Token;

/// The customer of a request: `Extension<Customer>` in handlers within [`layer`].
#[derive(Clone)]
pub struct Customer(Arc<str>);

impl Deref for Customer {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Answers 401 without one of these tokens.
pub fn layer(tokens: Vec<Token>) -> BearerAuth {
    BearerAuth::new("orders", move |request, sent| {
        let known = tokens.iter().find(|known| same_secret(&known.secret, sent));
        let Some(Token { customer, .. }) = known else { return false };
        request.extensions_mut().insert(Customer(customer.as_str().into()));
        true
    })
}
