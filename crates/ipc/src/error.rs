//! Why nothing could be measured.

use std::io;

use anywire_advice::Advice;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system gave no thread, socket or memory, or ended one of them.
    #[error("{way} could not be measured: {cause}")]
    System {
        /// The way.
        way: &'static str,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A message came back changed: a fault of this program or of the system.
    #[error("{way} changed a message of {size} bytes")]
    Changed {
        /// The way.
        way: &'static str,
        /// The size of the message.
        size: usize,
    },
    /// A way that spins was named, and this process may use one core alone.
    #[error(
        "{way} spins at both ends, which needs two cores, and this process may use one{help}",
        help = Advice("leave it out")
    )]
    OneCore {
        /// The way.
        way: &'static str,
    },
}
