//! What a connection tells its pool.

use crate::call::job::Outcome;

/// What has happened on a connection.
pub(crate) enum Event {
    /// It goes on, with as many slots as it says now. A call may have ended.
    Open(Outcome),
    /// It is over, and the last call on it.
    Over(Outcome),
    /// It was idle, and the peer closed it or sent bytes that no request asked for.
    Evicted,
}
