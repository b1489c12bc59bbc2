//! Why a connection could not be made is a type, and a message with the address and what would help.

use std::time::Duration;

use anywire_wire::{DialError, DialOptions, Dialer, ListenOptions, ToAddress};

fn failed(address: impl ToAddress) -> DialError {
    let address = address.to_address().expect("an address");
    let error = crate::support::try_dial(&address).expect_err("nobody listens");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    error
}

#[test]
fn where_nobody_listens_any_more_it_is_refused_or_gone() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(1);
        let listener = crate::support::bind(&loops, &address, &crate::support::listening());
        let address = listener.local().clone();
        drop(listener);
        let error = failed(&address);
        assert!(error.is_refused() || matches!(error, DialError::NoSuchFile { .. }), "{error:?}");
        assert!(!error.is_timeout());
        assert!(error.to_string().contains("start the server"), "{error}");
    }
}

#[test]
fn an_abstract_name_of_nobody_is_refused() {
    assert!(failed("unix:@a-failed-dial-says-why").is_refused());
}

#[test]
fn a_missing_file_is_said() {
    let error = failed("unix:/nowhere/at/all.sock");
    assert!(matches!(error, DialError::NoSuchFile { .. }), "{error:?}");
}

#[test]
fn a_name_that_does_not_resolve_is_said() {
    // RFC 6761 section 6.4: never resolves.
    let error = failed("tcp:no-such-name.invalid:80");
    assert!(matches!(error, DialError::Resolve { .. }), "{error:?}");
}

#[test]
fn silence_ends_at_the_deadline() {
    // A backlog of one connection that is never accepted: further ones are not answered.
    let options = ListenOptions { backlog: 0, ..crate::support::listening() };
    for address in crate::support::addresses_without_handshake() {
        let loops = crate::support::loops(1);
        let listener = crate::support::bind(&loops, &address, &options);
        let address = listener.local().clone();
        let after = Duration::from_millis(50);
        let dialer = Dialer::new(DialOptions { connect_timeout: after, ..crate::support::dialling() });
        let error = crate::support::on_a_loop(move || async move {
            let mut waiting = Vec::new();
            loop {
                match dialer.dial(&address).await {
                    Ok(connection) => waiting.push(connection),
                    Err(error) => return error,
                }
                assert!(waiting.len() < 100, "the backlog is full at some time");
            }
        });
        assert!(matches!(error, DialError::Timeout { after: told, .. } if told == after), "{error:?}");
        assert!(error.is_timeout() && !error.is_refused());
    }
}

#[test]
fn room_in_the_backlog_lets_the_next_one_in() {
    let options = ListenOptions { backlog: 1, ..crate::support::listening() };
    for address in crate::support::addresses_without_handshake() {
        let loops = crate::support::loops(1);
        let listener = crate::support::bind(&loops, &address, &options);
        let address = listener.local().clone();
        let (first, dialled) = std::sync::mpsc::channel();
        let peers = crate::support::loops(1);
        let all = peers.get(0).spawn(move || async move {
            let dialer = Dialer::new(DialOptions {
                connect_timeout: crate::support::HANG,
                ..crate::support::dialling()
            });
            // More than the backlog holds, all on their way before one of them is accepted.
            let dials = (0..8).map(|_| {
                let (dialer, address, first) = (dialer.clone(), address.clone(), first.clone());
                anywire_loops::spawn(async move {
                    let mut connection = dialer.dial(&address).await.expect("there is room in the end");
                    let _ = first.send(());
                    crate::support::ask_echo(&mut connection).await;
                })
            });
            for dial in dials.collect::<Vec<_>>() {
                dial.await.expect("it was served");
            }
        });
        dialled.recv_timeout(crate::support::HANG).expect("the backlog takes one");
        let _listening =
            listener.serve(|connection| drop(anywire_loops::spawn(crate::support::echo(connection))));
        all.wait().expect("all were served");
    }
}
