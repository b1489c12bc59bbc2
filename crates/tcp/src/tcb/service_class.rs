//! How the packets of a connection are sent: the Diffserv field for routers, and the ring of senders for the engine.

/// One byte. The Diffserv field (RFC 2474) has the bits that it has in the IP header, and the ring has the two bits of ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ServiceClass(u8);

impl ServiceClass {
    /// How many rings there can be.
    pub(crate) const RINGS: usize = 4;

    pub(crate) const fn new(dscp: u8, ring: u8) -> Self {
        debug_assert!((ring as usize) < Self::RINGS);
        Self(dscp << 2 | ring)
    }

    /// The Diffserv field of the IP header, with the bits of ECN at zero.
    pub(crate) const fn field(self) -> u8 {
        self.0 & !3
    }

    /// The ring of senders in which the connection waits.
    pub(crate) const fn ring(self) -> u8 {
        self.0 & 3
    }

    pub(crate) const fn with_dscp(self, dscp: u8) -> Self {
        Self::new(dscp, self.ring())
    }

    pub(crate) const fn with_ring(self, ring: u8) -> Self {
        Self(self.field() | ring)
    }
}
