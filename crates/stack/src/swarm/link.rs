//! A swarm and what is below its engine: addresses that come and go, what happens on the link, and frames that leave.

use std::future::Future;
use std::io;
use std::net::IpAddr;

use anywire_tcp::Instant;

use super::conn::Incoming;
use super::driver::Swarm;
use crate::device::{Device, LinkEvent};
use crate::ip::{Event, Layer};

impl<F, S, D> Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: Device,
{
    /// What resolves addresses, with its counters and neighbours; none without a [layer](Self::with_layer).
    pub const fn layer(&self) -> Option<&Layer> {
        self.lower.layer()
    }

    /// Gives the host an address. With a [layer](Self::with_layer) it is used once nobody else has answered to it, which
    /// [`next_event`](Self::next_event) tells; without one at once.
    ///
    /// # Errors
    /// Inside is a [`LayerError`](crate::ip::LayerError), or without a layer a [`RouteError`](anywire_tcp::RouteError).
    pub fn add_address(&mut self, address: IpAddr) -> io::Result<()> {
        let now = self.now();
        self.lower.add_address(&mut self.state.engine, address, |layer| layer.add_address(now, address))
    }

    /// Takes an address away. Its connections end with [`NetworkDown`](anywire_tcp::End::NetworkDown), which their tasks hear in the next
    /// round, and their peers get a reset; listeners wait until it is back. Says how many connections have ended.
    pub fn remove_address(&mut self, address: IpAddr) -> usize {
        self.lower.remove_address(&mut self.state.engine, address)
    }

    /// The oldest event below TCP: an address is ready or in use elsewhere, a neighbour has moved, the link is down. To be asked for
    /// after each [`round`](Self::round) until there is none; of several changes of the link, the last one is told. Without a
    /// [layer](Self::with_layer) those of the link are all.
    pub fn next_event(&mut self) -> Option<Event> {
        self.lower.next_event()
    }

    /// Hears what the device tells of its link.
    #[inline]
    pub(super) fn follow_link(&mut self, now: Instant) {
        while let Some(event) = self.lower.take_link_event(now, &mut self.state.engine, &mut self.device) {
            // Nobody will answer any more, and no timer needs to find that out.
            match event {
                LinkEvent::Gone => {
                    self.state.engine.remove_addresses();
                }
                LinkEvent::Departed => self.end_unreachable(),
                _ => {}
            }
        }
    }

    /// Ends the connections whose other end has gone for good.
    #[cold]
    fn end_unreachable(&mut self) {
        let device = &self.device;
        let ended = self.state.engine.end_unreachable(|local, remote| device.reaches(local, remote));
        self.counters.departed += ended as u64;
    }

    /// Messages that the device has room for. What the engine has to send already comes first: nothing is to queue there.
    pub(super) fn room(&self) -> usize {
        self.device_room().saturating_sub(self.state.engine.waiting_to_transmit())
    }

    /// Whether something is to be sent, and the device has no room.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.unsent.is_empty() || self.wants_to_transmit() && self.device.room() == 0
    }

    /// Whether the engine, or the layer below it, has something to send.
    fn wants_to_transmit(&self) -> bool {
        self.state.engine.wants_to_transmit() || self.lower.wants_to_transmit()
    }

    /// Frames that the device has room for.
    fn device_room(&self) -> usize {
        if self.unsent.is_empty() { self.device.room() } else { 0 }
    }

    /// Sends as far as the device has room.
    pub(super) fn transmit(&mut self, now: Instant) -> usize {
        let mut sent = 0;
        if !self.unsent.is_empty() {
            sent += self.device.transmit(now, &mut self.unsent);
        }
        loop {
            let room = self.device_room();
            if room == 0 || !self.wants_to_transmit() {
                return sent;
            }
            let Self { state, lower, frames, .. } = self;
            state.engine.transmit_up_to(now, frames, room);
            let had_frames = !frames.is_empty();
            lower.output(now, &mut state.engine, frames, room);
            if frames.is_empty() {
                if had_frames {
                    // All of them wait for their neighbours.
                    continue;
                }
                return sent;
            }
            sent += self.device.transmit(now, &mut self.frames);
            if !self.frames.is_empty() {
                self.keep_unsent();
            }
        }
    }

    /// Puts aside what the device had no room for: the batch is needed for what arrives.
    #[cold]
    fn keep_unsent(&mut self) {
        if self.unsent.room() < self.frames.len() {
            self.unsent = self.device.batch();
        }
        std::mem::swap(&mut self.frames, &mut self.unsent);
    }
}
