//! The cookies of one user within a sequence (RFC 6265bis): what answers set goes with the later requests of the sequence.
//!
//! A load has no list of public suffixes: a domain of one label is taken for one. All requests of a run go to one server, so that a
//! cookie for a longer suffix, such as `co.uk`, reaches nobody else.

use std::cmp::Reverse;
use std::time::SystemTime;

use anywire_http::Url;
use anywire_http::cookie::{Cookie, CookieRefused, ReceivedCookie, RequestUri, pairs};
use serde::{Deserialize, Serialize};

use super::value::Filling;

/// What became of the cookies that answers set, in a run whose sequences keep them. The warm-up counts too, because a user that lacks a
/// cookie from then on lacks it in the measured part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookieFigures {
    /// Those that a user kept, or that took the place of an older one.
    pub kept: u64,
    /// Those that had ended already: so a server removes one.
    pub ended: u64,
    /// Those that no client keeps: malformed, for another domain, `Secure` over `http`, or not what their name promises.
    pub refused: u64,
    /// Those that were not kept because the user had as many as [`ScriptLimits::cookies`](super::ScriptLimits::cookies) already.
    pub over_limit: u64,
}

impl CookieFigures {
    /// Adds those of another loop, or of another machine, which may claim anything.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.kept = self.kept.saturating_add(other.kept);
        self.ended = self.ended.saturating_add(other.ended);
        self.refused = self.refused.saturating_add(other.refused);
        self.over_limit = self.over_limit.saturating_add(other.over_limit);
    }
}

/// What a request has to know whose user keeps cookies.
#[derive(Debug)]
pub(super) struct CookieSite {
    is_https: bool,
    /// In lower case, without a port.
    host: String,
    /// The request's own cookies, which come before those of the user.
    pub(super) own: Vec<Filling>,
    /// How many a user keeps.
    most: usize,
}

impl CookieSite {
    /// That of a request with this field `host`.
    pub(super) fn new(is_https: bool, authority: &str, most: usize) -> Self {
        let url = Url::parse(&format!("http://{authority}/"));
        let host = url.map_or_else(|_| authority.to_ascii_lowercase(), |url| url.host().to_owned());
        Self { is_https, host, own: Vec::new(), most }
    }

    fn uri<'a>(&'a self, target: &'a str) -> RequestUri<'a> {
        RequestUri::new(self.is_https, &self.host, target)
    }
}

/// The cookies of a user, in the order in which they came first.
#[derive(Debug, Default)]
pub(super) struct Jar {
    cookies: Vec<Cookie>,
    /// The target of the request that is on its way.
    target: String,
}

impl Jar {
    /// Throws all of them out: a sequence begins.
    pub(super) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Takes a field `set-cookie` of the answer to the request on its way, and counts it.
    pub(super) fn receive(
        &mut self,
        site: &CookieSite,
        line: &[u8],
        now: SystemTime,
        figures: &mut CookieFigures,
    ) {
        match self.take(site, line, now) {
            Ok(()) => figures.kept += 1,
            Err(CookieRefused::Ended) => figures.ended += 1,
            Err(CookieRefused::NoRoom) => figures.over_limit += 1,
            Err(_) => figures.refused += 1,
        }
    }

    fn take(&mut self, site: &CookieSite, line: &[u8], now: SystemTime) -> Result<(), CookieRefused> {
        let received = ReceivedCookie::parse(line).ok_or(CookieRefused::Malformed)?;
        let cookie = Cookie::received(site.uri(&self.target), &received, is_label, now)?;
        cookie.check_promises()?;
        let old = self.cookies.iter().position(|old| cookie.replaces(old));
        if cookie.has_ended(now) {
            if let Some(old) = old {
                self.cookies.remove(old);
            }
            return Err(CookieRefused::Ended);
        }
        if let Some(old) = old {
            // It keeps its place in the order (RFC 6265bis section 5.7).
            self.cookies[old] = cookie;
            return Ok(());
        }
        if self.cookies.len() >= site.most {
            self.cookies.retain(|cookie| !cookie.has_ended(now));
        }
        if self.cookies.len() >= site.most {
            return Err(CookieRefused::NoRoom);
        }
        self.cookies.push(cookie);
        Ok(())
    }

    /// A request for this target leaves: appends what goes with it to the value of the field `cookie`, of which the request's own
    /// cookies stand from `begin` on. One of these takes the place of a kept one of the same name.
    pub(super) fn send(
        &mut self,
        site: &CookieSite,
        target: &[u8],
        now: SystemTime,
        begin: usize,
        out: &mut Vec<u8>,
    ) {
        self.target.clear();
        // What was filled in is percent-encoded beyond ASCII.
        self.target.push_str(std::str::from_utf8(target).unwrap_or("/"));
        if self.cookies.is_empty() {
            return;
        }
        let own = String::from_utf8_lossy(&out[begin..]).into_owned();
        let has_own = |name: &str| pairs(&own).any(|(found, _)| found == name);
        let uri = site.uri(&self.target);
        let goes = |cookie: &&Cookie| cookie.goes_to(uri, now) && !has_own(&cookie.name);
        let mut sent: Vec<&Cookie> = self.cookies.iter().filter(goes).collect();
        // Of the longest path first, and of those the oldest (RFC 6265bis section 5.8.3).
        sent.sort_by_key(|cookie| Reverse(cookie.path.len()));
        for cookie in sent {
            if out.len() > begin {
                out.extend_from_slice(b"; ");
            }
            cookie.pair().iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        }
    }
}

/// Whether a domain is a label alone, below which anybody may have one.
fn is_label(domain: &str) -> bool {
    !domain.strip_suffix('.').unwrap_or(domain).contains('.')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }

    fn sent_at(jar: &mut Jar, site: &CookieSite, target: &str, own: &str, now: SystemTime) -> String {
        let mut out = format!("cookie: {own}").into_bytes();
        jar.send(site, target.as_bytes(), now, 8, &mut out);
        String::from_utf8(out.split_off(8)).unwrap()
    }

    fn sent(jar: &mut Jar, site: &CookieSite, target: &str) -> String {
        sent_at(jar, site, target, "", now())
    }

    fn receive(jar: &mut Jar, site: &CookieSite, lines: &[&str]) -> CookieFigures {
        let mut figures = CookieFigures::default();
        lines.iter().for_each(|line| jar.receive(site, line.as_bytes(), now(), &mut figures));
        figures
    }

    #[test]
    fn what_an_answer_sets_goes_with_the_later_requests_below_its_path() {
        let (mut jar, site) = (Jar::default(), CookieSite::new(false, "Shop.Example:8080", 50));
        assert_eq!(sent(&mut jar, &site, "/a/login?x=/b"), "");
        let lines = ["id=1", "theme=dark; Path=/", "lang=en; Domain=shop.example; Path=/a/b"];
        assert_eq!(receive(&mut jar, &site, &lines).kept, 3);
        assert_eq!(sent(&mut jar, &site, "/a/b/c"), "lang=en; id=1; theme=dark");
        assert_eq!(sent(&mut jar, &site, "/a?b"), "id=1; theme=dark");
        assert_eq!(sent(&mut jar, &site, "/"), "theme=dark");
        // The same one keeps its place. The request's own come first and count more.
        assert_eq!(receive(&mut jar, &site, &["theme=light; Path=/"]).kept, 1);
        assert_eq!(sent_at(&mut jar, &site, "/a", "id=own; x=1", now()), "id=own; x=1; theme=light");
        jar.clear();
        assert_eq!(sent(&mut jar, &site, "/a/b/c"), "");
    }

    #[test]
    fn a_cookie_ends_by_its_time_or_by_the_server() {
        let (mut jar, site) = (Jar::default(), CookieSite::new(false, "h", 50));
        sent(&mut jar, &site, "/");
        receive(&mut jar, &site, &["a=1; Max-Age=60", "b=2"]);
        assert_eq!(sent_at(&mut jar, &site, "/", "", now() + Duration::from_secs(59)), "a=1; b=2");
        assert_eq!(sent_at(&mut jar, &site, "/", "", now() + Duration::from_secs(60)), "b=2");
        let figures = receive(&mut jar, &site, &["b=; Max-Age=0", "c=; Max-Age=0"]);
        assert_eq!((figures.kept, figures.ended), (0, 2));
        assert_eq!(sent(&mut jar, &site, "/"), "a=1");
    }

    #[test]
    fn what_no_client_keeps_is_refused_and_counted() {
        let (mut jar, site) = (Jar::default(), CookieSite::new(false, "a.shop.example", 50));
        sent(&mut jar, &site, "/");
        let wrong = ["x=1; Domain=other.example", "x=1; Domain=example", "x=1; Secure", "__Host-x=1", "="];
        let figures = receive(&mut jar, &site, &wrong);
        assert_eq!((figures.refused, figures.kept), (5, 0));
        let site = CookieSite::new(true, "a.shop.example", 50);
        let figures = receive(&mut jar, &site, &["x=1; Secure", "__Host-y=1; Secure; Path=/a"]);
        assert_eq!((figures.refused, figures.kept), (1, 1));
        assert_eq!(sent(&mut jar, &site, "/"), "x=1");
    }

    #[test]
    fn a_user_keeps_so_many_and_the_others_are_counted() {
        let (mut jar, site) = (Jar::default(), CookieSite::new(false, "[::1]:80", 50));
        sent(&mut jar, &site, "/");
        let lines: Vec<String> = (0..60).map(|number| format!("c{number}={number}; Max-Age=9")).collect();
        let figures = receive(&mut jar, &site, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((figures.kept, figures.over_limit), (50, 10));
        // One that is there already needs no room, and those that have ended make some.
        assert_eq!(receive(&mut jar, &site, &["c7=x"]).kept, 1);
        let mut figures = CookieFigures::default();
        jar.receive(&site, b"late=1", now() + Duration::from_secs(9), &mut figures);
        assert_eq!((figures.kept, figures.over_limit), (1, 0));
        assert_eq!(sent_at(&mut jar, &site, "/", "", now() + Duration::from_secs(9)), "c7=x; late=1");
    }

    proptest! {
        #[test]
        fn any_lines_leave_a_field_that_can_be_sent(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            target in "/[a-z/?]{0,10}",
        ) {
            let (mut jar, site) = (Jar::default(), CookieSite::new(true, "h.example", 5));
            sent(&mut jar, &site, &target);
            let mut figures = CookieFigures::default();
            lines.iter().for_each(|line| jar.receive(&site, line, now(), &mut figures));
            let counted = figures.kept + figures.ended + figures.refused + figures.over_limit;
            prop_assert_eq!(counted, lines.len() as u64);
            prop_assert!(jar.cookies.len() <= 5);
            let field = sent(&mut jar, &site, &target);
            prop_assert!(anywire_http::Headers::new().append("cookie", field).is_ok());
        }
    }
}
