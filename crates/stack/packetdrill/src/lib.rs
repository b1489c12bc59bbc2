//! The TCP engine as a shared object for packetdrill: its scripts run against us in virtual time, without a kernel.
//!
//! packetdrill loads the object (`--so_filename`) and calls `packetdrill_interface_init`, which fills a table with functions
//! that look like the system calls of a kernel, and with four more: a packet goes in, a packet comes out, time passes,
//! what time is it. Behind the table a thread of its own holds an [`anywire_tcp::Engine`] and does one call after the other, so
//! that every run of a script is the same run.
//!
//! | file | holds |
//! | --- | --- |
//! | `face` | the table and its functions: the only unsafe code here, and no thought |
//! | `call` | what can be asked, and what comes back |
//! | `desk` | one call after the other; the one that blocks; the clock |
//! | `network` | packets to frames and back, the engine's deadlines |
//! | `sockets` | descriptors, and what calls mean for them |
//! | `options` | options of sockets |
//! | `setup` | the flags that packetdrill hands over, and what scripts set by `sysctl` |
//!
//! `run.sh` beside this crate runs the scripts that are about TCP rather than about Linux; what comes of it stands in
//! `docs/packetdrill.md`.

mod call;
mod desk;
#[allow(unsafe_code, reason = "packetdrill is a program in C: its table is made of pointers")]
mod face;
mod network;
mod options;
mod setup;
mod sockets;

pub use face::{Table, packetdrill_interface_init};
