//! Cookies that a client keeps and sends again (RFC 6265bis), with the feature `cookies`.
//!
//! Nothing keeps cookies unless it is given a [`CookieJar`]. A jar opens no file and reads no clock: time and text are parameters.

mod error;
mod json;
mod link;
mod netscape;
mod store;
mod suffix;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use anywire_http::Url;
use anywire_http::cookie::ReceivedCookie;

use store::Store;
use suffix::is_public_suffix;

pub use anywire_http::cookie::{Cookie, CookieRefused};
pub use error::CookieFileError;

/// Where a client keeps cookies. A clone is the same jar, so that several clients, or a program that saves it, may share one.
///
/// What it takes, sends, and throws out is decided by RFC 6265bis with the list of public suffixes of the crate `psl`. A cookie for a suffix
/// such as `co.uk` is refused, one marked `Secure` comes and goes over `https` only, and cookies that are not UTF-8 are ignored. Each call
/// is taken for one of the site itself, so that `SameSite` holds nothing back.
///
/// A jar can be written as JSON, with all that is known, or as the file that curl and wget read and write, which knows no `SameSite`.
///
/// ```
/// use std::time::SystemTime;
///
/// use anywire_client::cookies::CookieJar;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (jar, now) = (CookieJar::new(), SystemTime::now());
/// jar.receive(&"https://shop.example/login".parse()?, b"id=7; Path=/; Max-Age=3600; Secure", now)?;
/// assert_eq!(jar.header(&"https://shop.example/orders".parse()?, now).as_deref(), Some("id=7"));
/// assert_eq!(jar.header(&"https://other.example/".parse()?, now), None);
///
/// let saved = jar.to_netscape(now);
/// assert_eq!(CookieJar::new().read_netscape(&saved, now)?, 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct CookieJar {
    store: Arc<Mutex<Store>>,
}

/// How much a [`CookieJar`] holds. A cookie beyond a limit takes the place of another one: first of one that has expired, then in a full domain of one that is not
/// `Secure`, then of the one that was sent least recently (RFC 6265bis section 5.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieLimits {
    /// Cookies of one domain. Default 180, as browsers have it; the RFC wants 50 at least.
    pub per_domain: usize,
    /// Cookies in all. Default 3,000, the least that the RFC wants.
    pub cookies: usize,
    /// Bytes of names, values, domains and paths in all. Default 4 MiB: 3,000 cookies of 1.4 KiB.
    pub bytes: usize,
}

impl Default for CookieLimits {
    fn default() -> Self {
        Self { per_domain: 180, cookies: 3000, bytes: 4 << 20 }
    }
}

/// What a [`CookieJar`] has counted, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CookieCounters {
    /// Cookies that it holds.
    pub cookies: usize,
    /// Bytes of their names, values, domains and paths.
    pub bytes: usize,
    /// Cookies that were taken, or took the place of an older one, so far.
    pub taken: u64,
    /// Cookies that were [refused](CookieRefused) so far.
    pub refused: u64,
    /// Cookies that a [limit](CookieLimits) has driven out so far.
    pub evicted: u64,
}

impl CookieJar {
    /// An empty jar with default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty jar with other limits.
    pub fn with_limits(limits: CookieLimits) -> Self {
        Self { store: Arc::new(Mutex::new(Store::new(limits))) }
    }

    /// Takes a field `set-cookie` of the response to a request for this URL.
    ///
    /// # Errors
    /// Why the cookie is not kept. Nothing is wrong with the rest of the response.
    pub fn receive(&self, url: &Url, line: &[u8], now: SystemTime) -> Result<(), CookieRefused> {
        let mut store = self.lock();
        let cookie = ReceivedCookie::parse(line).ok_or(CookieRefused::Malformed);
        let taken = cookie.and_then(|cookie| store.receive(url, &cookie, now));
        store.count(&taken);
        taken
    }

    /// The value of the field `cookie` of a request for this URL. `None` if the jar has no cookie for it.
    pub fn header(&self, url: &Url, now: SystemTime) -> Option<String> {
        self.header_beside(url, "", now)
    }

    /// The value of the field if a request has one already, whose pairs take the place of cookies with their names.
    pub fn header_beside(&self, url: &Url, own: &str, now: SystemTime) -> Option<String> {
        self.lock().header(url, own, now)
    }

    /// The cookies that have not ended, in the order in which they were made.
    pub fn cookies(&self, now: SystemTime) -> Vec<Cookie> {
        self.lock().cookies(now)
    }

    /// Puts a cookie in, as if its domain had set it.
    ///
    /// # Errors
    /// Why it is not kept.
    pub fn insert(&self, cookie: Cookie, now: SystemTime) -> Result<(), CookieRefused> {
        let mut store = self.lock();
        let taken = cookie.check(is_public_suffix).and_then(|()| store.insert(cookie, now));
        store.count(&taken);
        taken
    }

    /// Removes the cookies of this name from a domain, and tells how many there were.
    pub fn remove(&self, domain: &str, name: &str) -> usize {
        self.lock().retain(|cookie| cookie.domain != domain || cookie.name != name)
    }

    /// Removes the cookies without an end in time, as a browser does when it is closed, and tells how many there were.
    pub fn end_session(&self) -> usize {
        self.lock().retain(|cookie| cookie.expires.is_some())
    }

    /// Removes all cookies.
    pub fn clear(&self) {
        self.lock().retain(|_| false);
    }

    /// What it has counted.
    pub fn counters(&self) -> CookieCounters {
        self.lock().counters()
    }

    /// The cookies that have not ended as a JSON text, those of the session among them. It holds secrets.
    pub fn to_json(&self, now: SystemTime) -> String {
        json::write(&self.cookies(now))
    }

    /// Adds the cookies of a text that [`to_json`](Self::to_json) has written. How many were taken: what has ended or breaks a rule
    /// is left out.
    ///
    /// # Errors
    /// [`Json`](CookieFileError::Json). Nothing is taken then.
    pub fn read_json(&self, text: &str, now: SystemTime) -> Result<usize, CookieFileError> {
        Ok(self.insert_all(json::read(text)?, now))
    }

    /// The cookies that have not ended as a file that curl and wget read, those of the session among them. It holds secrets. A cookie
    /// without a name, or with a tab, has no place in it.
    pub fn to_netscape(&self, now: SystemTime) -> String {
        netscape::write(&self.cookies(now))
    }

    /// Adds the cookies of a file that [`to_netscape`](Self::to_netscape), curl or wget has written. How many were taken: what
    /// has ended or breaks a rule is left out.
    ///
    /// # Errors
    /// [`Line`](CookieFileError::Line). Nothing is taken then.
    pub fn read_netscape(&self, text: &str, now: SystemTime) -> Result<usize, CookieFileError> {
        Ok(self.insert_all(netscape::read(text)?, now))
    }

    fn insert_all(&self, cookies: Vec<Cookie>, now: SystemTime) -> usize {
        let is_live = |cookie: &Cookie| cookie.expires.is_none_or(|end| end > now);
        cookies.into_iter().filter(is_live).filter(|cookie| self.insert(cookie.clone(), now).is_ok()).count()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows numbers only.
impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieJar").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
