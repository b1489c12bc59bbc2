//! Two ends that spin exchange bytes without a system call of this wire, and with no more than the runtime's own look at its
//! sockets each 61 polls. Ends that do not spin are woken, each time once.
#![cfg(feature = "shm")]

#[path = "behaviours/support/mod.rs"]
mod support;

use anywire_loops::Loops;
use anywire_sys::cpu;
use anywire_sys::syscalls::SyscallCounter;
use anywire_wire::shm::counters;
use anywire_wire::{Address, ListenOptions};

/// One test alone in its process, because the counters are the process's.
#[test]
fn while_both_are_awake() {
    // Ends that do not spin, first, because an end of an earlier connection may still spin while it closes.
    let all = play("0us", |_| support::loops(1));
    assert_eq!((all.spins, all.turns), (0, 0), "{all:?}");
    let total = counters();
    assert!(total.wakes <= total.parks, "{total:?}");

    // On one loop, which is awake whenever either end is: so it is the same on a busy machine.
    let all = play("1ms", Loops::clone);
    assert_eq!((all.parks, all.wakes), (0, 0), "{all:?}");
    assert!(all.spins >= 2 * ROUND_TRIPS, "{all:?}");
    if let Some(calls) = all.system_calls {
        // A round trip polls the task of each end a few times, and each turn of the spinning task is a poll, too. Some calls are the counter's own.
        let polls = all.turns + 8 * ROUND_TRIPS;
        assert!(calls <= polls / 61 + 10, "{all:?}");
    }

    // On two loops an end is woken only if it had announced that it sleeps. Counted since the start of the process: an end that
    // was asleep when the round trips began had announced that before.
    let all = play("1ms", |_| support::loops(1));
    let total = counters();
    assert!(total.wakes <= total.parks, "{total:?}, in them {all:?}");
}

/// What some round trips took.
#[derive(Debug)]
struct All {
    parks: u64,
    wakes: u64,
    spins: u64,
    /// Turns of the dialling loop's spinning task.
    turns: u64,
    /// System calls of that loop; `None` if they may not be counted.
    system_calls: Option<u64>,
}

/// Asks an echo on these loops, from one of its own.
fn play(spin: &str, loops_of_echo: impl FnOnce(&Loops) -> Loops) -> All {
    let name = format!("shm:@anywire-awake-{}?spin={spin}", std::process::id());
    let address: Address = name.parse().expect("an address");
    let here = support::loops(1);
    let there = loops_of_echo(&here);
    let _listening = support::serve_echo(&there, &address, &ListenOptions::default());
    let own = here.get(0);
    let playing = here.get(0).spawn(move || async move {
        let mut connection = support::dial(&address).await;
        support::ask_echo(&mut connection).await;
        let counting = SyscallCounter::for_thread(cpu::thread_id());
        let (shm, turns) = (counters(), own.counters().spins);
        if let Ok(counter) = &counting {
            counter.reset_and_enable().expect("it is open");
        }
        for _ in 0..ROUND_TRIPS {
            support::ask_echo(&mut connection).await;
        }
        let system_calls = match &counting {
            Ok(counter) => Some(counter.read().expect("it is open")),
            Err(why_not) => {
                assert!(std::env::var_os("CI").is_none(), "{why_not}");
                println!("not counted: {why_not}");
                None
            }
        };
        let now = counters();
        All {
            parks: now.parks - shm.parks,
            wakes: now.wakes - shm.wakes,
            spins: now.spins - shm.spins,
            turns: own.counters().spins - turns,
            system_calls,
        }
    });
    playing.wait().expect("no panic")
}

const ROUND_TRIPS: u64 = 1000;
