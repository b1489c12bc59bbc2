//! Leaving HTTP: a handler accepts, and the connection goes to its continuation (RFC 9110 section 7.8), or one stream of it
//! (RFC 8441).

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;

use anywire_http::h2::Protocol;
use anywire_http::{IntoResponse, Method, Response, StatusCode, Version};
use anywire_mux::Upgraded;
use anywire_sys::thread_bound::ThreadBound;

use crate::extract::{FromRequestParts, OptionalFromRequestParts};
use crate::request::Parts;
use crate::respond::Error;

/// A request to go on in another protocol on the same connection, or over HTTP/2 on the same stream, by an extended CONNECT such
/// as WebSocket's. The method of that is GET to handlers, so that one route serves both. A handler takes it as an argument and
/// [accepts](Self::accept) one of the protocols that the peer offers.
///
/// A request that offers none, or is a HEAD, is answered 400; take an `Option<Upgrade>` to answer such a request yourself. The
/// continuation runs on the connection's loop. The deadlines of HTTP no longer apply to it, the limit of connections
/// does, and a shutdown waits for it until its deadline. [`Parts::stopping`] tells it of the shutdown. A continuation that
/// moves the connection into a task of its own takes it out of the shutdown: that neither waits for it nor cuts it.
/// Over HTTP/1 a request with a body that the handler does not read is answered 400.
///
/// Clients may send an extended CONNECT only where [`h2::Limits::extended_connect`](anywire_http::h2::Limits::extended_connect)
/// says so. To one that no handler accepts a 2xx is replaced by a 501, since it would promise the other protocol.
///
/// ```
/// use anywire_server::{Router, Upgrade, Upgraded};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// async fn echo(mut connection: Upgraded) {
///     let mut buffer = [0; 1024];
///     while let Ok(read @ 1..) = connection.read(&mut buffer).await {
///         let Ok(()) = connection.write_all(&buffer[..read]).await else { return };
///         // A wire such as TLS may hold bytes back until they are flushed.
///         let Ok(()) = connection.flush().await else { return };
///     }
/// }
///
/// let router = Router::new().get("/echo", async |upgrade: Upgrade| upgrade.accept("echo", echo));
/// # drop(router);
/// ```
#[derive(Debug)]
pub struct Upgrade {
    offered: Vec<String>,
    version: Version,
}

impl Upgrade {
    /// The protocols that the peer offers, in its order, such as `websocket`.
    pub fn offered(&self) -> impl Iterator<Item = &str> {
        self.offered.iter().map(String::as_str)
    }

    /// Answers 101, or 200 over HTTP/2, and runs `continuation` with the connection once the response has left. The names of protocols are
    /// compared without their case. Add the fields that the protocol needs to the response.
    ///
    /// Answers 426, or 501 over HTTP/2, if the peer does not offer this protocol. The response carries the continuation, which goes with it: another
    /// response, or another status, leaves the connection with HTTP. Dropped on another thread than the handler's, it is
    /// leaked.
    pub fn accept<C, F>(self, protocol: &str, continuation: C) -> Response
    where
        C: FnOnce(Upgraded) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let is_stream = self.version == Version::HTTP_2;
        if !self.offered().any(|offered| offered.eq_ignore_ascii_case(protocol)) {
            if is_stream {
                let message = format!("this path speaks {protocol}; ask for it by `:protocol`");
                return (StatusCode::NOT_IMPLEMENTED, message).into_response();
            }
            let message = format!("this path speaks {protocol}; offer it in a field `upgrade`");
            return (StatusCode::UPGRADE_REQUIRED, message).into_response().header("upgrade", protocol);
        }
        Continuation::new(continuation).on(match is_stream {
            true => Response::new(StatusCode::OK),
            false => Response::new(StatusCode::SWITCHING_PROTOCOLS).header("upgrade", protocol),
        })
    }
}

/// A request for a tunnel to the host that its target names (CONNECT, RFC 9110 section 9.3.6), for a handler of
/// [`Router::connect`](crate::Router::connect). The server opens no connection to that host: the handler does, if it may be asked for, and
/// then [accepts](Self::accept).
///
/// What holds for the continuation of an [`Upgrade`] holds for that of a tunnel. Over HTTP/2 it has a stream, and the others of the
/// connection go on. A 2xx without a continuation is replaced by a 500, because it would promise a tunnel. On a request of another method
/// this argument is refused with 400.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::{Error, Response, Router, Tunnel, guards};
/// use tokio::net::TcpStream;
///
/// async fn tunnel(tunnel: Tunnel) -> Result<Response, Error> {
///     let refused = |cause| Error::new(StatusCode::BAD_GATEWAY, "that host cannot be reached").caused_by(cause);
///     let mut there = TcpStream::connect(tunnel.authority()).await.map_err(refused)?;
///     Ok(tunnel.accept(async move |mut here| {
///         let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
///     }))
/// }
///
/// let router = Router::new().merge(Router::new().connect(tunnel).when(guards::host("*.build.example:443")));
/// # drop(router);
/// ```
#[derive(Debug)]
pub struct Tunnel {
    authority: String,
}

impl Tunnel {
    /// Host and port that the tunnel is to lead to, such as `example.com:443`. The peer chooses it: check it before you connect.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Answers 200, and runs `continuation` with the connection, or the stream, once the head of the response has left. The response carries
    /// it, as that of [`Upgrade::accept`] does.
    pub fn accept<C, F>(self, continuation: C) -> Response
    where
        C: FnOnce(Upgraded) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        Continuation::new(continuation).on(Response::new(StatusCode::OK))
    }
}

impl FromRequestParts for Tunnel {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Error> {
        match parts.head().authority().filter(|_| !Self::is_absent(parts)) {
            Some(authority) => Ok(Self { authority: authority.to_owned() }),
            None => {
                Err(Error::new(StatusCode::BAD_REQUEST, "this is for CONNECT, with host:port as its target"))
            }
        }
    }
}

impl OptionalFromRequestParts for Tunnel {
    fn is_absent(parts: &Parts) -> bool {
        *parts.method() != Method::CONNECT
    }
}

impl FromRequestParts for Upgrade {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Error> {
        if Self::is_absent(parts) {
            let message =
                "this path answers requests to upgrade; send `connection: upgrade` and `upgrade: PROTOCOL`";
            return Err(Error::new(StatusCode::BAD_REQUEST, message));
        }
        let offered = match parts.extensions().get::<Protocol>() {
            Some(Protocol(name)) => vec![name.to_string()],
            None => tokens(parts, "upgrade").map(str::to_owned).collect(),
        };
        Ok(Self { offered, version: parts.version() })
    }
}

impl OptionalFromRequestParts for Upgrade {
    fn is_absent(parts: &Parts) -> bool {
        if parts.extensions().get::<Protocol>().is_some() {
            return false;
        }
        // A 1.0 client cannot upgrade (RFC 9110 section 7.8). HEAD asks what GET would answer, and is no GET.
        parts.version() != Version::HTTP_11
            || *parts.method() == Method::HEAD
            || !tokens(parts, "connection").any(|token| token.eq_ignore_ascii_case("upgrade"))
            // A proxy may set `connection: upgrade` for each request. Without a protocol nothing is asked for.
            || tokens(parts, "upgrade").next().is_none()
    }
}

/// The tokens of a field that holds a list.
fn tokens<'p>(parts: &'p Parts, field: &str) -> impl Iterator<Item = &'p str> {
    let values = parts.headers().get_all(field).filter_map(|value| str::from_utf8(value).ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// What a handler goes on with once its response has left.
pub(crate) struct Continuation(Box<dyn FnOnce(Upgraded) -> UpgradeFuture>);

/// A continuation at work.
pub(crate) type UpgradeFuture = Pin<Box<dyn Future<Output = ()>>>;

/// How a response carries its continuation. A response may go to any thread, a continuation stays on its loop.
#[derive(Clone)]
struct Accepted(Arc<ThreadBound<RefCell<Option<Continuation>>>>);

impl Continuation {
    fn new<C, F>(continuation: C) -> Self
    where
        C: FnOnce(Upgraded) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        // Called within the future, so that a panic of the continuation is caught with the others.
        Self(Box::new(|connection| Box::pin(async move { continuation(connection).await })))
    }

    /// The response that carries it.
    fn on(self, mut response: Response) -> Response {
        let accepted = Accepted(Arc::new(ThreadBound::new(RefCell::new(Some(self)))));
        response.extensions_mut().insert(accepted);
        response
    }

    /// Whether a response carries one.
    pub(crate) fn is_in(response: &Response) -> bool {
        let accepted = response.extensions().get::<Accepted>().and_then(|accepted| accepted.0.get());
        accepted.is_some_and(|accepted| accepted.borrow().is_some())
    }

    /// Takes it from the response that carries it.
    pub(crate) fn take_from(response: &Response) -> Option<Self> {
        response.extensions().get::<Accepted>()?.0.get()?.take()
    }

    /// Goes on with the connection.
    pub(crate) fn run(self, connection: Upgraded) -> UpgradeFuture {
        (self.0)(connection)
    }
}
