//! The state of a connection (RFC 9293 3.3.2), and its flags.

/// The states of RFC 9293 3.3.2 that have a TCB. LISTEN is a listener; a passive SYN-RECEIVED is a
/// [`HalfOpen`](crate::half_open::HalfOpen); TIME-WAIT is a [`TimeWait`](crate::time_wait::TimeWait) as soon as the
/// connection has no user any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub(crate) enum State {
    /// A free place, or a connection that has ended and that its user still holds.
    #[default]
    Closed,
    SynSent,
    /// After a simultaneous open (RFC 9293 3.5, figure 7).
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl State {
    /// Whether the handshake is behind it.
    pub(crate) const fn is_synchronized(self) -> bool {
        self as u8 >= Self::Established as u8
    }

    /// Whether the user may still send.
    pub(crate) const fn may_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Whether payload of the peer is still taken.
    pub(crate) const fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

/// Agreements of the handshake, things owed and things pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// Timestamps were agreed (RFC 7323).
    pub(crate) const TIMESTAMPS: Self = Self(1);
    /// SACK was agreed (RFC 2018).
    pub(crate) const SACK: Self = Self(1 << 1);
    /// ECN was agreed (RFC 3168).
    pub(crate) const ECN: Self = Self(1 << 2);
    /// Nagle's algorithm is off for this connection (RFC 9293 3.7.4).
    pub(crate) const NO_NAGLE: Self = Self(1 << 3);
    /// The user has ended its direction; a FIN is queued or sent.
    pub(crate) const FIN_QUEUED: Self = Self(1 << 4);
    /// Everything of the peer has arrived, its FIN included.
    pub(crate) const FIN_RECEIVED: Self = Self(1 << 5);
    /// An ACK is owed, and may wait for company (RFC 9293 3.8.6.3).
    pub(crate) const ACK_OWED: Self = Self(1 << 6);
    /// An ACK must leave at the next transmission; after the end, [a reset](super::Tcb::owes_reset).
    pub(crate) const ACK_NOW: Self = Self(1 << 7);
    /// In the queue of delayed ACKs.
    pub(crate) const ACK_QUEUED: Self = Self(1 << 8);
    /// In a ring of connections that wait to send.
    pub(crate) const SCHEDULED: Self = Self(1 << 9);
    /// In the list of connections with events for their user.
    pub(crate) const IN_READY: Self = Self(1 << 10);
    /// Repairing losses (RFC 6675, 6582).
    pub(crate) const RECOVERING: Self = Self(1 << 11);
    /// After a retransmission timeout, until all that was in flight then is acknowledged.
    pub(crate) const TIMED_OUT: Self = Self(1 << 12);
    /// The congestion window, and not the user or the peer, held back a transmission, and was [filled](super::Window::is_filled_by)
    /// by each since.
    pub(crate) const CWND_LIMITED: Self = Self(1 << 13);
    /// A holder has claimed it: nobody else lets go of it.
    pub(crate) const CLAIMED: Self = Self(1 << 14);
    /// In the wheel: [`Tcb::wheel_at`](super::Tcb::wheel_at) tells the tick.
    pub(crate) const IN_WHEEL: Self = Self(1 << 15);
    /// Among the connections that have sent lately: looked at once before they cost a place in the wheel.
    pub(crate) const FRESH: Self = Self(1 << 16);
    /// The timer of [`Tcb::retransmit_at`](super::Tcb::retransmit_at) runs.
    pub(crate) const RETRANSMIT: Self = Self(1 << 17);
    /// The peer's window is closed: that timer is for the next probe of it.
    pub(crate) const PROBING_WINDOW: Self = Self(1 << 18);
    /// That timer is for a loss probe (RFC 8985, section 7) or a check for reordering (section 6.2).
    pub(crate) const LOSS_TIMER: Self = Self(1 << 19);
    /// Congestion was experienced: ECE until the peer says CWR (RFC 3168 6.1.3).
    pub(crate) const ECHO_CONGESTION: Self = Self(1 << 20);
    /// The window was reduced because of ECE: CWR with the next new data (RFC 3168 6.1.2).
    pub(crate) const REDUCED: Self = Self(1 << 21);
    /// It has a deadline or keep-alive: its [`IdleTimer`](crate::idle_timer::IdleTimer) says which.
    pub(crate) const IDLE_TIMER: Self = Self(1 << 22);
    /// The user has let go of it.
    pub(crate) const DETACHED: Self = Self(1 << 23);
    // What the user has not been told yet.
    pub(crate) const TELL_OPENED: Self = Self(1 << 24);
    pub(crate) const TELL_READABLE: Self = Self(1 << 25);
    pub(crate) const TELL_WRITABLE: Self = Self(1 << 26);
    pub(crate) const TELL_CLOSED: Self = Self(1 << 27);
    /// It came from a listener.
    pub(crate) const PASSIVE: Self = Self(1 << 28);
    /// The user wants to hear when there is room to send.
    pub(crate) const WANTS_ROOM: Self = Self(1 << 29);
    /// NewReno opens its window, not CUBIC.
    pub(crate) const NEW_RENO: Self = Self(1 << 30);
    /// In the list of connections whose users wait for memory.
    pub(crate) const WAITS_FOR_MEMORY: Self = Self(1 << 31);

    /// The flags of the timer for data in flight.
    pub(crate) const TIMES_A_FLIGHT: Self = Self(Self::RETRANSMIT.0 | Self::LOSS_TIMER.0);

    pub(crate) const TELL: Self =
        Self(Self::TELL_OPENED.0 | Self::TELL_READABLE.0 | Self::TELL_WRITABLE.0 | Self::TELL_CLOSED.0);

    pub(crate) const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    pub(crate) const fn set(&mut self, flags: Self) {
        self.0 |= flags.0;
    }

    pub(crate) const fn clear(&mut self, flags: Self) {
        self.0 &= !flags.0;
    }

    /// Itself if the condition holds, otherwise none.
    pub(crate) const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
