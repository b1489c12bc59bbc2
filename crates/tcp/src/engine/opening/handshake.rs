//! How a connection comes about: what both ends agree on, SYN-SENT, and SYN-RECEIVED after a simultaneous open.

use anywire_packet::{Addresses, Flags as Control, Offer, Seq};

use crate::congestion::{Algorithm, Window};
use crate::engine::input::out_of_order::Text;
use crate::engine::input::receive::{Arrived, remote_address};
use crate::engine::input::synchronized::age;
use crate::engine::ip::local::Listener;
use crate::engine::opening::listen::{SCALE_MAX, default_mss};
use crate::engine::output::scheduler;
use crate::engine::{ConnIndex, Engine};
use crate::half_open::{HalfOpen, Traits};
use crate::pool::SEGMENT_BYTES;
use crate::settings::Ecn;
use crate::tcb::{Flags, State, Tcb};

/// What the SYNs of both ends made possible.
#[derive(Clone, Copy)]
pub(crate) struct Agreed {
    pub(crate) peer_mss: u16,
    /// The peer's shift, if both scale (RFC 7323 2.2).
    pub(crate) scale: Option<u8>,
    /// TS.Recent, if both have timestamps.
    pub(crate) timestamps: Option<u32>,
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
}

impl Agreed {
    pub(crate) fn from_half_open(half: &HalfOpen, timestamps: bool) -> Self {
        Self {
            peer_mss: half.peer_mss,
            scale: half.window_scale,
            timestamps: (half.traits.has(Traits::TIMESTAMPS) && timestamps).then_some(half.ts_recent),
            sack: half.traits.has(Traits::SACK),
            ecn: half.traits.has(Traits::ECN),
        }
    }
}

impl Engine {
    /// The window of a SYN, which is never scaled.
    pub(crate) fn first_window(&self) -> u16 {
        self.settings.receive_window.min(u32::from(u16::MAX)) as u16
    }

    /// The shift that our largest window needs.
    pub(crate) const fn own_scale(&self) -> u8 {
        let bits = u32::BITS - self.settings.receive_window.leading_zeros();
        bits.saturating_sub(16) as u8
    }

    /// The MSS that we offer is the largest payload that fits into the route's packets without options (RFC 9293 MUST-14,
    /// RFC 6691). It also fits into a cell, because segments out of order must be stored.
    pub(crate) fn own_mss(&self, addresses: &Addresses) -> u16 {
        (self.local.mtu_to(remote_address(addresses)) - headers(addresses)).min(SEGMENT_BYTES as u16)
    }

    /// A TCB for a connection whose handshake our listener has completed. What the half-open one holds is the TCB's from then on.
    pub(crate) fn open_passive(
        &mut self,
        half: &HalfOpen,
        listener: &Listener,
        agreed: Agreed,
        rtt: Option<u32>,
    ) -> Option<ConnIndex> {
        let addresses = self.local.addresses(half.local, half.remote);
        let window = u32::from(self.first_window());
        let flags = Flags::PASSIVE.with(self.own_flags()).with(Flags::NO_NAGLE.when(listener.no_nagle));
        let index = self.tcbs.take()?;
        let tcb = &mut self.tcbs[index];
        debug_assert!(tcb.is_blank());
        tcb.ts_offset = half.ts_offset;
        tcb.remote = half.remote;
        tcb.remote_port = half.remote_port;
        tcb.local_port = half.local_port;
        tcb.local = half.local;
        tcb.neighbour = half.neighbour;
        tcb.state = State::Established;
        tcb.flags = flags;
        tcb.class = listener.class;
        let (rcv_nxt, snd_nxt) = (half.irs + 1, half.iss + 1);
        tcb.rcv_nxt = rcv_nxt;
        tcb.rcv_right = rcv_nxt + window;
        tcb.last_ack_sent = rcv_nxt;
        tcb.snd_una = snd_nxt;
        tcb.snd_nxt = snd_nxt;
        tcb.write_end = snd_nxt;
        tcb.snd_right = snd_nxt + u32::from(half.window);
        tcb.snd_wl1 = half.irs;
        self.agree(index, agreed, &addresses);
        let tcb = &mut self.tcbs[index];
        if let Some(rtt) = rtt {
            tcb.rtt.sample(rtt);
        } else if half.transmissions > 1 {
            after_lost_syn(tcb);
        }
        self.local.neighbours.note_progress(half.neighbour);
        self.counters.opened += 1;
        self.counters.accepted += 1;
        self.note_waiting(half.listener);
        if listener.keep_alive {
            self.keep_alive_by_settings(index);
        }
        self.time_idle(index);
        self.tell(index, Flags::TELL_OPENED);
        Some(index)
    }

    /// What the settings say of every connection.
    fn own_flags(&self) -> Flags {
        Flags::NEW_RENO.when(self.settings.congestion == Algorithm::NewReno)
    }

    /// Sets the agreed options of a TCB. Its SND.UNA is set already.
    #[inline(always)]
    fn agree(&mut self, index: ConnIndex, agreed: Agreed, addresses: &Addresses) {
        // What the peer and the path take, less the options of every segment (RFC 9293 3.7.1). A tiny MSS would make us send
        // all header and no data (CVE-2019-11479).
        let known = self.path_mtus.of(remote_address(addresses), self.now);
        let own = self.own_mss(addresses);
        let path = own.min(known.map_or(u16::MAX, |mtu| mtu - headers(addresses)));
        let options = if agreed.timestamps.is_some() { 12 } else { 0 };
        let own_scale = self.own_scale();
        let tcb = &mut self.tcbs[index];
        tcb.eff_mss = path.min(agreed.peer_mss.max(MSS_MIN)) - options;
        tcb.scales = agreed.scale.map_or(0, |shift| shift.min(SCALE_MAX) | own_scale << 4);
        tcb.ts_recent = agreed.timestamps.unwrap_or(0);
        tcb.ts_recent_age = age(self.tick);
        tcb.window = Window::new(tcb.snd_una - 1, tcb.eff_mss);
        tcb.flags.set(Flags::TIMESTAMPS.when(agreed.timestamps.is_some()));
        tcb.flags.set(Flags::SACK.when(agreed.sack).with(Flags::ECN.when(agreed.ecn)));
    }

    /// A segment for a connection in SYN-SENT (RFC 9293 3.10.7.3).
    pub(crate) fn in_syn_sent(&mut self, index: ConnIndex, arrived: &Arrived) {
        let segment = &arrived.segment;
        let tcb = &self.tcbs[index];
        let addresses = self.local.addresses(tcb.local, tcb.remote);
        let has_ack = segment.flags.has(Control::ACK);
        // First, the ACK.
        let is_acceptable = has_ack && tcb.snd_una.lt(segment.ack) && segment.ack.le(tcb.snd_nxt);
        if has_ack && !is_acceptable {
            if !segment.flags.has(Control::RST) {
                self.refuse(addresses, segment);
            }
            return;
        }
        // Second, a reset.
        if segment.flags.has(Control::RST) {
            if is_acceptable {
                self.break_off(index, crate::engine::End::Refused);
            }
            return;
        }
        // Fourth, the SYN.
        if !segment.flags.has(Control::SYN) {
            return;
        }
        let offer = segment.offer(&self.received[arrived.frame as usize]);
        let asked_ecn = self.settings.ecn == Ecn::Ask;
        let agreed_ecn = if has_ack {
            asked_ecn && segment.flags.has(Control::ECE) && !segment.flags.has(Control::CWR)
        } else {
            self.settings.ecn != Ecn::Off && segment.flags.has(Control::ECE | Control::CWR)
        };
        let agreed = self.agreed(offer, &addresses, agreed_ecn);
        let window = u32::from(self.first_window());
        let tcb = &mut self.tcbs[index];
        tcb.rcv_nxt = segment.seq + 1;
        tcb.rcv_right = tcb.rcv_nxt + window;
        tcb.last_ack_sent = tcb.rcv_nxt;
        if has_ack {
            tcb.snd_una = segment.ack;
        }
        self.agree(index, agreed, &addresses);
        let tcb = &mut self.tcbs[index];
        tcb.snd_right = segment.ack + u32::from(segment.window);
        tcb.snd_wl1 = segment.seq;
        let syn_sent_at = std::mem::take(tcb.syn_sent_at_mut());
        if has_ack {
            // Its timer may have expired and not have run yet. The clock of microseconds may even have wrapped since.
            let is_timely = tcb.backoff() == 0 && tcb.retransmit_at().is_some_and(|at| !at.is_due(self.tick));
            if is_timely {
                tcb.rtt.sample(self.now.short().wrapping_sub(syn_sent_at));
            } else {
                after_lost_syn(tcb);
            }
            tcb.state = State::Established;
            tcb.max_snd_wnd = segment.window >> 6;
            self.opened(index);
        } else {
            // Both opened at once (RFC 9293 3.5, figure 7): a SYN-ACK for the peer's SYN.
            tcb.state = State::SynReceived;
            tcb.snd_right = tcb.snd_una + u32::from(segment.window);
        }
        self.hold_text_of_syn(index, arrived);
        if has_ack {
            self.deliver_text_of_syn(index);
        }
        self.acknowledge_now(index);
    }

    /// The SYN of a simultaneous open has come again. As for a listener, what one of the peer's SYNs does not offer is not agreed, and
    /// what a later one adds is not either.
    #[cold]
    pub(crate) fn agree_on_less(&mut self, index: ConnIndex, arrived: &Arrived) {
        let segment = &arrived.segment;
        let offer = segment.offer(&self.received[arrived.frame as usize]);
        let tcb = &self.tcbs[index];
        let addresses = self.local.addresses(tcb.local, tcb.remote);
        // Whether a SYN-ACK is an ECN-setup one depends on our SYN.
        let has_ecn = segment.flags.has(Control::ACK) || segment.flags.has(Control::ECE | Control::CWR);
        let mut agreed = self.agreed(offer, &addresses, tcb.has(Flags::ECN) && has_ecn);
        let options = if tcb.has(Flags::TIMESTAMPS) { 12 } else { 0 };
        agreed.peer_mss = agreed.peer_mss.min(tcb.eff_mss + options);
        let shift_before = (tcb.scales != 0).then_some(tcb.scales & 0xf);
        agreed.scale = agreed.scale.and_then(|shift| shift_before.map(|before| before.min(shift)));
        agreed.sack &= tcb.has(Flags::SACK);
        // The echo is that of the latest SYN, and a SYN that was overtaken is none.
        let is_newer = |value: u32| value.wrapping_sub(tcb.ts_recent) as i32 > 0;
        let latest = |value| if is_newer(value) { value } else { tcb.ts_recent };
        agreed.timestamps = agreed.timestamps.filter(|_| tcb.has(Flags::TIMESTAMPS)).map(latest);
        self.tcbs[index].flags.clear(Flags::TIMESTAMPS.with(Flags::SACK).with(Flags::ECN));
        self.agree(index, agreed, &addresses);
    }

    /// Keeps text and FIN of the peer's SYN until the connection is open (RFC 9293 3.10.7.3): before that anybody may have sent them.
    pub(crate) fn hold_text_of_syn(&mut self, index: ConnIndex, arrived: &Arrived) {
        let (tcb, segment) = (&self.tcbs[index], &arrived.segment);
        let length = u32::from(segment.payload_len).min(tcb.rcv_right - tcb.rcv_nxt);
        let has_fin = segment.flags.has(Control::FIN) && length == u32::from(segment.payload_len);
        let text = self.before_known_end(index, Text { seq: tcb.rcv_nxt, length, skip: 0, has_fin });
        self.queue_out_of_order(index, arrived, text);
    }

    /// Text of the peer's SYN goes to the user. False if there is no user any more, and the connection is gone.
    #[inline]
    pub(crate) fn deliver_text_of_syn(&mut self, index: ConnIndex) -> bool {
        let tcb = &self.tcbs[index];
        if tcb.extension == Tcb::NO_EXTENSION {
            return true;
        }
        // An extension may as well be there for a rate, or for a duplicate to report.
        if self.extensions[tcb.extension].out_of_order_tail.is_none() {
            return true;
        }
        if tcb.has(Flags::DETACHED) {
            // The user will not read it (RFC 9293 3.6.1, MUST-12).
            self.reset_for_unread(index);
            return false;
        }
        self.join_out_of_order(index);
        self.drop_extension_if_calm(index);
        true
    }

    /// The handshake is behind a connection that we opened.
    pub(crate) fn opened(&mut self, index: ConnIndex) {
        self.counters.opened += 1;
        let tcb = &mut self.tcbs[index];
        self.local.neighbours.note_progress(tcb.neighbour);
        tcb.end_backoff();
        tcb.flags.clear(Flags::RETRANSMIT);
        tcb.end_handshake();
        if tcb.has(Flags::FIN_QUEUED) {
            // The user has ended its direction before there was one.
            tcb.state = State::FinWait1;
        }
        self.time_idle(index);
        self.tell(index, Flags::TELL_OPENED);
        if self.tcbs[index].has_unsent() {
            self.schedule(index);
        }
    }

    #[inline]
    fn agreed(&self, offer: Offer, addresses: &Addresses, ecn: bool) -> Agreed {
        Agreed {
            peer_mss: offer.mss.unwrap_or_else(|| default_mss(addresses)),
            scale: offer.window_scale,
            timestamps: offer.timestamps.filter(|_| self.settings.timestamps).map(|(value, _)| value),
            sack: offer.sack_permitted && self.settings.sack,
            ecn,
        }
    }

    /// Fills the TCB of a connection that we open, whose addresses and options are in it. The SYN waits in its ring.
    #[inline]
    pub(crate) fn fill_for_syn(&mut self, index: ConnIndex, iss: Seq, addresses: &Addresses) {
        let flags = self.own_flags().with(Flags::ACK_NOW);
        let tcb = &mut self.tcbs[index];
        tcb.flags.set(flags);
        tcb.state = State::SynSent;
        tcb.snd_una = iss;
        tcb.snd_nxt = iss;
        tcb.write_end = iss + 1;
        tcb.begin_handshake(scheduler::NEW);
        // Cells are filled for the smallest that the options may leave; the peer's SYN says more.
        tcb.eff_mss = (default_mss(addresses) - 12).min(SEGMENT_BYTES as u16);
    }
}

/// The SYN or its answer was sent more than once. The connection begins with one segment (RFC 5681 3.1) and an RTO of 3 s
/// (RFC 6298 5.7), which a round trip of one second gives.
fn after_lost_syn(tcb: &mut Tcb) {
    tcb.window.on_syn_lost(tcb.eff_mss);
    tcb.rtt.sample(1_000_000);
}

/// Bytes of IP and TCP headers without options.
const fn headers(addresses: &Addresses) -> u16 {
    if matches!(addresses, Addresses::V4 { .. }) { 40 } else { 60 }
}

/// The smallest MSS that is accepted: Linux has 48 and lets administrators raise it for this reason.
const MSS_MIN: u16 = 64;

/// The largest window that there is a scale for (RFC 7323 2.3).
pub(crate) const RECEIVE_WINDOW_MAX: u32 = (u16::MAX as u32) << SCALE_MAX;
