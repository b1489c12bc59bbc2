//! The part of a client that all its loops share: settings, the loops themselves, and where the next call goes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anywire_http::{Method, Url, gateway, h2};
use anywire_loops::{LoopHandle, LoopState, Loops, WeakLoops};
use anywire_wire::names::Names;
#[cfg(feature = "tls")]
use anywire_wire::tls::{ClientTls, TlsError};
use anywire_wire::{Connection, DialOptions, Dialer};

use crate::balance::Balance;
use crate::by_origin::ByOrigin;
use crate::chain::{Links, Redirects, Retries};
use crate::connector::Network;
use crate::counters::{Cells, ClientCounters};
use crate::latencies::Latencies;
use crate::learnt::LearntOrigins;
use crate::local::Local;
use crate::observe::Observers;
use crate::origin_counters::Past;
use crate::origin_options::Origins;
use crate::pipeline::Pipelines;
use crate::quota::Quotas;
use crate::request::CallRequest;
use crate::{Error, Limits, Timeouts};

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) versions: Versions,
    pub(crate) network: Network,
    /// Several addresses for some origins.
    pub(crate) balances: ByOrigin<Balance>,
    /// Origins whose calls share connections of HTTP/1.
    pub(crate) pipelines: Pipelines,
    /// Where addresses come from.
    pub(crate) names: Names,
    pub(crate) interceptors: Links,
    /// Whether there is any link around the attempts of all calls.
    pub(crate) has_links: bool,
    /// Whether connections of HTTP/1 carry more than one call.
    pub(crate) keep_alive: bool,
    /// From which size on a body waits for a 100. None: none does.
    pub(crate) expect_continue: Option<u64>,
    /// None: the usual ones.
    pub(crate) codecs: Option<Arc<crate::codec::Codecs>>,
    /// Rules, cookies and credentials, in this order.
    pub(crate) hop_links: Links,
    pub(crate) attempt_interceptors: Links,
    #[cfg(feature = "signatures")]
    pub(crate) signatures: crate::auth::Signatures,
    /// Of calls that have none.
    pub(crate) user_agent: Option<String>,
    pub(crate) redirects: Arc<Redirects>,
    pub(crate) retries: Arc<Retries>,
    /// Are told of attempts and connections.
    pub(crate) observers: Observers,
    /// Whether the time of each phase is recorded.
    pub(crate) measures: bool,
    /// None: as the platform has it.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Result<ClientTls, Arc<TlsError>>>,
    /// The name that peers have to prove, if it is not the host of the URL.
    #[cfg(feature = "tls")]
    pub(crate) server_name: Option<String>,
}

/// The versions of HTTP that a client speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Versions {
    /// What the handshake agrees on; without one, HTTP/1.
    #[default]
    Negotiated,
    Http1,
    /// HTTP/2, which the peer is known to speak.
    Http2,
}

impl Config {
    /// The limits of an HTTP/2 connection.
    pub(crate) fn http2(&self) -> h2::Limits {
        h2::Limits { head: self.limits.head, ..self.limits.http2 }
    }

    /// Whether something sees every attempt.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.measures || !self.observers.is_empty()
    }

    /// The protocols to offer in a handshake.
    pub(crate) fn offers(&self) -> Vec<String> {
        let names: &[&str] = match self.versions {
            Versions::Negotiated => &["h2", "http/1.1"],
            Versions::Http1 => &["http/1.1"],
            Versions::Http2 => &["h2"],
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// How connections for `host` are dialled. `needs_tls`: with it, or a proxy on the way is spoken to over TLS.
    pub(crate) fn dialer(&self, host: &str, needs_tls: bool) -> Result<Dialer, Error> {
        let options = DialOptions {
            local_address: self.network.local_address,
            socket: self.network.socket.clone(),
            names: self.names.clone(),
            resolve_timeout: self.timeouts.resolve,
            connect_timeout: self.timeouts.connect,
            handshake_timeout: self.timeouts.handshake,
            server_name: Some(self.server_name(host)),
            protocols: self.offers(),
            ..DialOptions::default()
        };
        #[cfg(feature = "tls")]
        if needs_tls {
            let tls = self.tls.clone().transpose().map_err(|source| Error::Tls { source })?;
            return Ok(Dialer::new(DialOptions { tls, ..options }));
        }
        let _ = needs_tls;
        Ok(Dialer::new(options))
    }

    fn server_name(&self, host: &str) -> String {
        #[cfg(feature = "tls")]
        if let Some(name) = &self.server_name {
            return name.clone();
        }
        host.to_owned()
    }

    /// Whether the handshake of TLS has agreed on a version that the client speaks.
    pub(crate) fn agrees_with(&self, connection: &Connection) -> bool {
        self.versions != Versions::Http2 || agreed_on_http2(connection)
    }

    /// Whether a call goes through the chain from its start.
    #[inline]
    pub(crate) fn has_links(&self, request: &CallRequest) -> bool {
        #[cfg(feature = "signatures")]
        if request.options.signer.is_some() {
            return true;
        }
        let _ = request;
        self.has_links
    }

    /// How a call follows redirects.
    pub(crate) fn redirects_of(&self, request: &CallRequest) -> Arc<Redirects> {
        Arc::clone(request.options.redirects.as_ref().unwrap_or(&self.redirects))
    }

    /// How a call is repeated.
    pub(crate) fn retries_of<'a>(&'a self, request: &'a CallRequest) -> &'a Retries {
        request.options.retries.as_ref().unwrap_or(&self.retries)
    }

    /// Whether a new connection speaks HTTP/2.
    pub(crate) fn speaks_http2(&self, connection: &Connection) -> bool {
        match self.versions {
            Versions::Negotiated => agreed_on_http2(connection),
            Versions::Http1 => false,
            Versions::Http2 => true,
        }
    }
}

fn agreed_on_http2(connection: &Connection) -> bool {
    connection.negotiated().is_some_and(|agreed| agreed.protocol.as_deref() == Some("h2"))
}

/// What the handles, the futures and the loops of one client share. Nothing here is written on the way of a call that
/// is made on a loop.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Tells clients apart in the loop-local list.
    id: u64,
    config: Arc<Config>,
    loops: OnceLock<ClientLoops>,
    /// Held while own loops start, so that they start once.
    starting: Mutex<()>,
    /// Counts calls from outside, which take the loops in turn.
    turn: AtomicUsize,
    /// It keeps no idle connection from now on.
    retired: AtomicBool,
    closed: AtomicBool,
    /// What was counted for each origin.
    past: Past,
    /// How long the phases of its calls take.
    latencies: Latencies,
    /// Which version each origin speaks.
    learnt: LearntOrigins,
    /// How many connections each origin has.
    quotas: Quotas,
    origins: Origins,
    /// Calls that their callers dropped before the response. A full queue looks through its waiters only if this moved.
    abandoned: AtomicU64,
    /// Connections that were made.
    connections: AtomicU64,
}

impl Inner {
    pub(crate) fn new(config: Config, origins: Origins, loops: Option<&Loops>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        gateway::know_calls(Error::status_of);
        let cell = OnceLock::new();
        if let Some(loops) = loops {
            // The cell is new, so this cannot be the second value.
            let _ = cell.set(ClientLoops::of(loops));
        }
        Self {
            past: Past::new(config.limits.origins),
            latencies: Latencies::new(config.limits.origins),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            config: Arc::new(config),
            loops: cell,
            starting: Mutex::new(()),
            turn: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            learnt: LearntOrigins::default(),
            quotas: Quotas::default(),
            origins,
            abandoned: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    pub(crate) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    pub(crate) fn origins(&self) -> &Origins {
        &self.origins
    }

    /// A request with the options that its origin has.
    pub(crate) fn request(&self, method: Method, url: Url) -> Result<Box<CallRequest>, Error> {
        let own = self.origins.config_of(url.origin())?;
        Ok(Box::new(CallRequest::new(method, url, own.as_ref().unwrap_or(&self.config))))
    }

    /// The settings of an origin. A fault in them is the error of each call.
    pub(crate) fn config_of(&self, origin: &str) -> Arc<Config> {
        let own = self.origins.config_of(origin).unwrap_or_default();
        own.unwrap_or_else(|| Arc::clone(&self.config))
    }

    /// The settings that hold for a request: those of its origin, if that has some.
    pub(crate) fn config_for(&self, request: &CallRequest) -> Arc<Config> {
        self.config_of(request.url.origin())
    }

    /// Has calls to an origin go by its new options.
    pub(crate) fn renew_pools(&self, origin: &str) {
        self.learnt.forget(origin);
        self.quotas.set_cap(origin, || self.config_of(origin).limits.connections_per_origin);
        let (id, origin) = (self.id, Arc::<str>::from(origin));
        for index in 0..self.started().len() {
            let origin = Arc::clone(&origin);
            self.on_loop(index, move || Local::find(id).into_iter().for_each(|local| local.renew(&origin)));
        }
    }

    pub(crate) fn learnt(&self) -> &LearntOrigins {
        &self.learnt
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Has the pools of one of the loops swept, because another loop wants or gives back connections.
    #[cold]
    pub(crate) fn look_at_pools(&self, index: usize) {
        let id = self.id;
        self.on_loop(index, move || Local::find(id).into_iter().for_each(|local| local.look_at_pools()));
    }

    /// Does something on one of the loops, in its next turn.
    pub(crate) fn on_loop(&self, index: usize, act: impl FnOnce() + Send + 'static) {
        if let Some(one) = self.started().get(index) {
            drop(one.handle.spawn_always(move || {
                act();
                std::future::ready(())
            }));
        }
    }

    pub(crate) fn set_retired(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// No new call is taken from now on.
    pub(crate) fn set_closed(&self) {
        self.set_retired();
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(crate) fn count_abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections were made before this one.
    pub(crate) fn count_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// The index of the current loop, if it is one of the client's.
    pub(crate) fn current_loop(&self) -> Option<usize> {
        let current = anywire_loops::current()?;
        self.loops.get()?.list.iter().position(|one| one.handle.same_as(&current))
    }

    /// The client's loops, started now if it has none yet.
    pub(crate) fn loops(&self) -> Result<&ClientLoops, Error> {
        if let Some(loops) = self.loops.get() {
            return Ok(loops);
        }
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loops) = self.loops.get() {
            return Ok(loops);
        }
        let loops = shared_loops()?;
        Ok(self.loops.get_or_init(|| ClientLoops { own: Some(loops.clone()), ..ClientLoops::of(&loops) }))
    }

    /// Whether this loop runs, and is not dropping its last tasks.
    pub(crate) fn runs(&self, index: usize) -> bool {
        self.loops.get().is_some_and(|loops| loops.list[index].handle.state() == LoopState::Running)
    }

    /// The loop for a call from outside: each loop that may have connections, in turn. Loops that have ended are
    /// skipped. If all have ended, the call fails on the next one.
    pub(crate) fn next_loop(&self, loops: &ClientLoops, owners: usize) -> usize {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let runs = |&index: &usize| loops.list[index].handle.state() == LoopState::Running;
        (0..owners).map(|skipped| turn.wrapping_add(skipped) % owners).find(runs).unwrap_or(turn % owners)
    }

    /// The loops that have connections to the origin of a URL: the first ones, if the cap is below the number of loops. They serve the
    /// calls that are made on the others.
    pub(crate) fn owners(&self, loops: &ClientLoops, url: &Url) -> usize {
        let connections = match self.origins.config_of(url.origin()) {
            Ok(Some(config)) => config.limits.connections_per_origin,
            _ => self.config.limits.connections_per_origin,
        };
        connections.min(loops.list.len())
    }

    pub(crate) fn counters(&self) -> ClientCounters {
        ClientCounters { per_loop: self.started().iter().map(|one| one.cells.read()).collect() }
    }

    /// The loops that calls were placed on.
    pub(crate) fn used_loops(&self) -> impl Iterator<Item = &ClientLoop> {
        self.started().iter().filter(|one| one.used.load(Ordering::Acquire))
    }

    fn started(&self) -> &[ClientLoop] {
        self.loops.get().map(|loops| loops.list.as_slice()).unwrap_or_default()
    }
}

/// The loops of all clients of this process that were given none: one per core, for as long as one of them is there. A process that
/// was forked has none of its parent's threads.
fn shared_loops() -> Result<Loops, Error> {
    static SHARED: Mutex<Option<(u32, WeakLoops)>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    let known = shared.as_ref().filter(|(of, _)| *of == process).and_then(|(_, loops)| loops.upgrade());
    let run = |loops: &Loops| loops.iter().all(|one| one.state() == LoopState::Running);
    if let Some(loops) = known.filter(run) {
        return Ok(loops);
    }
    let loops = Loops::builder().name("anywire-client").start()?;
    *shared = Some((process, loops.downgrade()));
    Ok(loops)
}

/// The loops of a client.
#[derive(Debug)]
pub(crate) struct ClientLoops {
    pub(crate) list: Vec<ClientLoop>,
    /// Keeps the loops of clients that were given none. Loops that were given belong to the giver, who may end them.
    #[expect(dead_code, reason = "it is there to be dropped")]
    own: Option<Loops>,
}

impl ClientLoops {
    /// The loop that serves the calls of loop `index`, if so many have connections.
    #[inline]
    pub(crate) fn owner(&self, index: usize, owners: usize) -> usize {
        if index < owners { index } else { index % owners }
    }

    fn of(loops: &Loops) -> Self {
        let one = |handle| ClientLoop { handle, cells: Arc::default(), used: AtomicBool::new(false) };
        Self { list: loops.iter().map(one).collect(), own: None }
    }
}

/// One loop of a client.
#[derive(Debug)]
pub(crate) struct ClientLoop {
    pub(crate) handle: LoopHandle,
    pub(crate) cells: Arc<Cells>,
    /// Whether a call was ever placed there, so that only those loops are visited at the end.
    pub(crate) used: AtomicBool,
}
