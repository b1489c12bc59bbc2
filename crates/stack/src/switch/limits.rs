//! What a switch is made with: its MTU and its limits; and the errors at reaching them.

use std::time::Duration;

use anywire_advice::Advice;
use anywire_tcp::Mac;

/// What a switch is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The longest IP packet, in bytes. Default 1500. Longer frames are dropped and counted.
    pub mtu: usize,
    /// How much it holds.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mtu: 1500, limits: Limits::default() }
    }
}

/// How much a switch holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Ports; more are refused. Default 256; at most 65,000.
    pub ports: usize,
    /// Frames that wait for the owner of one port; more are dropped and counted. Default 1024: frames between two
    /// engines then stay in the second-level cache, and a burst of sixteen batches has room.
    pub queue_frames: usize,
    /// Learned addresses; more are flooded, not learned. Default 8192.
    pub stations: usize,
    /// Learned addresses of one port, so that a storm of them displaces no other port's. Default 1024.
    pub stations_per_port: usize,
    /// How long a learned address is believed without a frame from it. Default 300 s, as IEEE 802.1Q 8.8.3
    /// recommends.
    pub station_lifetime: Duration,
    /// How long a full port that takes no frame holds back its senders. Default 10 ms: far longer than a step of a
    /// loop, far shorter than a retransmission timeout.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ports: 256,
            queue_frames: 1024,
            stations: 8192,
            stations_per_port: 1024,
            station_lifetime: Duration::from_secs(300),
            patience: Duration::from_millis(10),
        }
    }
}

/// Why a switch refuses a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// All ports are in use. Drop one, or raise [`Limits::ports`].
    #[error(
        "cannot open a port: all {limit} are in use{help}",
        help = Advice("drop one, or raise `Limits::ports`")
    )]
    PortsExhausted {
        /// How many there may be.
        limit: usize,
    },
    /// Another port has this address. Choose another one.
    #[error(
        "cannot open a port as {0}: another port has this address{help}",
        help = Advice("choose another one")
    )]
    AddressTaken(Mac),
    /// The address does not stand for one station: it is a group's, or zero. Choose one whose first byte is even.
    #[error(
        "{0} is not the address of a station{help}",
        help = Advice("choose one whose first byte is even and not all zero")
    )]
    NotAStation(Mac),
}
