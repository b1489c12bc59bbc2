//! What an engine has counted since it was made.

/// Counters of an engine; all of them only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Frames that came in.
    pub frames_received: u64,
    /// Frames that went out.
    pub frames_sent: u64,
    /// Frames that were no TCP for an address of ours.
    pub frames_ignored: u64,
    /// Frames with a wrong checksum, length or option (RFC 9293 MUST-2, MUST-3, MUST-7).
    pub frames_malformed: u64,
    /// Fragments of IP, which are not put together.
    pub fragments_refused: u64,
    /// Answers that were not sent, and SYNs that were dropped, because all [`Limits::neighbours`](crate::Limits::neighbours) were in
    /// use.
    pub neighbours_refused: u64,
    /// Segments without an answer since no route leads to their sender: mostly SYNs from another network where no gateway is known
    /// ([`Engine::take_unroutable`](crate::Engine::take_unroutable) tells of the first).
    pub unroutable: u64,
    /// Connections that were opened, from both ends.
    pub opened: u64,
    /// Of those, the ones that the peer opened.
    pub accepted: u64,
    /// Connections that ended by FINs.
    pub closed: u64,
    /// Connections that ended by a reset, from either end.
    pub reset: u64,
    /// Connections given up because the peer did not answer.
    pub timed_out: u64,
    /// SYNs that were answered with a cookie, because too many were half open (RFC 4987).
    pub cookies_sent: u64,
    /// Connections that a cookie brought about.
    pub cookies_accepted: u64,
    /// SYNs that found no place and no cookie, and acceptances that found no TCB.
    pub refused_by_limit: u64,
    /// SYNs, and ACKs that would have ended a handshake, that were dropped because too many connections waited to be accepted
    /// ([`Engine::set_backlog`](crate::Engine::set_backlog)).
    pub listen_overflows: u64,
    /// TIME-WAITs cut short, because there were too many.
    pub time_wait_evicted: u64,
    /// TIME-WAITs that gave way to a new connection (RFC 6191).
    pub time_wait_reused: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Losses noticed without a timeout.
    pub fast_recoveries: u64,
    /// Loss probes (RFC 8985).
    pub loss_probes: u64,
    /// Segments outside the window, which were answered by an ACK.
    pub out_of_window: u64,
    /// Segments refused for an old timestamp (RFC 7323, section 5).
    pub refused_by_paws: u64,
    /// ACKs that challenge a RST, a SYN or an ACK that may be forged (RFC 5961).
    pub challenges: u64,
    /// Answers to segments without payload, and challenges, that their connection's own limit held back
    /// ([`Settings::answer_interval`](crate::Settings::answer_interval)).
    pub answers_withheld: u64,
    /// Segments held that arrived out of order.
    pub out_of_order: u64,
    /// Of these, the ones dropped again: no progress for a minute, or for two seconds where memory was short.
    pub out_of_order_dropped: u64,
    /// Connections that were reset because their peers had long closed windows while others found no memory.
    pub evicted_for_memory: u64,
    /// Payload dropped because no memory was left for it; the peer sends it again.
    pub dropped_for_memory: u64,
    /// ACKs with SACK blocks that were skipped, because sixteen others of the same connection had told nothing new in that
    /// millisecond.
    pub sacks_ignored: u64,
    /// Times that a connection began to send shorter segments, because long ones were lost again and again.
    pub black_holes_suspected: u64,
    /// Segments longer than the others, sent to see whether the path takes them (RFC 4821).
    pub path_probes: u64,
    /// Of these, the ones that it did not take.
    pub path_probes_lost: u64,
    /// Paths that were forgotten early, because too many narrow ones are known.
    pub path_mtus_evicted: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Replies that belong to no connection and had no room.
    pub replies_dropped: u64,
    /// Probes of closed windows.
    pub window_probes: u64,
    /// Keep-alive probes.
    pub keep_alives: u64,
}
