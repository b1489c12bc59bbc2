//! A port of the switch: the device that an engine is given.

use std::cell::RefCell;
use std::rc::Rc;

use anywire_tcp::{Frames, Instant, Mac};

use super::fabric::Fabric;
use crate::device::{Capabilities, Device, DeviceCounters};

/// A port of a [`Switch`](super::Switch). It belongs to the core of the switch; dropping it frees it, and
/// what waits in it is lost.
pub struct Port {
    pub(super) fabric: Rc<RefCell<Fabric>>,
    pub(super) index: u16,
}

impl Port {
    /// Its address.
    pub fn mac(&self) -> Mac {
        self.fabric.borrow().slot(self.index).mac
    }

    /// How many frames wait to be received.
    pub fn waiting(&self) -> usize {
        self.fabric.borrow().slot(self.index).queue.len()
    }
}

impl Device for Port {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(self.fabric.borrow().settings.mtu);
        capabilities.mac = Some(self.mac());
        capabilities
    }

    #[inline]
    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.fabric.borrow_mut().receive(self.index, now, frames)
    }

    #[inline]
    fn room(&self) -> usize {
        self.fabric.borrow().room(self.index)
    }

    #[inline]
    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.fabric.borrow_mut().transmit(self.index, now, frames)
    }

    fn counters(&self) -> DeviceCounters {
        self.fabric.borrow().slot(self.index).counters
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.fabric.borrow_mut().close(self.index);
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port")
            .field("mac", &self.mac())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
