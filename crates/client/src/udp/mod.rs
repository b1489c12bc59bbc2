//! Requests and responses by datagrams: each response finds its request, and each request has a deadline.
//!
//! ```
//! use std::time::Duration;
//! use anywire_client::udp::{Matching, UdpClient, UdpClientOptions};
//!
//! # fn echo() -> std::io::Result<std::net::SocketAddr> {
//! #     let echo = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! #     let address = echo.local_addr()?;
//! #     std::thread::spawn(move || {
//! #         let mut buffer = [0; 64];
//! #         while let Ok((length, peer)) = echo.recv_from(&mut buffer) {
//! #             let _ = echo.send_to(&buffer[..length], peer);
//! #         }
//! #     });
//! #     Ok(address)
//! # }
//! # let server = echo()?;
//! let loops = anywire_loops::Loops::start(1)?;
//! let call = loops.get(0).spawn(move || async move {
//!     // As in DNS, the first two bytes of a request come back in its response.
//!     let options = UdpClientOptions { timeout: Duration::from_secs(2), ..Default::default() };
//!     let client = UdpClient::connect(server, Matching::Field { offset: 0, width: 2 }, options).await?;
//!     client.call(b"\x00\x07 who is there?").await
//! });
//! assert_eq!(call.wait()??, b"\x00\x07 who is there?");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client lives on the loop that made it, and speaks with one peer: the system drops datagrams of others unseen.

mod client;
mod error;
mod matching;

pub use anywire_wire::udp::{Cut, DatagramAddress, Peer, ToDatagramAddress, UdpError, UdpOptions};
pub use client::{UdpClient, UdpClientCounters, UdpClientOptions};
pub use error::UdpCallError;
pub use matching::Matching;
