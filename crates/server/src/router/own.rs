//! What the router itself answers: 404, 405, the methods of a path, 501. Each is an endpoint, so that a response goes the same
//! way whoever makes it.

use std::sync::Arc;

use anywire_http::{IntoResponse, Method, Response, StatusCode};

use crate::handler::{Endpoint, endpoint};
use crate::request::Request;

/// To a path that no route has.
pub(super) fn unknown_path() -> Arc<dyn Endpoint> {
    endpoint(async |request: Request| {
        if *request.method() == Method::OPTIONS && request.path() == "*" {
            // A question about the server as a whole (RFC 9110 section 9.3.7).
            return Response::new(StatusCode::NO_CONTENT);
        }
        (StatusCode::NOT_FOUND, "nothing is here").into_response()
    })
}

/// To a `CONNECT`. Not even a fallback may answer: a 2xx would promise a tunnel (RFC 9110 section 9.3.6).
pub(super) fn no_tunnel() -> Arc<dyn Endpoint> {
    endpoint(async || (StatusCode::NOT_IMPLEMENTED, "this server makes no tunnels"))
}

/// To a method that the routes of a path do not have. `allow` lists those that they have.
pub(super) fn other_method(allow: String) -> Arc<dyn Endpoint> {
    let allow: Arc<str> = allow.into();
    endpoint(async move |request: Request| {
        let mut response = match request.method() {
            &Method::OPTIONS => Response::new(StatusCode::NO_CONTENT),
            method => {
                let message = format!("this path does not answer {method}, it answers {allow}");
                (StatusCode::METHOD_NOT_ALLOWED, message).into_response()
            }
        };
        let set = response.headers.append("allow", &*allow);
        debug_assert!(set.is_ok(), "methods are tokens");
        response
    })
}
