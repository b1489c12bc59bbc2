//! What an operator asks of an interface that runs: its connections, its neighbours, its frames.

use std::net::IpAddr;

use anywire_tcp::{Frames, Info, Instant};

use super::core::Core;
use super::interface::Interface;
use crate::capture::{Recorder, Recording, Sink};
use crate::ip::{Layer, NeighbourInfo};

/// What is known of a connection: by the engine, and by its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// What the engine knows.
    pub tcp: Info,
    /// Bytes of payload that were sent, those that were sent again counted each time; of a connection that its user holds.
    pub bytes_sent: u64,
    /// Bytes that were written and acknowledged; of a connection that its user holds.
    pub bytes_acked: u64,
    /// Bytes that have arrived in order; of a connection that its user holds.
    pub bytes_received: u64,
}

impl Interface {
    /// What is known of its listeners and connections, a part at a time: looks at so many places of the engine, and says with which
    /// to go on. Begin with 0. See [`Engine::survey`](anywire_tcp::Engine::survey).
    pub fn survey(&self, from: u64, places: u32, out: &mut Vec<ConnectionInfo>) -> Option<u64> {
        let core = self.shared.core.borrow();
        let mut infos = Vec::new();
        let next = core.engine.survey(from, places, &mut infos);
        out.extend(infos.into_iter().map(|tcp| core.describe(tcp)));
        next
    }

    /// Neighbours on the link, with their states. None without a [layer](Self::with_layer).
    pub fn neighbours(&self) -> Vec<NeighbourInfo> {
        self.shared.core.borrow().lower.layer().map(Layer::neighbours).unwrap_or_default()
    }

    /// The addresses of the host, and whether each may be used: not while others are asked whether they have it. None without a
    /// [layer](Self::with_layer).
    pub fn own_addresses(&self) -> Vec<(IpAddr, bool)> {
        self.shared.core.borrow().lower.layer().map(Layer::own_addresses).unwrap_or_default()
    }

    /// Records frames in both directions until the sink [has no reader](crate::capture::SinkError::Closed). Arriving frames are recorded
    /// before the engine handles them, and leaving frames before the device takes them. An interface without a capture pays one branch a
    /// batch.
    pub fn capture(&self, recording: Recording, sink: impl Sink + 'static) {
        let recorder = Recorder::new(self.shared.now(), recording, sink);
        let recorders = &mut self.shared.core.borrow_mut().recorders;
        recorders.retain(|recorder| !recorder.is_closed());
        recorders.push(recorder);
    }

    /// Captures that run.
    pub fn captures(&self) -> usize {
        self.shared.core.borrow().recorders.len()
    }
}

impl Core {
    /// Adds what the stream of a connection knows.
    pub(super) fn describe(&self, tcp: Info) -> ConnectionInfo {
        let (read, written) = tcp.id.map_or((0, 0), |id| self.bytes_of(id));
        ConnectionInfo {
            tcp,
            bytes_sent: written.saturating_sub(tcp.notsent.into()) + tcp.bytes_retrans,
            bytes_acked: written.saturating_sub(tcp.send_q.into()),
            bytes_received: read + u64::from(tcp.recv_q),
        }
    }
}

/// Shows a batch to those that record. Those without a reader go.
#[cold]
pub(super) fn record(recorders: &mut Vec<Recorder>, now: Instant, frames: &Frames, is_inbound: bool) {
    recorders.retain_mut(|recorder| recorder.record(now, frames, is_inbound));
}
