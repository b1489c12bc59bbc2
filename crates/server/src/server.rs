//! The server: addresses, loops and limits around a router, and how it starts.

#[cfg(feature = "tls")]
mod clear_text;
mod handle;
mod routes;
mod services;

use std::fmt;
use std::io;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use anywire_advice::Advice;
use anywire_advice::Chain;
use anywire_http::IntoResponse;
use anywire_loops::{self as loops, Loops, Pool, PoolLimits, PoolStartError};
#[cfg(feature = "tls")]
use anywire_wire::tls::ServerTls;
use anywire_wire::{Address, AddressError, ListenError, ListenOptions, Listener, ToAddress};

pub use self::handle::{ServerHandle, Shutdown, Stopping};
pub use self::routes::{ReplaceError, Replacing, RouterHandle};
use self::services::{Hooks, Services};
use crate::layer::{GivenLayer, Layer};
use crate::layers::Problems;
use crate::limits::Limits;
use crate::loop_choice::LoopChoice;
use crate::observe::{self, Observer, RequestLog};
use crate::pool::PoolRegistry;
use crate::refusal::{Refusal, Refusals};
use crate::router::{Generation, RouteError, Router};

/// A server to be started: its routes, addresses and loops.
///
/// ```no_run
/// use anywire_server::{Path, Router, Server};
///
/// fn main() -> Result<(), anywire_server::ServerError> {
///     Server::new(Router::new().get("/hello/{name}", async |Path(name): Path<String>| format!("Hello, {name}!")))
///         .listen("tcp:0.0.0.0:8080")
///         .listen("unix:/run/app.sock")
///         .run()?;
///     Ok(())
/// }
/// ```
pub struct Server {
    router: Router,
    /// Around all routes, the outermost first.
    layers: Vec<GivenLayer>,
    addresses: Vec<Result<Address, AddressError>>,
    listen: ListenOptions,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
    limits: Limits,
    hooks: Hooks,
    loops: LoopChoice,
    pools: PoolRegistry,
    shutdown_deadline: Duration,
    routes: RouterHandle,
}

/// Why a server cannot start, or could not go on.
///
/// Its `Debug` form is the message with its causes, so that a `main` that returns it prints a sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The routes are not right; their author's fault.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// An address is malformed; the caller's fault.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An address cannot be listened on: in use, not permitted, not there.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No address was given.
    #[error("the server has nowhere to listen{help}", help = Advice("add .listen(\"tcp:127.0.0.1:8080\")"))]
    NoAddress,
    /// The loops did not start: the system gave no thread or no descriptor.
    #[error(transparent)]
    Loops(#[from] loops::StartError),
    /// The threads of a pool did not start: their number is wrong, or the system gave no thread.
    #[error("the pool {name:?} did not start")]
    Pool {
        /// Its name.
        name: String,
        /// Why.
        source: PoolStartError,
    },
    /// All its listeners have ended by themselves: their device was removed. The server has stopped.
    #[error("nothing is listened on any more, the last was {address}")]
    ListenersEnded {
        /// Where the last one has listened.
        address: Address,
        /// Why it has ended.
        source: Arc<io::Error>,
    },
    /// The signals that end a server cannot be received.
    #[error("receiving SIGTERM and SIGINT failed")]
    Signals(#[source] io::Error),
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Chain(self), f)
    }
}

impl Server {
    /// A server for these routes, with one loop a core.
    #[must_use]
    pub fn new(router: Router) -> Self {
        Self {
            router,
            layers: Vec::new(),
            addresses: Vec::new(),
            listen: ListenOptions::default(),
            #[cfg(feature = "tls")]
            tls: None,
            limits: Limits::default(),
            hooks: Hooks::default(),
            loops: LoopChoice::PerCore,
            pools: PoolRegistry::default(),
            shutdown_deadline: Duration::from_secs(60),
            routes: RouterHandle::default(),
        }
    }

    /// Listens here, too: an [`Address`] or its text, such as `tcp:0.0.0.0:8080` or `unix:/run/app.sock`. [`start`](Self::start)
    /// reports a malformed one.
    #[must_use]
    pub fn listen(mut self, address: impl ToAddress) -> Self {
        self.addresses.push(address.to_address());
        self
    }

    /// Speaks TLS with these certificates at its addresses with TLS (`tls:`, `tls+unix:`), which need it. Certificates are
    /// renewed under way by [`ServerTls::replace`](anywire_wire::tls::ServerTls::replace).
    ///
    /// HTTP/2 and HTTP/1 are offered (ALPN), unless [`ListenOptions::protocols`] names others. A peer that speaks no TLS is
    /// told so by a response 400.
    ///
    /// ```no_run
    /// use anywire_server::{Router, Server};
    /// use anywire_wire::tls::{Identity, ServerTls, ServerTlsOptions};
    ///
    /// let options = || -> Result<ServerTlsOptions, anywire_wire::tls::TlsError> {
    ///     let identity = Identity::from_files("fullchain.pem", "privkey.pem")?;
    ///     Ok(ServerTlsOptions { identities: vec![identity], ..Default::default() })
    /// };
    /// let tls = ServerTls::new(options()?)?;
    /// let server = Server::new(Router::new()).listen("tls:0.0.0.0:8443").tls(&tls).start()?;
    /// // When the files have been renewed:
    /// tls.replace(options()?)?;
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: &ServerTls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// How to listen: backlog, file mode and the like.
    #[must_use]
    pub fn listen_options(mut self, options: ListenOptions) -> Self {
        self.listen = options;
        self
    }

    /// Wraps everything that the router answers, before the route is looked up: `next.run(request)` looks it up. So this layer may
    /// replace the method or the path of a request. Its states are those of the outermost router. Layers apply as they are added,
    /// the outermost first, outside of all layers of the router.
    ///
    /// ```no_run
    /// use anywire_server::{Next, Request, Response, Router, Server};
    ///
    /// /// Serves the paths of the first version, too.
    /// async fn first_version(mut request: Request, next: Next) -> Response {
    ///     request.strip_prefix("/v1");
    ///     next.run(request).await
    /// }
    ///
    /// let router = Router::new().get("/orders", async || "all orders");
    /// Server::new(router).layer(first_version).listen("tcp:127.0.0.1:8080").run()?;
    /// # Ok::<(), anywire_server::ServerError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn layer<L: Layer<Args>, Args: 'static>(mut self, layer: L) -> Self {
        self.layers.push(GivenLayer::new(layer, Location::caller()));
        self
    }

    /// The limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Tells this [`Observer`] of each exchange: a request, and how its response ended. Each loop gets a clone. May be called
    /// again for another one; they are told in this order.
    #[must_use]
    pub fn observe<O: Observer + Clone + Send>(mut self, observer: O) -> Self {
        self.hooks.observers.push(observe::cloned(observer));
        self
    }

    /// Logs each exchange once it has ended, by one event of `tracing` at level info with the target `anywire::access`: method,
    /// route, status, bytes of the response's body and of the request's, time, how it ended, request id, peer.
    #[must_use]
    pub fn log_requests(self) -> Self {
        self.observe(RequestLog)
    }

    /// Words all errors as problem documents (RFC 9457): what a handler, an extractor or the router answers, by [`Problems`] as the next
    /// [layer](Self::layer), and what the server refuses by itself, as the function of [`on_refusal`](Self::on_refusal), whose place it takes.
    ///
    /// ```
    /// use anywire_server::layers::Problems;
    /// use anywire_server::{Router, Server};
    ///
    /// let server = Server::new(Router::new().get("/", async || "Hello, World!")).problems(Problems::new());
    /// # drop(server);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn problems(self, problems: Problems) -> Self {
        let refused = problems.clone();
        self.layer(problems).on_refusal(move |refusal| refused.word(refusal))
    }

    /// Passes what the server answers by itself to this function, which logs it or words the response: requests that cannot be
    /// read, that are too large or late, handlers that panic or take too long (all of them: [`RefusalKind`](crate::RefusalKind)).
    ///
    /// The result is the response, as a handler's is. A status that is no error becomes the one of the refusal. The server adds
    /// what frames the response, and closes the connection where it would without this. If the function panics, or its
    /// response cannot be sent or streams, the peer gets [`Refusal::response`], as without it. It runs on the loop of the
    /// connection, so it must not block. A peer that speaks clear text to a port with TLS is answered without it. There is one such function: the
    /// last that is given here or by [`problems`](Self::problems).
    ///
    /// ```
    /// use anywire_server::layers::Problem;
    /// use anywire_server::{Refusal, Router, Server};
    ///
    /// let server = Server::new(Router::new())
    ///     .on_refusal(|refusal: &Refusal<'_>| Problem::from(refusal).title("refused"));
    /// # drop(server);
    /// ```
    #[must_use]
    pub fn on_refusal<R: IntoResponse>(
        mut self,
        hook: impl Fn(&Refusal<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        self.hooks.refusals = Refusals::by(hook);
        self
    }

    /// Runs on so many loops of its own instead of one a core.
    #[must_use]
    pub fn loops(mut self, count: usize) -> Self {
        self.loops = LoopChoice::Count(count);
        self
    }

    /// Runs on these loops, which may serve others as well and outlive the server.
    #[must_use]
    pub fn on(mut self, loops: &Loops) -> Self {
        self.loops = LoopChoice::Given(loops.clone());
        self
    }

    /// Starts a pool of threads of this name and size, for [functions that block](crate::Blocking::on_pool).
    /// [`ServerHandle::pool`] has its counters, and changes its size. It ends with the server.
    ///
    /// A name that no route has is no mistake; two pools of one name are.
    ///
    /// ```
    /// use anywire_loops::{PoolLimits, PoolOrder};
    /// use anywire_server::{Blocking, Router, Server};
    ///
    /// let report = || "a long report";
    /// let limits = PoolLimits { threads: 4, queue: 100, order: PoolOrder::LatestFirst };
    /// let router = Router::new().get("/report", report.on_pool("reports"));
    /// let server = Server::new(router).pool("reports", limits).listen("tcp:127.0.0.1:0").start()?;
    /// let pool = server.pool("reports").expect("it was given");
    /// pool.resize(8)?;
    /// assert_eq!((pool.limits().threads, pool.counters().queued), (8, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn pool(mut self, name: &str, limits: PoolLimits) -> Self {
        self.pools.add(name, limits, Location::caller());
        self
    }

    /// Lets routes run on this pool, which may serve others as well and outlive the server. Its name is that it was started with.
    ///
    /// Given as a [state](Router::state) too, it runs a part of an `async` handler: `State(pool): State<Pool>`, and
    /// `pool.run(move || ..).await?`.
    #[must_use]
    #[track_caller]
    pub fn on_pool(mut self, pool: &Pool) -> Self {
        self.pools.add_running(pool.clone(), Location::caller());
        self
    }

    /// How long [`run`](Self::run) and [`run_until`](Self::run_until) wait for requests to finish (60 s).
    #[must_use]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// Its routes, to be replaced while it runs: for a server that [`run`](Self::run) starts. After [`start`](Self::start) its
    /// [handle](ServerHandle::router) has them, too.
    ///
    /// ```no_run
    /// use anywire_server::{Router, Server};
    ///
    /// let server = Server::new(Router::new().get("/", async || "closed")).listen("tcp:0.0.0.0:8080");
    /// let routes = server.router();
    /// std::thread::spawn(move || routes.replace(Router::new().get("/", async || "open")).map(|all| all.wait()));
    /// server.run()?;
    /// # Ok::<(), anywire_server::ServerError>(())
    /// ```
    #[must_use]
    pub fn router(&self) -> RouterHandle {
        self.routes.clone()
    }

    /// All routes as a table, as [`Router::describe`] has them, within the layers of this server: those that it would start with now.
    ///
    /// # Errors
    /// The mistakes of routes that [`start`](Self::start) would report.
    pub fn describe(&self) -> Result<String, RouteError> {
        let next = self.routes.waiting();
        let router = next.as_deref().unwrap_or(&self.router);
        Ok(router.build_within(&self.layers, Generation::MIN)?.describe())
    }

    /// Starts and returns once every address is listened on. Raises the process's soft limit of file descriptors to
    /// the hard one: each connection takes one.
    ///
    /// # Errors
    /// Routes, addresses and listening are checked in this order; the first mistake is returned, and nothing runs.
    pub fn start(self) -> Result<ServerHandle, ServerError> {
        let listen = self.listening();
        let router = self.routes.take().unwrap_or_else(|| Arc::new(self.router));
        let mut table = router.build_within(&self.layers, Generation::MIN)?;
        table.check_pools(&self.pools.names()?)?;
        let addresses = self.addresses.into_iter().collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(ServerError::NoAddress);
        }
        let pools = self.pools.start()?;
        table.set_pools(&pools);
        let (loops, owns_loops) = self.loops.start()?;
        // The default limit of connections follows from it, so it comes first.
        if let Err(cause) = anywire_sys::descriptors::raise_limit() {
            tracing::warn!(%cause, "the limit of file descriptors stays as it is");
        }
        // All addresses are bound before the first connection is taken: a server starts whole or not at all.
        let listeners: Result<Vec<Listener>, ListenError> =
            addresses.iter().map(|address| Listener::bind(address, &listen, &loops)).collect();
        let services =
            Arc::new(Services::new(table, self.layers, self.limits, self.hooks, pools, loops.len()));
        let listeners = listeners?;
        self.routes.run(&services, &loops)?;
        let listeners = listeners.into_iter().map(|listener| {
            let serving = Arc::clone(&services);
            listener.limited_by(services.limit()).serve(move |connection| serving.serve(connection))
        });
        let listeners = listeners.collect();
        Ok(ServerHandle::new(services, loops, owns_loops, listeners, self.shutdown_deadline, self.routes))
    }

    /// How to listen, with what follows from HTTP.
    fn listening(&self) -> ListenOptions {
        let mut listen = self.listen.clone();
        if listen.protocols.is_empty() {
            listen.protocols = ["h2", "http/1.1"].map(str::to_owned).into();
        }
        #[cfg(feature = "tls")]
        {
            listen.tls = self.tls.clone().or(listen.tls);
            listen.answer_to_clear_text.get_or_insert(clear_text::answer);
        }
        listen
    }

    /// Starts, and serves until SIGTERM or SIGINT. Then stops accepting, lets requests finish until the shutdown
    /// deadline, and returns. A second signal ends it at once. Blocks the calling thread; not to be called on a loop.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`ServerError::Signals`].
    pub fn run(self) -> Result<Shutdown, ServerError> {
        let mut server = self.start()?;
        server.register_signals()?;
        for address in server.addresses() {
            tracing::info!(%address, "listening");
        }
        server.wait_for_signal()
    }

    /// Starts, and serves until the future is ready. Then stops accepting, lets requests finish until the shutdown
    /// deadline, and returns the future's output beside its own outcome. Runs within any runtime and blocks none of its
    /// threads: the server has loops of its own.
    ///
    /// Every address is listened on before the future is polled for the first time, so the future may call the server.
    /// If the server does not start, the future is never polled.
    ///
    /// ```
    /// use anywire_server::{Router, Server, ServerError};
    ///
    /// #[tokio::main(flavor = "current_thread")]
    /// async fn main() -> Result<(), ServerError> {
    ///     let (stop, stopped) = tokio::sync::oneshot::channel();
    ///     let server = Server::new(Router::new().get("/", async || "Hello, World!")).loops(1).listen("tcp:127.0.0.1:0");
    ///     # stop.send("enough").expect("it is awaited below");
    ///     let (reason, shutdown) = server.run_until(stopped).await?;
    ///     println!("stopped: {reason:?}, {} connections were cut", shutdown.connections_cut);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn run_until<F: Future>(self, until: F) -> Result<(F::Output, Shutdown), ServerError> {
        let deadline = self.shutdown_deadline;
        let no_thread = |cause| ServerError::Loops(loops::StartError::Thread(cause));
        let started = handle::on_own_thread(move || self.start()).map_err(no_thread)?;
        // The thread sends unless `start` panics.
        let server = started.await.map_err(|_| ServerError::Loops(loops::StartError::Died))??;
        let output = until.await;
        Ok((output, server.shutdown(deadline).await))
    }
}
