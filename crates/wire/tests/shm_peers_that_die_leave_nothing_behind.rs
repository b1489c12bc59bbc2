//! Ten thousand peers leave at every step of the set-up and after it, and some are killed. All that they held is freed, and
//! others are served meanwhile.
#![cfg(feature = "shm")]

#[path = "behaviours/support/raw_shm.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod raw;
#[path = "behaviours/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anywire_wire::{Address, ListenOptions};
use raw::HELLO;

const STEPS: usize = 7;
const CYCLES: usize = 10_000;
const KILLS: usize = 5 * STEPS;
const INNER: &str = "ANYWIRE_SHM_DIES_AT";

/// Goes so many steps of the set-up. The peer leaves when the returned value is dropped.
fn go(address: &Address, steps: usize) -> Box<dyn std::any::Any> {
    if steps < 4 {
        let socket = raw::connect(address);
        match steps {
            0 => {}
            1 => raw::send(&socket, &HELLO.bytes()[..10], &[]),
            2 => raw::send(&socket, &HELLO.bytes(), &[]),
            _ => {
                raw::send(&socket, &HELLO.bytes(), &[]);
                // The memory comes with it, and is left.
                assert_eq!(raw::answer(&socket), Some(0));
            }
        }
        return Box::new(socket);
    }
    let (socket, memory) = raw::set_up(address);
    match steps {
        5 => raw::set_written(&memory, 1000),
        6 => {
            raw::set_written(&memory, 4000);
            raw::send_if_open(&socket, b"!");
        }
        _ => {}
    }
    Box::new((socket, memory))
}

/// One test alone in its process, because it counts what the process holds.
#[test]
fn whenever_they_die() {
    if let Ok(inner) = std::env::var(INNER) {
        let (steps, address) = inner.split_once(' ').expect("two words");
        let _held = go(&address.parse().expect("an address"), steps.parse().expect("a number"));
        println!("\nthere");
        loop {
            std::thread::park();
        }
    }
    let address = support::wires().find(|wire| wire.scheme() == "shm").and_then(|wire| wire.scratch());
    let loops = support::loops(2);
    let listening = support::serve_echo(&loops, &address.expect("a path"), &ListenOptions::default());
    let asks_echo = || support::play_on(&listening, async |mut peer| support::ask_echo(&mut peer).await);
    asks_echo();
    let is_idle = || listening.limit().open() == 0 && listening.counters().handshakes_under_way == 0;
    support::eventually("the first peer has left", || is_idle() && raw::held().1 == 0);
    let before = raw::held().0;
    let is_free = || raw::held().0 <= before && raw::held().1 == 0;

    for cycle in 0..CYCLES {
        drop(go(listening.local(), cycle % STEPS));
    }
    asks_echo();
    support::eventually("nothing is left of those who left", || is_idle() && is_free());

    for kill in 0..KILLS {
        let inner = format!("{} {}", kill % STEPS, listening.local());
        let mut child = Command::new(std::env::current_exe().expect("the test has a file"))
            .args(["--exact", "whenever_they_die", "--nocapture"])
            .env(INNER, inner)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the system has processes left");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        assert!(output.lines().any(|line| line.is_ok_and(|line| line == "there")), "it gets there");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }
    asks_echo();
    support::eventually("nothing is left of those who were killed", || is_idle() && is_free());
}
