//! Datagrams: `udp:HOST:PORT` and `unixgram:PATH`.
//!
//! A datagram is no stream: it arrives whole or not at all, in any order, and without a connection. So datagrams stand beside
//! [`Wire`](crate::Wire) with an address, a socket and errors of their own.
//!
//! [`Udp`] is one type and no trait: both kinds of sockets have the same calls, and an enum inside chooses the few lines that
//! differ. With a trait, a program could not rely on batches, steering and offload.
//!
//! | type | is |
//! | --- | --- |
//! | [`DatagramAddress`] | where to receive or send: `udp:0.0.0.0:53`, `unixgram:/run/app.sock`, `unixgram:@name` |
//! | [`Udp`] | a socket that is registered with one loop |
//! | [`Unregistered`] | a socket that is bound, on its way to its loop |
//! | [`Received`], [`Datagram`] | a batch of what has arrived, in memory that is reused |
//! | [`Outgoing`] | a bounded queue of datagrams to send, in as few system calls as the system allows |
//! | [`Steering`] | which loop's socket a datagram arrives at |
//! | [`UdpError`] | why a socket could not be bound or connected |
//!
//! Over UDP, what is received, and with what beside it (GRO, ECN, local addresses), comes from the crate `quinn-udp`. Sending is our
//! own, because that crate takes a refusal on the way to one peer for a system without GSO and ECN. Datagrams are never
//! fragmented (RFC 8900): one that is larger than the path takes is an error of its sender.
//!
//! Over Unix sockets a datagram that finds its receiver's queue full waits if the sender is connected, and is lost if it is one
//! of many that a service sends. The system charges what a peer has not read to the sender: a service whose connected peers
//! read nothing cannot send to others until they do, or close.
//!
//! ```
//! use anywire_loops::Loops;
//! use anywire_wire::udp::{Outgoing, Received, Udp, UdpOptions};
//!
//! let loops = Loops::start(1)?;
//! let options = UdpOptions::default();
//! let server = Udp::bind("udp:127.0.0.1:0", &options, 1)?.remove(0);
//! let address = server.local().clone();
//! let echo = loops.get(0).spawn(move || async move {
//!     let server = server.register()?;
//!     let (mut received, mut replies) = (Received::new(&server), Outgoing::new(&server));
//!     server.receive(&mut received).await?;
//!     for datagram in received.iter() {
//!         replies.push(&datagram.peer, datagram.local_ip, datagram.data())?;
//!     }
//!     server.flush(&mut replies).await;
//!     Ok::<_, std::io::Error>(())
//! });
//! let call = loops.get(0).spawn(move || async move {
//!     let client = Udp::connect(address, &UdpOptions::default()).await.map_err(std::io::Error::other)?;
//!     client.send(b"hello").await?;
//!     let mut received = Received::new(&client);
//!     client.receive(&mut received).await?;
//!     Ok::<_, std::io::Error>(received.iter().next().map(|datagram| datagram.data().to_vec()))
//! });
//! echo.wait()??;
//! assert_eq!(call.wait()??.as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod bind;
mod error;
mod outgoing;
mod peer;
mod received;
mod socket;
mod source;
mod unix_peer;

pub use address::{DatagramAddress, ToDatagramAddress};
pub use anywire_sys::datagrams::Steering;
pub use bind::{DropCounter, ReceiveBuffer, UdpOptions, Unregistered};
pub use error::UdpError;
pub use outgoing::{Full, Outgoing, Sent};
pub use peer::Peer;
pub use received::{Cut, Datagram, Received};
pub use socket::{Udp, is_too_large};
