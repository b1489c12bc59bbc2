//! The ladder of I/O models: the same small HTTP server on each way to wait that Linux has, one readable file each.
//!
//! Each step came to be because the one before spent too many system calls, wake-ups or looks on a unit of work.
//! [`RUNGS`] lists them from the oldest to the newest; [`Rung::start`] starts one.
//!
//! | rung | how it waits |
//! | --- | --- |
//! | `blocking` | a thread for each connection sleeps in `recv` |
//! | `scan` | one thread asks every connection in turn, and never sleeps |
//! | `select` | one call with three sets of bits, for at most 1024 descriptors |
//! | `poll` | one call with a list of any length, all of which the kernel walks |
//! | `epoll` | the kernel keeps the list, and returns the ready ones alone |
//! | `io_uring` | requests and completions through shared memory; one call for a batch of either |
//!
//! The `epoll` rung is also the limit that `anywire compare` and the bench measure other servers by.
//!
//! All rungs answer alike. They parse nothing: the length of a connection's first request, up to the first empty line, is
//! taken for the length of all later ones. So a client must send the same request each time, without a body; it may split
//! and join them in any way. A peer that does not take its answers is not read from until it has (only `io_uring`'s multishot
//! receive reads on, and counts).
//!
//! Limits: a first request of at most 64 KiB (else the connection is closed), and bodies of at most
//! [`Options::BODY_BYTES_MAX`] bytes. Each connection takes a descriptor. When those run out, accepting pauses until one is
//! free.
//!
//! [`hand_over`] measures one step further down: what it costs to hand a job to another thread.

mod answers;
mod blocking;
mod connection;
mod epoll;
pub mod hand_over;
mod poll;
mod request_counter;
mod rung;
mod scan;
mod select;
mod server;
mod site;
mod uring;

pub use rung::{RUNGS, Rung};
pub use server::{Options, Refused, Server, StartError};
