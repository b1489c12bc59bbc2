//! What each pattern has measured. Times are in microseconds unless a name says otherwise; what is not known is `None`.

use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// How connections are made and how long they last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionFacts {
    /// From the question for the name to the connection, the handshake of TLS not included.
    pub connect: f64,
    /// The handshake of TLS.
    pub tls: Option<f64>,
    /// The protocol that both ends agreed on (ALPN).
    pub alpn: Option<String>,
    /// Whether a connection served more than one request.
    pub keep_alive: bool,
    /// The fewest answers after which a connection was closed; `None` if none was.
    pub requests_until_close: Option<usize>,
    /// How connections of the single requests ended.
    pub closings: Closings,
    /// Whether more came behind the answers of a connection than was asked for; `None` if the last connection had ended.
    #[serde(default)]
    pub unasked: Option<bool>,
}

/// Connections that the server has ended, by how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closings {
    /// The answer before had said so (`Connection: close`, or HTTP/1.0).
    pub announced: usize,
    /// Between two answers, without a word; the request that was on its way is lost.
    pub unannounced: usize,
    /// Inside an answer.
    pub cut: usize,
    /// Answers that did not come in time; this end has closed then.
    pub timeouts: usize,
    /// Answers that were none, or over a limit; this end has closed then.
    pub refused: usize,
}

/// Data segments of TCP that came for answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segments {
    /// All of them.
    pub data_in: u64,
    /// For one answer, on average. A segment that the server has sent twice, because its acknowledgement was slow, is counted twice.
    pub per_response: f64,
    /// For one answer: half of them took no more. One that is sent twice now and then does not change it.
    pub p50: f64,
    /// How many would do for one answer, on average: its bytes divided by the largest segment.
    pub expected: f64,
    /// How many would do for one answer: for half of them no more.
    pub expected_p50: f64,
    /// The largest segment, in bytes.
    pub mss: u32,
    /// Answers of at most 16 KiB, by which the next two are counted.
    pub short_answers: usize,
    /// The share of short answers that took more segments than would do.
    pub above_expected: Option<f64>,
    /// The segments of a short answer beyond those that would do: half of the answers have no more.
    pub excess_p50: Option<f64>,
}

/// Reads of answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// For one answer, on average.
    pub per_response: f64,
    /// For one answer of at most 16 KiB: half of them have no more.
    pub short_p50: Option<f64>,
    /// The share of answers with a body of which a read brought the head alone, among answers of at most 16 KiB.
    pub head_alone: Option<f64>,
    /// The share of answers that took several reads.
    pub partial: f64,
}

/// Pauses within an answer: between its head and its body, or anywhere else.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// From the head to the body, where a read brought the head alone; `None` if no head came alone.
    pub head_to_body: Option<Spread>,
    /// The longest time between two reads of an answer; `None` if each came in one read.
    pub between_reads: Option<Spread>,
    /// The share of answers of at most 16 KiB that paused for 30 ms or more between two reads.
    pub over_30ms: Option<f64>,
    /// The same share while this end acknowledged at once; `None` if there was no reason to try. If the pauses vanish then, the server
    /// was waiting for the acknowledgement.
    pub over_30ms_acknowledged_at_once: Option<f64>,
    /// Half of the pauses while this end acknowledged at once are no longer.
    pub p50_acknowledged_at_once: Option<f64>,
}

/// From the sending of a request to the end of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyFacts {
    /// The times.
    #[serde(flatten)]
    pub spread: Spread,
    /// The share between 38 and 45 ms: Nagle's algorithm and a delayed acknowledgement.
    pub cluster_40ms: f64,
    /// The share between 195 and 230 ms: the shortest timeout of a retransmission on Linux.
    pub cluster_200ms: f64,
}

/// TCP on the connection of the single requests, at the end of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TcpFacts {
    /// Segments that this end has sent again, on all connections of the single requests.
    pub retransmits: u64,
    /// Segments that came out of order, which tells of losses in the other direction; `None` before Linux 5.4.
    pub out_of_order_in: Option<u64>,
    /// Data segments in both directions, by which the above are counted.
    pub data_segments: u64,
    /// The smoothed round trip.
    pub rtt: f64,
    /// Its variance.
    pub rttvar: f64,
    /// The congestion window, in segments.
    pub cwnd: u32,
    /// The latest rate at which the server acknowledged, in bytes a second.
    pub delivery_rate: Option<u64>,
    /// How long something was to be sent, or acknowledged.
    pub busy: Option<f64>,
    /// The part of that during which the server's window stopped the sending.
    pub rwnd_limited: Option<f64>,
    /// The part of that during which the own send buffer was full.
    pub sndbuf_limited: Option<f64>,
    /// The receive window of the server, in bytes; `None` before Linux 5.4.
    pub peer_window_bytes: Option<u32>,
}

/// The server's clock, by the field `Date`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// How far it is ahead of ours, in seconds: the smallest of all answers, as a date has whole seconds and may be as old.
    pub skew_seconds: f64,
}

/// The server's own time, by the field `Server-Timing`, beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServerTiming {
    /// Answers with such a time.
    pub answers: usize,
    /// The server's time: half of the answers have no more.
    pub said_p50: f64,
    /// The time on the wire of the same answers.
    pub seen_p50: f64,
    /// The time on the wire without the server's and without the round trip: half of the answers have no more.
    pub unexplained_p50: f64,
}

/// Several requests in one write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pipelining {
    /// Requests in the write.
    pub requests: usize,
    /// Answers that came.
    pub answered: usize,
    /// Whether all were answered.
    pub supported: bool,
    /// Whether the answers came in the order of the requests; `None` if the answers are all alike.
    pub in_order: Option<bool>,
    /// Whether the server closed before the last answer, and whether it had said so.
    pub closed: Option<bool>,
    /// Data segments of all answers.
    pub segments: Option<u64>,
    /// How many would do.
    pub segments_expected: Option<u64>,
    /// Reads of all answers.
    pub reads: usize,
    /// From the write to the last answer.
    pub time: f64,
}

/// Many connections at once, each with requests one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Many {
    /// Connections that were asked for.
    pub connections: usize,
    /// Connections that came about.
    pub opened: usize,
    /// Connections that took 0.9 s or more, which is the time after which a lost SYN is sent again.
    pub slow_connects: usize,
    /// The times of connecting.
    pub connect: Option<Spread>,
    /// Requests that were answered.
    pub answered: usize,
    /// Requests that had no answer.
    pub failed: usize,
    /// The first failure in words.
    pub first_failure: Option<String>,
    /// From the sending of a request to the end of its answer.
    pub latency: Option<Spread>,
    /// How long all of it took.
    pub time: f64,
}

/// A request with HEAD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Its status.
    pub status: u16,
    /// Whether its head states the length that GET has; `None` if either states none, if HEAD has another status, or if GET itself has
    /// now this length and now that one.
    pub same_length: Option<bool>,
    /// Whether a body came behind it, which breaks the connection.
    pub has_body: bool,
}

/// The same request, with codings offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    /// The codings that were offered (`Accept-Encoding`).
    pub offered: String,
    /// The coding that was chosen; `None`: none.
    pub coding: Option<String>,
    /// The length of the body as it came.
    pub body_bytes: u64,
    /// The length of the body without an offer.
    pub plain_bytes: u64,
}

/// A request whose body waits for `100 Continue`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// From the head of the request to `100 Continue`; `None` if none came within the second that clients wait.
    pub continue_after: Option<f64>,
    /// The final status; `None` if there was no answer, not even to the body.
    pub status: Option<u16>,
    /// Whether the final answer came before the body was sent.
    pub answered_without_body: bool,
    /// Whether it came to the body alone, and no `100 Continue` at all: the client has waited in vain.
    #[serde(default)]
    pub ignored: bool,
}

/// A long answer that is read as fast as it comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Large {
    /// The length of the body.
    pub body_bytes: u64,
    /// Answers.
    pub answers: usize,
    /// Bytes a second, of the middle one.
    pub bytes_per_second: f64,
    /// Data segments of one answer, on average.
    pub segments: Option<f64>,
    /// How many would do.
    pub segments_expected: Option<f64>,
}

/// What became of a long answer whose reader paused, and of quick requests on another connection meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowReader {
    /// How long nothing was read, in microseconds.
    pub pause: f64,
    /// Whether the answer was whole afterwards.
    pub complete: bool,
    /// Why not, in words.
    pub failure: Option<String>,
    /// Whether the server ended the connection inside the answer.
    #[serde(default)]
    pub cut: bool,
    /// The latency of the requests beside it.
    pub others: Option<Spread>,
}

/// A slow request, and quick ones on other connections beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowPath {
    /// The path of the slow request.
    pub path: String,
    /// How long it took.
    pub slow: f64,
    /// Connections with quick requests beside it.
    pub connections: usize,
    /// How long the quick ones took before.
    pub alone: Option<Spread>,
    /// How long those took that were sent while the slow one was under way.
    pub beside: Option<Spread>,
    /// Connections whose quick request waited for half of the time of the slow one, or longer.
    pub held_up: usize,
}

/// A connection of HTTP/2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Http2 {
    /// From the preface to the server's settings.
    pub settings: f64,
    /// Streams that may be open at once; `None`: as many as one likes.
    pub max_streams: Option<usize>,
    /// What may be sent on a new stream before the server says more, in bytes.
    pub stream_window_bytes: u32,
    /// What may be sent on all streams together, in bytes.
    pub connection_window_bytes: i64,
    /// The largest frame that the server takes, in bytes.
    pub frame_bytes: usize,
    /// The largest head that the server takes, in bytes.
    pub head_bytes: Option<usize>,
    /// The round trip of a PING.
    pub ping: Option<f64>,
    /// The status of an answer.
    pub status: u16,
    /// Single requests, one after the other.
    pub latency: Option<Spread>,
}

/// TLS, by the connections of the probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TlsFacts {
    /// The version that both ends agreed on.
    pub version: Option<String>,
    /// The suite.
    pub cipher_suite: Option<String>,
    /// The protocol that both ends agreed on (ALPN).
    pub alpn: Option<String>,
    /// Whom the certificate names.
    pub subject: Option<String>,
    /// Who has signed it.
    pub issuer: Option<String>,
    /// Days until the certificate ends; below 0 it has ended.
    pub days_left: Option<f64>,
    /// Days that it holds in all.
    pub days_in_all: Option<f64>,
    /// The versions that the server speaks, the oldest first; `None` if TLS is a part of the address that was named, so that there is no way
    /// to ask.
    #[serde(default)]
    pub versions: Option<Vec<String>>,
    /// Later connections that offered to resume a session.
    pub offered: usize,
    /// Those that the server resumed.
    pub resumed: usize,
    /// A whole handshake.
    pub handshake: Option<f64>,
    /// A resumed one.
    pub handshake_resumed: Option<f64>,
}
