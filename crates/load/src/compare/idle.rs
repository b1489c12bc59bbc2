//! Connections that are open and send nothing.

use std::os::fd::OwnedFd;

use anywire_advice::{Chain, Message};
use anywire_loops::{Loops, Task};
use anywire_sys::descriptors;
use anywire_wire::{Connection, Dialer};
use tokio::sync::oneshot;

use crate::errors::LoadError;
use crate::handles::Handles;
use crate::plan::Plan;

/// Idle connections, until dropped.
pub(crate) struct Idle {
    /// Sockets, without anything beside them that takes memory of this process. Under high numbers, so that a server on
    /// `select` gets the low ones.
    _sockets: Vec<OwnedFd>,
    /// Connections on wires without sockets stay on the loop, in this task.
    on_loop: Option<OnLoop>,
}

struct OnLoop(Task<()>);

impl Drop for OnLoop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Idle {
    /// Opens so many connections to the address of the plan, one after another; the inner error says in words why one failed.
    ///
    /// # Errors
    ///
    /// The plan is wrong.
    pub(crate) fn open(
        loops: &Loops,
        plan: &Plan,
        handles: &Handles,
        count: usize,
    ) -> Result<Result<Self, Message>, LoadError> {
        if count == 0 {
            return Ok(Ok(Self { _sockets: Vec::new(), on_loop: None }));
        }
        let prepared = plan.prepare(handles)?;
        let (opened, result) = oneshot::channel();
        let task = loops.get(0).spawn(move || async move {
            let dialer = Dialer::new(prepared.dial);
            let (mut sockets, mut held) = (Vec::new(), Vec::new());
            for _ in 0..count {
                match dialer.dial(&prepared.address).await {
                    Ok(connection) => match socket_of(&connection) {
                        Some(socket) => sockets.push(socket),
                        None => held.push(connection),
                    },
                    // Fails if the opener is gone.
                    Err(error) => return drop(opened.send(Err(Chain(&error).message()))),
                }
            }
            let has_more = !held.is_empty();
            if opened.send(Ok((sockets, has_more))).is_ok() && has_more {
                // Until the task is aborted.
                std::future::pending::<()>().await;
            }
        });
        let on_loop = OnLoop(task);
        Ok(match anywire_loops::block_on(result) {
            Ok(Ok((sockets, has_more))) => {
                Ok(Self { _sockets: sockets, on_loop: has_more.then_some(on_loop) })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err("the client's loop has ended".into()),
        })
    }

    /// Whether the connections take memory of this process at the client's end.
    pub(crate) fn has_memory_here(&self) -> bool {
        self.on_loop.is_some()
    }
}

/// The socket alone: it stays open when the connection around it is dropped.
fn socket_of(connection: &Connection) -> Option<OwnedFd> {
    connection.as_fd()?.try_clone_to_owned().ok().map(descriptors::move_up)
}
