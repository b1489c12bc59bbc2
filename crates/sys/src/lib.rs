//! The edge to the system: pinning, counters, limits, memory, and system calls that need `unsafe`.
//!
//! The one crate of the project that may hold `unsafe`; each block states why it is sound. Everything here asks
//! the kernel for one thing and gives back a typed answer. There is no protocol logic, no runtime and no policy.
//!
//! | module | answers |
//! | --- | --- |
//! | [`cpu`] | which cores there are, where this thread runs, how much CPU time a thread has used |
//! | [`process`] | what the threads of another process have used, and what they wait for |
//! | [`cores`] | how busy each core was, and how much of that with receiving packets |
//! | [`listeners`] | how many connections wait to be accepted, and how many were turned away |
//! | [`exit`] | what a process does last |
//! | [`stdout`] | whether this process was given a standard output |
//! | [`syscalls`] | how many system calls a thread has made, in all and by name |
//! | [`descriptors`] | how many files and sockets this process may have open, and under which numbers |
//! | [`select`] | which of many descriptors are ready, as one asked in 1983 |
//! | [`uring`] | what io_uring has done of what it was asked to do |
//! | [`memory`] | how much memory this process holds, and may still take |
//! | [`arena`] | memory for millions of values that never move, in huge pages |
//! | [`slots`] | places for millions of values that are pinned: the futures of a swarm |
//! | [`lent`] | how the tasks of a thread reach what they share |
//! | [`thread_bound`] | how a value stays with its thread, though what holds it goes anywhere |
//! | [`zeroed`] | how memory of zeroes is had without writing them |
//! | [`prefetch`] | how to have memory fetched ahead of its use |
//! | [`bpf`] | how a program of ours runs on each packet that arrives, and what it shares with us |
//! | [`xsk`] | how whole frames go to a network interface and come from it, through memory shared with the kernel |
//! | [`network_interface`] | what a network interface is, and when it goes up, down or away |
//! | [`ring`] | how frames of bytes go from one thread to another without a lock |
//! | [`shm`] | how bytes go from one process to another through memory, without trust |
//! | [`tap`] | how Ethernet frames go to an interface of the kernel and come from it |
//! | [`interfaces`] | on which interface the kernel has an address |
//! | [`martian`] | which addresses no packet can come from |
//! | [`checksum`] | what the Internet checksum of data is, in the widest registers there are |
//! | [`tags`] | which of ten tags are the one that is looked for, all compared at once |
//! | [`waker`] | how a future that keeps its waker is found out |
//! | [`tcp_options`] | how a TCP socket sends data with its first segment, and chooses its port late |
//! | [`names`] | which addresses a host name has, and why it has none |
//! | [`tcp_info`] | what the kernel knows of one TCP connection |
//! | [`send_queue`] | how much of what was written to a socket is still on its way |
//! | [`datagrams`] | how datagrams are spread over sockets, and how many of them a socket has dropped |
//! | [`send_each`] | how datagrams leave to several peers in one call |
//! | [`send_marked`] | how a datagram leaves from an address, with a mark, or in parts |
//! | [`udp_limit`] | how fast this machine can answer datagrams at all: an echo server in the style of C |
//!
//! Linux only: the answers come from Linux interfaces.

pub mod arena;
pub mod bpf;
pub mod checksum;
pub mod cores;
pub mod cpu;
pub mod datagrams;
pub mod descriptors;
pub mod exit;
pub mod interfaces;
pub mod lent;
pub mod listeners;
pub mod martian;
pub mod memory;
pub mod names;
pub mod network_interface;
pub mod prefetch;
pub mod process;
pub mod ring;
pub mod select;
pub mod send_each;
pub mod send_marked;
pub mod send_queue;
pub mod shm;
pub mod slots;
pub mod stdout;
pub mod syscalls;
pub mod tags;
pub mod tap;
pub mod tcp_info;
pub mod tcp_options;
pub mod thread_bound;
pub mod udp_limit;
pub mod uring;
pub mod waker;
mod words;
pub mod xsk;
pub mod zeroed;

/// The atomics of rings. Their model tests replace them by loom's.
mod sync {
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}
