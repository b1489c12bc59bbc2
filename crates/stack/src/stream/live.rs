//! Devices that wake the task that drives them.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::device::Device;

/// A device that wakes its driver. Without one, a driver would have to poll.
pub trait LiveDevice: Device {
    /// Ready if [`receive`](Device::receive) may give frames, or if there is [room](Device::room) where there was none.
    /// Otherwise the task is woken when one of them holds. May be ready too early; and may wait until there is room for some more
    /// frames, so that they leave together.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether a peer that the device reached has gone for good since the last call: then ask
    /// [`reaches`](Self::reaches). Most devices cannot know.
    fn take_departure(&mut self) -> bool {
        false
    }

    /// Whether the peer of a connection between these two addresses may still answer. True unless the device knows
    /// that it never will.
    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let _ = (local, remote);
        true
    }
}
