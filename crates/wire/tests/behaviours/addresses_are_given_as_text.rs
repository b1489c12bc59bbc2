//! A listener and a dialer take the text of an address, and say what is wrong with it.

use anywire_wire::{DialError, ListenError, Listener};

#[test]
fn a_text_is_as_good_as_an_address() {
    let loops = crate::support::loops(1);
    let listener = Listener::bind("memory:addresses-as-text", &crate::support::listening(), &loops);
    let _serving = listener.expect("a free name").serve(drop);
    crate::support::on_a_loop(|| async {
        let connection = crate::support::dialer().dial("memory:addresses-as-text").await.expect("it listens");
        assert_eq!(connection.peer().to_string(), "memory:addresses-as-text");
    });
}

#[test]
fn a_malformed_text_is_an_error_of_its_own() {
    let refused =
        Listener::bind("127.0.0.1:80", &crate::support::listening(), &crate::support::loops(1)).err();
    let Some(ListenError::Address(listening)) = refused else { panic!("{refused:?}") };
    let refused =
        crate::support::on_a_loop(|| async { crate::support::dialer().dial("127.0.0.1:80").await.map(drop) });
    let Err(DialError::Address(dialling)) = refused else { panic!("{refused:?}") };
    assert_eq!(listening, dialling);
    assert!(dialling.to_string().contains("such as tcp:127.0.0.1:80"), "{dialling}");
}
