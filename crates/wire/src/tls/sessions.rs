//! The sessions that a dialler may resume: the latest ones of so many servers, each for so long.
//!
//! rustls has a store of its own, which keeps a session for as long as the server says: up to seven days (RFC 8446 section 4.6.1), or
//! for ever in TLS 1.2.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anywire_loops::clock::precise;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Sessions by the name of their server.
pub(super) struct Sessions {
    kept: Mutex<Kept>,
    servers_max: usize,
    timeout: Duration,
}

#[derive(Default)]
struct Kept {
    by_name: HashMap<ServerName<'static>, Server>,
    /// The one that had its first session longest ago first.
    order: VecDeque<ServerName<'static>>,
}

/// What is kept of a server.
#[derive(Default)]
struct Server {
    group: Option<NamedGroup>,
    /// With when it began.
    session: Option<(Instant, Tls12ClientSessionValue)>,
    /// With when each came, the oldest one first. Each is for one connection.
    tickets: VecDeque<(Instant, Tls13ClientSessionValue)>,
}

impl Sessions {
    pub(super) fn new(servers_max: usize, timeout: Duration) -> Self {
        Self { kept: Mutex::default(), servers_max: servers_max.max(1), timeout }
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Server)) {
        let kept = &mut *self.lock();
        if let Some(server) = kept.by_name.get_mut(&name) {
            return change(server);
        }
        if kept.order.len() >= self.servers_max
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.by_name.remove(&oldest);
        }
        kept.order.push_back(name.clone());
        change(kept.by_name.entry(name).or_default());
    }

    fn is_fresh(&self, since: Instant) -> bool {
        precise().saturating_duration_since(since) < self.timeout
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while the lock is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.change(server_name, |server| server.group = Some(group));
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().by_name.get(&server_name.to_owned())?.group
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.change(server_name, |server| server.session = Some((precise(), value)));
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let kept = &mut *self.lock();
        let server = kept.by_name.get_mut(&server_name.to_owned())?;
        server.session.take_if(|(since, _)| !self.is_fresh(*since));
        server.session.as_ref().map(|(_, session)| session.clone())
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        if let Some(server) = self.lock().by_name.get_mut(server_name) {
            server.session = None;
        }
    }

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.change(server_name, |server| {
            if server.tickets.len() == TICKETS_MAX {
                server.tickets.pop_front();
            }
            server.tickets.push_back((precise(), value));
        });
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let kept = &mut *self.lock();
        let tickets = &mut kept.by_name.get_mut(server_name)?.tickets;
        // The latest: if that is too old, so are the others.
        let (since, ticket) = tickets.pop_back()?;
        if self.is_fresh(since) {
            return Some(ticket);
        }
        tickets.clear();
        None
    }
}

impl fmt::Debug for Sessions {
    /// They are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("servers", &self.lock().order.len()).finish_non_exhaustive()
    }
}

/// Tickets that are kept of a server: two come with each connection as a rule, and one goes with each.
const TICKETS_MAX: usize = 8;
