//! Devices of one switch that wake each other's owners: whoever sends rings the bells of all the others.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use anywire_stack::device::{Device, DeviceCounters};
use anywire_stack::stream::LiveDevice;
use anywire_tcp::{Frames, Instant, Mac};

/// The bells of one switch; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bells {
    all: Rc<RefCell<Vec<Weak<Bell>>>>,
}

impl Bells {
    /// Hangs a bell on a port of the switch, or on a device around one.
    pub(crate) fn hang<D: Device>(&self, device: D) -> Hung<D> {
        let own = Rc::new(Bell::default());
        let mut all = self.all.borrow_mut();
        all.retain(|bell| bell.strong_count() > 0);
        all.push(Rc::downgrade(&own));
        Hung { device, own, bells: self.clone() }
    }

    /// Wakes the owners of the other bells that `whom` says.
    fn ring(&self, own: &Rc<Bell>, whom: impl Fn(&Bell) -> bool) {
        for bell in self.all.borrow().iter().filter_map(Weak::upgrade) {
            if !Rc::ptr_eq(&bell, own) && whom(&bell) {
                bell.ring();
            }
        }
    }
}

/// A device with a bell; made by [`Bells::hang`].
#[derive(Debug)]
pub(crate) struct Hung<D> {
    device: D,
    own: Rc<Bell>,
    bells: Bells,
}

#[derive(Debug, Default)]
struct Bell {
    rung: Cell<bool>,
    /// There was no room for a batch when its owner went to sleep.
    is_short_of_room: Cell<bool>,
    owner: RefCell<Option<Waker>>,
}

impl Bell {
    fn ring(&self) {
        self.rung.set(true);
        let owner = self.owner.borrow_mut().take();
        if let Some(owner) = owner {
            owner.wake();
        }
    }
}

impl<D: Device> Device for Hung<D> {
    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        // A device that holds frames back may send some of them now.
        let sent_before = self.device.counters().frames_out;
        let count = self.device.receive(now, frames);
        if self.device.counters().frames_out != sent_before {
            self.bells.ring(&self.own, |_| true);
        } else if count > 0 {
            self.bells.ring(&self.own, |bell| bell.is_short_of_room.get());
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
            self.bells.ring(&self.own, |_| true);
        }
        count
    }

    fn mtu(&self) -> usize {
        self.device.mtu()
    }

    fn mac(&self) -> Mac {
        self.device.mac()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.device.next_deadline()
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}

impl<D: Device> LiveDevice for Hung<D> {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.own.rung.take() {
            return Poll::Ready(());
        }
        self.own.is_short_of_room.set(self.device.room() < Frames::BATCH);
        *self.own.owner.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}
