//! The bounds of a client: how much of each thing, and how long each phase may take.
//!
//! Every value is a builder value of one client; there are no process-wide settings. Reaching a limit is a typed
//! [`Error`](crate::Error), never a hang. The loops' coarse deadlines measure durations.

use std::time::Duration;

use anywire_http::{HeadLimits, h2};

/// How much of each thing a client may hold.
///
/// ```
/// use anywire_client::Limits;
///
/// let limits = Limits { connections_per_origin: 8, queue_per_origin: 16, ..Limits::default() };
/// assert_eq!(limits.dials_per_origin, 32);
/// ```
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections to one origin, exact in sum over all loops, both versions of HTTP and all ways to it: by proxies, by wires, with any
    /// TLS. The addresses of a [`Balance`](crate::Balance) have as many each. Each loop has its share, and calls that are made on a loop
    /// may also use what the other loops have not opened of theirs: one loop alone has them all. Another loop that needs its share gets
    /// it back, from idle connections at once and from busy ones after their calls, and so does another way. Calls from outside take
    /// the loops in turn, and wait for the share of their loop, even if another loop has an idle connection. Default 512: one busy
    /// origin stays far below the descriptors of a process. At least 1.
    pub connections_per_origin: usize,
    /// Calls that may wait for a connection to one origin, in sum over all loops: each has its share. Default 32,768:
    /// a burst of 1,000 calls on one of 32 loops waits, and a queue of small requests stays below 32 MiB. One more
    /// call is
    /// [`QueueFull`](crate::Error::QueueFull).
    pub queue_per_origin: usize,
    /// Dials under way to one origin at a time, in sum over all loops, but one on each loop at least. Default 32: a
    /// burst does not hit a peer's accept queue all at once, and the waiters also take connections that come free
    /// meanwhile.
    pub dials_per_origin: usize,
    /// Pools that each loop keeps. Default 512: more origins than most programs call, and their connections stay below the descriptors
    /// of a process if each has one or two. An origin has one as a rule, and another one for each further route that its calls take: each
    /// [`via`](crate::Call::via), each [proxy of a call](crate::Call::proxy), upgrades through a proxy that relays the other calls, and each
    /// address of a [`Balance`](crate::Balance). A new pool takes the place of the one that is unused for longest. If all of them have
    /// calls, the call is [`TooManyOrigins`](crate::Error::TooManyOrigins).
    pub origins: usize,
    /// Interim responses (1xx) before the final one. Default 16: real peers send one or two (100, 103). One more is
    /// [`Interim`](crate::Error::Interim).
    pub interim_responses: usize,
    /// Bytes of a body that [`bytes`](crate::Response::bytes), [`text`](crate::Response::text) and
    /// [`json`](crate::Response::json) collect. Default 16 MiB: larger ones want to be streamed.
    pub body_bytes: usize,
    /// Bytes of one streamed response that are read ahead of the caller. Default 64 KiB: a few reads' worth, so that
    /// caller and loop overlap while a slow reader still stops the peer.
    pub body_ahead_bytes: usize,
    /// Bytes of an unread rest of a response that are drained, so that the connection serves the next call: of a dropped response
    /// (HTTP/1, while its connection is not [shared](crate::Pipelining)), of one that redirects, and of one whose call is retried. Default
    /// 64 KiB: as many as come without asking, and cheaper than a new connection. 0 drains nothing. The connection ends, and is counted,
    /// if the rest is longer, is not here within [`Timeouts::drain`], or belongs to a response that says it is a stream.
    pub drain_bytes: usize,
    /// Bytes of a streamed request body that are kept until the response begins, over HTTP/2: if the peer refuses the request
    /// unprocessed, such as by a GOAWAY, it goes out again with them (RFC 9113 section 8.7). Default 16 KiB, a copy of most
    /// bodies that a proxy sends on. Beyond that such a refusal is [`Stream`](crate::Error::Stream), and counted.
    pub replay_bytes: usize,
    /// Limits of the head and the trailers of a response. Default: [`HeadLimits::default`].
    pub head: HeadLimits,
    /// What only HTTP/2 has. `streams` are the calls on one connection at a time, if the peer allows as many: 256, twice what
    /// common servers allow, so that their limit counts. A window of 256 KiB for each response is 13 MB/s at a round trip
    /// of 20 ms. The connection's, 64 MiB, has room for all of them, so that callers who read nothing do not hold up the
    /// others. A ping is answered within 20 s. The rest has the defaults of [`h2::Limits`].
    pub http2: h2::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_per_origin: 512,
            queue_per_origin: 32_768,
            dials_per_origin: 32,
            origins: 512,
            interim_responses: 16,
            body_bytes: 16 << 20,
            body_ahead_bytes: 64 << 10,
            drain_bytes: 64 << 10,
            replay_bytes: 16 << 10,
            head: HeadLimits::default(),
            http2: h2::Limits {
                streams: 256,
                stream_window_bytes: 256 << 10,
                connection_window_bytes: 64 << 20,
                ping_deadline: Duration::from_secs(20),
                ..h2::Limits::default()
            },
        }
    }
}

impl Limits {
    /// With one at least of what calls cannot do without. No connection at all would make each wait for its acquire deadline.
    pub(crate) fn at_least_one(mut self) -> Self {
        for limit in [
            &mut self.connections_per_origin,
            &mut self.dials_per_origin,
            &mut self.origins,
            &mut self.http2.streams,
        ] {
            *limit = (*limit).max(1);
        }
        self
    }

    /// The part of `whole` that belongs to loop `index` of `loops`: the first `whole % loops` get one more.
    pub(crate) fn share(whole: usize, index: usize, loops: usize) -> usize {
        whole / loops + usize::from(index < whole % loops)
    }
}

/// How long each phase of a call, and each state of a connection, may last; `Duration::MAX` is no limit.
///
/// A timeout is never early. It is late by 1 ms and 1 % of its length at most, and by as long as a task has blocked the loop.
/// Even then a response that comes after `total` is a timeout, while bytes that are there by then are no silence.
///
/// ```
/// use std::time::Duration;
/// use anywire_client::Timeouts;
///
/// let timeouts = Timeouts { read: Duration::from_secs(2), ..Timeouts::default() };
/// assert_eq!(timeouts.connect, Duration::from_secs(3));
/// ```
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// Asked for a connection .. granted one, or allowed to dial. Default 5 s: a burst has that long to drain.
    pub acquire: Duration,
    /// The name of the origin to its first address. Default 2 s: a name server that is asked a second time has answered by then.
    pub resolve: Duration,
    /// All addresses of the origin together, from the first attempt on; through a proxy once for those of the proxy, and once more for the
    /// tunnel that it makes. Default 3 s: a first packet that is lost is sent again after one second.
    pub connect: Duration,
    /// The handshake of TLS, after the connection is there. Default 5 s: a few round trips of a bad line, and some work of
    /// a busy peer.
    pub handshake: Duration,
    /// How long a body waits for the 100 that it [expects](crate::ClientBuilder::expect_continue), before it is sent without one. Default 1 s, as
    /// in curl: many servers do not know that.
    pub expect: Duration,
    /// Longest time without progress in sending. Default 10 s: a peer that collects garbage, or has its disk to wait for, goes on
    /// before that.
    pub write: Duration,
    /// Last request byte .. first response byte, as [`Phase::Read`](crate::Phase::Read). A byte of the response's head begins this time
    /// anew, unless the call is [forwarded](crate::Client::forward), and so does an interim response. Default: `None`, which is as long as `read`, because most servers that are silent before a
    /// response may be so within it.
    pub first_byte: Option<Duration>,
    /// Longest silence: last request byte .. first response byte, unless `first_byte` has a limit of its own; then between response
    /// bytes, not counting the time in which the caller asks for none, or other callers leave so much unread that the peer may send
    /// none ([`h2::Limits::connection_window_bytes`]). Default 30 s: slow APIs and long polls take that long.
    pub read: Duration,
    /// Longest silence between the bytes of a body that says it is a stream (`text/event-stream`, `application/grpc`), if that is
    /// longer than `read`. Default: no limit, because such a stream may say nothing for as long as nothing happens.
    pub stream: Duration,
    /// Longest silence between the bytes of a body of unknown length in the response to [`Client::forward`](crate::Client::forward), if that
    /// is longer than `read`. Default 5 min, as in Envoy: it may be a stream, and a peer that died is still found.
    pub forwarded: Duration,
    /// The whole call: up to the last byte of a collected body; up to the head if the body is handed out as a
    /// stream, for which `stream_total` holds. Default 60 s: twice the longest silence, so that a slow call may be repeated once.
    pub total: Duration,
    /// The whole call, up to the last byte of a body that is handed out as a stream, however slowly it is taken. Default: no limit,
    /// because a stream may be long. [`total_timeout`](crate::ClientBuilder::total_timeout) sets both.
    pub stream_total: Duration,
    /// How long the rest of a response may take that nobody reads any more, up to [`Limits::drain_bytes`]. Default 500 ms: a few
    /// round trips, which is what a new connection costs.
    pub drain: Duration,
    /// An unused connection is closed after this, or after the peer's `Keep-Alive: timeout` less 1 s if that is
    /// shorter. Default 50 s: below the 60 s after which common servers and balancers close.
    pub idle: Duration,
    /// A connection this old, give or take 10 %, is closed after its response. Default 10 min: a change of DNS
    /// takes effect.
    pub lifetime: Duration,
    /// A pool without calls for this long is closed and forgotten. Default 10 min: its connections have ended before, and what is left of it
    /// is cheap to make anew.
    pub pool_unused: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            acquire: Duration::from_secs(5),
            resolve: Duration::from_secs(2),
            connect: Duration::from_secs(3),
            handshake: Duration::from_secs(5),
            expect: Duration::from_secs(1),
            write: Duration::from_secs(10),
            first_byte: None,
            read: Duration::from_secs(30),
            stream: Duration::MAX,
            forwarded: Duration::from_secs(300),
            total: Duration::from_secs(60),
            stream_total: Duration::MAX,
            drain: Duration::from_millis(500),
            idle: Duration::from_secs(50),
            lifetime: Duration::from_secs(600),
            pool_unused: Duration::from_secs(600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        for whole in [0, 1, 2, 3, 8, 511, 512, 513] {
            for loops in 1..9 {
                let sum: usize = (0..loops).map(|index| Limits::share(whole, index, loops)).sum();
                assert_eq!(sum, whole, "{whole} over {loops} loops");
            }
        }
    }
}
