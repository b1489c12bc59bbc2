//! What the requests of one connection share, lent to one after another.
//!
//! A reference count would be simpler, but counting touches the shared value at every request, and with 10,000
//! connections it has left the cache by then: that one miss was an eighth of the server's own time. So the pointer
//! moves into the request and comes back when the request is dropped, and nobody looks behind it on the way.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use tokio::sync::Notify;

use crate::request::Context;

/// A connection's context while no request has it.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Unlike an address, never used twice on a loop.
    id: ContextId,
    context: Rc<Context>,
}

/// Tells the contexts of one loop apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ContextId(u64);

impl Kept {
    pub(crate) fn id(&self) -> ContextId {
        self.id
    }
}

/// Where contexts come back to; one a loop.
#[derive(Default)]
pub(crate) struct Lender {
    returned: Cell<Option<Kept>>,
    made: Cell<u64>,
    /// Connections whose peer has gone or whose handler has asked. Other requests do not touch this.
    gone: RefCell<HashMap<ContextId, Weak<Gone>>>,
}

impl Lender {
    /// Keeps a new context.
    pub(crate) fn keep(&self, context: Context) -> Kept {
        self.made.set(self.made.get() + 1);
        Kept { id: ContextId(self.made.get()), context: Rc::new(context) }
    }

    /// Lends it to a request.
    pub(crate) fn lend(self: &Rc<Self>, kept: Kept) -> Lease {
        Lease { kept: Some(kept), lender: Rc::clone(self) }
    }

    /// The context of this id, if its request was the last one to be dropped. A request that lives on (in a task of
    /// its own) keeps it, and the connection makes itself another.
    pub(crate) fn take_back(&self, id: ContextId) -> Option<Kept> {
        self.returned.take().filter(|kept| kept.id == id)
    }

    /// Whether the peer of this connection has gone. All who ask share one value, as long as one of them keeps it.
    pub(crate) fn gone(&self, id: ContextId) -> Rc<Gone> {
        let mut gone = self.gone.borrow_mut();
        if let Some(known) = gone.get(&id).and_then(Weak::upgrade) {
            return known;
        }
        if gone.len() == gone.capacity() {
            // Before it grows.
            gone.retain(|_, kept| kept.strong_count() > 0);
        }
        let new = Rc::default();
        gone.insert(id, Rc::downgrade(&new));
        new
    }
}

/// Whether a peer has ended its direction, and the tasks to notify.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    told: Cell<bool>,
    waiting: Notify,
}

impl Gone {
    pub(crate) fn tell(&self) {
        self.told.set(true);
        self.waiting.notify_waiters();
    }

    pub(crate) async fn told(&self) {
        while !self.told.get() {
            self.waiting.notified().await;
        }
    }
}

/// A request's hold on its connection's context.
pub(crate) struct Lease {
    /// `None` only while it is dropped.
    kept: Option<Kept>,
    lender: Rc<Lender>,
}

impl Lease {
    /// Whether the peer has gone.
    pub(crate) fn gone(&self) -> Rc<Gone> {
        self.lender.gone(self.kept().id)
    }

    fn kept(&self) -> &Kept {
        self.kept.as_ref().expect("a lease holds its context until it is dropped")
    }
}

impl Deref for Lease {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.kept().context
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.kept, f)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.lender.returned.set(self.kept.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::StateFactories;

    fn context() -> Context {
        Context {
            peer: "memory:test".parse().expect("an address"),
            credentials: None,
            states: Rc::new(StateFactories::default().instantiate()),
            body_limit_bytes: 0,
        }
    }

    #[test]
    fn who_has_gone_is_remembered_while_somebody_asks() {
        let lender = Lender::default();
        let (one, other) = (lender.keep(context()).id(), lender.keep(context()).id());
        let told = lender.gone(one);
        told.tell();
        assert!(lender.gone(one).told.get());
        assert!(!lender.gone(other).told.get());
        drop(told);
        assert!(!lender.gone(one).told.get(), "nobody has kept it");
        (0..10_000).for_each(|_| drop(lender.gone(lender.keep(context()).id())));
        assert!(lender.gone.borrow().len() < 100, "what nobody keeps is forgotten");
    }

    #[test]
    fn a_context_comes_back_to_its_own_connection_only() {
        let lender = Rc::new(Lender::default());
        let (one, other) = (lender.keep(context()), lender.keep(context()));
        let (one_id, other_id) = (one.id(), other.id());
        assert_ne!(one_id, other_id);
        let (lease, lives_on) = (lender.lend(one), lender.lend(other));
        drop(lease);
        assert!(lender.take_back(other_id).is_none());
        assert!(lender.take_back(one_id).is_none(), "a mistaken asker has dropped it: a new one is made");
        drop(lives_on);
        assert_eq!(lender.take_back(other_id).map(|kept| kept.id()), Some(other_id));
    }
}
