//! The TCP engine as a shared object for packetdrill: its scripts run against us in virtual time, without a kernel.
//!
//! packetdrill loads the object (`--so_filename`) and calls `packetdrill_interface_init`, which fills a table of functions.
//! Most look like the system calls of a kernel. Four more put a packet in, take a packet out, let time pass and tell the time.
//! Behind the table a thread of its own holds an [`anywire_tcp::Engine`] and executes one call after the other. So every run of a
//! script is the same.
//!
//! | file | holds |
//! | --- | --- |
//! | `face` | the table and its functions: the only unsafe code here, and no logic |
//! | `call` | calls and answers |
//! | `server` | one call after the other; the one that blocks; the clock |
//! | `network` | packets to frames and back, the engine's deadlines |
//! | `sockets` | descriptors, and what calls mean for them |
//! | `options` | options of sockets |
//! | `setup` | the flags that packetdrill hands over, and what scripts set by `sysctl` |
//!
//! The command of this crate (`run.sh` builds it and calls it) runs whole sets of scripts. Its results are in `docs/packetdrill.md`.

mod call;
#[allow(unsafe_code, reason = "packetdrill is a program in C: its table is made of pointers")]
mod face;
mod network;
mod options;
mod server;
mod setup;
mod sockets;

pub use face::{Table, packetdrill_interface_init};
