//! Services of datagrams: a handler on each loop, replies in batches, limits, and an end in order.
//!
//! It shares the loops with the HTTP server and nothing else: no code of HTTP is on the way of a datagram.
//!
//! ```
//! use std::time::Duration;
//! use anywire_server::udp::{Datagram, Replies, UdpServer};
//!
//! let echo = || |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
//!     // A reply that finds no room is counted and dropped, as a network would.
//!     let _ = replies.send(datagram, datagram.data());
//! };
//! let server = UdpServer::new(echo).listen("udp:127.0.0.1:0").loops(1).start()?;
//! println!("receiving on {}", server.addresses()[0]);
//! let ended = server.shutdown(Duration::from_secs(1)).wait();
//! assert_eq!(ended.counters.datagrams, 0);
//! # Ok::<(), anywire_server::udp::UdpServerError>(())
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | answer each datagram | a closure that takes a [`Datagram`] and [`Replies`] |
//! | handle a batch at once | [`DatagramHandler::batch`] |
//! | answer after something has been awaited | [`Replies::later`] |
//! | hear of datagrams that are too long | [`DatagramHandler::cut`] |
//! | bound what one peer may send | [`UdpLimits::peer_rate`] |
//! | hear one peer alone | [`UdpOptions::only_peer`] |
//! | say which loop gets which datagram | [`UdpOptions::steering`] |
//!
//! The sender of a datagram may have forged its address. A service that answers with much more than it was sent can be used
//! to flood others: let it answer strangers with no more bytes than they sent, or keep [`UdpLimits::peer_rate`] low.

mod counters;
mod handle;
mod handler;
mod rate;
mod replies;
mod serve;
mod server;
mod sockets;

pub use anywire_wire::udp::{
    Cut, Datagram, DatagramAddress, Full, Peer, Received, Steering, ToDatagramAddress, UdpError, UdpOptions,
};
pub use counters::UdpCounters;
pub use handle::{UdpServerHandle, UdpShutdown, UdpStopping};
pub use handler::DatagramHandler;
pub use rate::PeerRate;
pub use replies::{Later, Replies};
pub use server::{UdpLimits, UdpServer, UdpServerError};
