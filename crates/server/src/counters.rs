//! What a server counts: one writer a loop, so that counting is a load and a store, not an atomic read-modify-write.

use anywire_loops::Counter;
use anywire_wire::ListenerCounters;

/// The events that a server has counted since its start, summed over its loops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Connections open now, in whatever task they are.
    pub connections_open: u64,
    /// Connections taken since the start.
    pub connections: u64,
    /// How often accepting paused because [`Limits::connections`](crate::Limits::connections) were open.
    pub accept_pauses: u64,
    /// Handshakes under way now, on wires that have one, such as those with TLS.
    pub handshakes_under_way: u64,
    /// Handshakes made.
    pub handshakes: u64,
    /// Those of them that resumed an earlier session.
    pub resumed_handshakes: u64,
    /// Handshakes that failed, such as for a certificate; and peers that spoke clear text where TLS is spoken.
    pub failed_handshakes: u64,
    /// Of these, peers that spoke clear text. They are told so, and are neither a connection of HTTP nor a refusal.
    pub clear_text_peers: u64,
    /// Handshakes that took longer than [`ListenOptions::handshake_timeout`](anywire_wire::ListenOptions::handshake_timeout).
    pub handshake_timeouts: u64,
    /// Handshakes ended because [`ListenOptions::handshakes_max`](anywire_wire::ListenOptions::handshakes_max) were under
    /// way, and they were the oldest.
    pub ended_handshakes: u64,
    /// Requests whose head was complete.
    pub requests: u64,
    /// Requests refused by the decoder: bad syntax, too large, smuggling (the peer's fault).
    pub bad_requests: u64,
    /// Handlers that panicked, and bodies of their responses. Each was answered 500, or broken off if the response had begun.
    pub panics: u64,
    /// Panics of an [`Observer`](crate::Observer), and of the function of
    /// [`Server::on_refusal`](crate::Server::on_refusal). The request goes on.
    pub hook_panics: u64,
    /// Handlers that failed with a cause, answered 5xx; and responses of handlers that could not be sent, answered 500 or
    /// broken off (the server's fault).
    pub failures: u64,
    /// Requests that an extractor refused, and bodies that broke off on their way to a handler, or through it from
    /// another peer, such as an upstream (a peer's fault, or a limit).
    pub refused: u64,
    /// Requests refused because [`RouteLimits::concurrency`](crate::RouteLimits::concurrency) of their route were in work; each was
    /// answered 503.
    pub concurrency_refusals: u64,
    /// Requests refused because as many waited for the threads of their [pool](crate::Blocking::on_pool) as may, or because it ended;
    /// each was answered 503. A [`Pool`](anywire_loops::Pool) has counters of its own.
    pub pool_refusals: u64,
    /// Requests that had waited for a thread of their pool beyond their [queue deadline](crate::OnPool::queue_deadline); each was
    /// answered 503.
    pub queue_deadlines: u64,
    /// Interim responses that handlers have sent by [`Informational`](crate::Informational).
    pub interim_responses: u64,
    /// Handlers dropped at [`Limits::handler_timeout`](crate::Limits::handler_timeout); each was answered 503.
    pub handler_timeouts: u64,
    /// Requests answered 503 because a service of the tower crates was not ready, and as many as may wait for it did.
    pub not_ready: u64,
    /// Handlers and streaming answers that ended early because their peer reset the connection.
    pub abandoned: u64,
    /// Handlers and streaming answers that ended at
    /// [`Limits::half_close_timeout`](crate::Limits::half_close_timeout), after their peer had ended its direction.
    pub half_close_timeouts: u64,
    /// Heads that were not complete at [`Limits::head_timeout`](crate::Limits::head_timeout): answered 408, or closed
    /// if nothing of the first head had come.
    pub head_timeouts: u64,
    /// Bodies whose peer was silent for [`Limits::body_timeout`](crate::Limits::body_timeout).
    pub body_timeouts: u64,
    /// Bodies that came slower than [`Limits::min_bytes_per_second`](crate::Limits::min_bytes_per_second).
    pub slow_bodies: u64,
    /// Connections closed because nothing was asked for a whole
    /// [`Limits::idle_timeout`](crate::Limits::idle_timeout).
    pub idle_timeouts: u64,
    /// Connections aborted because the peer took nothing of a response for
    /// [`Limits::write_timeout`](crate::Limits::write_timeout).
    pub write_timeouts: u64,
    /// Connections aborted because the peer took a response slower than
    /// [`Limits::min_bytes_per_second`](crate::Limits::min_bytes_per_second).
    pub slow_readers: u64,
    /// Connections closed because the peer had not closed its end at
    /// [`Limits::linger_timeout`](crate::Limits::linger_timeout) after the last response.
    pub linger_timeouts: u64,
    /// Connections that left HTTP by an [`Upgrade`](crate::Upgrade).
    pub upgrades: u64,
    /// Connections that speak HTTP/2.
    pub http2_connections: u64,
    /// Requests refused because the peer had [`streams`](anywire_http::h2::Limits::streams) open. The peer may send them again.
    pub refused_streams: u64,
    /// HTTP/2 connections ended because too many of their streams ended too early (CVE-2023-44487, CVE-2025-8671):
    /// [`resets`](anywire_http::h2::Limits::resets).
    pub reset_floods: u64,
    /// HTTP/2 connections ended because of frames that move nothing:
    /// [`idle_frames`](anywire_http::h2::Limits::idle_frames).
    pub frame_floods: u64,
    /// HTTP/2 connections ended because a head came in too many frames (CVE-2024-27316):
    /// [`continuations`](anywire_http::h2::Limits::continuations).
    pub continuation_floods: u64,
    /// HTTP/2 connections ended because a head was many times larger decoded than its limit.
    pub header_bombs: u64,
    /// HTTP/2 connections ended because the peer did not acknowledge our settings or a ping in time.
    pub silent_peers: u64,
    /// Connections that ended by an error of the wire (reset and the like).
    pub wire_errors: u64,
}

impl Counters {
    /// Adds what a listener has counted.
    pub(crate) fn add_listener(&mut self, listener: &ListenerCounters) {
        self.handshakes_under_way += listener.handshakes_under_way;
        self.handshakes += listener.handshakes;
        self.resumed_handshakes += listener.resumed_handshakes;
        self.failed_handshakes += listener.failed_handshakes;
        self.clear_text_peers += listener.clear_text_peers;
        self.handshake_timeouts += listener.handshake_timeouts;
        self.ended_handshakes += listener.ended_handshakes;
    }
}

macro_rules! live {
    ($($field:ident)*) => {
        /// The counters of one loop as they are written.
        #[derive(Debug, Default)]
        pub(crate) struct Live {
            $(pub(crate) $field: Counter,)*
        }

        impl Live {
            /// Adds what this loop has counted to a sum.
            pub(crate) fn add_to(&self, sum: &mut Counters) {
                $(sum.$field += self.$field.value();)*
            }
        }
    };
}

live! {
    connections requests bad_requests panics hook_panics failures refused concurrency_refusals pool_refusals queue_deadlines interim_responses handler_timeouts not_ready abandoned
    half_close_timeouts head_timeouts body_timeouts slow_bodies idle_timeouts write_timeouts slow_readers linger_timeouts
    upgrades http2_connections refused_streams reset_floods frame_floods continuation_floods header_bombs silent_peers
    wire_errors
}
