//! The names of connections and listeners.

use std::fmt;

/// A connection of an engine. It is valid until its user closes or aborts it.
///
/// Later connections reuse its place. An old id does nothing to them: changes are ignored, nothing can be read or sent, and
/// its [`Status`](crate::Status) is that of a [closed](crate::End::Closed) connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub(crate) ConnIndex, pub(crate) u32);

impl ConnId {
    /// The id by which a holder calls the connection that it has [claimed](crate::Engine::claim): the place alone. It is valid
    /// until the holder releases the connection, and is never to be used after that.
    pub const fn claimed(place: u32) -> Self {
        Self(ConnIndex(place), CLAIMED)
    }

    /// Its place among the connections of the engine: small, and used again after it ended.
    pub const fn index(self) -> u32 {
        self.0.0
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnId({})", self.0.0)
    }
}

/// The one number of a connection in an engine: its place among the TCBs. It names the connection in the table, in timers and in the lists
/// of what is ready or waits, and goes to a later connection once it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub(crate) struct ConnIndex(pub(crate) u32);

impl From<u32> for ConnIndex {
    #[inline]
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl From<ConnIndex> for u32 {
    #[inline]
    fn from(index: ConnIndex) -> Self {
        index.0
    }
}

impl ConnIndex {
    /// No connection's.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// What the ids of claimed connections have in place of a tag. No connection has this tag.
pub(crate) const CLAIMED: u32 = 0;

/// A port that is listened on. It is valid until that ends; an old id does nothing to later listeners.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ListenerId {
    /// Its place among the listeners.
    pub(crate) number: u16,
    /// How many have had this place before. A place that the count has used up is not used again.
    pub(crate) generation: u16,
}

impl fmt::Debug for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListenerId({})", self.number)
    }
}
