//! Devices that wake the task that drives them; and the ports of a switch, made so.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use anywire_tcp::{Frames, Instant, Mac};

use crate::device::{Device, DeviceCounters};

/// A device that says when there is something to do, so that nobody need poll it.
pub trait LiveDevice: Device {
    /// Ready if [`receive`](Device::receive) may give something, or if there is [room](Device::room) for a
    /// batch again where at the last call there was none; else the task is woken once one of them is so. May
    /// be ready too early.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether, since the last call, somebody has gone for good whom it used to reach: time to ask
    /// [`reaches`](Self::reaches). Most devices cannot know.
    fn take_departure(&mut self) -> bool {
        false
    }

    /// Whether there still is somebody at the other end of a connection between these two; yes unless it is
    /// known that nobody ever will be.
    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let _ = (local, remote);
        true
    }
}

/// Makes live devices of the ports of one switch: whoever sends rings the bells of all the others. For the
/// few hosts of a loop; clones share the bells.
#[derive(Debug, Clone, Default)]
pub struct Bells {
    all: Rc<RefCell<Vec<Weak<Bell>>>>,
}

impl Bells {
    /// Hangs a bell on a port of the switch, or on a device around one.
    pub fn hang<D: Device>(&self, device: D) -> Hung<D> {
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
pub struct Hung<D> {
    device: D,
    own: Rc<Bell>,
    bells: Bells,
}

impl<D> Hung<D> {
    /// The device below.
    pub const fn device(&self) -> &D {
        &self.device
    }
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
