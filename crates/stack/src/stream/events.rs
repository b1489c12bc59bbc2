//! What happens below TCP, told to one listener.

use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::Poll;

use super::interface::Shared;
use crate::ip::Event;

/// The events below TCP of an interface: an address is ready or in use elsewhere, a neighbour has moved, the link is down. Made by
/// [`Interface::events`](super::Interface::events). They do not keep the driver from ending.
pub struct Events {
    shared: Weak<Shared>,
}

impl Events {
    /// The events of an interface; none if they were given away already.
    pub(super) fn of(shared: &Rc<Shared>) -> Option<Self> {
        let is_taken = shared.with(|core| std::mem::replace(&mut core.are_events_taken, true));
        (!is_taken).then(|| Self { shared: Rc::downgrade(shared) })
    }

    /// The next event. None if the interface has no [layer](super::Interface::with_layer), or its driver has gone.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| match self.shared.upgrade() {
            Some(shared) => shared.with(|core| core.poll_event(cx)),
            None => Poll::Ready(None),
        })
        .await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.with(|core| core.are_events_taken = false);
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
