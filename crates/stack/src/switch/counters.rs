//! What a switch counts: each frame once for how it went, or for why it did not.

/// The counters of a switch. Each frame that is not delivered is counted where the reason stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SwitchCounters {
    /// Batches that went to one port as they were.
    pub batches_handed_over: u64,
    /// Frames in them.
    pub frames_handed_over: u64,
    /// Frames that went to one port by a copy, since their batch had several destinations or was small.
    pub frames_copied: u64,
    /// Frames that went to all ports but the sender's, since they were for a group or an unknown address.
    pub frames_flooded: u64,
    /// Not delivered: the queue of the port was full. Frames flooded to several full ports count once for
    /// each.
    pub full: u64,
    /// Not delivered: the destination is behind the port that the frame came from.
    pub filtered: u64,
    /// Not delivered: shorter than an Ethernet header or longer than the MTU allows.
    pub malformed: u64,
    /// Addresses that were seen behind another port than before.
    pub stations_moved: u64,
    /// Addresses that were not learned since a limit was reached.
    pub stations_refused: u64,
    /// Times that a port sent from an address that cannot be behind it: another port's own, or a group's. The
    /// frames themselves are delivered.
    pub stations_forged: u64,
}
