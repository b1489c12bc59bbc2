//! The connections of a pool, and the lists of those with a free slot.

use std::rc::Rc;

use slab::Slab;

use crate::connection::Conn;

#[derive(Default)]
pub(super) struct Connections {
    pub(super) all: Slab<Rc<Conn>>,
    /// [`Listed::Free`], the one used last at the end.
    pub(super) free: Vec<Rc<Conn>>,
    /// [`Listed::Pipelined`], in the same order.
    pub(super) pipelined: Vec<Rc<Conn>>,
}

impl Connections {
    fn list(&mut self, listed: Listed) -> Option<&mut Vec<Rc<Conn>>> {
        match listed {
            Listed::Nowhere => None,
            Listed::Free => Some(&mut self.free),
            Listed::Pipelined => Some(&mut self.pipelined),
        }
    }

    /// Puts a connection at the end of a list, unless it is there already.
    pub(super) fn enlist(&mut self, conn: &Rc<Conn>, listed: Listed) {
        if conn.listed.get() == listed {
            return;
        }
        self.unlist(conn);
        conn.listed.set(listed);
        self.list(listed).into_iter().for_each(|list| list.push(Rc::clone(conn)));
    }

    /// Takes a connection out of the list that it is in.
    pub(super) fn unlist(&mut self, conn: &Conn) {
        let Some(list) = self.list(conn.listed.replace(Listed::Nowhere)) else { return };
        if let Some(at) = list.iter().position(|other| std::ptr::eq(&**other, conn)) {
            list.remove(at);
        }
    }

    /// Takes out the last connection of a list.
    pub(super) fn pop(&mut self, listed: Listed) -> Option<Rc<Conn>> {
        let conn = self.list(listed)?.pop()?;
        conn.listed.set(Listed::Nowhere);
        Some(conn)
    }
}

/// Which list of its pool a connection is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    /// None: the connection has no free slot, or was taken out a moment ago.
    Nowhere,
    /// Connections with a free slot. A pipelined one is here while it is idle.
    Free,
    /// Busy pipelined connections (HTTP/1) with a free slot.
    Pipelined,
}
