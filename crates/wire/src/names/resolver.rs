//! Where the addresses of a name come from: the trait, what is asked, and what comes back.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anywire_advice::Advice;

/// Finds the addresses of names. [`Names`](super::Names) puts a cache above it, so it is asked once for each name and TTL.
///
/// Its futures run on a loop, and must not block it. They are not cut at a deadline: callers give up, and a late answer is
/// still kept for the next one. So they should end by themselves.
///
/// ```
/// use anywire_wire::names::{Answer, Names, Records, ResolveError, Resolver, Resolving};
///
/// struct Registry;
///
/// impl Resolver for Registry {
///     fn resolve<'a>(&'a self, name: &'a str, _: Records) -> Resolving<'a> {
///         Box::pin(async move {
///             match name {
///                 "shop.internal" => Ok(Answer::from(["10.0.0.1:8080".parse().unwrap()])),
///                 _ => Err(ResolveError::NotFound),
///             }
///         })
///     }
/// }
///
/// let names = Names::new(Registry);
/// # let _ = names;
/// ```
pub trait Resolver: Send + Sync + 'static {
    /// What is asked of it for each name, each a query of its own. Default: [`Records::Any`] alone.
    fn records(&self) -> &'static [Records] {
        &[Records::Any]
    }

    /// The addresses of a name, which is in lower case and no IP address.
    fn resolve<'a>(&'a self, name: &'a str, records: Records) -> Resolving<'a>;
}

/// A query on its way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = Result<Answer, ResolveError>> + Send + 'a>>;

/// What is asked of a [`Resolver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Records {
    /// All addresses, in the order in which they are to be tried.
    Any,
    /// IPv6 addresses (AAAA).
    V6,
    /// IPv4 addresses (A).
    V4,
}

/// What a [`Resolver`] has found.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The addresses, best one first. A port of 0 stands for the port that the caller asks for.
    pub addresses: Vec<SocketAddr>,
    /// How long it holds. `None`: not known, so [`Limits::unknown_ttl`](super::Limits::unknown_ttl) applies.
    pub ttl: Option<Duration>,
}

impl<A: Into<Vec<SocketAddr>>> From<A> for Answer {
    /// Addresses whose TTL is not known.
    fn from(addresses: A) -> Self {
        Self { addresses: addresses.into(), ttl: None }
    }
}

/// Why a name has no address.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There is no such name, or it has no address. This is remembered for some seconds.
    #[error("no such name, or it has no address")]
    NotFound,
    /// No answer within [`DialOptions::resolve_timeout`](crate::DialOptions::resolve_timeout). The query goes on, and its answer is
    /// kept.
    #[error("no answer within {after:?}")]
    Timeout {
        /// The deadline.
        after: Duration,
    },
    /// Too many names are being asked for: [`Limits::names`](super::Limits::names), or the queue of a
    /// [`SystemResolver`](super::SystemResolver).
    #[error("too many names are being asked for{help}", help = Advice("ask for fewer at a time, or raise the limit"))]
    Full,
    /// The resolver failed: no name server answers, or its answer is none.
    #[error("{0}")]
    Failed(#[source] Arc<io::Error>),
}

impl ResolveError {
    /// The error of a resolver that failed.
    pub fn failed(cause: impl Into<io::Error>) -> Self {
        Self::Failed(Arc::new(cause.into()))
    }

    /// What is inside an error of dialling, if that is why.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Whether the deadline passed.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Failed(cause) => cause.kind() == io::ErrorKind::TimedOut,
            _ => false,
        }
    }
}

impl From<ResolveError> for io::Error {
    fn from(error: ResolveError) -> Self {
        let kind = match &error {
            ResolveError::NotFound => io::ErrorKind::NotFound,
            ResolveError::Timeout { .. } => io::ErrorKind::TimedOut,
            ResolveError::Full => io::ErrorKind::QuotaExceeded,
            ResolveError::Failed(cause) => cause.kind(),
        };
        Self::new(kind, error)
    }
}
