//! The names of connections and listeners.

use std::fmt;

/// A connection of an engine. It is valid until its user closes or aborts it.
///
/// Later connections reuse its place. An old id does nothing to them, and neither does one of another engine: changes are
/// ignored, nothing can be read or sent, and its [`Status`](crate::Status) is that of a [closed](crate::End::Closed)
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub(crate) u32, pub(crate) u32);

impl ConnId {
    /// Its place among the connections of the engine: small, and used again after it ended.
    pub const fn index(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnId({})", self.0)
    }
}

/// A port that is listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub(super) u16);
