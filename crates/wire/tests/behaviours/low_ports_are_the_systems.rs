//! A port below 1024 is not permitted to everybody, which is said as such. In a network of its own, whose limit is the
//! default, whatever that of the machine is.

use anywire_wire::{ListenError, Listener};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

#[test]
fn low_ports_are_the_systems() {
    if !crate::again::is_inner() {
        return crate::again::passes_within(
            &["--net"],
            "low_ports_are_the_systems::low_ports_are_the_systems",
        );
    }
    let mut sets = capabilities(None).expect("one's own can be asked");
    sets.effective = CapabilitySet::empty();
    set_capabilities(None, sets).expect("giving up needs no permission");
    let address = "tcp:0.0.0.0:1023";
    let error = Listener::bind(address, &crate::support::listening(), &crate::support::loops(1)).err();
    assert!(matches!(error, Some(ListenError::Permission { .. })), "{error:?}");
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("from 1024 up"), "{error}");
    let address = "tcp:0.0.0.0:1024".parse().expect("an address");
    drop(crate::support::bind(&crate::support::loops(1), &address, &crate::support::listening()));
}
