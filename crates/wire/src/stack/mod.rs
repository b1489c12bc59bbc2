//! `stack:DEVICE/IP:PORT`: TCP of our own, on a device that carries its frames; and what operators ask of it.
//!
//! A program tells of its hosts by [`snapshot`], and of their frames by [`Capture`]. `anywire serve` does so on a socket of its own, for
//! `anywire stack`.
//!
//! | file | holds |
//! | --- | --- |
//! | `wire`, `transport` | the wire and its connections, as all wires have them |
//! | `location` | which device, where on it, and the options |
//! | `switch` | `stack:switch/…`: between the loops of this process, over no kernel at all |
//! | `registry` | which devices this process has open |
//! | `host` | the hosts of a loop: one for each device |
//! | `device` | listening and dialling there |
//! | `lease` | how long an address is listened on |
//! | `exit` | connections are closed when the process ends |
//! | `inspect`, `metrics`, `capture` | for operators: connections and neighbours, counters under their names, frames |
//! | `checks` | what must hold before anything runs: the MTU, and that nobody else has the address |

mod capture;
mod checks;
mod device;
mod exit;
mod host;
mod inspect;
mod lease;
mod location;
mod metrics;
mod registry;
mod switch;
mod transport;
mod wire;

pub use anywire_stack::stream::ConnectionInfo;

pub use self::capture::{Capture, CaptureOptions};
pub use self::inspect::{HostSnapshot, Snapshot, snapshot};
pub use self::metrics::Counter;
pub(crate) use self::wire::Stack;
