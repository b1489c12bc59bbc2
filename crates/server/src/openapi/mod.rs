//! OpenAPI: the routes of a router as a document and as a page, made once at start.
//!
//! [`Router::openapi`](crate::Router::openapi) serves both. Each route is in them with its method and its path; one whose handler is
//! [documented](crate::Handler::documented) with all that its types say: parameters, bodies, responses, and what is refused. Guards, media types,
//! limits, pools and [layers](crate::Layer::describe) add what they mean. Nothing of this is on the way of a request.
//!
//! ```
//! use anywire_server::openapi::Info;
//! use anywire_server::{Handler, Json, Path, Router};
//! use schemars::JsonSchema;
//!
//! #[derive(serde::Serialize, JsonSchema)]
//! struct Order { id: u64, item: String }
//!
//! async fn order(Path(id): Path<u64>) -> Json<Order> {
//!     Json(Order { id, item: "tea".to_owned() })
//! }
//!
//! let router = Router::new()
//!     .get("/orders/{id}", order.documented().summary("One order").tag("orders"))
//!     .openapi("/openapi", Info::new("Orders", "1.0.0"));
//! # drop(router);
//! ```

mod components;
mod describe;
mod document;
mod documented;
mod error;
mod extractors;
mod info;
mod layer;
mod operation;
mod page;
mod request;
mod response;
mod results;
mod schemas;
mod serve;

pub(crate) use self::describe::{BASIC, BEARER, DescribedRoute};
pub use self::document::Document;
pub use self::documented::Documented;
pub(crate) use self::documented::HandlerDoc;
#[cfg(feature = "protobuf")]
use self::documented::message;
#[doc(hidden)]
pub use self::documented::{Describe, Described, HandlerTypes};
pub use self::error::OpenApiFault;
pub use self::info::Info;
pub use self::layer::LayerDoc;
pub use self::request::{DescribeRequest, RequestDoc};
pub use self::response::{DescribeResponse, ResponseDoc};
pub use self::results::DescribeResponseParts;
pub use self::schemas::Schemas;
pub(crate) use self::serve::{Files, Pages, ServedFiles};
