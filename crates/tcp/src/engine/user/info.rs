//! What is known of a connection, as Linux tells it by `TCP_INFO` and `ss -ti`.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;

use anywire_packet::icmp::ErrorKind;

use crate::congestion::Algorithm;
use crate::engine::{ConnId, ConnIndex, Engine, bytes_of_map};
use crate::half_open::Traits;
use crate::tcb::{Flags, State, Tcb};

/// The states of RFC 9293 3.3.2. `Display` writes them as `ss` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TcpState {
    /// A listener.
    Listen,
    /// We have sent a SYN.
    SynSent,
    /// A SYN has come, and was answered.
    SynReceived,
    /// Open in both directions.
    Established,
    /// We have ended our direction, which the peer has not acknowledged.
    FinWait1,
    /// The peer has acknowledged that, and its own direction is open.
    FinWait2,
    /// The peer has ended its direction; ours is open.
    CloseWait,
    /// Both have ended theirs, at the same time.
    Closing,
    /// Both have ended theirs, the peer first.
    LastAck,
    /// It is over, and its last segments may still be on the path.
    TimeWait,
    /// It is over, and its user still holds it.
    Closed,
}

impl fmt::Display for TcpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECV",
            Self::Established => "ESTAB",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "UNCONN",
        })
    }
}

/// What is known of a connection. The fields have the names that `ss` prints, where it prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// Its id; `None` if no user holds the connection.
    pub id: Option<ConnId>,
    /// Its state.
    pub state: TcpState,
    /// Address and port at our end.
    pub local: SocketAddr,
    /// Those at the peer's.
    pub peer: SocketAddr,
    /// Bytes that have arrived in order and were not read. Of a listener: connections that wait to be accepted.
    pub recv_q: u32,
    /// Bytes that were written and not acknowledged, sent or not. A SYN and a FIN count as one. Of a listener: its backlog.
    pub send_q: u32,
    /// Of these, the bytes that were never sent.
    pub notsent: u32,
    /// Segments in flight, as if all were full.
    pub unacked: u32,
    /// Segments in flight that the peer has, and others before them it has not.
    pub sacked: u32,
    /// Segments in flight that are taken for lost, as if all were full.
    pub lost: u32,
    /// How often the retransmission timeout is doubled: once for each time that it has fired since a round trip was measured
    /// (RFC 6298, section 5).
    pub backoff: u8,
    /// Segments that were sent again since it was opened.
    pub retrans: u32,
    /// Their payload, in bytes.
    pub bytes_retrans: u64,
    /// The retransmission timeout (RFC 6298), as often doubled as `backoff` says.
    pub rto: Duration,
    /// The smoothed round trip; zero if none was measured.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The most payload of a segment that is sent, options taken off (Eff.snd.MSS).
    pub mss: u16,
    /// The congestion window in segments of that size, rounded up.
    pub cwnd: u32,
    /// Where slow start ends, in such segments; none before the first loss.
    pub ssthresh: Option<u32>,
    /// Bytes that the peer's window lets us send from SND.UNA on.
    pub snd_wnd: u32,
    /// Bytes that our window lets the peer send from RCV.NXT on.
    pub rcv_wnd: u32,
    /// The shifts of both windows (RFC 7323, section 2): the peer's, and ours.
    pub wscale: (u8, u8),
    /// Timestamps were agreed (RFC 7323).
    pub ts: bool,
    /// SACK was agreed (RFC 2018).
    pub sack: bool,
    /// ECN was agreed (RFC 3168).
    pub ecn: bool,
    /// How its congestion window grows.
    pub algorithm: Algorithm,
    /// Errors about its segments that do not end it (RFC 9293 MUST-47): messages of ICMP, and neighbours that do not answer.
    pub soft_errors: u32,
    /// The last of them.
    pub soft_error: Option<SoftError>,
    /// Nobody holds it any more: it ends by itself.
    pub is_orphan: bool,
}

/// An error about a segment of a connection, which does not end it: the segment is sent again, and may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SoftError {
    /// The peer refuses the port or the protocol, as ICMP says; it may be forged (RFC 5927 5.2).
    Refused,
    /// A packet was too long for a hop, which takes so many bytes. Shorter ones are sent since.
    TooBig {
        /// Bytes of the longest IP packet that passes, as the message says.
        mtu: u32,
    },
    /// A router cannot deliver the packet: no route, no hop left, a filter (RFC 1122 4.2.3.9).
    Unreachable,
    /// A neighbour of ours that has to take the packet does not answer.
    Undelivered,
}

impl SoftError {
    /// What an error of this kind is to a connection that it does not end; none if it is to be discarded.
    const fn of(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::Refused => Some(Self::Refused),
            ErrorKind::TooBig { mtu } => Some(Self::TooBig { mtu }),
            ErrorKind::Soft => Some(Self::Unreachable),
            ErrorKind::Undelivered => Some(Self::Undelivered),
            ErrorKind::SourceQuench => None,
        }
    }
}

impl Info {
    const fn new(state: TcpState, local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            id: None,
            state,
            local,
            peer,
            recv_q: 0,
            send_q: 0,
            notsent: 0,
            unacked: 0,
            sacked: 0,
            lost: 0,
            backoff: 0,
            retrans: 0,
            bytes_retrans: 0,
            rto: Duration::ZERO,
            rtt: Duration::ZERO,
            rttvar: Duration::ZERO,
            mss: 0,
            cwnd: 0,
            ssthresh: None,
            snd_wnd: 0,
            rcv_wnd: 0,
            wscale: (0, 0),
            ts: false,
            sack: false,
            ecn: false,
            algorithm: Algorithm::Cubic,
            soft_errors: 0,
            soft_error: None,
            is_orphan: false,
        }
    }
}

impl Engine {
    /// What is known of a connection; none if its user has let go of it.
    pub fn info(&self, id: ConnId) -> Option<Info> {
        self.is_held(id).then(|| self.info_of(id.0))
    }

    /// What is known of all connections, half-open ones and TIME-WAITs included, a part at a time: looks at so many places, and says
    /// with which to go on. Begin with 0. The first part has the listeners too.
    ///
    /// Connections that open and end meanwhile may be seen or not.
    pub fn survey(&self, from: u64, places: u32, out: &mut Vec<Info>) -> Option<u64> {
        if from == 0 {
            out.extend(self.local.listeners().map(|listener| {
                let ip = listener.address.map(|address| self.local.address(address));
                let any = SocketAddr::from(([0; 4], 0));
                let local =
                    ip.map_or(SocketAddr::from(([0; 4], listener.port)), |ip| (ip, listener.port).into());
                let mut info = Info::new(TcpState::Listen, local, any);
                (info.recv_q, info.send_q) = (listener.waiting, listener.backlog);
                info
            }));
        }
        let (tcbs, half_open) = (u64::from(self.tcbs.places()), u64::from(self.half_open.places()));
        let all = tcbs + half_open + u64::from(self.time_wait.places());
        let end = all.min(from.saturating_add(places.max(1).into()));
        for place in from..end {
            // Each difference is below a number of places, which has 32 bits.
            if place < tcbs {
                let index = ConnIndex(place as u32);
                out.extend((self.tcbs[index].local_port != 0).then(|| self.info_of(index)));
            } else if place < tcbs + half_open {
                out.extend(self.info_of_half_open((place - tcbs) as u32));
            } else {
                out.extend(self.info_of_time_wait((place - tcbs - half_open) as u32));
            }
        }
        (end < all).then_some(end)
    }

    fn info_of(&self, index: ConnIndex) -> Info {
        let tcb = &self.tcbs[index];
        let peer = (self.local.peer(tcb.local, tcb.remote), tcb.remote_port).into();
        let mut info = Info::new(state_of(tcb.state), self.end_of(tcb.local, tcb.local_port), peer);
        info.is_orphan = tcb.has(Flags::DETACHED);
        info.id = (!info.is_orphan).then(|| ConnId(index, tcb.tag()));
        info.recv_q = tcb.readable();
        if tcb.state == State::Closed {
            return info;
        }
        let segments = |bytes: u32| bytes.div_ceil(tcb.eff_mss.max(1).into());
        info.send_q = tcb.write_end - tcb.snd_una;
        info.notsent = info.send_q.saturating_sub(tcb.flight());
        info.unacked = segments(tcb.flight());
        info.backoff = tcb.backoff();
        let troubles = self.troubles.of(index);
        (info.retrans, info.bytes_retrans) = (troubles.segments_again, troubles.bytes_again);
        (info.soft_errors, info.soft_error) = (troubles.soft_errors, troubles.soft_error);
        info.rto = Duration::from_millis(self.rto(index).into());
        info.rtt = Duration::from_micros(tcb.rtt.srtt_micros().into());
        info.rttvar = Duration::from_micros(tcb.rtt.rttvar_micros().into());
        info.mss = tcb.eff_mss;
        info.cwnd = segments(tcb.window.cwnd);
        info.ssthresh = (tcb.window.ssthresh != u32::MAX).then(|| segments(tcb.window.ssthresh));
        info.snd_wnd = right_of(tcb.snd_right - tcb.snd_una);
        info.rcv_wnd = right_of(tcb.rcv_right - tcb.rcv_nxt);
        info.wscale = (tcb.send_scale() as u8, tcb.receive_scale() as u8);
        info.ts = tcb.has(Flags::TIMESTAMPS);
        info.sack = tcb.has(Flags::SACK);
        info.ecn = tcb.has(Flags::ECN);
        info.algorithm = tcb.algorithm();
        if tcb.extension != Tcb::NO_EXTENSION {
            let extension = &self.extensions[tcb.extension];
            info.sacked = extension.sacked_segments.into();
            info.lost = segments(extension.lost_bytes);
        }
        info
    }

    fn info_of_half_open(&self, place: u32) -> Option<Info> {
        let half = &self.half_open[place];
        half.traits.has(Traits::USED).then(|| {
            let peer = (self.local.peer(half.local, half.remote), half.remote_port).into();
            let local = self.end_of(half.local, half.local_port);
            let mut info = Info::new(TcpState::SynReceived, local, peer);
            info.mss = half.peer_mss;
            info.snd_wnd = half.window.into();
            info.retrans = half.transmissions.saturating_sub(1).into();
            info.ts = half.traits.has(Traits::TIMESTAMPS);
            info.sack = half.traits.has(Traits::SACK);
            info.ecn = half.traits.has(Traits::ECN);
            info
        })
    }

    fn info_of_time_wait(&self, place: u32) -> Option<Info> {
        let wait = &self.time_wait[place];
        wait.traits.has(Traits::USED).then(|| {
            let peer = (self.local.peer(wait.local, wait.remote), wait.remote_port).into();
            let mut info = Info::new(TcpState::TimeWait, self.end_of(wait.local, wait.local_port), peer);
            info.ts = wait.traits.has(Traits::TIMESTAMPS);
            info.is_orphan = true;
            info
        })
    }

    fn end_of(&self, local: u16, port: u16) -> SocketAddr {
        let ip: IpAddr = self.local.address(local);
        (ip, port).into()
    }
}

/// What was sent again of each connection, and what errors were about it, of those that had any of it. Nothing of this is in the TCB, which
/// has no byte left, nor on the way of a segment that is sent once.
#[derive(Default)]
pub(crate) struct Troubles(HashMap<ConnIndex, Trouble>);

/// Those of a connection.
#[derive(Clone, Copy, Default)]
struct Trouble {
    segments_again: u32,
    bytes_again: u64,
    soft_errors: u32,
    soft_error: Option<SoftError>,
}

impl Troubles {
    /// A segment of the connection in this place is sent again, with so much payload.
    #[cold]
    pub(crate) fn count_again(&mut self, index: ConnIndex, bytes: u32) {
        let trouble = self.0.entry(index).or_default();
        trouble.segments_again = trouble.segments_again.saturating_add(1);
        trouble.bytes_again += u64::from(bytes);
    }

    /// An error was about a segment of it.
    pub(crate) fn note_error(&mut self, index: ConnIndex, kind: ErrorKind) {
        let Some(error) = SoftError::of(kind) else { return };
        let trouble = self.0.entry(index).or_default();
        trouble.soft_errors = trouble.soft_errors.saturating_add(1);
        trouble.soft_error = Some(error);
    }

    fn of(&self, index: ConnIndex) -> Trouble {
        self.0.get(&index).copied().unwrap_or_default()
    }

    /// The connection has ended.
    pub(crate) fn forget(&mut self, index: ConnIndex) {
        if !self.0.is_empty() {
            self.0.remove(&index);
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of_map(&self.0)
    }
}

/// The width of a window, which is none if its edge lies behind.
fn right_of(width: u32) -> u32 {
    if width.cast_signed() < 0 { 0 } else { width }
}

const fn state_of(state: State) -> TcpState {
    match state {
        State::Closed => TcpState::Closed,
        State::SynSent => TcpState::SynSent,
        State::SynReceived => TcpState::SynReceived,
        State::Established => TcpState::Established,
        State::FinWait1 => TcpState::FinWait1,
        State::FinWait2 => TcpState::FinWait2,
        State::CloseWait => TcpState::CloseWait,
        State::Closing => TcpState::Closing,
        State::LastAck => TcpState::LastAck,
        State::TimeWait => TcpState::TimeWait,
    }
}
