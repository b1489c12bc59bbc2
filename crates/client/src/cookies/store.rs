//! What a jar holds: cookies by their domains, and the rules by which they come, go and are sent.

use std::collections::HashMap;
use std::time::SystemTime;

use anywire_http::Url;
use anywire_http::cookie::{Cookie, ReceivedCookie, RequestUri, domain_matches, pairs, path_matches};

use super::suffix::{domains_of, is_public_suffix};
use super::{CookieCounters, CookieLimits, CookieRefused};

#[derive(Default)]
pub(super) struct Store {
    /// Each of them has a cookie at least.
    domains: HashMap<String, Vec<Entry>>,
    limits: CookieLimits,
    /// What it holds, and has counted.
    counters: CookieCounters,
    /// Grows with each cookie that is made and each use, so that the order is known whatever the clock does.
    turn: u64,
}

struct Entry {
    cookie: Cookie,
    made: u64,
    used: u64,
}

impl Store {
    pub(super) fn new(limits: CookieLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub(super) fn counters(&self) -> CookieCounters {
        self.counters
    }

    pub(super) fn count(&mut self, taken: &Result<(), CookieRefused>) {
        match taken {
            Ok(()) => self.counters.taken += 1,
            // That is how a server removes one.
            Err(CookieRefused::Ended) => {}
            Err(_) => self.counters.refused += 1,
        }
    }

    /// RFC 6265bis section 5.7, in its order.
    pub(super) fn receive(
        &mut self,
        url: &Url,
        received: &ReceivedCookie<'_>,
        now: SystemTime,
    ) -> Result<(), CookieRefused> {
        let cookie = Cookie::received(RequestUri::from(url), received, is_public_suffix, now)?;
        self.forget_ended(&cookie.name, now);
        if !url.is_https() && self.hides_secure(&cookie) {
            return Err(CookieRefused::HidesSecure);
        }
        cookie.check_promises()?;
        self.insert(cookie, now)
    }

    /// Throws out those with this name that have ended. The rules speak of a store without them.
    fn forget_ended(&mut self, name: &str, now: SystemTime) {
        let has_ended = |Entry { cookie, .. }: &Entry| cookie.name == name && cookie.has_ended(now);
        if self.domains.values().flatten().any(has_ended) {
            self.retain_entries(|entry| !has_ended(entry));
        }
    }

    /// Whether a cookie that came in clear text would be sent beside or before one that did not ("leave secure cookies alone").
    fn hides_secure(&self, new: &Cookie) -> bool {
        let hides = |Entry { cookie, .. }: &Entry| {
            cookie.is_secure
                && cookie.name == new.name
                && (domain_matches(&cookie.domain, &new.domain)
                    || domain_matches(&new.domain, &cookie.domain))
                && path_matches(&new.path, &cookie.path)
        };
        self.domains.values().flatten().any(hides)
    }

    /// Puts a cookie in the place of the one with its name, domain and path, if there is one.
    pub(super) fn insert(&mut self, cookie: Cookie, now: SystemTime) -> Result<(), CookieRefused> {
        let list = self.domains.get(&cookie.domain).map(Vec::as_slice).unwrap_or_default();
        let old =
            list.iter().position(|old| cookie.replaces(&old.cookie)).map(|at| self.take(&cookie.domain, at));
        self.turn += 1;
        let made = old.flatten().map_or(self.turn, |old| old.made);
        let entry = Entry { made, used: self.turn, cookie };
        if entry.cookie.has_ended(now) {
            return Err(CookieRefused::Ended);
        }
        if entry.cookie.bytes() > self.limits.bytes {
            return Err(CookieRefused::NoRoom);
        }
        let (domain, used) = (entry.cookie.domain.clone(), entry.used);
        self.counters.cookies += 1;
        self.counters.bytes += entry.cookie.bytes();
        self.domains.entry(domain.clone()).or_default().push(entry);
        self.make_room(&domain, now);
        let is_here =
            self.domains.get(&domain).is_some_and(|list| list.iter().any(|entry| entry.used == used));
        if is_here { Ok(()) } else { Err(CookieRefused::NoRoom) }
    }

    /// Drives out what is over a limit after a cookie of this domain has come.
    fn make_room(&mut self, domain: &str, now: SystemTime) {
        let len = |store: &Self| store.domains.get(domain).map_or(0, Vec::len);
        let is_over = |store: &Self| {
            let CookieLimits { per_domain, cookies, bytes } = store.limits;
            len(store) > per_domain || store.counters.cookies > cookies || store.counters.bytes > bytes
        };
        if !is_over(self) {
            return;
        }
        let before = self.counters.cookies;
        self.retain_entries(|entry| !entry.cookie.has_ended(now));
        while len(self) > self.limits.per_domain {
            let list = self.domains.get(domain).map(Vec::as_slice).unwrap_or_default();
            let oldest =
                list.iter().enumerate().min_by_key(|(_, entry)| (entry.cookie.is_secure, entry.used));
            let Some((at, _)) = oldest else { break };
            self.take(domain, at);
        }
        while is_over(self) {
            let all = self.domains.iter().flat_map(|(domain, list)| {
                list.iter().enumerate().map(move |(at, entry)| (entry.used, domain, at))
            });
            let Some((_, domain, at)) = all.min() else { break };
            let domain = domain.clone();
            self.take(&domain, at);
        }
        self.counters.evicted += u64::try_from(before - self.counters.cookies).unwrap_or(u64::MAX);
    }

    pub(super) fn header(&mut self, url: &Url, own: &str, now: SystemTime) -> Option<String> {
        self.turn += 1;
        let (request, turn) = (RequestUri::from(url), self.turn);
        let has_own = |name: &str| pairs(own).any(|(found, _)| found == name);
        let mut sent: Vec<(usize, u64, String)> = Vec::new();
        for domain in domains_of(url.host()) {
            for entry in self.domains.get_mut(domain).map(Vec::as_mut_slice).unwrap_or_default() {
                let cookie = &entry.cookie;
                if !cookie.goes_to(request, now) {
                    continue;
                }
                if has_own(&cookie.name) {
                    continue;
                }
                sent.push((cookie.path.len(), entry.made, cookie.pair().concat()));
                entry.used = turn;
            }
        }
        if sent.is_empty() {
            return None;
        }
        // Of the longest path first, and of those the oldest (RFC 6265bis section 5.8.3).
        sent.sort_by_key(|&(path, made, _)| (std::cmp::Reverse(path), made));
        let own = Some(own.to_owned()).filter(|own| !own.is_empty());
        let all: Vec<_> = own.into_iter().chain(sent.into_iter().map(|(_, _, text)| text)).collect();
        Some(all.join("; "))
    }

    pub(super) fn cookies(&self, now: SystemTime) -> Vec<Cookie> {
        let mut all: Vec<_> =
            self.domains.values().flatten().filter(|entry| !entry.cookie.has_ended(now)).collect();
        all.sort_by_key(|entry| entry.made);
        all.into_iter().map(|entry| entry.cookie.clone()).collect()
    }

    /// Keeps those that are to be kept, and tells how many were not.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Cookie) -> bool) -> usize {
        let before = self.counters.cookies;
        self.retain_entries(|entry| is_kept(&entry.cookie));
        before - self.counters.cookies
    }

    fn retain_entries(&mut self, is_kept: impl Fn(&Entry) -> bool) {
        let counters = &mut self.counters;
        self.domains.retain(|_, list| {
            list.retain(|entry| {
                let is_kept = is_kept(entry);
                if !is_kept {
                    counters.cookies -= 1;
                    counters.bytes -= entry.cookie.bytes();
                }
                is_kept
            });
            !list.is_empty()
        });
    }

    /// Takes out the cookie at this place of its domain.
    fn take(&mut self, domain: &str, at: usize) -> Option<Entry> {
        let list = self.domains.get_mut(domain)?;
        let entry = list.remove(at);
        if list.is_empty() {
            self.domains.remove(domain);
        }
        self.counters.cookies -= 1;
        self.counters.bytes -= entry.cookie.bytes();
        Some(entry)
    }
}
