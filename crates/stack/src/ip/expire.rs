//! What time changes: neighbours that are asked again, that are found gone, or that give way to others.

use std::net::IpAddr;

use anywire_tcp::Instant;

use super::cache::{Cache, State, Todo, Users};

impl Cache {
    /// Does all that is due now.
    pub(super) fn advance(&mut self, now: Instant, users: &mut impl Users) {
        while let Some((at, address)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.remove(&(at, address));
            let Some(neighbour) = self.neighbours.get_mut(&address) else { continue };
            neighbour.until = None;
            let state = neighbour.state;
            match state {
                State::Reachable => self.doubt(now, address, users),
                State::Delay if users.have_progressed(address) => self.confirm(now, address),
                State::Delay if !users.use_neighbour(address) => self.doubt(now, address, users),
                State::Delay | State::Probe | State::Incomplete => self.ask_again(now, address),
                State::Stale => {}
            }
        }
    }

    fn ask_again(&mut self, now: Instant, address: IpAddr) {
        let Some(neighbour) = self.neighbours.get_mut(&address) else { return };
        let is_new = neighbour.state == State::Incomplete;
        let state = if is_new { State::Incomplete } else { State::Probe };
        if neighbour.state == state && neighbour.tries >= self.settings.tries {
            self.counters.unreachable += 1;
            self.todo.push_back(Todo::Unreachable(address));
            return self.forget(address);
        }
        let mac = neighbour.mac;
        self.enter(address, state, Some(now + self.settings.retransmit_time));
        if let Some(neighbour) = self.neighbours.get_mut(&address) {
            neighbour.tries += 1;
        }
        self.todo.push_back(Todo::Ask(address, mac));
    }

    /// Forgets a neighbour, and the frames that wait for it.
    fn forget(&mut self, address: IpAddr) {
        self.remove(address);
        self.order.retain(|other| *other != address);
    }

    fn remove(&mut self, address: IpAddr) {
        let Some(neighbour) = self.neighbours.remove(&address) else { return };
        if let Some(until) = neighbour.until {
            self.deadlines.remove(&(until, address));
        }
        self.incomplete -= usize::from(neighbour.state == State::Incomplete);
        self.pending -= neighbour.pending.len();
        self.counters.undelivered += neighbour.pending.len() as u64;
        self.todo.extend(neighbour.pending.into_iter().map(Todo::Undelivered));
        self.todo.push_back(Todo::Set(address, None));
    }

    /// Makes room for one more neighbour: the oldest gives way that has no connection and is not asked for. False if none of the
    /// first few does.
    pub(super) fn make_room(&mut self, users: &impl Users) -> bool {
        if self.neighbours.len() < self.limits.neighbours {
            return true;
        }
        for _ in 0..EVICTION_TRIES {
            let Some(address) = self.order.pop_front() else { return false };
            let is_asked_for =
                self.neighbours.get(&address).is_some_and(|neighbour| neighbour.state == State::Incomplete);
            if is_asked_for || users.use_neighbour(address) {
                self.order.push_back(address);
                continue;
            }
            self.counters.evicted += 1;
            self.remove(address);
            return true;
        }
        false
    }
}

/// Neighbours that are looked at for one that may give way: a flood is not to cost a look at all of them for each frame.
const EVICTION_TRIES: usize = 8;
