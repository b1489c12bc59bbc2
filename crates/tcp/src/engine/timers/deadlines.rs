//! Deadlines. An ACK never touches the wheel. A connection that has sent data is checked once, a moment later. Only if its
//! data has not been acknowledged by then does it take a place in the wheel. It keeps the place until that fires, however
//! often its deadline has moved.

use std::time::Duration;

use anywire_packet::{Flags as Control, OptionsOut, Outgoing, Seq};

use crate::engine::input::deliver::InFrame;
use crate::engine::output::reply::{Reply, without_payload};
use crate::engine::output::transmit::announce;
use crate::engine::{ConnIndex, End, Engine, Place};
use crate::fifo::Fifo;
use crate::recovery::{Probe, pto_micros};
use crate::rtt::RtoBounds;
use crate::settings::Settings;
use crate::tcb::{Flags, State, Tcb};
use crate::time::{FARTHEST_MILLIS, Instant, Tick};

/// Durations of the settings, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct Timings {
    pub(crate) delayed_ack: u32,
    pub(crate) rto: RtoBounds,
    pub(crate) user_timeout: u32,
    pub(crate) open_timeout: u32,
    pub(crate) answer_interval: u32,
    pub(crate) time_wait: u32,
    pub(crate) fin_wait_2: u32,
}

impl Timings {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            delayed_ack: ticks(settings.delayed_ack),
            rto: RtoBounds::new(ticks(settings.rto_min).max(1), ticks(settings.rto_max).max(1)),
            user_timeout: ticks(settings.user_timeout),
            open_timeout: ticks(settings.open_timeout),
            answer_interval: ticks(settings.answer_interval).max(1),
            time_wait: ticks(settings.time_wait),
            fin_wait_2: ticks(settings.fin_wait_2),
        }
    }

    /// How long a state lasts that ends by itself.
    fn last_state(&self, state: State) -> u32 {
        if state == State::TimeWait { self.time_wait } else { self.fin_wait_2 }
    }
}

/// A duration of the user's, up to half of what ticks can tell apart.
pub(crate) fn ticks(duration: Duration) -> u32 {
    duration.as_millis().min(FARTHEST_MILLIS.into()) as u32
}

impl Engine {
    /// Handles all timers that are due. To be called before [`transmit`](Self::transmit) whenever
    /// [`next_deadline`](Self::next_deadline) has passed.
    pub fn advance(&mut self, now: Instant) {
        self.set_now(now);
        self.settle();
        self.run_timers();
    }

    /// Handles all timers that are due now.
    pub(crate) fn run_timers(&mut self) {
        let mut due = [(ConnIndex::NONE, Tick(0)); GROUP];
        while let count @ 1.. = take_due(&mut self.delayed_acks, self.tick, usize::MAX, &mut due) {
            self.prefetch_all(&due[..count]);
            for (index, _) in &due[..count] {
                let tcb = &mut self.tcbs[*index];
                tcb.flags.clear(Flags::ACK_QUEUED);
                if tcb.has(Flags::ACK_OWED) {
                    self.acknowledge_now(*index);
                }
                self.check(*index);
            }
        }
        // If the wheel is full, an entry joins the queue again. Only the entries present now are handled, so this loop
        // ends.
        let mut left = self.fresh.len();
        while let count @ 1.. = take_due(&mut self.fresh, self.tick, FRESH_MAX, &mut due[..left.min(GROUP)]) {
            left -= count;
            self.prefetch_all(&due[..count]);
            for (index, at) in &due[..count] {
                let tcb = &mut self.tcbs[*index];
                if !tcb.has_fresh_entry(*at) {
                    // Of an earlier connection in this place: this one has its own entry, or has been looked at already.
                    continue;
                }
                tcb.flags.clear(Flags::FRESH);
                if !tcb.has(Flags::RETRANSMIT) && tcb.state.is_synchronized() {
                    // All that it has sent lately was acknowledged (RFC 4861 7.3.1).
                    self.local.neighbours.note_progress(tcb.neighbour);
                }
                if !tcb.is_left_to_wheel() {
                    self.look_at(*index);
                }
            }
        }
        self.look_at_young();
        self.advance_wheel();
        self.expire_time_waits();
    }

    fn prefetch_all(&self, due: &[(ConnIndex, Tick)]) {
        for (index, _) in due {
            self.tcbs.prefetch(*index);
        }
    }

    /// When [`advance`](Self::advance) is to be called next; at once if there is something to transmit.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.wants_to_transmit()
            || !self.delayed_ack_candidates.is_empty()
            || self.in_frames.iter().any(InFrame::is_some)
            || self.has_memory_to_give()
        {
            return Some(self.now);
        }
        self.next_timer()
    }

    /// When the next timer expires. Unlike [`next_deadline`](Self::next_deadline) it leaves out what waits for room to leave.
    pub fn next_timer(&self) -> Option<Instant> {
        let ticks = [
            self.wheel.next(),
            self.fresh.front().map(|(_, at)| at),
            self.delayed_acks.front().map(|(_, at)| at),
            self.next_young(),
            self.next_time_wait(),
        ];
        let left = ticks
            .into_iter()
            .flatten()
            .map(|at| if at.is_due(self.tick) { 0 } else { at.since(self.tick) })
            .min()?;
        Some(Instant::from_micros((self.now.as_micros() / 1000 + u64::from(left)) * 1000))
    }

    fn advance_wheel(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        loop {
            due.clear();
            let has_more = self.wheel.advance(self.tick, DUE_BATCH, &mut due);
            for (place, value) in due.iter().enumerate() {
                if let Some(Place::Tcb(coming)) = due.get(place + AHEAD).copied().map(Place::of) {
                    self.tcbs.prefetch(coming);
                }
                match Place::of(*value) {
                    Place::Tcb(index) => self.on_wheel(index),
                    Place::HalfOpen(place) => self.on_half_open_wheel(place),
                    Place::TimeWait(_) => {}
                }
            }
            if !has_more {
                break;
            }
        }
        self.due = due;
    }

    /// The wheel has come to a connection: perhaps for an entry that is out of date.
    fn on_wheel(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        if !tcb.wheel_at().is_some_and(|at| at.is_due(self.tick)) {
            return;
        }
        if tcb.state == State::Established
            && !tcb.has(Flags::RETRANSMIT.with(Flags::IDLE_TIMER))
            && tcb.extension == Tcb::NO_EXTENSION
        {
            // Only the timer of a flight was set, and that is acknowledged (RFC 4861 7.3.1).
            self.local.neighbours.note_progress(tcb.neighbour);
        }
        // If it is among the fresh as well, this look serves for both.
        tcb.flags.clear(Flags::IN_WHEEL.with(Flags::FRESH));
        self.look_at(index);
    }

    /// Handles the due timers of a connection, or makes sure that it is looked at again.
    fn look_at(&mut self, index: ConnIndex) {
        match self.deadline_of(index) {
            // Among the fresh as well: as long as the wheel is full, nothing else leads to it.
            Some(deadline) if deadline.is_due(self.tick) => self.on_deadline(index),
            Some(deadline) => self.set_deadline(index, deadline),
            None => {}
        }
        self.check(index);
    }

    /// The earliest of a connection's timers.
    pub(crate) fn deadline_of(&self, index: ConnIndex) -> Option<Tick> {
        let tcb = &self.tcbs[index];
        let retransmit = tcb.retransmit_at();
        if tcb.state == State::Established
            && !tcb.has(Flags::IDLE_TIMER)
            && tcb.extension == Tcb::NO_EXTENSION
        {
            return retransmit;
        }
        let other = if tcb.times_its_end() {
            Some(tcb.last_state_began_at().after(self.timings.last_state(tcb.state)))
        } else {
            self.probe_at(index)
        };
        let other = earlier(other, self.user_deadline(index));
        earlier(earlier(retransmit, other), earlier(self.pace_at(tcb), self.out_of_order_until(tcb)))
    }

    /// Starts the timer of a state that ends by itself.
    pub(crate) fn time_last_state(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        tcb.begin_last_state(self.tick);
        let wait = self.timings.last_state(tcb.state);
        self.set_deadline(index, self.tick.after(wait));
    }

    /// Makes sure that a connection is looked at by then.
    pub(crate) fn set_deadline(&mut self, index: ConnIndex, at: Tick) {
        let tcb = &mut self.tcbs[index];
        if tcb.is_looked_at_by(at) {
            return;
        }
        if self.wheel.insert(at, index.0).is_ok() {
            tcb.enter_wheel(at);
        } else {
            // Full of entries that are out of date: the queue of the fresh tries again.
            self.fresh.push_back((index, become_fresh(tcb, self.tick)));
        }
    }

    /// The same for what is [left to the wheel](Tcb::is_left_to_wheel): a look at the fresh may be skipped.
    pub(crate) fn set_deadline_in_wheel(&mut self, index: ConnIndex, at: Tick) {
        let tcb = &mut self.tcbs[index];
        let Some(looked_at) = tcb.wheel_at() else { return self.set_deadline(index, at) };
        if !at.is_before(looked_at) {
            return;
        }
        if self.wheel.insert(at, index.0).is_ok() {
            tcb.enter_wheel(at);
        } else {
            tcb.flags.clear(Flags::FRESH.with(Flags::IN_WHEEL));
            self.fresh.push_back((index, become_fresh(tcb, self.tick)));
        }
    }

    /// A segment has left that must be acknowledged: starts the timer if it does not run (RFC 6298, 5.1).
    #[inline]
    pub(crate) fn arm_retransmission(&mut self, index: ConnIndex) {
        let tcb = &self.tcbs[index];
        if !tcb.has(Flags::RETRANSMIT)
            || tcb.has(Flags::LOSS_TIMER.with(Flags::PROBING_WINDOW)) && !self.waits_for_reordering(tcb)
            // With its second full segment a flight may be probed.
            || tcb.extension == Tcb::NO_EXTENSION && self.probe_wait(tcb, self.rto(index)).is_some()
        {
            self.restart_retransmission(index);
        }
    }

    /// How long to wait for a loss probe, if there is one to wait for.
    #[inline]
    fn probe_wait(&self, tcb: &Tcb, rto: u32) -> Option<u32> {
        let may_probe = tcb.queued > 1
            && tcb.flight() >= 2 * u32::from(tcb.eff_mss)
            && tcb.has(Flags::SACK)
            && !tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT))
            && tcb.state.is_synchronized();
        if !may_probe {
            return None;
        }
        let pto = pto_micros(tcb.rtt.srtt_micros(), 2, 0, rto.saturating_mul(1000)).div_ceil(1000)
            + PTO_SLACK_MILLIS;
        let is_open = tcb.extension == Tcb::NO_EXTENSION || {
            let extension = &self.extensions[tcb.extension];
            extension.tlp.may_probe() && extension.sacked_segments == 0
        };
        (pto < rto && is_open).then_some(pto)
    }

    /// Sets the timer for data in flight. It is the loss probe with SACK and at least two full segments in flight (RFC 8985
    /// 7.2), whose ACK the peer may not delay. A probe for less data would wait for the latest delayed ACK, and so as long
    /// as the RTO. Otherwise it is the RTO.
    #[inline]
    pub(crate) fn restart_retransmission(&mut self, index: ConnIndex) {
        let rto = self.rto(index);
        let pto = self.probe_wait(&self.tcbs[index], rto);
        let tcb = &mut self.tcbs[index];
        tcb.flags.clear(Flags::LOSS_TIMER.with(Flags::PROBING_WINDOW));
        if pto.is_some() {
            tcb.flags.set(Flags::LOSS_TIMER);
        }
        let at = self.tick.after(pto.unwrap_or(rto));
        tcb.set_retransmit_at(at);
        if !tcb.is_looked_at_by(at) {
            self.fresh.push_back((index, become_fresh(tcb, self.tick)));
        }
    }

    /// The reordering timer of RFC 8985 6.2, step 5.
    pub(crate) fn set_loss_timer(&mut self, index: ConnIndex, at: Tick) {
        let tcb = &mut self.tcbs[index];
        if tcb.retransmit_at().is_some_and(|timer| timer.is_before(at)) {
            return;
        }
        tcb.flags.set(Flags::LOSS_TIMER);
        tcb.set_retransmit_at(at);
        self.set_deadline(index, at);
    }

    pub(crate) fn rto(&self, index: ConnIndex) -> u32 {
        let tcb = &self.tcbs[index];
        if matches!(tcb.state, State::SynSent | State::SynReceived) {
            return (crate::engine::opening::listen::INITIAL_RTO_MILLIS << tcb.backoff().min(6))
                .min(self.timings.rto.ceiling());
        }
        tcb.rtt.rto_millis(&self.timings.rto, tcb.peer_acks().delay_millis(), tcb.backoff().into())
    }

    /// One of a connection's timers has expired.
    #[cold]
    fn on_deadline(&mut self, index: ConnIndex) {
        let mut waited = self.end_wait(index) | self.expire(index);
        let mut put_off_millis = 1;
        if self.out_of_order_until(&self.tcbs[index]).is_some_and(|until| until.is_due(self.tick)) {
            self.drop_out_of_order(index);
            waited = true;
        }
        let tcb = &self.tcbs[index];
        if tcb.retransmit_at().is_some_and(|at| at.is_due(self.tick)) {
            if tcb.has(Flags::PROBING_WINDOW) {
                put_off_millis = self.probe_window(index);
            } else if tcb.has(Flags::LOSS_TIMER) {
                self.on_loss_timer(index);
            } else {
                self.on_rto(index);
            }
        } else if !waited {
            if tcb.times_its_end() {
                // A user that still holds it is told of the end.
                return self.end(index, End::Closed);
            }
            put_off_millis = self.probe_peer(index);
        }
        if let Some(deadline) = self.deadline_of(index) {
            // Entries that have to wait are not looked at again before there is something to do, or this would never end.
            let soonest = self.tick.after(put_off_millis);
            self.set_deadline(index, if deadline.is_before(soonest) { soonest } else { deadline });
        }
    }

    /// RFC 6298, section 5: nothing got through for the RTO.
    fn on_rto(&mut self, index: ConnIndex) {
        if let Some(wait) = self.waits_for_rate(index) {
            // It has not left, so nobody can have answered.
            let again = self.tick.after(wait).after(self.rto(index));
            let tcb = &mut self.tcbs[index];
            tcb.set_stalled_at(tcb.stalled_at().after(wait));
            return tcb.set_retransmit_at(again);
        }
        let user_timeout = self.user_timeout_of(index);
        let tcb = &mut self.tcbs[index];
        if tcb.timeouts() == 0 {
            tcb.set_stalled_at(self.tick);
        }
        let stalled = self.tick.since(tcb.stalled_at());
        let is_opening = matches!(tcb.state, State::SynSent | State::SynReceived);
        let limit = if is_opening { self.timings.open_timeout } else { user_timeout };
        if stalled >= limit {
            self.counters.timed_out += 1;
            return self.break_off(index, End::TimedOut);
        }
        tcb.note_timeout();
        if is_opening {
            tcb.flags.set(Flags::ACK_NOW);
            self.counters.retransmits += 1;
            self.troubles.count_again(index, 0);
            self.schedule(index);
        } else {
            self.suspect_black_hole(index);
            self.on_retransmission_timeout(index);
        }
        // Not beyond the moment at which it is given up.
        let wait = self.rto(index).min(limit - stalled);
        self.tcbs[index].set_retransmit_at(self.tick.after(wait));
    }

    /// The loss probe, or the check for reordering, is due.
    fn on_loss_timer(&mut self, index: ConnIndex) {
        self.tcbs[index].flags.clear(Flags::LOSS_TIMER.with(Flags::RETRANSMIT));
        let Some(place) = self.extension_of(index) else {
            return self.restart_with_rto(index);
        };
        if self.extensions[place].sacked_segments > 0 {
            let had = self.mark_lost_by_time(index, place);
            if had && !self.tcbs[index].has(Flags::RECOVERING.with(Flags::TIMED_OUT)) {
                self.begin_recovery(index, place, 0, 0);
                if self.tcbs[index].has(Flags::RECOVERING) {
                    self.pace_recovery(index, place, 0, false);
                }
            }
            if !self.tcbs[index].has(Flags::LOSS_TIMER) {
                self.restart_with_rto(index);
            }
            return self.schedule(index);
        }
        if self.extensions[place].tlp.may_probe() && self.tcbs[index].flight() > 0 {
            self.extensions[place].probe_due = true;
            self.schedule(index);
        }
        self.restart_with_rto(index);
    }

    /// A loss probe leaves; `nxt` is SND.NXT behind it.
    pub(crate) fn note_probe(&mut self, index: ConnIndex, probe: Probe, nxt: Seq) {
        self.counters.loss_probes += 1;
        let place = self.tcbs[index].extension;
        self.extensions[place].tlp.on_probe_sent(probe, nxt);
    }

    /// Whether the timer waits for what may only have been overtaken (RFC 8985 6.2, step 5): it is not put off then.
    pub(crate) fn waits_for_reordering(&self, tcb: &Tcb) -> bool {
        tcb.has(Flags::LOSS_TIMER)
            && tcb.extension != Tcb::NO_EXTENSION
            && self.extensions[tcb.extension].sacked_segments > 0
    }

    fn restart_with_rto(&mut self, index: ConnIndex) {
        let wait = self.rto(index);
        self.tcbs[index].set_retransmit_at(self.tick.after(wait));
    }

    /// Nothing is in flight, and the peer's window takes nothing.
    pub(crate) fn begin_probing(&mut self, index: ConnIndex) {
        if self.tcbs[index].has(Flags::PROBING_WINDOW) {
            return;
        }
        self.restart_retransmission(index);
        let tcb = &mut self.tcbs[index];
        tcb.flags.set(Flags::PROBING_WINDOW);
        tcb.set_stalled_at(self.tick);
    }

    /// The peer's window has opened.
    pub(crate) fn end_probing(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        tcb.flags.clear(Flags::PROBING_WINDOW);
        tcb.end_backoff();
        if tcb.flight() == 0 {
            tcb.flags.clear(Flags::RETRANSMIT);
        } else {
            self.restart_with_rto(index);
        }
    }

    /// A probe of a closed window (RFC 9293 3.8.6.1), at growing intervals (SHLD-30), for as long as the peer answers
    /// (MUST-37). Only a connection with a user stays open for a peer that answers for ever. Gives in how many ticks to look again,
    /// if that is due before.
    fn probe_window(&mut self, index: ConnIndex) -> u32 {
        let limit = self.user_timeout_of(index);
        let tcb = &self.tcbs[index];
        let stalled = self.tick.since(tcb.stalled_at());
        if stalled >= limit {
            self.counters.timed_out += 1;
            self.break_off(index, End::TimedOut);
            return 1;
        }
        let is_open = tcb.snd_right.gt(tcb.snd_nxt);
        if !is_open && self.replies.len() >= self.probes_max() {
            return self.put_off_probe();
        }
        let tcb = &mut self.tcbs[index];
        tcb.note_timeout();
        let wait = self.rto(index).min(limit - stalled);
        let tcb = &mut self.tcbs[index];
        tcb.set_retransmit_at(self.tick.after(wait));
        if is_open {
            // If only by little: the time to wait for more is over (RFC 9293 3.8.6.2.1).
            self.schedule(index);
        } else {
            self.counters.window_probes += 1;
            self.replies_for_probe(index);
        }
        1
    }

    /// A segment just before the window: whatever the peer's state, it answers with an ACK.
    pub(crate) fn replies_for_probe(&mut self, index: ConnIndex) {
        self.reply_with_ack(index, self.tcbs[index].snd_una - 1);
    }

    /// An ACK with this number, among the replies.
    pub(crate) fn reply_with_ack(&mut self, index: ConnIndex, seq: Seq) {
        let tcb = self.tcbs[index];
        let addresses = self.local.addresses(tcb.local, tcb.remote);
        let timestamps = tcb.has(Flags::TIMESTAMPS).then(|| (self.stamp(tcb.ts_offset), tcb.ts_recent));
        let window = announce(&mut self.tcbs[index], self.settings.receive_window);
        let segment = Outgoing { window, ..without_payload(&tcb, seq, Control::ACK) };
        let options = OptionsOut { timestamps, ..OptionsOut::NONE };
        self.reply(Reply { addresses, neighbour: tcb.neighbour, segment, options });
    }
}

/// The earlier of two moments, if there is any.
const fn earlier(one: Option<Tick>, another: Option<Tick>) -> Option<Tick> {
    match (one, another) {
        (Some(first), Some(second)) if second.is_before(first) => another,
        (Some(_), _) => one,
        (None, _) => another,
    }
}

/// Notes a connection as one that has sent, and gives the tick at which it is to be looked at: the caller queues it.
#[inline(always)]
pub(crate) fn become_fresh(tcb: &mut Tcb, now: Tick) -> Tick {
    let at = now.after(FRESH_MILLIS);
    tcb.enter_fresh(at);
    at
}

/// How long a connection that has sent waits to be looked at: most have their ACK by then.
const FRESH_MILLIS: u32 = 2;

/// Takes entries out of a queue that are due, or more than may wait: as many as `taken` holds. Gives how many.
fn take_due(
    queue: &mut Fifo<(ConnIndex, Tick)>,
    now: Tick,
    waiting_max: usize,
    taken: &mut [(ConnIndex, Tick)],
) -> usize {
    let mut count = 0;
    while count < taken.len()
        && let Some((index, at)) = queue.front()
        && (at.is_due(now) || queue.len() > waiting_max)
    {
        queue.pop_front();
        taken[count] = (index, at);
        count += 1;
    }
    count
}

/// How many connections that have sent lately may wait to be looked at: so few that the cache still has their TCBs.
const FRESH_MAX: usize = 1024;

/// How many TCBs are fetched in a row, and then looked at.
const GROUP: usize = 32;

/// How many entries ahead a TCB is fetched into the cache.
const AHEAD: usize = 8;

/// Added to the time of a loss probe, because both ends look at the clock in steps. On a path of microseconds a probe would
/// otherwise leave before the ACK could arrive. Linux adds as much.
const PTO_SLACK_MILLIS: u32 = 2;

/// Entries of the wheel that are handled in one go.
const DUE_BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectOptions, Frames, Limits, Mac, Route, Via};

    /// Short connections follow each other in one place, and none of them takes an entry of the wheel.
    #[test]
    fn what_is_over_in_a_moment_takes_no_place_in_the_wheel() {
        let mut engine = Engine::new(Settings::new([1, 2, 3, 4]), Limits::default()).unwrap();
        engine.add_address("10.0.0.1".parse().unwrap()).unwrap();
        let network = "10.0.0.0/8".parse().unwrap();
        engine.set_mac(Mac::new([2, 0, 0, 0, 0, 1]));
        engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).unwrap();
        engine.add_neighbour("10.0.0.2".parse().unwrap(), Mac::new([2, 0, 0, 0, 0, 2])).unwrap();
        let (mut frames, mut before) = (Frames::new(), None);
        for millis in 0..100 {
            let now = Instant::from_micros(millis * 1000);
            if let Some(before) = before.take() {
                engine.abort(before);
            }
            before = engine.connect("10.0.0.2:7".parse().unwrap(), ConnectOptions::default()).ok();
            engine.transmit(now, &mut frames);
            frames.clear();
            engine.advance(now);
            assert_eq!((engine.connections(), engine.wheel.len()), (1, 0), "after {millis} ms");
        }
        engine.advance(Instant::from_micros(101_000));
        assert_eq!(engine.wheel.len(), 1, "that of the last one, which still waits");
    }
}
