//! Events for the users of connections.

use crate::engine::{ConnId, ConnIndex, Engine};
use crate::tcb::Flags;

/// The events of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The connection; [`ConnId::claimed`] of its place if it is claimed.
    pub id: ConnId,
    /// Its events since it was given last.
    pub events: Events,
}

/// A set of events.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Events(u8);

impl Events {
    /// It came from a listener, and is the reader's now: to be closed or aborted once.
    pub const INCOMING: Self = Self(1);
    /// It is open.
    pub const OPENED: Self = Self(2);
    /// There is something to read, or the peer has ended its direction.
    pub const READABLE: Self = Self(4);
    /// There is room to send again, after a send that found none.
    pub const WRITABLE: Self = Self(8);
    /// It has ended, or failed: [`Engine::status`] says how.
    pub const CLOSED: Self = Self(16);
    /// The deadline of [`Engine::set_idle_deadline`] has passed and is removed. Nothing else has happened to the
    /// connection.
    pub const DEADLINE: Self = Self(32);

    /// Whether any of these is among them.
    pub const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(Events, &str); 6] = [
            (Events::INCOMING, "incoming"),
            (Events::OPENED, "opened"),
            (Events::READABLE, "readable"),
            (Events::WRITABLE, "writable"),
            (Events::CLOSED, "closed"),
            (Events::DEADLINE, "deadline"),
        ];
        f.debug_set()
            .entries(NAMES.iter().filter(|(event, _)| self.has(*event)).map(|(_, name)| name))
            .finish()
    }
}

impl Engine {
    /// The next connection with events, and its events since it was given last; in the order in which they came about.
    ///
    /// ```no_run
    /// # fn handle(engine: &mut anywire_tcp::Engine) {
    /// use anywire_tcp::{Events, Ready};
    ///
    /// while let Some(Ready { id, events }) = engine.next_ready() {
    ///     if events.has(Events::READABLE) {
    ///         while engine.recv(id, |bytes| bytes.len()) > 0 {}
    ///     }
    /// }
    /// # }
    /// ```
    #[inline(always)]
    pub fn next_ready(&mut self) -> Option<Ready> {
        loop {
            let place = self.ready.pop_front()?;
            let tcb = &mut self.tcbs[place];
            let flags = tcb.flags;
            // Not if the place was given up since.
            if !flags.has(Flags::IN_READY) {
                continue;
            }
            tcb.flags.clear(Flags::TELL.with(Flags::IN_READY));
            let id =
                if flags.has(Flags::CLAIMED) { ConnId::claimed(place.0) } else { ConnId(place, tcb.tag()) };
            let mut events = Events(((flags.0 & Flags::TELL.0) >> 23) as u8);
            if flags.has(Flags::TELL_OPENED) && flags.has(Flags::PASSIVE) {
                events.0 |= Events::INCOMING.0;
            }
            if self.expired > 0 && self.take_expired(place) {
                events.0 |= Events::DEADLINE.0;
            }
            if events != Events::default() {
                return Some(Ready { id, events });
            }
        }
    }

    /// Notes events for the user of the connection.
    #[inline]
    pub(crate) fn tell(&mut self, index: ConnIndex, news: Flags) {
        let tcb = &mut self.tcbs[index];
        if tcb.has(Flags::DETACHED) {
            return;
        }
        tcb.flags.set(news);
        if !tcb.has(Flags::IN_READY) {
            tcb.flags.set(Flags::IN_READY);
            self.ready.push_back(index);
        }
    }
}

// The flags and the events line up: one shift converts between them.
const _: () = assert!(
    Flags::TELL_OPENED.0 >> 23 == 2
        && Flags::TELL_READABLE.0 >> 23 == 4
        && Flags::TELL_WRITABLE.0 >> 23 == 8
        && Flags::TELL_CLOSED.0 >> 23 == 16
);
