//! How an engine behaves, and how much it holds.

use std::time::Duration;

use crate::congestion::Algorithm;

/// How an engine behaves. [`Settings::new`] gives defaults that suit both ends of the Internet.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// A secret: from it follow the keys of sequence numbers, timestamps, cookies, ports and the table, one for each (RFC
    /// 6528). Take it from the system's random numbers; in a test, from the seed.
    pub secret: [u64; 4],
    /// How the congestion window grows. Default: CUBIC (RFC 9438).
    pub congestion: Algorithm,
    /// How long an ACK may wait for company; RFC 9293 asks for less than 500 ms. Zero: until the end of the batch in
    /// which its data arrived. Default: 40 ms.
    pub delayed_ack: Duration,
    /// The minimum of the retransmission timeout beyond the round trip and the delay of the peer's ACKs. That delay counts
    /// as 200 ms until a lone segment has shown it, and as at most 504 ms. RFC 6298 says one second in all; with room for
    /// the delay a spurious timeout is rare. Default: 70 ms.
    pub rto_min: Duration,
    /// The longest one; RFC 6298 asks for at least 60 s. Default: 60 s.
    pub rto_max: Duration,
    /// How long data may stay without an ACK before the connection is given up (R2 of RFC 9293 3.8.3; RFC 5482). The time begins
    /// with the first retransmission timeout, which is a round trip and a bit after the data has left.
    /// Default: 180 s; a connection can have its own.
    pub user_timeout: Duration,
    /// How long an open may take; at least 180 s by RFC 9293 MUST-23. Default: 180 s.
    pub open_timeout: Duration,
    /// How often a SYN-ACK is sent again before the half-open connection is forgotten. Default: 5 (63 s in all).
    pub syn_ack_retries: u8,
    /// Idle time before the first keep-alive probe, for connections that ask for it; at least two hours by default (RFC
    /// 9293 MUST-28). In whole seconds, like the time between probes: see [`KeepAlive`](crate::KeepAlive).
    pub keep_alive_idle: Duration,
    /// Time between keep-alive probes. Default: 75 s.
    pub keep_alive_interval: Duration,
    /// Probes without an answer before the peer is taken for dead. Default: 9.
    pub keep_alive_probes: u8,
    /// How long a connection waits between two answers to segments that may be forged or may be answers themselves: challenge
    /// ACKs, and ACKs for segments without payload that are not acceptable (RFC 5961, section 7). It is the connection's own
    /// limit, whatever others do. Default: 500 ms, as in Linux; at least 1 ms.
    pub answer_interval: Duration,
    /// How long TIME-WAIT lasts: 2 x MSL. RFC 9293 has 4 min; everybody keeps 60 s, and so is the default.
    pub time_wait: Duration,
    /// How long FIN-WAIT-2 waits for the peer's FIN once no user holds the connection. Default: 60 s.
    pub fin_wait_2: Duration,
    /// Timestamps (RFC 7323). Default: on.
    pub timestamps: bool,
    /// SACK (RFC 2018). Default: on.
    pub sack: bool,
    /// Whether a connection whose long segments are lost three times in a row sends shorter ones, and then tries longer ones (RFC 4821,
    /// RFC 8899): some paths swallow what is too long, and no ICMP tells of it. Default: off, as with Linux: peers that only pretend to be deaf cost
    /// others more memory and time with it.
    pub probes_path_mtu: bool,
    /// The TTL of IPv4 and the hop limit of IPv6 in all segments that leave: how many routers they pass at most (RFC 9293 MUST-49). 0 counts
    /// as 1. Default: 64.
    pub hop_limit: u8,
    /// ECN (RFC 3168). Default: on for peers that ask for it; we do not ask.
    pub ecn: Ecn,
    /// The window that a connection announces at most, in bytes: what it keeps for a user who does not read. More than 1 GiB less
    /// 16 KiB counts as that (RFC 7323 2.3). Default: 256 KiB.
    pub receive_window: u32,
    /// Checksums are made and checked. Off only where nothing can be damaged. Frames of which the device says that theirs
    /// [needs no check](crate::Checksum) are spared it in any case. Default: on.
    pub checksums: bool,
    /// The device finishes the checksum of TCP in what leaves, which has a [partial](crate::Checksum::Partial) one. Default: off.
    pub checksum_offload: bool,
    /// Whether the device brings frames back that are for an address of the engine itself, as a mesh does. Elsewhere a segment
    /// from one of its own addresses is forged, and is dropped (RFC 1122 3.2.1.3), and none is connected to. Default: off.
    pub loops_back: bool,
    /// Whether segments without anything special take a shorter way through the engine. Off only in tests, which compare both
    /// ways.
    #[doc(hidden)]
    pub predicts: bool,
}

impl Settings {
    /// The default of [`hop_limit`](Self::hop_limit), as everybody has it.
    pub(crate) const HOP_LIMIT: u8 = 64;

    /// The defaults with this secret.
    pub const fn new(secret: [u64; 4]) -> Self {
        Self {
            secret,
            congestion: Algorithm::Cubic,
            delayed_ack: Duration::from_millis(40),
            rto_min: Duration::from_millis(70),
            rto_max: Duration::from_secs(60),
            user_timeout: Duration::from_secs(180),
            open_timeout: Duration::from_secs(180),
            syn_ack_retries: 5,
            keep_alive_idle: Duration::from_secs(7200),
            keep_alive_interval: Duration::from_secs(75),
            keep_alive_probes: 9,
            answer_interval: Duration::from_millis(500),
            time_wait: Duration::from_secs(60),
            fin_wait_2: Duration::from_secs(60),
            timestamps: true,
            sack: true,
            probes_path_mtu: false,
            hop_limit: Self::HOP_LIMIT,
            ecn: Ecn::Accept,
            receive_window: 256 * 1024,
            checksums: true,
            checksum_offload: false,
            loops_back: false,
            predicts: true,
        }
    }
}

/// Whether explicit congestion notification is used (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ecn {
    /// Never.
    Off,
    /// If the peer asks for it.
    Accept,
    /// Asked for by our SYNs as well.
    Ask,
}

/// How much an engine holds. A limit that the user reaches is said to the user: `listen` and `connect` fail, and `send` takes
/// fewer bytes. One that peers reach has a counter in [`Counters`](crate::Counters).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Connections. Default: 1,048,576. Each costs 128 bytes once it is there, and 8 of the table from the start; 64 more while a FIN
    /// of its own, without data, waits for its ACK. One that was aborted counts until its reset has left.
    pub connections: usize,
    /// Connections that have sent only a SYN. Above that, SYNs are answered with cookies. Default: 65,536.
    pub half_open: usize,
    /// TIME-WAITs; above that the oldest gives way. Default: 262,144.
    pub time_wait: usize,
    /// Connections that recover from a loss, or hold data out of order, at the same time, up to 16,777,215. Those on a path of
    /// less than 552 bytes count for as long as they are open, those that [look for its MTU](Settings::probes_path_mtu) for as long as
    /// they do, and both take at most half. Default: 65,536.
    pub extensions: usize,
    /// Bytes of segments in memory, sent and received, of all connections. The last eighth is for connections with an empty
    /// send queue. Data out of order may use a quarter. Data in order may use a quarter more. If the reader of its
    /// connection has read everything before, it may use three quarters more: two engines make progress even if both are
    /// full of data for each other. Default: 256 MiB.
    pub segment_bytes: usize,
    /// Bytes that a connection keeps until they are acknowledged. Default: 256 KiB.
    pub send_bytes: u32,
    /// Segments that a connection keeps until they are acknowledged. Default: 1024.
    pub send_segments: u16,
    /// Segments that a connection keeps out of order. Default: 256.
    pub out_of_order_segments: u16,
    /// Destinations whose path is remembered to be narrower than its first link (RFC 1191, RFC 8201), for ten minutes; above
    /// that the oldest gives way. Default: 4096.
    pub path_mtus: usize,
    /// Listeners. Default: 1024.
    pub listeners: usize,
    /// Next hops whose interfaces are known or asked for: destinations on the link, and gateways; at most 65,535. Those that no
    /// connection uses give way. Once three quarters are in use, SYNs are answered with cookies. Default: 16,384.
    pub neighbours: usize,
    /// Queued replies that belong to no connection (RST for strangers, SYN-ACK, ACK of TIME-WAIT), and probes of keep-alive and of
    /// closed windows, which take half of the places at most. Default: 4096.
    pub replies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1 << 20,
            half_open: 1 << 16,
            time_wait: 1 << 18,
            extensions: 1 << 16,
            segment_bytes: 256 << 20,
            send_bytes: 256 << 10,
            send_segments: 1024,
            out_of_order_segments: 256,
            path_mtus: 4096,
            listeners: 1024,
            neighbours: 1 << 14,
            replies: 4096,
        }
    }
}
