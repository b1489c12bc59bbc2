//! TCP as segments in, segments out: the engine of one core, small enough for millions of connections.
//!
//! [`Engine`] is sans-IO: frames come in as [`Frames`], time as [`Instant`], and after each input the outputs are drained:
//! [`Ready`] events for the users of connections, and frames to send. It opens no socket, reads no clock and starts no
//! thread. A connection is a TCB of 128 bytes; nothing is allocated for a segment.
//!
//! ```
//! use anywire_tcp::{ConnectOptions, Engine, Frames, Instant, Limits, Mac, Route, Settings, Via};
//!
//! // Two engines, joined by handing frames over.
//! let engine = |own: u8, peer: u8| {
//!     let mut engine = Engine::new(Settings::new([1, 2, 3, u64::from(own)]), Limits::default())?;
//!     let mac = |last| Mac::new([2, 0, 0, 0, 0, last]);
//!     engine.set_mac(mac(own));
//!     engine.add_address([10, 0, 0, own].into())?;
//!     engine.add_route(Route { network: "10.0.0.0/24".parse()?, via: Via::OnLink, mtu: 1500, source: None })?;
//!     engine.add_neighbour([10, 0, 0, peer].into(), mac(peer))?;
//!     Ok::<_, Box<dyn std::error::Error>>(engine)
//! };
//! let (mut client, mut server) = (engine(1, 2)?, engine(2, 1)?);
//! server.listen("10.0.0.2:80".parse()?, ConnectOptions::default())?;
//! let call = client.connect("10.0.0.2:80".parse()?, ConnectOptions::default())?;
//! client.send(call, b"hello");
//!
//! let (mut frames, mut heard) = (Frames::new(), Vec::new());
//! for step in 0..10 {
//!     let now = Instant::from_micros(step * 1000);
//!     client.advance(now);
//!     client.transmit(now, &mut frames);
//!     server.receive(now, &mut frames);
//!     while let Some(ready) = server.next_ready() {
//!         server.recv(ready.id, |bytes| {
//!             heard.extend_from_slice(bytes);
//!             bytes.len()
//!         });
//!     }
//!     server.advance(now);
//!     server.transmit(now, &mut frames);
//!     client.receive(now, &mut frames);
//! }
//! assert_eq!(heard, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod congestion;
mod counters;
mod engine;
mod extension;
mod fifo;
mod fragment_ids;
mod frames;
mod half_open;
mod hash;
mod idle_timer;
mod mtu_search;
mod path_mtu;
mod peer_acks;
mod pool;
mod recovery;
mod rtt;
mod settings;
mod shared_payload;
mod slab;
mod table;
mod tcb;
mod time;
mod time_wait;
mod wheel;

pub use anywire_packet::{Cidr, CidrError, Mac, MacError};

pub use crate::congestion::Algorithm;
pub use crate::counters::Counters;
pub use crate::engine::{
    ConnId, ConnectError, ConnectOptions, End, Engine, Events, Info, ListenError, ListenerId, Memory,
    NextHop, PortBlock, Ready, Route, RouteError, SoftError, Status, TcpState, Via,
};
pub use crate::frames::{Checksum, Frames, Meta};
pub use crate::idle_timer::KeepAlive;
pub use crate::settings::{Ecn, Limits, Settings};
pub use crate::shared_payload::SharedPayload;
pub use crate::time::Instant;
