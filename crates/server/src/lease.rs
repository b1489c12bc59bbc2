//! What the requests of one connection share, lent to one after another.
//!
//! A reference count would be simpler, but counting touches the shared value at every request, and with 10,000
//! connections it has left the cache by then: that one miss was an eighth of the server's own time. So the pointer
//! moves into the request and comes back when the request is dropped, and nobody looks behind it on the way.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::request::Context;

/// A connection's context while no request has it.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Unlike an address, never used twice on a loop.
    id: ContextId,
    context: Rc<Context>,
}

/// Tells the contexts of one loop apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// A request's hold on its connection's context.
pub(crate) struct Lease {
    /// `None` only while it is dropped.
    kept: Option<Kept>,
    lender: Rc<Lender>,
}

impl Lease {
    /// Another hold on the same context, which goes nowhere when dropped.
    pub(crate) fn share(&self) -> Self {
        let kept = self.kept.as_ref().map(|kept| Kept { id: kept.id, context: Rc::clone(&kept.context) });
        Self { kept, lender: Rc::clone(&self.lender) }
    }
}

impl Deref for Lease {
    type Target = Context;

    fn deref(&self) -> &Context {
        let kept = self.kept.as_ref();
        &kept.expect("a lease holds its context until it is dropped").context
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
