//! What a neighbour's message changes (RFC 4861 7.2.3 and 7.2.5; RFC 826 read in the same way).

use std::net::IpAddr;

use anywire_packet::Mac;
use anywire_tcp::Instant;

use super::cache::{Cache, Neighbour, State, Todo, Users};

/// A message about the interface of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// It asks us for something (RFC 4861 7.2.3): we will answer, so it is worth knowing.
    Solicitation,
    /// It answers us, by a solicited advertisement (RFC 4861 7.2.5). One that does not override replaces no interface that is known.
    Solicited { overrides: bool },
    /// It tells everybody, by an unsolicited one (RFC 4861 7.2.6).
    Unsolicited { overrides: bool },
}

impl Cache {
    /// Takes in that `address` says to be at `mac`. Without one, a known neighbour has said that it is still there.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        address: IpAddr,
        mac: Option<Mac>,
        message: Message,
        users: &impl Users,
    ) {
        let Some(known) = self.neighbours.get(&address) else {
            if let (Some(mac), Message::Solicitation) = (mac, message) {
                self.remember(address, mac, users);
            }
            return;
        };
        let Some(before) = known.mac else {
            if let Some(mac) = mac {
                self.complete(now, address, mac, message);
            }
            return;
        };
        let is_other = mac.is_some_and(|mac| mac != before);
        let overrides = matches!(
            message,
            Message::Solicitation
                | Message::Solicited { overrides: true }
                | Message::Unsolicited { overrides: true }
        );
        if is_other && !overrides {
            // Somebody else says to have the address. Which of both is right, the next question shows.
            if known.state == State::Reachable {
                self.doubt(now, address, users);
            }
            return;
        }
        if let Some(mac) = mac.filter(|_| is_other) {
            self.replace(address, before, mac);
        }
        match message {
            Message::Solicited { .. } => self.confirm(now, address),
            // It was not asked, so that it hears us is not shown.
            _ if is_other => self.doubt(now, address, users),
            _ => {}
        }
    }

    /// A neighbour that has asked before we have anything to send.
    fn remember(&mut self, address: IpAddr, mac: Mac, users: &impl Users) {
        if !self.make_room(users) {
            return;
        }
        let neighbour = Neighbour {
            state: State::Stale,
            mac: Some(mac),
            until: None,
            tries: 0,
            pending: Default::default(),
        };
        self.neighbours.insert(address, neighbour);
        self.order.push_back(address);
    }

    /// The neighbour that was asked for is found.
    fn complete(&mut self, now: Instant, address: IpAddr, mac: Mac, message: Message) {
        let Some(neighbour) = self.neighbours.get_mut(&address) else { return };
        neighbour.mac = Some(mac);
        let pending = std::mem::take(&mut neighbour.pending);
        self.incomplete -= 1;
        self.pending -= pending.len();
        self.counters.resolved += 1;
        self.todo.push_back(Todo::Set(address, Some(mac)));
        self.todo.extend(pending.into_iter().map(|frame| Todo::Send(mac, frame)));
        if matches!(message, Message::Solicited { .. }) {
            self.confirm(now, address);
        } else {
            // Frames go there from now on.
            self.enter(address, State::Delay, Some(now + self.settings.progress_time));
        }
    }

    fn replace(&mut self, address: IpAddr, from: Mac, to: Mac) {
        if let Some(neighbour) = self.neighbours.get_mut(&address) {
            neighbour.mac = Some(to);
        }
        self.counters.moved += 1;
        self.todo.push_back(Todo::Set(address, Some(to)));
        self.todo.push_back(Todo::Moved { address, from, to });
    }

    /// Whether a neighbour is reachable is not sure any more. With connections it is about to be shown; without them the engine asks
    /// before its next frame.
    pub(super) fn doubt(&mut self, now: Instant, address: IpAddr, users: &impl Users) {
        if users.use_neighbour(address) {
            return self.enter(address, State::Delay, Some(now + self.settings.progress_time));
        }
        self.enter(address, State::Stale, None);
        self.todo.push_back(Todo::Set(address, None));
    }
}
