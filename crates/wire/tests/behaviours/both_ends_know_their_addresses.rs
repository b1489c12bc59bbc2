//! Each end names itself and its peer, and a listener names the port that the system chose.

use anywire_wire::{Address, Connection};

#[test]
fn the_accepted_end_has_the_address_that_was_dialled() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(1);
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        let dialled = listening.local().clone();
        assert!(!dialled.location().ends_with(":0"), "{dialled} can be dialled");
        let expected = dialled.clone();
        crate::support::play_on(&listening, async move |connection: Connection| {
            assert_eq!(connection.peer(), expected);
            let local = connection.local();
            assert_eq!(local.scheme(), expected.scheme());
            assert!(format!("{connection:?}").contains(&expected.to_string()), "{connection:?}");
        });
        assert_eq!(Address::on(dialled.wire(), dialled.location()), Ok(dialled));
    }
}

#[test]
fn the_two_ends_agree() {
    crate::support::on_each_wire(
        async |mut accepted: Connection| {
            let told = format!("{} {}", accepted.local(), accepted.peer());
            accepted.write_all(told.as_bytes()).await.expect("the peer reads");
        },
        async |mut dialled| {
            let told = crate::support::read_to_end(&mut dialled).await.expect("the peer tells");
            let seen = format!("{} {}", dialled.peer(), dialled.local());
            assert_eq!(String::from_utf8_lossy(&told), seen);
        },
    );
}

/// An abstract name of this process.
fn name() -> Address {
    format!("unix:@both-ends-know-their-addresses-{}", std::process::id()).parse().expect("an address")
}

#[test]
fn an_abstract_name_is_named_and_an_unbound_end_has_no_name() {
    crate::support::play(
        &name(),
        async |accepted: Connection| {
            assert_eq!(accepted.local(), name());
            assert_eq!(accepted.peer().to_string(), "unix:");
        },
        async |dialled| assert_eq!(dialled.peer(), name()),
    );
}

#[test]
fn an_end_can_be_asked_after_the_peer_has_gone() {
    crate::support::on_each_wire(
        async |mut accepted| {
            accepted.read(&mut [0; 1]).await.expect("the peer writes");
            accepted.abort();
        },
        async |mut dialled| {
            dialled.write_all(b"!").await.expect("the connection is open");
            let peer = dialled.peer();
            let _ = crate::support::read_to_end(&mut dialled).await;
            assert_eq!(dialled.peer(), peer, "it keeps its name");
            assert_eq!(dialled.local().scheme(), peer.scheme());
        },
    );
}
