//! TCP streams for any code that is written for tokio: an engine and a device, driven by one task of an event
//! loop.
//!
//! [`Interface`] opens and accepts connections, [`Stream`] is `AsyncRead` and `AsyncWrite`, [`Driver`] is the task
//! that moves frames between the engine and its device. All of them belong to one thread. The driver sleeps
//! while nothing happens: a stream that has something to send wakes it, and so do its device and the
//! engine's next deadline.
//!
//! | file | holds |
//! | --- | --- |
//! | `interface` | opening and listening; what an interface, its driver and its streams share |
//! | `core` | the engine, who waits for which of its connections, and the queues of listeners; no runtime |
//! | `driver` | when frames move, and when the driver sleeps |
//! | `no_device` | what is in place of the device once that is gone |
//! | `duplex`, `listener` | a stream; a port that is listened on |
//! | `events` | what happens below TCP |
//! | `inspect` | what is known of connections and neighbours, and captures |
//!
//! ```
//! use anywire_stack::mesh::{Host, Limits, Mesh};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default())?;
//! runtime.block_on(async {
//!     let mesh = Mesh::new(Limits::default());
//!     let (host, driver) = Host::join(&mesh, [1, 2, 3, 4])?;
//!     tokio::task::spawn_local(driver);
//!
//!     let here = "10.0.0.2:80".parse()?;
//!     let (_service, queues) = mesh.listen(here, 1, 16)?;
//!     let mut listener = host.listen(here, &queues[0])?;
//!     let mut calling = host.dial(here).await?;
//!     let mut called = listener.accept().await?;
//!     calling.write_all(b"hello").await?;
//!     calling.shutdown().await?;
//!     let mut heard = String::new();
//!     called.read_to_string(&mut heard).await?;
//!     assert_eq!((heard.as_str(), host.interface().counters().departed), ("hello", 0));
//!     Ok(())
//! })
//! # }
//! ```

mod core;
mod driver;
mod duplex;
mod events;
mod inspect;
mod interface;
mod listener;
mod no_device;

pub use anywire_tcp::{Counters as EngineCounters, Memory};

pub use self::core::InterfaceCounters;
pub use self::driver::Driver;
pub use self::duplex::Stream;
pub use self::events::Events;
pub use self::inspect::ConnectionInfo;
pub use self::interface::Interface;
pub(crate) use self::interface::WeakInterface;
pub use self::listener::{ListenOptions, Listener};
pub use crate::wait::Polling;
