//! TCP streams for any code that is written for tokio: an engine and a device, driven by one task of an event
//! loop.
//!
//! [`Net`] opens and accepts connections, [`Stream`] is `AsyncRead` and `AsyncWrite`, [`Driver`] is the task
//! that moves frames between the engine and its device. All of them belong to one thread. The driver sleeps
//! while nothing happens: a stream that has something to send wakes it, and so do its [`LiveDevice`] and the
//! engine's next deadline.
//!
//! | file | holds |
//! | --- | --- |
//! | `live` | devices that wake their driver; ports of a switch made so |
//! | `net` | opening and listening; what a net, its driver and its streams share |
//! | `core` | the engine, who waits for which of its connections, and the queues of listeners; no runtime |
//! | `driver` | when frames move, and when the driver sleeps |
//! | `duplex`, `listener` | a stream; a port that is listened on |
//!
//! ```
//! use anywire_stack::stream::{Bells, Net};
//! use anywire_stack::switch::{Settings, Switch};
//! use anywire_tcp::{Engine, Limits, Mac, Route};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build_local(Default::default())?;
//! runtime.block_on(async {
//!     let (switch, bells) = (Switch::new(Settings::default()), Bells::default());
//!     let host = |last: u8, neighbour: u8| {
//!         let mac = |last| Mac::new([2, 0, 0, 0, 1, last]);
//!         let settings = anywire_tcp::Settings::new([1, 2, 3, u64::from(last)]);
//!         let mut engine = Engine::new(settings, Limits::default())?;
//!         engine.add_address([10, 0, 0, last].into())?;
//!         let (source, next_hop) = (mac(last), mac(neighbour));
//!         engine.add_route(Route { network: [10, 0, 0, 0].into(), prefix: 8, source, next_hop, mtu: 1500 })?;
//!         let (net, driver) = Net::new(engine, bells.hang(switch.port(source)?));
//!         tokio::task::spawn_local(driver);
//!         Ok::<_, Box<dyn std::error::Error>>(net)
//!     };
//!     let (client, server) = (host(1, 2)?, host(2, 1)?);
//!
//!     let mut listener = server.listen("10.0.0.2:80".parse()?, Default::default())?;
//!     let mut calling = client.connect("10.0.0.2:80".parse()?).await?;
//!     let mut called = listener.accept().await?;
//!     calling.write_all(b"hello").await?;
//!     calling.shutdown().await?;
//!     let mut heard = String::new();
//!     called.read_to_string(&mut heard).await?;
//!     assert_eq!(heard, "hello");
//!     Ok(())
//! })
//! # }
//! ```

mod core;
mod driver;
mod duplex;
mod listener;
mod live;
mod net;

pub use self::core::NetCounters;
pub use self::driver::Driver;
pub use self::duplex::Stream;
pub use self::listener::{ListenOptions, Listener};
pub use self::live::{Bells, Hung, LiveDevice};
pub use self::net::Net;
