//! The limits of a server: how much of everything one peer, or all of them, may take.

use std::time::Duration;

use anywire_http::{HeadLimits, h2};

/// What a server allows, each with a default that suits a service on the open network.
///
/// Reaching a limit gives the peer the right status (or closes the connection, where no request was begun) and
/// counts in [`Counters`](crate::Counters); other connections go on. A timeout is never early. It is late by 1 ms and 1 % of its
/// length at most, and by as long as a handler has blocked the loop. `Duration::MAX` is none.
/// A route may have others ([`RouteLimits`](crate::RouteLimits)).
///
/// ```
/// use std::time::Duration;
/// use anywire_server::Limits;
///
/// let limits = Limits { head_timeout: Duration::from_secs(3), ..Limits::default() };
/// assert_eq!(limits.body_bytes, 4 * 1024 * 1024);
/// ```
#[derive(Debug, Clone)]
pub struct Limits {
    /// Size of a request's head and trailers, and the number of their fields (16 KiB, 100 fields).
    pub head: HeadLimits,
    /// Largest body that an extractor collects into memory, in bytes (4 MiB). A streamed body has no limit here: it
    /// is never held.
    pub body_bytes: usize,
    /// Fields of a query or a form, and cookies, that an extractor takes (1,000 each). More would be cheap to send and costly to hold.
    pub form_fields: usize,
    /// From so many arrays and objects in each other on, a JSON body is a 400 (128). That is also the most: each of them takes stack while it is
    /// read. If it is less, what a type skips counts, too.
    pub json_depth: usize,
    /// How much of a body that the handler left unread is read and thrown away to keep the connection (64 KiB);
    /// beyond it the connection is closed after the response.
    pub drain_bytes: u64,
    /// Body bytes on their way between a connection and its handler, each direction (64 KiB).
    pub body_in_flight_bytes: usize,
    /// Connections open at once, over all addresses of the server (`None`: 90 % of the process's descriptor limit). At the
    /// limit accepting pauses, and peers wait in the system's backlog.
    pub connections: Option<usize>,
    /// From a request's first byte (a connection's first request: from accept) to the end of its head (10 s), else
    /// 408. What ends slowloris.
    pub head_timeout: Duration,
    /// Between two requests on one connection (60 s).
    pub idle_timeout: Duration,
    /// Longest silence of a peer whose body the handler waits for (10 s), else the handler sees a typed error.
    pub body_timeout: Duration,
    /// From the request's head to the response's head (60 s), else 503 and the handler is dropped. The time that the
    /// handler spends waiting for the peer's body does not count, unless other handlers keep that back by what they leave
    /// unread ([`h2::Limits::connection_window_bytes`]). A body that streams after that has no limit in time, as long as the
    /// peer is there and takes it.
    pub handler_timeout: Duration,
    /// Interim responses (1xx) that a handler sends by [`Informational`](crate::Informational) before the final one (4), else it gets a
    /// typed error. With 100 Continue that is as many as older clients take, such as Go's.
    pub interim_responses: usize,
    /// Longest time in which a peer takes nothing of a response (30 s), else the connection is aborted. Over kernel TCP
    /// progress is what the peer's system acknowledges. A system with a large receive buffer acknowledges in large steps,
    /// so make this longer than the slowest peer needs for one step.
    pub write_timeout: Duration,
    /// Least rate of a peer that is waited for, sending a body or taking a response (1024 bytes a second; 0: none).
    /// Below it the peer is treated as if it were silent. Only time in which the peer is waited for counts.
    pub min_bytes_per_second: u64,
    /// How long a peer that sends a body may be waited for, from its first byte on, before its rate counts (5 s). A peer
    /// that takes a response has [`Limits::write_timeout`] instead, because its system reports progress in large steps.
    pub min_rate_grace: Duration,
    /// How long a handler may still work, or its streaming answer be silent, after the peer has ended its direction
    /// of the connection (10 s); then the handler is dropped. A peer that waits for its response and one that has left look the same.
    ///
    /// Over HTTP/1 a streaming response may also be silent for so long while 8 KiB or more stand behind its request. Then these are
    /// discarded, and the connection ends with the response: otherwise nobody would notice that the peer has left.
    pub half_close_timeout: Duration,
    /// How long a closing connection waits for the peer to take the last response, and to close (2 s).
    pub linger_timeout: Duration,
    /// How long a shutdown waits for the next request of an HTTP/1 connection that has none (100 ms), because it may be on its
    /// way. Its response says `Connection: close`. Without one the connection ends in order, as after
    /// [`idle_timeout`](Self::idle_timeout): half-closed, and read for up to [`linger_timeout`](Self::linger_timeout).
    pub shutdown_grace: Duration,
    /// How long a shutdown waits for the peer of an HTTP/2 connection to acknowledge that it opens no more streams (1 s). Requests that
    /// come until then are served. Then the final `GOAWAY` leaves: what comes behind that is not served, and its client knows so.
    pub http2_shutdown_grace: Duration,
    /// What only HTTP/2 has: streams at once, windows, and a limit for each known abuse of the protocol.
    pub http2: h2::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            body_bytes: 4 * 1024 * 1024,
            form_fields: 1000,
            json_depth: 128,
            drain_bytes: 64 * 1024,
            body_in_flight_bytes: 64 * 1024,
            connections: None,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(10),
            handler_timeout: Duration::from_secs(60),
            interim_responses: 4,
            write_timeout: Duration::from_secs(30),
            min_bytes_per_second: 1024,
            min_rate_grace: Duration::from_secs(5),
            half_close_timeout: Duration::from_secs(10),
            linger_timeout: Duration::from_secs(2),
            shutdown_grace: Duration::from_millis(100),
            http2_shutdown_grace: Duration::from_secs(1),
            http2: h2::Limits::default(),
        }
    }
}
