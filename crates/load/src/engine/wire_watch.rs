//! What the kernel says of one connection during the measured part: its data segments, retransmits and round trip.
//!
//! A connection is asked when it first has work in the measured part, and when it ends or the run does: twice, whatever it does
//! between. Bytes that have arrived and wait to be read belong to responses that are not counted yet; [`Watched`] counts these by
//! their length, so that segments and responses are of the same moment.

use anywire_sys::tcp_info::{self, TcpInfo};
use anywire_wire::Connection;

use crate::outcome::WireFigures;

/// Watches one connection. It does nothing on wires without segments.
#[derive(Debug)]
pub(crate) enum WireWatch {
    /// The measured part has not begun here.
    Waiting,
    /// It has, and this wire has no segments.
    Unknown,
    Begun(Moment),
}

/// What was so at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    info: TcpInfo,
    /// Responses that were read on this connection so far.
    answers: u64,
    /// Bytes that the kernel has and nobody has read.
    unread: u64,
}

impl WireWatch {
    /// Whether the measured part has yet to begin here.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting)
    }

    /// The measured part begins, or the connection has been opened in it.
    #[cold]
    pub(crate) fn begin(&mut self, connection: &Connection, answers: u64) {
        *self = Moment::of(connection, answers).map_or(Self::Unknown, Self::Begun);
    }

    /// The connection ends, or the run does.
    pub(crate) fn end(&self, connection: &Connection, answers: u64) -> Option<Watched> {
        let Self::Begun(begun) = self else { return None };
        let ended = Moment::of(connection, answers)?;
        Some(Watched::between(begun, &ended))
    }
}

impl Moment {
    fn of(connection: &Connection, answers: u64) -> Option<Self> {
        let socket = connection.as_fd()?;
        // Fails on sockets of other kinds, which have no segments.
        let info = TcpInfo::of(socket).ok()?;
        let unread = tcp_info::unread_bytes(socket).unwrap_or(0);
        Some(Self { info, answers, unread })
    }
}

/// What was seen of the connections of a loop, or of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Watched {
    connections: u64,
    segments: u64,
    /// Bytes that arrived; `None` on kernels that do not say.
    bytes: Option<u64>,
    answers: u64,
    unread_at_begin: u64,
    unread_at_end: u64,
    retransmits: u64,
    round_trips_us: f64,
    /// The largest segment that may arrive, of the connection with the smallest.
    segment_bytes: u32,
}

impl Watched {
    fn between(begun: &Moment, ended: &Moment) -> Self {
        let (before, now) = (&begun.info, &ended.info);
        let added = |field: fn(&TcpInfo) -> u32| u64::from(field(now).saturating_sub(field(before)));
        Self {
            connections: 1,
            segments: added(|info| info.data_segments_in),
            bytes: now.bytes_in.zip(before.bytes_in).map(|(now, before)| now.saturating_sub(before)),
            answers: ended.answers.saturating_sub(begun.answers),
            unread_at_begin: begun.unread,
            unread_at_end: ended.unread,
            retransmits: added(|info| info.retransmits),
            round_trips_us: now.round_trip.as_secs_f64() * 1e6,
            segment_bytes: now.segment_bytes_in.min(now.segment_bytes_out).max(1),
        }
    }

    /// Adds what was seen of others.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.segments += other.segments;
        self.bytes = self.bytes.zip(other.bytes).map(|(one, another)| one + another);
        self.answers += other.answers;
        self.unread_at_begin += other.unread_at_begin;
        self.unread_at_end += other.unread_at_end;
        self.retransmits += other.retransmits;
        self.round_trips_us += other.round_trips_us;
        self.segment_bytes = self.segment_bytes.min(other.segment_bytes);
    }

    /// The figures of the outcome.
    pub(crate) fn figures(&self) -> WireFigures {
        let bytes_per_response = self.bytes_per_response();
        let segments_per_response = bytes_per_response.map(|bytes| {
            // Rounded so that what is split by chance at an edge of the measured part is never taken for a split response.
            let unread = |bytes_unread: u64| bytes_unread as f64 / bytes;
            let answers = self.answers as f64 + unread(self.unread_at_end).ceil()
                - unread(self.unread_at_begin).floor();
            self.segments as f64 / answers.max(1.0)
        });
        WireFigures {
            segments_per_response,
            expected_segments_per_response: bytes_per_response
                .map(|bytes| (bytes / f64::from(self.segment_bytes)).ceil().max(1.0)),
            retransmits: Some(self.retransmits),
            round_trip_us: Some(self.round_trips_us / self.connections as f64),
        }
    }

    /// With all that TLS adds; `None` if nothing arrived.
    fn bytes_per_response(&self) -> Option<f64> {
        let bytes = (self.bytes? + self.unread_at_begin).checked_sub(self.unread_at_end)?;
        (self.answers > 0 && bytes > 0).then(|| bytes as f64 / self.answers as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one connection: 100 responses of 1000 bytes each, as so many segments.
    fn watched(segments: u64) -> Watched {
        Watched {
            connections: 1,
            segments,
            bytes: Some(100_000),
            answers: 100,
            unread_at_begin: 0,
            unread_at_end: 0,
            retransmits: 0,
            round_trips_us: 50.0,
            segment_bytes: 1448,
        }
    }

    #[test]
    fn a_response_in_one_segment_is_one() {
        let figures = watched(100).figures();
        assert_eq!(figures.segments_per_response, Some(1.0));
        assert_eq!(figures.expected_segments_per_response, Some(1.0));
        assert_eq!(watched(200).figures().segments_per_response, Some(2.0));
    }

    #[test]
    fn what_nobody_has_read_yet_is_a_response_too() {
        // Sixty-four connections, on each of which one response waited when the run ended.
        let mut one = watched(101);
        one.bytes = Some(101_000);
        one.unread_at_end = 1000;
        let mut all = one;
        (1..64).for_each(|_| all.merge(&one));
        assert_eq!(all.figures().segments_per_response, Some(1.0));
        // And one that waited when it began is of an earlier moment.
        let late = Watched { unread_at_begin: 1000, segments: 99, bytes: Some(99_000), ..watched(0) };
        assert_eq!(late.figures().segments_per_response, Some(1.0));
    }

    #[test]
    fn large_responses_may_take_several() {
        let mut large = watched(700);
        large.bytes = Some(1_000_000);
        assert_eq!(large.figures().expected_segments_per_response, Some(7.0));
        assert_eq!(large.figures().segments_per_response, Some(7.0));
    }

    #[test]
    fn without_a_response_the_figures_are_unknown() {
        let none = Watched { answers: 0, bytes: Some(0), ..watched(0) };
        assert_eq!(none.figures().segments_per_response, None);
        let old_kernel = Watched { bytes: None, ..watched(100) };
        assert_eq!(old_kernel.figures().segments_per_response, None);
    }
}
