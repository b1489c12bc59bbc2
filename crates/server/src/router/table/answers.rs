//! What the router itself answers: 404, 405, the methods of a path, 501. Each is an endpoint, so that a response goes the same
//! way whoever makes it.

use std::panic::resume_unwind;
use std::sync::Arc;

use anywire_http::accept::MediaType;
use anywire_http::{IntoResponse, Method, Response, StatusCode};

use crate::conditions::takes;
use crate::handler::{Endpoint, endpoint};
use crate::layers::Problem;
use crate::request::Request;

/// To a path that no route has.
pub(in crate::router) fn unknown_path() -> Arc<dyn Endpoint> {
    endpoint(async |request: Request| {
        if request.path() == "*" {
            // A question about the server as a whole, of `OPTIONS` alone (RFC 9110 section 9.3.7).
            return Response::new(StatusCode::NO_CONTENT);
        }
        (StatusCode::NOT_FOUND, NOTHING).into_response()
    })
}

/// To a `CONNECT` that no handler takes.
pub(in crate::router) fn no_tunnel() -> Arc<dyn Endpoint> {
    endpoint(async || (StatusCode::NOT_IMPLEMENTED, "this server makes no tunnels"))
}

/// To a method that the routes of a path do not have. `allow` lists those that they have.
pub(in crate::router) fn other_method(allow: String) -> Arc<dyn Endpoint> {
    let allow: Arc<str> = allow.into();
    endpoint(async move |method: Method| to_other_method(&method, &allow))
}

/// The methods of a path as the field `Allow` lists them. `None` if there are none.
pub(in crate::router) fn allow<'m>(methods: impl Iterator<Item = &'m Method>) -> Option<String> {
    let mut allow: Vec<&str> = Vec::new();
    for method in methods.map(Method::as_str) {
        if !allow.contains(&method) {
            allow.push(method);
        }
    }
    if allow.is_empty() {
        return None;
    }
    if allow.contains(&"GET") && !allow.contains(&"HEAD") {
        allow.push("HEAD");
    }
    if !allow.contains(&"OPTIONS") {
        allow.push("OPTIONS");
    }
    Some(allow.join(", "))
}

fn to_other_method(method: &Method, allow: &str) -> Response {
    let mut response = match *method {
        Method::OPTIONS => Response::new(StatusCode::NO_CONTENT),
        _ => {
            let message = format!("this path does not answer {method}, it answers {allow}");
            listing(StatusCode::METHOD_NOT_ALLOWED, message, "allowed", allow)
        }
    };
    set(&mut response, "allow", allow);
    response
}

/// Why none of the handlers of a path takes a request. Travels among its extensions to what words the response, so that layers are around
/// that.
#[derive(Debug, Clone)]
pub(in crate::router) enum NoCandidate {
    /// It has another method than those that would be answered.
    Method {
        allow: String,
        /// For a question about the methods: what some of them take.
        takes: Vec<(Method, Vec<Arc<MediaType>>)>,
    },
    /// Its content has another media type than those that are taken.
    ContentType { takes: Vec<Arc<MediaType>> },
    /// It accepts none of the media types that are offered.
    Accept { offers: String },
    /// A guard has panicked, so no handler is chosen.
    GuardPanicked { text: String },
}

/// To a request that the conditions of all handlers of its path have refused, or that they could not be asked about.
pub(in crate::router) fn refused() -> Arc<dyn Endpoint> {
    endpoint(async |mut request: Request| {
        let Some(refused) = request.extensions_mut().remove::<NoCandidate>() else {
            // A layer has replaced the request.
            return (StatusCode::NOT_FOUND, NOTHING).into_response();
        };
        match refused {
            NoCandidate::Method { allow, takes } => {
                let mut response = to_other_method(request.method(), &allow);
                for (method, types) in takes {
                    takes::offer(&mut response.headers, &method, &texts(&types));
                }
                response
            }
            NoCandidate::ContentType { takes } => {
                let found = request.headers().get("content-type").unwrap_or("of no stated type").to_owned();
                let takes = texts(&takes);
                let list = takes.join(", ");
                let message = format!("the content is {found}, this path takes {list}");
                let mut response = listing(StatusCode::UNSUPPORTED_MEDIA_TYPE, message, "supported", &list);
                takes::refuse(&mut response.headers, request.method(), &takes);
                response
            }
            // Counted, logged and worded as that of any handler.
            NoCandidate::GuardPanicked { text } => resume_unwind(Box::new(text)),
            NoCandidate::Accept { offers } => {
                let message = format!("this path offers {offers}, of which none is acceptable");
                listing(StatusCode::NOT_ACCEPTABLE, message, "available", &offers)
            }
        }
    })
}

fn texts(types: &[Arc<MediaType>]) -> Vec<&str> {
    types.iter().map(|of| of.as_str()).collect()
}

/// A refusal whose problem document has this list as a member.
fn listing(status: StatusCode, message: String, member: &str, list: &str) -> Response {
    let items: Vec<&str> = list.split(", ").collect();
    Problem::new(status).detail(message).member(member, items).into_text()
}

fn set(response: &mut Response, name: &str, value: &str) {
    let set = response.headers.append(name, value);
    debug_assert!(set.is_ok(), "tokens and media types are values");
}

pub(in crate::router) const NOTHING: &str = "nothing is here";
