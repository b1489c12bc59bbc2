//! A resolver with its cache, as dials use it: one query for many callers, on any loop.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anywire_loops::clock::precise;
use tokio::sync::watch;

use super::cache::{Cache, Found, Key, Told};
use super::cool_down::CoolDown;
use super::hosts::Hosts;
use super::limits::Limits;
use super::resolver::{Records, ResolveError, Resolver};
use super::system::SystemResolver;

/// A [`Resolver`] with a cache above it, and static [`Hosts`]. Clones share the resolver and the cache. So do loops.
///
/// The default asks the system. All defaults of a process share one cache and one set of threads.
///
/// ```no_run
/// use anywire_wire::names::{Hosts, Names};
/// use anywire_wire::{DialOptions, Dialer};
///
/// # async fn f() -> Result<(), anywire_wire::DialError> {
/// let hosts = Hosts::default().add("shop.internal", ["10.0.0.1:0".parse().unwrap()]);
/// let dialer = Dialer::new(DialOptions { names: Names::default().with_hosts(hosts), ..DialOptions::default() });
/// let connection = dialer.dial("tcp:shop.internal:80").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Names {
    shared: Arc<Shared>,
    hosts: Arc<Hosts>,
}

struct Shared {
    resolver: Box<dyn Resolver>,
    state: Mutex<State>,
}

struct State {
    cache: Cache,
    cool_down: CoolDown,
}

/// What [`Names`] have counted: a copy of this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameCounters {
    /// Queries that the resolver was asked.
    pub queries: u64,
    /// Look-ups that were answered from the cache.
    pub hits: u64,
    /// Look-ups that were answered from the cache by an answer whose TTL was over.
    pub stale_hits: u64,
    /// Look-ups that waited for a query that another one had started.
    pub joined: u64,
    /// Queries whose answer was that there is no such name, or no address.
    pub not_found: u64,
    /// Queries that failed.
    pub failures: u64,
    /// Look-ups that were refused because of [`Limits::names`].
    pub refused: u64,
    /// Names that made room for others because of [`Limits::names`].
    pub evicted: u64,
    /// Addresses that failed while there were others to try, each time.
    pub addresses_failed: u64,
}

impl Names {
    /// This resolver, with the default [`Limits`].
    pub fn new(resolver: impl Resolver) -> Self {
        Self::with_limits(resolver, Limits::default())
    }

    /// This resolver, with other limits.
    pub fn with_limits(resolver: impl Resolver, limits: Limits) -> Self {
        let state = Mutex::new(State { cache: Cache::new(limits), cool_down: CoolDown::default() });
        Self { shared: Arc::new(Shared { resolver: Box::new(resolver), state }), hosts: Arc::default() }
    }

    /// The same resolver and cache, with these static hosts in place of any earlier ones.
    pub fn with_hosts(self, hosts: Hosts) -> Self {
        Self { hosts: Arc::new(hosts), ..self }
    }

    /// What was counted so far, by all clones together.
    pub fn counters(&self) -> NameCounters {
        self.lock().cache.counters
    }

    /// All addresses of a host, with this port. Static hosts and `localhost` count, too. Its queries run on a runtime of tokio, such
    /// as a loop's.
    ///
    /// # Errors
    /// [`ResolveError`]. There is no deadline but the resolver's.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
        let host = host.to_ascii_lowercase();
        if let Some(given) = self.given(&host, port) {
            return Ok(given);
        }
        let (mut found, mut failed) = (Vec::new(), None);
        for &records in self.records() {
            match self.look_up(&host, records).found(self).await {
                Ok(addresses) => found.extend(with_port(&addresses, port)),
                Err(error) => failed = Some(worse(failed, error)),
            }
        }
        if found.is_empty() { Err(failed.unwrap_or(ResolveError::NotFound)) } else { Ok(found) }
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The addresses of a host, if nobody has to be asked: a static host, a number, this machine.
    pub(super) fn given(&self, host: &str, port: u16) -> Option<Vec<SocketAddr>> {
        if let Some(known) = self.hosts.addresses_of(host, port) {
            return Some(with_port(known, port).collect());
        }
        if let Ok(ip) = host.parse() {
            return Some(vec![SocketAddr::new(ip, port)]);
        }
        is_localhost(host).then(|| {
            vec![SocketAddr::from((Ipv6Addr::LOCALHOST, port)), SocketAddr::from((Ipv4Addr::LOCALHOST, port))]
        })
    }

    pub(super) fn records(&self) -> &'static [Records] {
        self.shared.resolver.records()
    }

    /// What is known of a name, or the query that is under way. Starts one if need be, as a task of the present runtime.
    pub(super) fn look_up(&self, host: &str, records: Records) -> Looked {
        let key = (host.into(), records);
        let told = self.lock().cache.look_up(&key, precise());
        let (looked, ask) = match told {
            Told::Known(found, ask) => (Looked::Known(found), ask),
            Told::Comes(query, ask) => (Looked::Comes { query, key: key.clone() }, ask),
        };
        if let Some(sender) = ask {
            let query = Query { shared: Arc::clone(&self.shared), key, sender, is_answered: false };
            // Past the loop's own spawn, which counts tasks: a loop that ends does not wait for a name server.
            drop(tokio::spawn(query.run()));
        }
        looked
    }

    pub(super) fn is_cooling(&self, address: SocketAddr, now: Instant) -> bool {
        self.lock().cool_down.is_cooling(address, now)
    }

    /// These addresses have refused a connection, or have not answered, and are tried last for a while.
    pub(super) fn note_failed(&self, addresses: impl IntoIterator<Item = SocketAddr>) {
        let mut state = self.lock();
        let State { cache, cool_down } = &mut *state;
        for address in addresses {
            cache.counters.addresses_failed += 1;
            cool_down.failed(address, precise(), cache.limits().cool_down);
        }
    }

    /// No address of the name can be reached.
    pub(super) fn doubt(&self, host: &str) {
        for &records in self.records() {
            self.lock().cache.doubt(&(host.into(), records), precise());
        }
    }

    pub(super) fn note_connected(&self, address: SocketAddr) {
        self.lock().cool_down.connected(address);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Default for Names {
    fn default() -> Self {
        static SYSTEM: LazyLock<Names> = LazyLock::new(|| Names::new(SystemResolver::default()));
        SYSTEM.clone()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a look-up.
pub(super) enum Looked {
    Known(Found),
    Comes { query: watch::Receiver<Option<Found>>, key: Key },
}

impl Looked {
    /// What is known in the end. A query whose loop has ended is started once more.
    pub(super) async fn found(mut self, names: &Names) -> Found {
        for _ in 0..ATTEMPTS_MAX {
            let (mut query, key) = match self {
                Self::Known(found) => return found,
                Self::Comes { query, key } => (query, key),
            };
            if let Ok(found) = query.wait_for(Option::is_some).await
                && let Some(found) = found.clone()
            {
                return found;
            }
            self = names.look_up(&key.0, key.1);
        }
        Err(ResolveError::failed(io::Error::other("the query was dropped with its loop, again and again")))
    }
}

/// A query under way. However it ends, those who wait are told.
struct Query {
    shared: Arc<Shared>,
    key: Key,
    sender: watch::Sender<Option<Found>>,
    is_answered: bool,
}

impl Query {
    async fn run(mut self) {
        let answer = self.shared.resolver.resolve(&self.key.0, self.key.1).await;
        let found = self.shared.lock().cache.answered(&self.key, answer, precise());
        self.is_answered = true;
        self.sender.send_replace(Some(found));
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        // Before the sender is dropped: those who wait look up again then.
        if !self.is_answered {
            self.shared.lock().cache.unanswered(&self.key);
        }
    }
}

/// Of two reasons the one that tells more: a failure may hide an address, which "no such name" does not.
pub(super) fn worse(one: Option<ResolveError>, other: ResolveError) -> ResolveError {
    match one {
        Some(one) if !matches!(one, ResolveError::NotFound) => one,
        _ => other,
    }
}

pub(super) fn with_port(addresses: &[SocketAddr], port: u16) -> impl Iterator<Item = SocketAddr> + '_ {
    addresses.iter().map(move |address| match *address {
        mut address if address.port() == 0 => {
            address.set_port(port);
            address
        }
        address => address,
    })
}

/// Whether a name stands for this machine, whatever a name server says (RFC 6761 section 6.3).
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host == "localhost" || host.ends_with(".localhost")
}

/// Queries that one caller starts for a name, if the loops that run them end.
const ATTEMPTS_MAX: usize = 3;
