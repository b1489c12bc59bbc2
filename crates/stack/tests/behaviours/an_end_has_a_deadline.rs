//! A loop that ends waits for its peers, but no longer than it was told, whatever they send.

use std::time::{Duration, Instant};

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
