//! The task of each connection of a pool: it polls the connection, and tells the pool what has happened on it.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::Pool;
use crate::connection::Conn;
use crate::connection::event::Event;

/// The task of a connection. However it ends, the connection is closed.
pub(super) struct Drive {
    pub(super) pool: Rc<Pool>,
    pub(super) conn: Rc<Conn>,
}

impl Future for Drive {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { pool, conn } = &*self;
        loop {
            match ready!(conn.poll(cx, &pool.host)) {
                Event::Open(outcome) => {
                    pool.note(&outcome);
                    let refilled = pool.refill(conn);
                    pool.deliver(outcome);
                    if refilled.is_break() {
                        break;
                    }
                }
                Event::Over(outcome) => {
                    pool.note(&outcome);
                    pool.learn_end(conn);
                    // First the place, then the caller or the call that may need one.
                    pool.close(conn);
                    pool.deliver(outcome);
                    break;
                }
                Event::Evicted => {
                    pool.evict(conn);
                    break;
                }
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.pool.close(&self.conn);
    }
}
