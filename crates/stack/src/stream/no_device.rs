//! What an interface has in place of its device once that is gone, or its driver has panicked.

use anywire_tcp::{Frames, Instant};

use crate::device::{Capabilities, Device, DeviceCounters};

/// Carries nothing, and still tells what the device was able to do and has counted.
pub(super) struct NoDevice {
    capabilities: Capabilities,
    counters: DeviceCounters,
}

impl NoDevice {
    /// In place of this one.
    pub(super) fn after(device: &dyn Device) -> Self {
        Self { capabilities: device.capabilities(), counters: device.counters() }
    }
}

impl Device for NoDevice {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _: Instant, _: &mut Frames) -> usize {
        0
    }

    fn room(&self) -> usize {
        0
    }

    fn transmit(&mut self, _: Instant, _: &mut Frames) -> usize {
        0
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}
