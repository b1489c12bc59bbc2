//! A device that carries frames as another one does, and says beside that what a test wishes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use anywire_stack::device::{Capabilities, Device, DeviceCounters, LinkEvent};
use anywire_tcp::{Frames, Instant};

/// What the device says. The test keeps it to change it.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) link_events: RefCell<VecDeque<LinkEvent>>,
    /// A host that is not reached any more.
    pub(crate) gone: Cell<Option<IpAddr>>,
    pub(crate) is_behind: Cell<bool>,
}

pub(crate) struct Scripted<D> {
    device: D,
    pub(crate) script: Rc<Script>,
}

impl<D> Scripted<D> {
    pub(crate) fn new(device: D) -> Self {
        Self { device, script: Rc::default() }
    }
}

impl<D: Device> Device for Scripted<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.device.receive(now, frames)
    }

    fn room(&self) -> usize {
        self.device.room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.device.transmit(now, frames)
    }

    fn is_behind(&self) -> bool {
        self.script.is_behind.get()
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        self.script.link_events.borrow_mut().pop_front()
    }

    fn reaches(&self, _: SocketAddr, remote: SocketAddr) -> bool {
        self.script.gone.get() != Some(remote.ip())
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}
