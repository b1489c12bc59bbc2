//! A loop that ends waits for its peers, but no longer than it was told, whatever they send.

use std::time::{Duration, Instant};

use anywire_stack::stream::Interface;

use crate::hosts::{CLIENT, SERVER, address, interface_on, run};
use crate::support::Chatter;

#[test]
fn that_frames_without_a_pause_do_not_move() {
    run(async || {
        let falls_silent = Instant::now() + Duration::from_secs(10);
        let (interface, _driver) = interface_on(CLIENT, Chatter { falls_silent });
        let _opening =
            interface.start(None, address(SERVER, 80), Default::default()).expect("there is a route");
        interface.finish(Duration::from_millis(10), Duration::from_millis(20));
        assert!(Instant::now() < falls_silent, "it has waited for the end of what peers send");
        assert_eq!(interface.with_engine(|engine| engine.connections()), 1, "which nobody has answered");
    });
}

/// Two devices of a loop, and peers on one of them that chatter: what is left to say on the other leaves.
#[test]
fn that_devices_have_together_and_take_turns_until() {
    run(async || {
        let falls_silent = Instant::now() + Duration::from_secs(10);
        let interfaces = [(); 3].map(|()| {
            let (interface, driver) = interface_on(CLIENT, Chatter { falls_silent });
            let opening =
                interface.start(None, address(SERVER, 80), Default::default()).expect("there is a route");
            (interface, driver, opening)
        });
        let all = interfaces.each_ref().map(|(interface, ..)| interface);
        let polls = || all.map(|interface| interface.counters().polls);
        let before = polls();
        Interface::finish_all(&all, Duration::from_millis(10), Duration::from_millis(20));
        assert!(Instant::now() < falls_silent, "it has waited for the end of what peers send");
        let had = std::array::from_fn::<_, 3, _>(|place| polls()[place] - before[place]);
        assert!(had[0] > 0 && had.iter().all(|turns| *turns == had[0]), "{had:?}");
    });
}
