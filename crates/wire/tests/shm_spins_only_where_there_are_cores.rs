//! Where the process may use fewer cores than it has loops that want to spin, they sleep, whatever their addresses ask for.
#![cfg(feature = "shm")]

mod support;

use anywire_loops::Loops;
use anywire_wire::{Address, ListenOptions};
use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Rounds of round trips until no loop spins any more. An end that is set up first may spin alone for a moment.
const ROUNDS_MAX: usize = 100;

/// One test alone in its process, because it takes cores away from it.
#[test]
fn two_loops_on_one_core_sleep() {
    // The cores of the main thread, which is not this one, count as those of the process.
    let all = sched_getaffinity(Some(getpid())).expect("this process");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).expect("it has a core"));
    sched_setaffinity(Some(getpid()), &one).expect("it is one of them");

    let name = format!("shm:@anywire-cores-{}?spin=1ms", std::process::id());
    let address: Address = name.parse().expect("an address");
    let (here, there) = (support::loops(1), support::loops(1));
    let _listening = support::serve_echo(&there, &address, &ListenOptions::default());
    let spins = |loops: &Loops| loops.get(0).counters().spins;
    let (own, theirs) = (here.clone(), there.clone());
    let playing = here.get(0).spawn(move || async move {
        let mut connection = support::dial(&address).await;
        for _ in 0..ROUNDS_MAX {
            let before = (spins(&own), spins(&theirs));
            for _ in 0..20 {
                support::ask_echo(&mut connection).await;
            }
            if before == (spins(&own), spins(&theirs)) {
                return true;
            }
        }
        false
    });
    assert!(playing.wait().expect("no panic"), "they spin on");
}
