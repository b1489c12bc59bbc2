//! How an exchange ends: for the connection, and for the caller.

use std::time::Duration;

use anywire_http::{BodyError, body};
use tokio::sync::oneshot;

use crate::job::Reply;

/// How a call ended, for the connection.
pub(crate) enum Outcome {
    /// It is over, and the connection may wait for another one for so long, if at all.
    Done {
        /// None: the connection is to be closed.
        reuse: Option<Duration>,
        /// For the caller, when the connection has its next state.
        last: Last,
    },
    /// The connection had died while it was idle: the call goes out once more, by [`Exchange::into_pending`](crate::exchange::Exchange::into_pending).
    Resend,
}

impl Outcome {
    /// The connection is to be closed.
    pub(crate) fn over(last: Last) -> Self {
        Self::Done { reuse: None, last }
    }
}

/// The last thing that a caller gets of a call.
pub(crate) enum Last {
    Nothing,
    Reply(oneshot::Sender<Reply>, Reply),
    BodyEnds(body::Sender),
    BodyBreaks(body::Sender, BodyError),
}

impl Last {
    /// Hands it out. A caller who is gone does not mind.
    pub(crate) fn deliver(self) {
        match self {
            Self::Nothing => {}
            Self::Reply(caller, reply) => drop(caller.send(reply)),
            Self::BodyEnds(sender) => sender.finish(),
            Self::BodyBreaks(sender, error) => sender.abort(error),
        }
    }
}

/// The `timeout` of a `Keep-Alive` field (RFC 2068 section 19.7.1.1).
pub(crate) fn peer_idle_timeout(value: &str) -> Option<Duration> {
    let parameters = value.split(',').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, seconds) = parameters.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("timeout"))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_idle_timeout_is_read_where_it_is_plain() {
        let seconds = |value: &str| peer_idle_timeout(value).map(|timeout| timeout.as_secs());
        assert_eq!(seconds("timeout=5, max=100"), Some(5));
        assert_eq!(seconds("max=100,Timeout=15"), Some(15));
        assert_eq!(seconds("timeout=soon"), None);
        assert_eq!(seconds("max=100"), None);
    }
}
