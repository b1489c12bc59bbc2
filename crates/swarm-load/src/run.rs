//! A run from its plan to its outcome, on a thread of its own.

use std::future::Future;
use std::panic;
use std::thread;

use anywire_load::Stop;
use anywire_stack::swarm::{Conn, Incoming, Mail, SharedPayload, Swarm, Tasks};
use anywire_sys::cpu;

use crate::book::book;
use crate::drive::{Drive, Monitor};
use crate::error::Error;
use crate::group;
use crate::http::{self, Http};
use crate::network;
use crate::outcome::{Memory, Outcome};
use crate::plan::{Mode, Plan};
use crate::roles::{
    Echo, client, echo_server, echo_server_with_deadline, push_client, push_server, short_client,
};

/// Runs a plan and measures it. `monitor` reports progress meanwhile. `stop` ends the run early; the outcome then covers
/// the part that was measured.
///
/// # Errors
///
/// A plan that contradicts itself or does not fit into memory, connections that end or cannot be opened, or a stop before
/// anything was measured. Corrupt payloads are part of the outcome: see [`Outcome::check`].
pub fn run(plan: &Plan, stop: &Stop, monitor: &Monitor) -> Result<Outcome, Error> {
    plan.check()?;
    on_core(plan.core, || match plan.mode {
        Mode::Echo if plan.idle_deadline.is_some() => {
            run_with(plan, stop, monitor, client::<Echo>, echo_server_with_deadline, None)
        }
        Mode::Echo => run_with(plan, stop, monitor, client::<Echo>, echo_server, None),
        Mode::Push => run_with(plan, stop, monitor, push_client, push_server, None),
        Mode::Group => {
            let mail = group::mail(plan.connections);
            let group = group::start_posting(&mail, plan)?;
            let server = |conn| group::server(conn, mail.mailbox(), group);
            run_with(plan, stop, monitor, group::client, server, Some(&mail))
        }
        Mode::Short => run_with(plan, stop, monitor, short_client, echo_server, None),
        Mode::Http => run_with(plan, stop, monitor, client::<Http>, http::server, None),
    })
}

/// Runs `work` on a new thread that is pinned to this core.
pub(crate) fn on_core<T: Send>(
    core: usize,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let available = cpu::available_cores();
    if !available.contains(&core) {
        return Err(Error::Core { core, available });
    }
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            cpu::pin_current_thread(core).map_err(Error::setup)?;
            work()
        });
        thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}

fn run_with<C, S>(
    plan: &Plan,
    stop: &Stop,
    monitor: &Monitor,
    client: impl Fn(Conn) -> C,
    server: impl Fn(Conn) -> S,
    mail: Option<&Mail<SharedPayload>>,
) -> Result<Outcome, Error>
where
    C: Future<Output = ()>,
    S: Future<Output = ()>,
{
    let task_bytes = [Tasks::<C>::TASK_BYTES, Tasks::<S>::TASK_BYTES];
    plan.check_memory(task_bytes.iter().sum())?;
    book(|book| {
        book.payload_bytes.set(plan.payload_bytes);
        book.idle_deadline.set(plan.idle_deadline.unwrap_or_default());
        book.order.set(Some(plan.order_of_tasks()));
    });
    let before = Memory::resident();
    let [(client_engine, client_port), (server_engine, server_port)] = network::join(plan)?;
    let most = plan.connections_max();
    let mut client = Swarm::new(client_engine, client_port, most, |one: Incoming| client(one.conn))
        .map_err(Error::setup)?;
    let mut server = Swarm::new(server_engine, server_port, most, |one: Incoming| server(one.conn))
        .map_err(Error::setup)?;
    mail.into_iter().for_each(|mail| server.attach(mail));
    let measured = Drive::new(plan, &mut client, &mut server, monitor, stop).run()?;
    let memory = Memory::of(plan, before, [&mut client, &mut server], task_bytes);
    let (corrupt, failed) = book(|book| (book.corrupt.get(), book.ended_early.get()));
    // Dropping the tasks adds their figures to the book.
    drop((client, server));
    let (latency, connections) = book(|book| book.take());
    Ok(Outcome::new(plan, measured, memory, &latency, connections, corrupt, failed))
}
