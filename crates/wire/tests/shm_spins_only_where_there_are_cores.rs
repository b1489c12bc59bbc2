//! Where the process may use fewer cores than it has loops that want to spin, they sleep, whatever their addresses ask for. A loop
//! whose spinning connections are gone does not count.
#![cfg(feature = "shm")]

#[path = "behaviours/support/mod.rs"]
mod support;

use anywire_wire::{Address, Connection, ListenOptions};
use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Rounds of round trips until the loop spins no more, or again.
const ROUNDS_MAX: usize = 100;

/// One test alone in its process, because it takes cores away from it.
#[test]
fn more_loops_than_cores_sleep() {
    // The cores of the main thread, which is not this one, count as those of the process.
    let all = sched_getaffinity(Some(getpid())).expect("this process");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).expect("it has a core"));
    sched_setaffinity(Some(getpid()), &one).expect("it is one of them");

    let name = format!("shm:@anywire-cores-{}?spin=1ms", std::process::id());
    let address: Address = name.parse().expect("an address");
    let (here, there) = (support::loops(1), support::loops(1));
    let _listening = support::serve_echo(&here, &address, &ListenOptions::default());
    let counted = here.get(0);
    let spins = move || counted.counters().spins;
    let (tell, told) = std::sync::mpsc::channel();
    let (arrive, arrived) = tokio::sync::oneshot::channel();
    let (leave, left) = tokio::sync::oneshot::channel();
    let of_here = address.clone();
    let playing = here.get(0).spawn(move || async move {
        let mut connection = support::dial(&of_here).await;
        support::ask_echo(&mut connection).await;
        assert!(spins() > 0, "it has the core for itself");
        tell.send(()).expect("the test waits");
        arrived.await.expect("the other one comes");
        assert!(comes_to(&mut connection, &spins, false).await, "it spins on");
        tell.send(()).expect("the test waits");
        left.await.expect("the other one leaves");
        assert!(
            comes_to(&mut connection, &spins, true).await,
            "a loop with no such connection takes no core"
        );
    });
    told.recv().expect("it spins");
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let of_there = there.get(0).spawn(move || async move {
        let mut connection = support::dial(&address).await;
        support::ask_echo(&mut connection).await;
        arrive.send(()).expect("it waits");
        let _ = ended.await;
    });
    told.recv().expect("it sleeps");
    drop(end);
    of_there.wait().expect("no panic");
    leave.send(()).expect("it waits");
    playing.wait().expect("no panic");
    drop(there);
}

/// Whether a round of round trips comes in which the loop spins, or does not.
async fn comes_to(connection: &mut Connection, spins: &impl Fn() -> u64, spinning: bool) -> bool {
    for _ in 0..ROUNDS_MAX {
        let before = spins();
        for _ in 0..20 {
            support::ask_echo(connection).await;
        }
        if (before < spins()) == spinning {
            return true;
        }
    }
    false
}
