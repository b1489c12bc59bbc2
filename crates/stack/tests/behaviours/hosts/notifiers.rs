//! Devices of one network that wake each other's owners: a device that sends notifies the owners of all others.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;

use anywire_stack::device::{Capabilities, Device, DeviceCounters, LinkEvent, Readiness};
use anywire_tcp::{Frames, Instant};

/// The notifiers of one network; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notifiers {
    all: Rc<RefCell<Vec<Weak<Notifier>>>>,
}

impl Notifiers {
    /// Attaches a notifier to a device.
    pub(crate) fn attach<D: Device>(&self, device: D) -> Notifying<D> {
        let own = Rc::new(Notifier::default());
        let mut all = self.all.borrow_mut();
        all.retain(|notifier| notifier.strong_count() > 0);
        all.push(Rc::downgrade(&own));
        Notifying { device, own, notifiers: self.clone() }
    }

    /// Wakes the owners of the other notifiers that `whom` selects.
    fn notify(&self, own: &Rc<Notifier>, whom: impl Fn(&Notifier) -> bool) {
        for notifier in self.all.borrow().iter().filter_map(Weak::upgrade) {
            if !Rc::ptr_eq(&notifier, own) && whom(&notifier) {
                notifier.notify();
            }
        }
    }
}

/// A device with a notifier; made by [`Notifiers::attach`].
#[derive(Debug)]
pub(crate) struct Notifying<D> {
    device: D,
    own: Rc<Notifier>,
    notifiers: Notifiers,
}

#[derive(Debug, Default)]
struct Notifier {
    is_notified: Cell<bool>,
    /// There was no room for a batch when its owner went to sleep.
    is_short_of_room: Cell<bool>,
    owner: RefCell<Option<Waker>>,
}

impl Notifier {
    fn notify(&self) {
        self.is_notified.set(true);
        let owner = self.owner.borrow_mut().take();
        if let Some(owner) = owner {
            owner.wake();
        }
    }
}

impl<D: Device> Device for Notifying<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        // A device that holds frames back may send some of them now.
        let sent_before = self.device.counters().frames_out;
        let count = self.device.receive(now, frames);
        if self.device.counters().frames_out != sent_before {
            self.notifiers.notify(&self.own, |_| true);
        } else if count > 0 {
            self.notifiers.notify(&self.own, |notifier| notifier.is_short_of_room.get());
        }
        count
    }

    fn room(&self) -> usize {
        self.device.room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        let sent_before = self.device.counters().frames_out;
        let count = self.device.transmit(now, frames);
        if self.device.counters().frames_out != sent_before {
            self.notifiers.notify(&self.own, |_| true);
        }
        count
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.device.next_deadline()
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Hook
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        if self.own.is_notified.take() {
            return true;
        }
        self.own.is_short_of_room.set(self.device.room() < Frames::BATCH);
        *self.own.owner.borrow_mut() = Some(owner.clone());
        false
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        self.device.link_event()
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}
