//! Listening at a name without an address fails with the error of the resolver.

use anywire_wire::{ListenError, Listener};

#[test]
fn a_name_that_does_not_resolve_is_said() {
    // `.invalid` never has an address (RFC 6761 section 6.4).
    let address = "tcp:no-such-name.invalid:80";
    let error = Listener::bind(address, &crate::support::listening(), &crate::support::loops(1)).err();
    assert!(matches!(error, Some(ListenError::Resolve { .. })), "{error:?}");
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("no-such-name.invalid") && error.contains("check its spelling"), "{error}");
}
