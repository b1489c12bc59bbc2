//! Devices that wake the task that drives them.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::device::Device;

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
