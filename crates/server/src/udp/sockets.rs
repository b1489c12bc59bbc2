//! How the sockets of a service begin, each on its loop, and move if that loop dies.

use std::io;
use std::sync::Arc;

use anywire_loops::{LoopHandle, LoopState};
use anywire_wire::udp::Unregistered;
use tokio::sync::oneshot;

use super::counters::Counts;
use super::handle::{Part, Parts};
use super::handler::DatagramHandler;
use super::serve::{Deadline, Service};
use super::server::UdpLimits;

/// What all sockets of a service need.
#[derive(Clone)]
pub(super) struct Sockets<M> {
    pub(super) make: M,
    pub(super) limits: UdpLimits,
    pub(super) loops: Vec<LoopHandle>,
    pub(super) ended: Deadline,
    pub(super) parts: Parts,
}

/// Tells whether a socket was registered with its loop.
pub(super) type Registration = oneshot::Receiver<io::Result<()>>;

impl<M, H> Sockets<M>
where
    M: Fn() -> H + Clone + Send + 'static,
    H: DatagramHandler,
{
    /// Serves a socket on this loop. It has dropped so many datagrams on loops before. One that moves goes on elsewhere if the loop dies.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn begin(
        &self,
        socket: Unregistered,
        home: &LoopHandle,
        dropped_earlier: u32,
        moves: bool,
    ) -> io::Result<Registration> {
        let (counts, open) = Counts::of(socket.drop_counter()?, dropped_earlier);
        let moving = moves.then(|| socket.try_clone()).transpose()?;
        let moving =
            moving.map(|socket| Moving { service: self.clone(), home: home.clone(), socket: Some(socket) });
        let (make, limits, ended) = (self.make.clone(), self.limits.clone(), self.ended.clone());
        let (registered, registration) = oneshot::channel();
        let of_loop = Arc::clone(&counts);
        // Past the limit of hand-overs: nobody would receive.
        let task = home.spawn_always(move || async move {
            // Dropped last, when the counters are those of the end.
            let _moving = moving;
            let _open = open;
            match socket.register() {
                Ok(socket) => {
                    let service = Service::new(socket, make(), &limits, of_loop);
                    // If nobody waits for it the handle is gone, and the end is told.
                    let _ = registered.send(Ok(()));
                    service.run(ended).await;
                }
                // Nobody waits for a socket that has moved.
                Err(cause) => {
                    if let Err(Err(error)) = registered.send(Err(cause)) {
                        tracing::error!(%error, "{LOST}");
                    }
                }
            }
        });
        self.parts.add(Part { home: home.id(), counts, task: Some(task) });
        Ok(registration)
    }

    fn move_to_another_loop(&self, socket: Unregistered, died: &LoopHandle) -> io::Result<()> {
        let address = socket.local().clone();
        let Some(home) = self.loops.iter().find(|one| one.state() == LoopState::Running) else {
            return Ok(());
        };
        tracing::warn!(
            %address, died = %died.id(), receives = %home.id(),
            "the loop that received has died; another one receives"
        );
        let dropped_earlier = socket.drop_counter()?.drops().unwrap_or(0);
        self.begin(socket, home, dropped_earlier, true).map(drop)
    }
}

/// Belongs to the task of a socket. Dropped with it, it has another loop receive from the socket if the first one has died.
struct Moving<M, H>
where
    M: Fn() -> H + Clone + Send + 'static,
    H: DatagramHandler,
{
    service: Sockets<M>,
    home: LoopHandle,
    socket: Option<Unregistered>,
}

impl<M, H> Drop for Moving<M, H>
where
    M: Fn() -> H + Clone + Send + 'static,
    H: DatagramHandler,
{
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take()
            && self.home.state() == LoopState::Died
            && let Err(error) = self.service.move_to_another_loop(socket, &self.home)
        {
            tracing::error!(%error, "{LOST}");
        }
    }
}

const LOST: &str = "a service of datagrams lost an address, because another loop could not receive there";
