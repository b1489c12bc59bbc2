//! What a device knows of its link, and what of it its owner was not told yet.

use std::collections::VecDeque;

use crate::device::{Capabilities, LinkEvent};

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    Down,
    /// For good.
    Gone,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LinkState {
    now: Link,
    /// What the owner was told, or takes it for before.
    told: Link,
    /// Other changes that the owner was not told of.
    untold: VecDeque<LinkEvent>,
}

impl LinkState {
    /// That of a link whose owner takes it for up.
    pub(crate) const fn new(now: Link) -> Self {
        Self { now, told: Link::Up, untold: VecDeque::new() }
    }

    pub(crate) const fn is_up(&self) -> bool {
        matches!(self.now, Link::Up)
    }

    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self.now, Link::Gone)
    }

    /// The link is so now. One that is gone stays so: what is made anew under its name is another one.
    #[inline]
    pub(crate) const fn set(&mut self, now: Link) {
        if !self.is_gone() {
            self.now = now;
        }
    }

    /// Something else has happened.
    pub(crate) fn note(&mut self, event: LinkEvent) {
        self.untold.push_back(event);
    }

    /// The interface has this MTU now. One that is larger than before changes nothing: what was made for the smaller one stays.
    pub(crate) fn note_mtu(&mut self, capabilities: &mut Capabilities, mtu: u32) {
        let mtu = mtu as usize;
        if mtu < capabilities.mtu {
            capabilities.mtu = mtu;
            self.note(LinkEvent::MtuLowered { mtu });
        }
    }

    /// Whether the owner has something to hear.
    pub(crate) fn has_news(&self) -> bool {
        self.now != self.told || !self.untold.is_empty()
    }

    /// The next change that the owner was not told of: that of the link comes first.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<LinkEvent> {
        if self.told == self.now {
            return self.untold.pop_front();
        }
        self.told = self.now;
        Some(match self.now {
            Link::Up => LinkEvent::Up,
            Link::Down => LinkEvent::Down,
            Link::Gone => LinkEvent::Gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once_and_a_link_that_is_gone_stays_so() {
        let mut link = LinkState::new(Link::Up);
        assert!(!link.has_news() && link.next_event().is_none());
        let other = LinkEvent::KernelHasAddress([10, 0, 0, 2].into());
        link.note(other);
        link.set(Link::Down);
        assert!(link.has_news() && !link.is_up());
        let told = [link.next_event(), link.next_event(), link.next_event()];
        assert_eq!(told, [Some(LinkEvent::Down), Some(other), None]);
        for now in [Link::Up, Link::Gone, Link::Up, Link::Down] {
            link.set(now);
        }
        assert_eq!((link.next_event(), link.next_event()), (Some(LinkEvent::Gone), None));
        assert!(link.is_gone() && !link.has_news());
    }
}
