//! anywire: one service, any wire.
//!
//! Write a service or a client once; an address says which wire it goes over: `tcp:127.0.0.1:8080`,
//! `unix:/run/app.sock`, `memory:name` within a process. Nothing else in the program changes.
//!
//! # A service
//!
//! ```no_run
//! use anywire::{Path, Router, Server};
//!
//! let hello = async |Path(name): Path<String>| format!("Hello, {name}!");
//! let router = Router::new().get("/hello/{name}", hello);
//! Server::new(router).listen("tcp:127.0.0.1:8080").run()?; // until SIGINT or SIGTERM
//! # Ok::<(), anywire::server::ServerError>(())
//! ```
//!
//! # A call
//!
//! ```no_run
//! let client = anywire::Client::new();
//! let text = anywire::loops::block_on(async {
//!     client.get("http://127.0.0.1:8080/hello/you").send().await?.text().await
//! })?;
//! assert_eq!(text, "Hello, you!");
//! # Ok::<(), anywire::client::Error>(())
//! ```
//!
//! A call may be awaited on any runtime: the connections of a `Client` live on loops of its own.
//!
//! # Handlers
//!
//! A handler is an async function. Its arguments are *extractors*, which take what it needs from the request; the last one may take
//! the body. It returns anything that is a response, and so does its error. A *layer* is code around handlers.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use anywire::{Json, Next, Path, Request, Response, Router, State, StatusCode};
//!
//! #[derive(Clone, serde::Serialize, serde::Deserialize)]
//! struct Order { item: String }
//!
//! /// The state of the service. Each loop has a clone of it, and each handler that asks for it gets a reference to that.
//! #[derive(Clone, Default)]
//! struct Shop(Arc<Mutex<Vec<Order>>>);
//!
//! async fn place(State(shop): State<Shop>, Json(order): Json<Order>) -> StatusCode {
//!     shop.0.lock().expect("no handler panics with it").push(order);
//!     StatusCode::CREATED
//! }
//!
//! async fn order(State(shop): State<Shop>, Path(id): Path<usize>) -> Result<Json<Order>, (StatusCode, String)> {
//!     let orders = shop.0.lock().expect("no handler panics with it");
//!     let found = orders.get(id).cloned().map(Json);
//!     found.ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no order {id}")))
//! }
//!
//! async fn log(request: Request, next: Next) -> Response {
//!     let asked = format!("{} {}", request.method(), request.target());
//!     let response = next.run(request).await;
//!     println!("{asked}: {}", response.status);
//!     response
//! }
//!
//! let router =
//!     Router::new().post("/orders", place).get("/orders/{id}", order).layer(log).state(Shop::default());
//! # anywire::loops::block_on(async {
//! // A router answers without a server, too.
//! let answer = router.call(anywire::http::Request::get("/orders/7")).await;
//! assert_eq!(answer.status, StatusCode::NOT_FOUND);
//! # });
//! ```
//!
//! # Any wire
//!
//! One server may listen on several wires. Here it is called within its own process, on its own loops, without a socket:
//!
//! ```
//! use anywire::{Client, Json, Path, Router, Server};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Greeting { text: String }
//!
//! async fn hello(Path(name): Path<String>) -> Json<Greeting> {
//!     Json(Greeting { text: format!("Hello, {name}!") })
//! }
//!
//! let router = Router::new().get("/hello/{name}", hello);
//! let running = Server::new(router).listen("tcp:127.0.0.1:0").listen("memory:hello").start()?;
//!
//! let client = Client::builder().on(running.loops()).build();
//! let call = running.loops().get(0).spawn(move || async move {
//!     client.get("http://localhost/hello/anyone").via("memory:hello").send().await?.json::<Greeting>().await
//! });
//! assert_eq!(call.wait()??.text, "Hello, anyone!");
//! running.shutdown(std::time::Duration::from_secs(1)).wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What there is to log goes to `tracing`, and is seen once the program has installed a subscriber.
//!
//! # Features
//!
//! | feature | adds | packages |
//! | --- | --- | --- |
//! | none | messages, wires, event loops | 56 |
//! | `server` (default) | routers, handlers, layers, the HTTP server | 7 |
//! | `client` (default) | calls, pools of connections | 7 |
//! | `tls` | TLS around every wire (`tls:`, `tls+unix:` and so on), `https` URLs | 14 |
//! | `shm` | the wire `shm:`, shared memory between processes | 0 |
//! | `udp` | datagrams: sockets, services, calls | 2 |
//! | `dns` | `DnsResolver`: name servers that clients ask themselves, with TTL and SRV, by the crate `hickory-resolver` | 34 |
//! | `cookies` | a jar of cookies for clients, with the public suffixes of the crate `psl` | 2 |
//! | `signatures` | signatures of messages (RFC 9421) and digests of bodies, for servers and clients | 6 |
//! | `rules` | traffic rules for clients: calls that go elsewhere by what a file says, by the crates `regex` and `toml` | 9 |
//! | `regex` | guards by regular expressions on variables of a path | 3 |
//! | `tower` | services and layers of the tower crates within a router, a router as a tower service | 3 |
//! | `garde` | `Valid<E>` checks values by the rules of the crate `garde` | 5 |
//! | `headers` | `Header<T>` takes the types of the crate `headers` | 11 |
//! | `macros` | derives that join extractors into a struct | 1 |
//! | `openapi` | a description of the routes by OpenAPI, as a document and as a page, with schemas by the crate `schemars` | 4 |
//! | `protobuf` | messages of Protocol Buffers in requests and responses, for servers and clients, by the crate `prost` | 1 |
//! | `stack` | TCP in user space: the engine, tasks by the million, the wire `stack:` | 4 |
//! | `load` | the load generator, the probe, the harness of `compare`, reports | 37 |
//! | `yaml` | documents of OpenAPI in YAML for `load`, by the crate `serde-saphyr` | 13 |
//! | `test` | a server within a test, on a clock that the test moves; for `[dev-dependencies]` | 0 |
//! | `full` | all of them but `test` | 118 |
//!
//! The last column is what a program compiles: with no feature so many packages, `anywire` among them, and with a feature so many more.
//! `server` and `client` are counted beside no feature, `yaml` beside `load`, and the others beside the default ones. What two features
//! have in common is in both. A feature only adds.
//!
//! # Where things are
//!
//! What nearly each program names is at the root, such as `Router` and `Client`. Everything else is in its module alone.
//!
//! | module | feature | holds |
//! | --- | --- | --- |
//! | `server` | `server` (default) | router, handlers, extractors, limits, shutdown |
//! | `client` | `client` (default) | calls, connection pools, deadlines |
//! | [`http`] | | messages, headers, bodies, and the engines for HTTP/1.1 and HTTP/2 as bytes in, bytes out |
//! | [`wire`] | | addresses, listeners, dialers, connections: how bytes travel |
//! | [`wire::names`] | | where addresses of names come from: resolvers, their cache, static hosts |
//! | `wire::names::DnsResolver` | `dns` | name servers that clients ask themselves |
//! | `wire::tls` | `tls` | certificates, keys, whom a client trusts; the wires `tls:`, `tls+unix:` and so on; `https` URLs |
//! | [`wire::local`] | | whole messages over a connection, for programs that want no HTTP |
//! | [`advice`] | | what would help against an error, apart from what was found |
//! | [`loops`] | | event loops, one a core: placement, loop-local storage, deadlines |
//! | `stack`, `tcp` | `stack` | TCP in user space: devices, streams, swarms of connections; the engine as segments in, segments out; the wire `stack:` |
//! | `wire::stack`, `server::stack` | `stack` | what operators ask of hosts on devices: connections, counters, frames; as routes |
//! | `wire::shm` | `shm` | errors and counters of shared memory between processes; the wire `shm:` |
//! | `wire::udp`, `server::udp`, `client::udp`, `load::udp` | `udp` | datagrams: sockets, services, calls, load |
//! | `client::cookies` | `cookies` | a jar of cookies for clients |
//! | `client::rules` | `rules` | traffic rules: calls that go elsewhere, from a file that may change |
//! | `http::signatures` | `signatures` | signatures of messages, made and checked; clients that sign |
//! | `server::guards::param_matches` | `regex` | guards by regular expressions on variables of a path |
//! | `server::layers` | `server` (default) | the layers that come with the server |
//! | `server::tower` | `tower` | services and layers of the tower crates, both ways; a `Client` is a service |
//! | `FromRequestParts`, `FromRequest` as derives | `macros` | structs whose fields are extractors |
//! | `server::openapi` | `openapi` | a description of the routes by OpenAPI, as a document and as a page |
//! | `server::Protobuf`, `http::codec::ProtobufCodec` | `protobuf` | messages of Protocol Buffers in requests and responses |
//! | `server::Valid` of `garde::Validate` | `garde` | values that have passed the rules of the crate `garde` |
//! | `Header<T>` of `headers::Header` | `headers` | header fields as the types of the crate `headers` |
//! | `test` | `test` | a server within a test, on a clock that the test moves |
//! | `load` | `load` | the load generator, the compare harness, reports |
//! | `load::script` | `yaml` | documents of OpenAPI in YAML, whose operations the load generator calls |
//!
//! # Requests and responses
//!
//! A message by itself is an [`http::Request`] or an [`http::Response`], whose head and body are public fields. Two
//! ends know more of a message than it says, so each has a type that converts to and from these:
//!
//! | type | is |
//! | --- | --- |
//! | [`Response`] | [`http::Response`]: what handlers and layers return, and what a test gets of a router |
//! | `Request` | what handlers and layers get: an [`http::Request`] with the path parameters, states and peer of its connection. It gives these back when it is dropped, so nothing can be moved out of it but by `into_parts` |
//! | [`http::Request`] | what a program makes: for `Router::call`, or `Client::forward` |
//! | `client::Response` | what a call returns: an [`http::Response`] that is still being received, with the limit up to which it is collected, the connection that it holds, and where it came from. A handler may return it as it is |
//! | `client::CallRequest` | what interceptors of a client get: a request with its URL and the options of its call |
//!
//! One pair for all would make each request carry what one end alone needs: a server's is two pointers, because it moves through each layer.
//!
//! # Errors
//!
//! `Error` is what a handler returns by `?`, and what a response is made of. Nothing of the library fails with it: each
//! thing that can fail has an error of its own.
//!
//! | type | is |
//! | --- | --- |
//! | `Error` | what a handler returns: any error by `?`, or a status and what the peer may read. It is the server's; its causes are for the log |
//! | `client::Error` | why a call has failed: who is at fault, and whether it may have been processed. A handler may return it as it is, or by `?` as an `Error`, which is a 502 or a 504 |
//! | `server::ServerError` | why a server does not start |
//! | `server::Rejection` | why an extractor could not take its value from a request |
//! | `http::BodyError` | why a body broke off, or is too large |
//!
//! The [guide](https://github.com/anywire/anywire/blob/main/docs/guide/README.md) has one page a task: routing, extractors, responses,
//! OpenAPI, errors, state, layers, pools, tests, embedding, calls, a reverse proxy, event streams, upgrades, TLS, HTTP/2, two processes on one machine, a protocol and a
//! wire of your own. The docs of `server` and `client` list the features that are missing.

#[cfg(feature = "test")]
pub mod test;

pub use anywire_advice as advice;
#[cfg(feature = "client")]
pub use anywire_client as client;
pub use anywire_http as http;
#[cfg(feature = "load")]
pub use anywire_load as load;
pub use anywire_loops as loops;
#[cfg(feature = "server")]
pub use anywire_server as server;
#[cfg(feature = "stack")]
pub use anywire_stack as stack;
#[cfg(feature = "stack")]
pub use anywire_tcp as tcp;
pub use anywire_wire as wire;

pub use anywire_advice::{Chain, Help};
#[cfg(feature = "client")]
pub use anywire_client::Client;
pub use anywire_http::{Body, Bytes, Created, Headers, Method, Redirect, Response, SetCookie, StatusCode};
pub use anywire_loops::Loops;
#[cfg(feature = "server")]
pub use anywire_server::{
    Blocking, Cookies, Error, Extension, Form, FromRequest, FromRequestParts, Handler, Header, Html,
    IntoResponse, Json, Layer, Multipart, Next, Path, Query, Request, Router, Server, State, Valid,
};
pub use anywire_wire::Address;

/// The code in the README compiles.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The code of the page for users of axum compiles and runs.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../../../docs/from-axum.md")]
pub struct FromAxum;

/// The code of anywire beside that of reqwest compiles.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../../../docs/from-reqwest.md")]
pub struct FromReqwest;

/// The code of the page for users of RestClient compiles and runs.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../../../docs/from-restclient.md")]
pub struct FromRestClient;

/// The code of the page for users of Spring and Restlight compiles and runs.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../../../docs/from-spring.md")]
pub struct FromSpring;

/// The parts of programs in the guide compile. Whole programs are built and run with what their pages list.
#[cfg(all(doctest, feature = "full"))]
mod guide {
    #[doc = include_str!("../../../docs/guide/balancing.md")]
    mod balancing {}
    #[doc = include_str!("../../../docs/guide/openapi.md")]
    mod openapi {}
    #[doc = include_str!("../../../docs/guide/tls.md")]
    mod tls {}
}
