//! The swarm: an executor for millions of tasks of one type, each a few bytes, for one thread.
//!
//! A service of many connections is written most simply as one task for each, in straight lines. A general executor
//! makes that an allocation, a reference count, a virtual call and a waker for each task: hundreds of bytes, and two
//! hundred nanoseconds a switch. Here all tasks are futures of **one type**, and lie side by side in one arena: task
//! *i* in slot *i*. Polling them is an inlined call; waking one is writing its number. A task that keeps 8 bytes takes
//! 16, and 100 million of them fit into 2 GB.
//!
//! - [`Tasks`] is the executor. Its owner, the driver, runs it in steps: it wakes the tasks whose connections have
//!   events, polls the ready ones, and tells the time.
//! - [`yield_now`], [`sleep`], [`park`] and [`wake`] are what tasks do among themselves. A leaf future of another
//!   module needs [`current`] alone: the number by which its task is woken later.
//! - [`Remote`] wakes tasks from other threads.
//! - [`Swarm`] puts it on top of an engine and a device: a task for each connection, which it sees as a [`Conn`].
//! - [`connect`] opens further connections from a task, [`splice`] joins two, and [`LengthPrefix`] makes messages of bytes.
//! - [`Mail`] brings messages to tasks, to one, a group or all, from other threads as well.
//! - [`Swarm::with_layer`] is for a real link: neighbours are found, addresses come and go, and [`Swarm::next_event`] tells of it.
//! - [`Swarm::drain`] ends all of it by a deadline.
//! - [`select`], [`timeout`] and [`Deadline`] wait for one of several things, or not for ever.
//!
//! Futures that keep a [`Waker`](std::task::Waker), such as timers and channels of another runtime, do not work here:
//! they panic when they are polled, with the reason. A task that panics is dropped and counted; the others go on.
//!
//! ```
//! use std::cell::Cell;
//! use std::time::Duration;
//! use anywire_stack::swarm::{self, Tasks};
//!
//! thread_local!(static AWAKE: Cell<u32> = const { Cell::new(0) });
//!
//! let mut tasks = Tasks::with_capacity(1000)?;
//! tasks.spawn_many(1000, |index| async move {
//!     swarm::sleep(Duration::from_secs(1 + u64::from(index % 2))).await;
//!     AWAKE.set(AWAKE.get() + 1);
//! })?;
//!
//! assert_eq!(tasks.run(usize::MAX), 1000);
//! let mut finished = Vec::new();
//! while let Some(deadline) = tasks.next_deadline() {
//!     tasks.advance(deadline); // a driver would wait for its clock
//!     tasks.run_with(usize::MAX, |index| finished.push(index));
//! }
//! assert_eq!((AWAKE.get(), finished.len()), (1000, 1000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod combine;
mod conn;
mod context;
mod current;
mod deadline;
mod dial;
mod drain;
mod driver;
mod executor;
mod frame;
mod leaf;
mod limits;
mod link;
mod mail;
mod office;
mod ready;
mod receive;
mod remote;
mod rest;
mod send;
mod senders;
mod sleep;
mod splice;

pub use anywire_tcp::{Instant, SharedPayload};
pub use combine::{Either, Elapsed, Select, select, timeout};
pub use conn::{Conn, Incoming};
pub use deadline::Deadline;
pub use dial::{Dial, DialError, connect, connect_from};
pub use drain::{draining, spread};
pub use driver::Swarm;
pub use executor::Tasks;
pub use frame::{FrameError, LengthPrefix};
pub use leaf::{Park, Sleep, YieldNow, current, now, park, sleep, try_current, wake, yield_now};
pub use limits::{Counters, Limits, SpawnError, SwarmCounters};
pub use mail::{GroupId, Mail, MailCounters, MailError, MailLimits, Mailbox, MailboxId, Post, SlowReader};
pub use receive::{Fill, ReadError, ReadExact, Readable, Recv};
pub use remote::Remote;
pub use send::{Content, Received, SendFuture, Writable};
pub use splice::{Splice, splice};
