//! Deadlines of users, and keep-alive, for populations of idle connections.
//!
//! Moving a deadline is a write to the [`IdleTimer`](crate::idle_timer::IdleTimer) of the connection. The wheel has one entry for it.
//! When that entry fires, the engine checks which times have come.

use crate::engine::{ConnId, ConnIndex, End, Engine};
use crate::idle_timer::KeepAlive;
use crate::tcb::{Flags, State};
use crate::time::{Instant, Tick};

impl Engine {
    /// Reports [`Events::DEADLINE`](crate::engine::Events::DEADLINE) for this connection once `at` has passed, to the millisecond
    /// and never early. Another call before then moves the deadline or removes it (`None`). The connection itself goes on.
    /// It may be as far ahead as one likes, up to 8900 years. Closing a connection takes its own away.
    ///
    /// To move a deadline with each message costs a write to memory.
    ///
    /// ```
    /// # use anywire_tcp::{ConnectOptions, Engine, Events, Instant, Limits, Route, Settings, Via};
    /// # use std::time::Duration;
    /// # let mut engine = Engine::new(Settings::new([1, 2, 3, 4]), Limits::default())?;
    /// # engine.add_address("10.0.0.1".parse()?)?;
    /// # engine.add_route(Route { network: "10.0.0.0/8".parse()?, via: Via::OnLink, mtu: 1500, source: None })?;
    /// let id = engine.connect("10.0.0.2:80".parse()?, ConnectOptions::default())?;
    /// engine.set_idle_deadline(id, Some(Instant::from_micros(5_000)));
    /// engine.set_idle_deadline(id, Some(Instant::from_micros(9_000)));
    /// engine.advance(Instant::from_micros(8_000));
    /// assert!(engine.next_ready().is_none());
    /// engine.advance(Instant::from_micros(9_000));
    /// assert!(engine.next_ready().is_some_and(|ready| ready.id == id && ready.events.has(Events::DEADLINE)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn set_idle_deadline(&mut self, id: ConnId, at: Option<Instant>) {
        if !self.is_held(id) {
            return;
        }
        match at {
            Some(at) => self.move_deadline(id.0, at.as_micros().saturating_add(999) / 1000),
            None => self.take_deadline_away(id.0),
        }
    }

    #[inline]
    fn move_deadline(&mut self, index: ConnIndex, millis: u64) {
        let tcb = &mut self.tcbs[index];
        if tcb.state == State::Closed {
            return;
        }
        tcb.flags.set(Flags::IDLE_TIMER);
        self.idle_timers.have_deadlines = true;
        let timer = self.idle_timers.get_mut(index);
        self.expired -= usize::from(timer.has_expired());
        timer.set_deadline(millis);
        self.set_deadline_in_wheel(index, self.tick_of_milli(millis));
    }

    pub(crate) fn take_deadline_away(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        if !tcb.has(Flags::IDLE_TIMER) {
            return;
        }
        let timer = self.idle_timers.get_mut(index);
        self.expired -= usize::from(timer.has_expired());
        timer.clear_deadline();
        self.drop_idle_timer_if_unused(index);
    }

    fn drop_idle_timer_if_unused(&mut self, index: ConnIndex) {
        if self.idle_timers.get(index).is_none() {
            self.tcbs[index].flags.clear(Flags::IDLE_TIMER);
        }
    }

    /// Gives a connection keep-alive with times of its own from now on, or takes it away (RFC 9293 MUST-24, MUST-27).
    pub fn set_keep_alive(&mut self, id: ConnId, keep_alive: Option<KeepAlive>) {
        let index = id.0;
        if !self.is_held(id) || self.tcbs[index].state == State::Closed {
            return;
        }
        self.idle_timers.get_mut(index).set_keep_alive(keep_alive);
        self.tcbs[index].flags.set(Flags::IDLE_TIMER);
        // Nothing may be left to time.
        self.drop_idle_timer_if_unused(index);
        if self.tcbs[index].state.is_synchronized() {
            self.time_idle(index);
        }
    }

    /// Keep-alive with the times of the settings, for a connection that asks for it.
    pub(crate) fn keep_alive_by_settings(&mut self, index: ConnIndex) {
        let settings = &self.settings;
        let keep_alive = KeepAlive {
            idle: settings.keep_alive_idle,
            interval: settings.keep_alive_interval,
            probes: settings.keep_alive_probes,
        };
        self.idle_timers.get_mut(index).set_keep_alive(Some(keep_alive));
        self.tcbs[index].flags.set(Flags::IDLE_TIMER);
    }

    /// Starts keep-alive of a connection that has it.
    pub(crate) fn time_idle(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        if !tcb.has(Flags::IDLE_TIMER) || tcb.times_its_end() {
            return;
        }
        if !tcb.is_stalled() {
            tcb.set_heard_at(self.tick);
        }
        if let Some(at) = self.probe_at(index) {
            self.set_deadline_in_wheel(index, at);
        }
    }

    /// Forgets the deadline and the keep-alive of a connection.
    pub(crate) fn drop_idle_timer(&mut self, index: ConnIndex) {
        let tcb = &mut self.tcbs[index];
        if tcb.has(Flags::IDLE_TIMER) {
            tcb.flags.clear(Flags::IDLE_TIMER);
            let timer = self.idle_timers.get_mut(index);
            self.expired -= usize::from(timer.has_expired());
            *timer = crate::idle_timer::IdleTimer::NONE;
        }
    }

    /// When to look at it for keep-alive.
    pub(crate) fn probe_at(&self, index: ConnIndex) -> Option<Tick> {
        let tcb = &self.tcbs[index];
        if !tcb.has(Flags::IDLE_TIMER) || !tcb.state.is_synchronized() {
            return None;
        }
        // After a stall the idle time begins anew.
        let heard_at = if tcb.is_stalled() { self.tick } else { tcb.heard_at() };
        self.idle_timers.get(index).look_at(heard_at, self.tick)
    }

    /// When to look at the deadline that the user has set: then, or as far ahead as ticks can be told apart.
    pub(crate) fn user_deadline(&self, index: ConnIndex) -> Option<Tick> {
        let has_idle_timer = self.tcbs[index].has(Flags::IDLE_TIMER);
        let millis = if has_idle_timer { self.idle_timers.get(index).deadline() } else { None };
        millis.map(|millis| self.tick_of_milli(millis))
    }

    /// Notes that the user's deadline has passed, if it has.
    pub(crate) fn expire(&mut self, index: ConnIndex) -> bool {
        let is_due = self.user_deadline(index).is_some_and(|at| at.is_due(self.tick));
        if is_due {
            let timer = self.idle_timers.get_mut(index);
            timer.expire();
            self.expired += 1;
            self.tell(index, Flags::NONE);
        }
        is_due
    }

    /// Whether the user is to hear that the deadline has passed.
    #[cold]
    pub(crate) fn take_expired(&mut self, index: ConnIndex) -> bool {
        if !self.idle_timers.get(index).has_expired() {
            return false;
        }
        self.idle_timers.get_mut(index).clear_deadline();
        self.expired -= 1;
        true
    }

    /// Keep-alive (RFC 9293 3.8.4): a segment that the peer has to answer. It may be lost, so one silence proves nothing. Gives
    /// in how many ticks to look again, if that is due before.
    pub(crate) fn probe_peer(&mut self, index: ConnIndex) -> u32 {
        if !self.probe_at(index).is_some_and(|at| at.is_due(self.tick)) {
            return 1;
        }
        let tcb = &mut self.tcbs[index];
        if tcb.flight() > 0 || tcb.has_unsent() {
            // Not while data is under way (MUST-26), whose own timer tells whether the peer lives.
            tcb.set_heard_at(self.tick);
            return 1;
        }
        let heard_at = tcb.heard_at();
        if self.idle_timers.get(index).is_given_up(heard_at) {
            self.counters.timed_out += 1;
            self.break_off(index, End::TimedOut);
            return 1;
        }
        // Half of the places are for answers: a peer that opens a connection must get its SYN-ACK.
        if self.replies.len() >= self.probes_max() {
            return self.put_off_probe();
        }
        self.idle_timers.get_mut(index).note_probe(heard_at, self.tick);
        self.counters.keep_alives += 1;
        self.replies_for_probe(index);
        1
    }

    /// Of very many probes at once those wait that find no room: until about as many as are before them have left.
    pub(crate) fn put_off_probe(&mut self) -> u32 {
        let (tick, before) = self.probes_put_off;
        let before = if tick == self.tick { before } else { 0 };
        self.probes_put_off = (self.tick, before + 1);
        1 + before / self.probes_max().min(u32::MAX as usize) as u32
    }

    /// The probes that may wait to be sent.
    pub(crate) fn probes_max(&self) -> usize {
        (self.limits.replies / 2).max(1)
    }
}
