//! How bytes travel: addresses, listeners, dialers and connections over any wire.
//!
//! | word | means |
//! | --- | --- |
//! | wire | a way for bytes to travel: `tcp`, `unix`, `memory`, `stack`, `shm` ([`wires`] lists what this build has) |
//! | [`Address`] | `WIRE:WHERE`, such as `tcp:0.0.0.0:8080`, `unix:/run/app.sock`, `unix:@name` |
//! | [`Connection`] | an ordered byte stream on a wire; it lives and dies on one loop |
//! | [`Listener`] | gives each arriving connection to the loop that will serve it |
//! | [`Dialer`] | makes connections, with deadlines |
//! | [`DialLog`] | when a dial has done its steps |
//! | [`Names`](names::Names) | finds the addresses of names: a resolver, its cache, static hosts |
//! | `udp::Udp` | datagrams, which are no streams and so no wire: `udp:` and `unixgram:` (feature `udp`) |
//!
//! No code above this crate knows a wire by name. A program can bring a wire of its own: it implements [`Wire`] and
//! [`Transport`], and listens and dials at [`Address::on`]. The example `own_wire` of the crate `anywire` shows how.
//!
//! # Platforms
//! The crate builds and is tested on Linux. It does not build on macOS, because it uses `eventfd`, abstract Unix names
//! and a `SO_REUSEPORT` that spreads connections. Servers that start at the same moment take turns by an abstract name.

mod address;
mod claim;
mod connection;
mod dial_log;
mod dialer;
mod error;
mod handshakes;
mod limit;
mod listener;
pub mod local;
mod memory;
pub mod names;
mod output;
mod place;
mod preceded;
#[cfg(feature = "shm")]
pub mod shm;
mod socket;
mod socket_file;
mod socket_options;
#[cfg(feature = "stack")]
pub mod stack;
mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "udp")]
pub mod udp;
mod unix;
mod wires;

pub use address::{Address, AddressError, ToAddress};
pub use connection::{Connection, Credentials, Negotiated, Transport};
pub use dial_log::{DialLog, DialStep};
pub use dialer::{AddressTurns, DialOptions, Dialer};
pub use error::{DialError, ListenError};
pub use limit::ConnectionLimit;
pub use listener::{AllowedPeers, ListenOptions, Listener, ListenerCounters, ListenerHandle};
pub use output::{Output, Position};
pub use socket_options::{KeepAlive, SocketHook, SocketOptions};
pub use wires::{Acceptor, Arrival, Bound, Dialing, Ended, Wire, wires};
