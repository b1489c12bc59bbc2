//! Connections that are made before there is a call for them.

use std::rc::Rc;

use super::Pool;

impl Pool {
    /// Dials until there are so many connections, or as many as there may be: how many there are then. Those that are being dialled
    /// count, and calls that come meanwhile take them.
    pub(crate) async fn connect_ahead(self: &Rc<Self>, wanted: usize) -> usize {
        let mut dials = Vec::new();
        while self.connections.borrow().all.len() + self.dialing.get() < wanted
            && self.dialing.get() < self.context.dials
        {
            let Some(permit) = self.permit() else { break };
            dials.push(anywire_loops::spawn(self.dial(permit).run()));
        }
        self.want_no_more();
        for dial in dials {
            // One that fails is counted, and leaves fewer connections.
            let _ = dial.await;
        }
        self.connections.borrow().all.len()
    }
}
