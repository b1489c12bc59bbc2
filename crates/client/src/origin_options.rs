//! Options that hold for one origin, and may change while the client runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use anywire_http::Url;
use anywire_http::url::UrlError;

use crate::inner::{Config, Versions};
use crate::{Client, Error, Limits, Timeouts};

/// What holds for one origin in place of what the client has: [`ClientBuilder::origin_options`](crate::ClientBuilder::origin_options)
/// and [`Client::set_origin_options`]. What is not given is the client's.
///
/// A redirect, a rule or an interceptor that leads to another origin brings a call under the options of that one. What the call says
/// itself stays, such as [`Call::read_timeout`](crate::Call::read_timeout), and so does the deadline of the whole call.
///
/// ```
/// use std::time::Duration;
/// use anywire_client::{Client, Limits, OriginOptions, Timeouts};
///
/// let slow = OriginOptions::default()
///     .limits(Limits { connections_per_origin: 4, ..Limits::default() })
///     .timeouts(Timeouts { read: Duration::from_secs(120), ..Timeouts::default() });
/// let client = Client::builder().origin_options("http://reports.internal", slow).build();
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until a client has them"]
pub struct OriginOptions {
    limits: Option<Limits>,
    timeouts: Option<Timeouts>,
    versions: Option<Versions>,
}

impl OriginOptions {
    /// How much of each thing there may be. [`Limits::origins`] is the client's.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits.at_least_one());
        self
    }

    /// All deadlines: of phases, and of connections, such as how long they are kept.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = Some(timeouts);
        self
    }

    /// HTTP/1 only, whatever the peer offers.
    pub fn http1_only(mut self) -> Self {
        self.versions = Some(Versions::Http1);
        self
    }

    /// HTTP/2 only, without asking the peer: as
    /// [`ClientBuilder::http2_prior_knowledge`](crate::ClientBuilder::http2_prior_knowledge).
    pub fn http2_prior_knowledge(mut self) -> Self {
        self.versions = Some(Versions::Http2);
        self
    }

    fn over(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if let Some(limits) = &self.limits {
            config.limits = Limits { origins: config.limits.origins, ..limits.clone() };
        }
        config.timeouts = self.timeouts.clone().unwrap_or(config.timeouts);
        config.versions = self.versions.unwrap_or(config.versions);
        config
    }
}

/// The origins with options of their own.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// Whether there is any, or a fault: most clients have none, and look at nothing else.
    is_used: AtomicBool,
    configs: RwLock<HashMap<Box<str>, Arc<Config>>>,
    /// A text that is no origin, and why: the error of each call.
    fault: Option<(String, UrlError)>,
}

impl Origins {
    /// As the builder was told. What is said last counts.
    pub(crate) fn new(said: Vec<(String, OriginOptions)>, config: &Config) -> Self {
        let mut origins = Self::default();
        for (text, options) in said {
            match Url::parse(&text) {
                Ok(url) => origins.set(url.origin(), &options, config),
                Err(fault) => origins.fault = Some((text, fault)),
            }
        }
        *origins.is_used.get_mut() |= origins.fault.is_some();
        origins
    }

    fn set(&self, origin: &str, options: &OriginOptions, config: &Config) {
        let config = Arc::new(options.over(config));
        // Nothing panics while the lock is held.
        self.configs.write().unwrap_or_else(PoisonError::into_inner).insert(origin.into(), config);
        self.is_used.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// The settings of an origin that has its own.
    #[inline]
    pub(crate) fn config_of(&self, origin: &str) -> Result<Option<Arc<Config>>, Error> {
        if !self.is_used() {
            return Ok(None);
        }
        if let Some((text, source)) = &self.fault {
            return Err(Error::of_url(text, *source));
        }
        let configs = self.configs.read().unwrap_or_else(PoisonError::into_inner);
        Ok(configs.get(origin).map(Arc::clone))
    }
}

impl Client {
    /// Gives an origin other options while the client runs, or its first ones. Calls that wait for a connection, and all that come
    /// later, have the new ones: a larger limit serves waiting calls at once. Idle connections are closed, and busy ones after
    /// their calls, which keep their deadlines. They count until then, so a smaller limit is never passed by new ones.
    ///
    /// ```
    /// # fn main() -> Result<(), anywire_client::Error> {
    /// use anywire_client::{Client, Limits, OriginOptions};
    ///
    /// let client = Client::new();
    /// let limits = Limits { connections_per_origin: 64, ..Limits::default() };
    /// client.set_origin_options("http://shop.internal", &OriginOptions::default().limits(limits))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Url`](Error::Url) if that is no origin.
    pub fn set_origin_options(&self, origin: impl AsRef<str>, options: &OriginOptions) -> Result<(), Error> {
        let url = crate::call::parse_url(origin.as_ref())?;
        let inner = &self.handle;
        inner.origins().set(url.origin(), options, inner.config());
        inner.renew_pools(url.origin());
        Ok(())
    }
}
