//! The HTTP server of anywire: a router, `async` handlers that need not be `Send`, over any wire.
//!
//! ```no_run
//! use anywire_server::{Json, Path, Router, Server};
//!
//! #[derive(serde::Serialize)]
//! struct Order { id: u64 }
//!
//! let router = Router::new()
//!     .get("/hello/{name}", async |Path(name): Path<String>| format!("Hello, {name}!"))
//!     .get("/orders/{id}", async |Path(id): Path<u64>| Json(Order { id }));
//! Server::new(router).listen("tcp:0.0.0.0:8080").listen("unix:/run/app.sock").run()?;
//! # Ok::<(), anywire_server::ServerError>(())
//! ```
//!
//! A connection lives on one loop, and so do its handlers: no lock and no thread switch on the way of a request.
//! Everything has a limit ([`Limits`]) and a counter ([`Counters`]), and a refused request gets its reason as text.
//!
//! The log is that of `tracing`: the program installs a subscriber, such as by `tracing_subscriber::fmt().init()`, or nothing
//! is shown. Handlers that fail are logged at level error with their route and all causes, requests that are refused at debug.
//! [`Server::log_requests`] logs each request once its response has left; an [`Observer`] sees the same.
//!
//! # What is not here (yet)
//!
//! | not here | until then |
//! | --- | --- |
//! | WebSocket | a crate for it over an upgraded connection; events as a streaming [`Body::channel`](anywire_http::Body::channel) |
//! | static files, ranges, compression | the command `anywire serve --dir` serves files, with dates and conditions |
//! | a stripped prefix: a nested handler sees the whole path | [`Path`] takes the part behind the prefix |
//! | CONNECT | it is answered 501, unless a [`Tunnel`], or an [`Upgrade`] over HTTP/2, takes it |

#[macro_use]
mod arity;
pub mod codec;
mod conditions;
mod contained;
mod context;
mod convert;
mod counters;
mod dispatch;
mod driver;
mod extract;
mod handler;
mod interim;
mod layer;
pub mod layers;
mod limits;
mod loop_choice;
mod observe;
#[cfg(feature = "openapi")]
pub mod openapi;
mod pool;
mod refusal;
mod request;
mod respond;
mod route_limits;
mod router;
mod run;
mod server;
mod service;
mod signals;
#[cfg(feature = "stack")]
pub mod stack;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "udp")]
pub mod udp;
mod upgrade;
mod with;

pub use anywire_http::{IntoResponse, Response};
pub use anywire_mux::Upgraded;
pub use conditions::{MediaTypes, guards};
pub use counters::Counters;
#[cfg(feature = "protobuf")]
pub use extract::Protobuf;
#[cfg(feature = "tls")]
pub use extract::TlsInfo;
pub use extract::{
    Cookies, Extension, FieldError, Form, FromHeader, FromRequest, FromRequestParts, Header, HeaderFault,
    InnerValue, InvalidValue, Json, Languages, MatchedPath, Matrix, Multipart, Needs, OptionalFromRequest,
    OptionalFromRequestParts, Part, Path, PeerAddress, PeerGone, Produces, Query, Rejection, State, Valid,
    ValidRejection, Validate, ValidationMessages, Violation, Violations,
};
#[doc(hidden)]
pub use extract::{ViaParts, ViaRequest};
pub use handler::Handler;
#[doc(hidden)]
pub use handler::{Arguments, Function, HandlerParts};
pub use interim::{InformError, Informational};
#[doc(hidden)]
pub use layer::{IsNext, IsRequest, LayerArguments, LayerFunction, LoopPart};
pub use layer::{Layer, LayerFault, Next};
pub use limits::Limits;
pub use observe::{Begun, Ended, ExchangeEnd, Observer};
pub use pool::{Blocking, OnPool, QueueDeadline};
#[doc(hidden)]
pub use pool::{BlockingFunction, PoolArgument, PoolArguments, PoolResult, Pooled};
pub use refusal::{Refusal, RefusalKind};
pub use request::{Parts, Request};
pub use respond::{Error, Html};
pub use route_limits::RouteLimits;
pub use router::{MediaTypeFault, PathFault, RouteError, Router};
pub use server::{
    ReplaceError, Replacing, RouterHandle, Server, ServerError, ServerHandle, Shutdown, Stopping,
};
pub use upgrade::{Tunnel, Upgrade};
#[doc(hidden)]
pub use with::Added;
pub use with::With;
