//! How a client is made: builder values only, so that two clients of a process may differ in everything.

use std::sync::Arc;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::names::{Hosts, Names, Resolver};
#[cfg(feature = "tls")]
use anywire_wire::tls::{ClientTls, TlsError};

use crate::balancer::balance::Balance;
use crate::chain::{Interceptor, Links, Redirects, Retries};
use crate::client::by_origin::ByOrigin;
use crate::client::config::{Config, Versions};
use crate::client::handle::Handle;
use crate::client::inner::Inner;
use crate::client::origin_options::{OriginOptions, Origins};
use crate::connection::pipeline::Pipelines;
use crate::connector::Network;
use crate::observe::Observers;
use crate::{Client, Limits, Timeouts};

/// Makes a [`Client`].
///
/// ```
/// use std::time::Duration;
/// use anywire_client::{Client, Limits};
///
/// let client = Client::builder()
///     .limits(Limits { connections_per_origin: 8, ..Limits::default() })
///     .read_timeout(Duration::from_secs(2))
///     .build();
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct ClientBuilder {
    loops: Option<Loops>,
    limits: Limits,
    timeouts: Timeouts,
    versions: Versions,
    pub(crate) network: Network,
    names: Names,
    balances: ByOrigin<Balance>,
    origins: ByOrigin<OriginOptions>,
    pub(crate) pipelines: Pipelines,
    interceptors: Links,
    pub(crate) credentials: crate::auth::Credentials,
    #[cfg(feature = "rules")]
    pub(crate) rules: Option<crate::rules::Rules>,
    #[cfg(feature = "cookies")]
    pub(crate) cookies: Option<crate::cookies::CookieJar>,
    /// Set if connections carry one call each.
    one_call_each: bool,
    expect_continue: Option<u64>,
    pub(crate) codecs: Option<Arc<crate::codec::Codecs>>,
    attempt_interceptors: Links,
    #[cfg(feature = "signatures")]
    pub(crate) signatures: crate::auth::Signatures,
    user_agent: Option<String>,
    redirects: Arc<Redirects>,
    retries: Arc<Retries>,
    pub(crate) observers: Observers,
    pub(crate) measures: bool,
    #[cfg(feature = "tls")]
    tls: Option<Result<ClientTls, Arc<TlsError>>>,
    #[cfg(feature = "tls")]
    server_name: Option<String>,
}

impl ClientBuilder {
    /// The loops that carry the calls, such as the loops of a server in the same process, or a set for a test. The client does
    /// not end them. Once they have ended, calls are [`Error::Loop`](crate::Error::Loop). Without this all clients of the
    /// process share one set, one loop per core: it starts at the first call, and ends with the last of these clients.
    pub fn on(mut self, loops: &Loops) -> Self {
        self.loops = Some(loops.clone());
        self
    }

    /// How much of each thing the client may hold.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// All deadlines at once.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// [`Timeouts::acquire`].
    pub fn acquire_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.acquire = limit;
        self
    }

    /// [`Timeouts::resolve`].
    pub fn resolve_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.resolve = limit;
        self
    }

    /// [`Timeouts::connect`].
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.connect = limit;
        self
    }

    /// [`Timeouts::handshake`].
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.handshake = limit;
        self
    }

    /// [`Timeouts::write`].
    pub fn write_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.write = limit;
        self
    }

    /// [`Timeouts::first_byte`].
    pub fn first_byte_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.first_byte = Some(limit);
        self
    }

    /// [`Timeouts::read`].
    pub fn read_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.read = limit;
        self
    }

    /// [`Timeouts::stream`] and [`Timeouts::forwarded`].
    pub fn stream_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.stream = limit;
        self.timeouts.forwarded = limit;
        self
    }

    /// [`Timeouts::total`] and [`Timeouts::stream_total`]: the whole call up to the last byte of its body, collected or not.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.total = limit;
        self.timeouts.stream_total = limit;
        self
    }

    /// [`Timeouts::idle`].
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.idle = limit;
        self
    }

    /// Where the addresses of names come from, with a cache of this client's own. Without this the client asks the system, by a
    /// cache that the process shares. Forgets [`hosts`](Self::hosts) that were given before.
    pub fn resolver(self, resolver: impl Resolver) -> Self {
        self.names(Names::new(resolver))
    }

    /// A [`resolver`](Self::resolver) with other limits, or with a cache that clients share.
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// Addresses for some names, and other places for some places. The `host` of a request and the name that the peer has to prove
    /// stay the URL's.
    ///
    /// ```
    /// use anywire_client::Client;
    /// use anywire_wire::names::Hosts;
    ///
    /// let hosts = Hosts::default().add("shop.internal", ["10.0.0.1:0".parse().unwrap()]);
    /// let client = Client::builder().hosts(hosts).build();
    /// ```
    pub fn hosts(mut self, hosts: Hosts) -> Self {
        self.names = self.names.with_hosts(hosts);
        self
    }

    /// The addresses of an origin, such as `http://shop.internal`, or that its host's are to share its calls: see [`Balance`]. Calls
    /// that name their wire ([`via`](crate::Call::via)) go there. A fault in an argument is the error of each call to an origin that is
    /// balanced, and of any call if the origin is none.
    ///
    /// ```
    /// # use anywire_client::{Balance, Client};
    /// let client = Client::builder()
    ///     .balance("http://shop.internal", ["tcp:10.0.0.1:80", "unix:/run/shop.sock"])
    ///     .balance("https://api.example.com", Balance::over_name().round_robin())
    ///     .build();
    /// ```
    pub fn balance(mut self, origin: impl AsRef<str>, balance: impl Into<Balance>) -> Self {
        self.balances.add(origin.as_ref(), balance.into());
        self
    }

    /// Options of one origin, such as `http://shop.internal`, in place of the client's: see [`OriginOptions`]. They may
    /// [change](Client::set_origin_options) while the client runs. Options of a call come before both. If that is no origin, it is the
    /// error of each call.
    pub fn origin_options(mut self, origin: impl AsRef<str>, options: OriginOptions) -> Self {
        self.origins.add(origin.as_ref(), options);
        self
    }

    /// After this time without a byte from the peer, an HTTP/2 connection is asked by a ping whether the peer is there:
    /// [`ping_interval`](anywire_http::h2::Limits::ping_interval) of [`Limits::http2`]. Without this it never is.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.limits.http2.ping_interval = Some(interval);
        self
    }

    /// Bodies of so many bytes, and those of unknown length, wait until the peer asks for them by a 100 (RFC 9110 section 10.1.1), for
    /// [`Timeouts::expect`] at most. A final status before that spares the body: over HTTP/1 the connection is closed then, over HTTP/2
    /// the stream is reset. After a 417 the call is sent once more, without this. Default: no body waits, as that costs a round trip.
    pub fn expect_continue(mut self, min_bytes: u64) -> Self {
        self.expect_continue = Some(min_bytes);
        self
    }

    /// Whether a connection of HTTP/1 is kept for the next call. With `false` each call has a connection of its own, whose request says
    /// `connection: close` (RFC 9112 section 9.6). Connections of HTTP/2 carry many calls in any case, and stay for
    /// [`Timeouts::idle`]. Default `true`.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.one_call_each = !keep_alive;
        self
    }

    /// HTTP/1 only, whatever the peer offers.
    pub fn http1_only(mut self) -> Self {
        self.versions = Versions::Http1;
        self
    }

    /// HTTP/2 only, without asking the peer. Without this a client speaks HTTP/2 if the handshake of the wire agrees on it
    /// (ALPN), else HTTP/1. A clear-text wire has no such handshake. Over TLS the peer is asked (RFC 9113 section 3.2), and
    /// nothing is sent to one that does not agree.
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.versions = Versions::Http2;
        self
    }

    /// Adds an [interceptor](Interceptor) around each call: around its redirects and retries. The first one that is added is the
    /// outermost.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(interceptor);
        self
    }

    /// Adds an [interceptor](Interceptor) around each attempt of a call, inside of redirects and retries. The first one that is
    /// added is the outermost.
    pub fn intercept_attempts(mut self, interceptor: impl Interceptor) -> Self {
        self.attempt_interceptors.push(interceptor);
        self
    }

    /// The field `user-agent` (RFC 9110 section 10.1.5) of the calls that have none. What is [forwarded](Client::forward) stays as
    /// it came. A value that no field may have is [`Error::Header`](crate::Error::Header) of each call. Default: none is sent.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = Some(name.into());
        self
    }

    /// How redirects are followed, or how many: [`Redirects`]. Default: 5, and none of a call that
    /// [forwards](Client::forward).
    pub fn redirects(mut self, redirects: impl Into<Redirects>) -> Self {
        self.redirects = Arc::new(redirects.into());
        self
    }

    /// How attempts are repeated, or how often: [`Retries`]. Default: 2.
    pub fn retries(mut self, retries: impl Into<Retries>) -> Self {
        self.retries = Arc::new(retries.into());
        self
    }

    /// How TLS is spoken: whom the client trusts, what it shows as its own certificate, which versions it takes. Takes
    /// [`ClientTlsOptions`](anywire_wire::tls::ClientTlsOptions), or a [`ClientTls`](anywire_wire::tls::ClientTls) that
    /// clients may share. Without this the client trusts what the platform trusts. A fault in the options is
    /// [`Error::Tls`](crate::Error::Tls) of each call that needs TLS.
    ///
    /// ```no_run
    /// use anywire_client::Client;
    /// use anywire_wire::tls::{ClientTlsOptions, Roots};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let roots = Roots::only_file("/etc/our/root.pem")?;
    /// let client = Client::builder().tls(ClientTlsOptions { roots, ..Default::default() }).build();
    /// let response = client.get("https://shop.internal/orders").send().await?;
    /// println!("{:?}", response.tls().and_then(|tls| tls.version.as_deref()));
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: impl anywire_wire::tls::ToClientTls) -> Self {
        self.tls = Some(tls.to_client_tls().map_err(Arc::new));
        self
    }

    /// The name that every peer must prove over TLS, and that it is asked for (SNI), instead of the host of the URL.
    #[cfg(feature = "tls")]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The client. It neither dials nor starts a loop before its first call.
    pub fn build(self) -> Client {
        let limits = self.limits.at_least_one();
        let mut hop_links = Links::default();
        #[cfg(feature = "rules")]
        self.rules.into_iter().for_each(|rules| hop_links.push(rules));
        self.credentials.link(&mut hop_links);
        let mut attempt_links = Links::default();
        // For each attempt: one whose response sets a cookie and is tried again goes out with it.
        #[cfg(feature = "cookies")]
        self.cookies.into_iter().for_each(|jar| attempt_links.push(jar.into_link()));
        attempt_links.append(self.attempt_interceptors);
        let has_links = [&self.interceptors, &hop_links, &attempt_links].iter().any(|it| !it.is_empty());
        #[cfg(feature = "signatures")]
        let has_links = has_links || self.signatures.is_set();
        let config = Config {
            has_links,
            limits,
            timeouts: self.timeouts,
            versions: self.versions,
            network: self.network.built(),
            names: self.names,
            balances: self.balances,
            pipelines: self.pipelines,
            interceptors: self.interceptors,
            hop_links,
            keep_alive: !self.one_call_each,
            expect_continue: self.expect_continue,
            codecs: self.codecs,
            attempt_links,
            #[cfg(feature = "signatures")]
            signatures: self.signatures,
            user_agent: self.user_agent,
            redirects: self.redirects,
            retries: self.retries,
            observers: self.observers,
            measures: self.measures,
            #[cfg(feature = "tls")]
            tls: self.tls,
            #[cfg(feature = "tls")]
            server_name: self.server_name,
        };
        let origins = Origins::new(self.origins, &config);
        Client { handle: Arc::new(Handle(Arc::new(Inner::new(config, origins, self.loops.as_ref())))) }
    }
}

impl Client {
    /// A client with default limits and deadlines, on the loops that clients [share](ClientBuilder::on).
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A client with other loops, limits or deadlines.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}
