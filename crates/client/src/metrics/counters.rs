//! What a client counts, per loop.

use anywire_loops::Counter;
use anywire_loops::metrics::Kind;

use crate::Phase;

/// Makes [`Counters`] and the cells behind them from one list.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident,)+) => {
        /// Counts and gauges of the pools of one loop. Each deadline has a counter of its own.
        ///
        /// ```
        /// let client = anywire_client::Client::new();
        /// assert_eq!(client.counters().total().requests, 0);
        /// ```
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Each with its name, what it is, and what is counted.
            pub(crate) fn each(&self) -> Vec<(&'static str, Kind, &'static str, u64)> {
                vec![$((stringify!($name), Kind::$kind, concat!($($doc),+), self.$name),)+]
            }

            fn plus(self, other: &Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }
        }

        /// The cells behind [`Counters`].
        #[derive(Debug, Default)]
        pub(crate) struct Cells {
            $(pub(crate) $name: Counter,)+
        }

        impl Cells {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.value(),)+ }
            }
        }
    };
}

counters! {
    /// Calls that reached a pool of this loop, the refused ones included.
    Counter requests,
    /// Connections that were dialled with success.
    Counter dialed,
    /// Connections whose peer may be anybody, because
    /// [`dangerously_accept_any_certificate`](anywire_wire::tls::ClientTlsOptions) takes every certificate.
    Counter unverified,
    /// Bytes that came from peers, as HTTP sees them: without TLS, and without what an upgraded connection carries.
    Counter received_bytes,
    /// Bytes that peers were sent, as HTTP sees them.
    Counter sent_bytes,
    /// Dials beyond this loop's share of [`Limits::connections_per_origin`](crate::Limits::connections_per_origin), which other
    /// loops did not use.
    Counter lent,
    /// Connections that were closed, or are to be after their calls, because another loop was short of its share.
    Counter given_back,
    /// Connections that were closed, or are to be, because calls by another way to the same origin waited for one: through a proxy, say, while
    /// others go directly.
    Counter passed_on,
    /// Dials that failed or were too slow.
    Counter dial_failures,
    /// Dials that failed because the connection was made, and its handshake (TLS) failed or was too slow.
    Counter handshake_failures,
    /// Dials that failed because of a proxy: it could not be reached, or made no connection.
    Counter proxy_failures,
    /// Dials that failed because the name had no address, or none in time.
    Counter resolve_failures,
    /// Requests that went out on a connection that had already served one.
    Counter reused,
    /// Requests that went out once more within their attempt, because none was processed: their reused connection turned out
    /// dead, an HTTP/2 peer refused them or left before, a peer wanted no body that waits (417), or they were displaced.
    Counter resent,
    /// Requests that went out behind others on their way, by a [`Pipelining`](crate::Pipelining).
    Counter pipelined,
    /// Pipelined requests that were sent again, because their connection had ended before their response was due.
    Counter displaced,
    /// Responses that were read to their end though their callers had left, so that their connections stayed: see
    /// [`Limits::drain_bytes`](crate::Limits::drain_bytes).
    Counter drained,
    /// Connections that were closed because more was to come of a response whose caller had left than
    /// [`Limits::drain_bytes`](crate::Limits::drain_bytes) or [`Pipelining::drain_bytes`](crate::Pipelining::drain_bytes), or because it came
    /// later than [`Timeouts::drain`](crate::Timeouts::drain).
    Counter undrained,
    /// Calls that went to another address of a [`Balance`](crate::Balance) after their dial had failed.
    Counter moved,
    /// How often an address of a [`Balance`](crate::Balance) was out because of its failures.
    Counter ejected,
    /// Attempts beyond the first one of a call, by its [`Retries`](crate::Retries).
    Counter retried,
    /// Calls that ended because the budget of their origin's retries was spent.
    Counter retries_refused,
    /// Idle connections that were closed because the peer closed them, or sent unexpected bytes.
    Counter evicted,
    /// Calls that were refused because the queue was full.
    Counter queue_full,
    /// Calls that were refused because of [`Limits::origins`](crate::Limits::origins).
    Counter too_many_origins,
    /// Calls that ended because of [`Limits::interim_responses`](crate::Limits::interim_responses).
    Counter too_many_interim,
    /// Calls that ended because a peer had refused them unprocessed, and more of their body than
    /// [`Limits::replay_bytes`](crate::Limits::replay_bytes) had been sent.
    Counter replays_lost,
    /// Calls that ended because of [`Timeouts::acquire`](crate::Timeouts::acquire).
    Counter acquire_timeouts,
    /// Calls that ended because of [`Timeouts::resolve`](crate::Timeouts::resolve).
    Counter resolve_timeouts,
    /// Calls that ended because of [`Timeouts::connect`](crate::Timeouts::connect).
    Counter connect_timeouts,
    /// Calls that ended because of [`Timeouts::handshake`](crate::Timeouts::handshake).
    Counter handshake_timeouts,
    /// Calls that ended because of [`Timeouts::write`](crate::Timeouts::write).
    Counter write_timeouts,
    /// Calls that ended because of [`Timeouts::read`](crate::Timeouts::read), before the response's head was whole.
    Counter read_timeouts,
    /// Calls that ended because of [`Timeouts::read`](crate::Timeouts::read), after the response's head.
    Counter body_timeouts,
    /// Calls that ended because of [`Timeouts::total`](crate::Timeouts::total).
    Counter total_timeouts,
    /// Connections that were closed because of [`Timeouts::idle`](crate::Timeouts::idle), or the peer's hint.
    Counter idle_timeouts,
    /// Connections that were closed because of [`Timeouts::lifetime`](crate::Timeouts::lifetime).
    Counter lifetimes_ended,
    /// Pools that were closed because of [`Timeouts::pool_unused`](crate::Timeouts::pool_unused).
    Counter pools_unused,
    /// Panics of an [`Observer`](crate::Observer), which cost nothing but what it would have seen.
    Counter hook_panics,
    /// Calls that wait for a connection now.
    Gauge waiting,
    /// Connections with a call on them now.
    Gauge active,
    /// Connections without a call now.
    Gauge idle,
}

/// The counters of all loops of a client, in the order of its loops.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCounters {
    /// One for each loop.
    pub per_loop: Vec<Counters>,
}

impl ClientCounters {
    /// The sums over all loops.
    pub fn total(&self) -> Counters {
        self.per_loop.iter().fold(Counters::default(), Counters::plus)
    }

    /// The busiest loop's requests divided by the mean: 1.0 is even. 1.0 too while there are none.
    pub fn balance(&self) -> f64 {
        let most = self.per_loop.iter().map(|part| part.requests).max().unwrap_or(0);
        let sum = self.total().requests;
        if sum == 0 {
            return 1.0;
        }
        most as f64 * self.per_loop.len() as f64 / sum as f64
    }
}

impl Cells {
    /// Counts a call that ended because a deadline passed.
    pub(crate) fn count_timeout(&self, phase: Phase) {
        let cell = match phase {
            Phase::Acquire => &self.acquire_timeouts,
            Phase::Resolve => &self.resolve_timeouts,
            Phase::Connect => &self.connect_timeouts,
            Phase::Handshake => &self.handshake_timeouts,
            Phase::Write => &self.write_timeouts,
            Phase::Read => &self.read_timeouts,
            Phase::Body => &self.body_timeouts,
            Phase::Total => &self.total_timeouts,
        };
        cell.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_is_the_busiest_over_the_mean() {
        let part = |requests| Counters { requests, ..Counters::default() };
        assert_eq!(ClientCounters::default().balance(), 1.0);
        assert_eq!(ClientCounters { per_loop: vec![part(10), part(10)] }.balance(), 1.0);
        assert_eq!(ClientCounters { per_loop: vec![part(30), part(10)] }.balance(), 1.5);
    }

    #[test]
    fn totals_are_sums() {
        let part = Counters { requests: 2, idle: 1, ..Counters::default() };
        let total = ClientCounters { per_loop: vec![part, part] }.total();
        assert_eq!((total.requests, total.idle), (4, 2));
    }
}
