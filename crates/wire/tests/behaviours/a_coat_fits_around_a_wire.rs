//! A wire may need a handshake and may hold bytes back until they are flushed, as TLS does. Listener and dialer make the
//! handshake, each with a deadline, and a slow peer delays no other one.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use crate::coat::Coat;
use anywire_loops::Loops;
use anywire_wire::{
    Address, ConnectionLimit, DialError, DialOptions, Dialer, ListenOptions, ListenerHandle, Output,
};

/// Listens with a coat, and echoes.
fn serve(loops: &Loops, options: &ListenOptions) -> ListenerHandle {
    crate::support::serve_echo(loops, &Coat::scratch(), options)
}

/// What a dialer with these options gets: the failure of it, or the echo's.
fn ask(address: &Address, options: DialOptions) -> Result<(), DialError> {
    let (dialer, address) = (Dialer::new(options), address.clone());
    crate::support::on_a_loop(move || async move {
        let mut connection = dialer.dial(&address).await?;
        crate::support::ask_echo(&mut connection).await;
        Ok(())
    })
}

fn protocols(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn both_ends_know_what_was_agreed_on() {
    let (told, hears) = mpsc::channel();
    let options = ListenOptions { protocols: protocols(&["new", "old"]), ..ListenOptions::default() };
    let loops = crate::support::loops(2);
    let listening = crate::support::bind(&loops, &Coat::scratch(), &options).serve(move |connection| {
        told.send(connection.negotiated().cloned()).expect("the test waits");
        drop(anywire_loops::spawn(crate::support::echo(connection)));
    });
    let address = listening.local().clone();
    let options = DialOptions {
        server_name: Some("a.name".to_owned()),
        protocols: protocols(&["old", "newer"]),
        ..DialOptions::default()
    };
    let chosen = crate::support::on_a_loop(move || async move {
        let mut connection = Dialer::new(options).dial(&address).await.expect("they have one in common");
        crate::support::ask_echo(&mut connection).await;
        connection.negotiated().and_then(|negotiated| negotiated.protocol.clone())
    });
    assert_eq!(chosen.as_deref(), Some("old"));
    let accepted =
        hears.recv_timeout(crate::support::HANG).expect("it is served").expect("it has a handshake");
    assert_eq!(
        (accepted.server_name.as_deref(), accepted.protocol.as_deref()),
        (Some("a.name"), Some("old"))
    );
}

#[test]
fn what_is_held_back_leaves_with_a_flush() {
    crate::support::play(
        &Coat::scratch(),
        async |mut accepted| {
            let all = crate::support::read_to_end(&mut accepted).await.expect("an orderly end");
            assert!(all.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
            accepted.write_all(&all.len().to_be_bytes()).await.expect("the peer reads");
        },
        async |mut dialled| {
            let mut output = Output::new();
            for _ in 0..2 {
                let bytes: Vec<u8> = (0..251 * 2000).map(|at| (at % 251) as u8).collect();
                output.push_bytes(bytes.into());
            }
            poll_fn(|cx| output.poll_flush(cx, &mut dialled)).await.expect("the peer reads");
            assert!(output.is_empty());
            // The end does so, too.
            let last = poll_fn(|cx| dialled.poll_write(cx, &[0, 1, 2])).await.expect("an open connection");
            dialled.half_close().await.expect("an open connection");
            let count = crate::support::read_to_end(&mut dialled).await.expect("the peer counts");
            assert_eq!(count, (2 * 251 * 2000 + last).to_be_bytes());
        },
    );
}

#[test]
fn an_output_is_not_empty_before_all_has_left() {
    crate::support::play(
        &Coat::scratch(),
        async |mut accepted| {
            accepted.read(&mut [0]).await.expect("the peer writes");
            crate::support::read_to_end(&mut accepted).await.expect("an orderly end");
        },
        async |mut dialled| {
            // More than the system holds, in pieces that the coat takes whole.
            let mut output = Output::new();
            let stuck = poll_fn(|cx| {
                loop {
                    output.buffer().extend_from_slice(&[0; 8 * 1024]);
                    if output.poll_flush(cx, &mut dialled).is_pending() {
                        return Poll::Ready(output.is_empty());
                    }
                }
            });
            assert!(!stuck.await, "something waits");
            poll_fn(|cx| output.poll_flush(cx, &mut dialled)).await.expect("the peer reads");
            assert!(output.is_empty());
        },
    );
}

#[test]
fn a_peer_that_is_silent_in_its_handshake_holds_nobody_up() {
    let loops = crate::support::loops(1);
    let listening = serve(&loops, &ListenOptions::default());
    let address = listening.local().clone();
    let silent = Coat::inner(&address);
    crate::support::on_a_loop(move || async move {
        let _silent = [crate::support::dial(&silent).await, crate::support::dial(&silent).await];
        let mut served = crate::support::dial(&address).await;
        crate::support::ask_echo(&mut served).await;
    });
}

#[test]
fn a_peer_that_is_silent_in_its_handshake_is_cut() {
    let options = ListenOptions { handshake_timeout: Duration::from_millis(50), ..ListenOptions::default() };
    let loops = crate::support::loops(1);
    let listening = serve(&loops, &options);
    let silent = Coat::inner(listening.local());
    crate::support::on_a_loop(move || async move {
        let mut silent = crate::support::dial(&silent).await;
        assert_eq!(silent.read(&mut [0]).await.expect("an orderly end"), 0, "it is closed at the deadline");
    });
    crate::support::eventually("it is counted", || listening.counters().handshake_timeouts == 1);
    crate::support::eventually("its permit is free", || listening.limit().open() == 0);
}

#[test]
fn a_connection_counts_as_open_in_its_handshake() {
    let limit = ConnectionLimit::new(1);
    let loops = crate::support::loops(1);
    let listener =
        crate::support::bind(&loops, &Coat::scratch(), &ListenOptions::default()).limited_by(&limit);
    let listening = listener.serve(|connection| drop(anywire_loops::spawn(crate::support::echo(connection))));
    let address = listening.local().clone();
    let silent = Coat::inner(&address);
    crate::support::on_a_loop(move || async move {
        let silent = crate::support::dial(&silent).await;
        while limit.open() == 0 {
            tokio::task::yield_now().await;
        }
        let waiting = anywire_loops::spawn(async move {
            let mut waiting = crate::support::dial(&address).await;
            crate::support::ask_echo(&mut waiting).await;
        });
        while limit.pauses() == 0 {
            tokio::task::yield_now().await;
        }
        drop(silent);
        waiting.await.expect("it is served once the first has gone");
    });
}

#[test]
fn stopping_cuts_handshakes() {
    let options = ListenOptions { handshake_timeout: crate::support::HANG * 10, ..ListenOptions::default() };
    let loops = crate::support::loops(1);
    let listening = serve(&loops, &options);
    let silent = Coat::inner(listening.local());
    let (dialled, wait) = mpsc::channel();
    let peers = crate::support::loops(1);
    let peer = peers.get(0).spawn(move || async move {
        let mut silent = crate::support::dial(&silent).await;
        dialled.send(()).expect("the test waits");
        silent.read(&mut [0]).await.map_err(|error| error.kind())
    });
    wait.recv_timeout(crate::support::HANG).expect("the system takes it in");
    crate::support::eventually("it is accepted", || listening.limit().open() == 1);
    listening.stop();
    assert_eq!(peer.wait().expect("no panic"), Ok(0));
    assert_eq!(listening.counters().failed_handshakes, 0, "it did not fail");
}

#[test]
fn a_dial_says_that_its_handshake_failed() {
    let loops = crate::support::loops(1);
    let options = ListenOptions { protocols: protocols(&["old"]), ..ListenOptions::default() };
    let listening = serve(&loops, &options);
    let address = listening.local();
    let new = DialOptions { protocols: protocols(&["new"]), ..DialOptions::default() };
    let error = ask(address, new).expect_err("they have no protocol in common");
    assert!(
        matches!(&error, DialError::Handshake { cause, .. } if cause.kind() == ErrorKind::UnexpectedEof),
        "{error}"
    );
    assert!(!error.is_timeout() && error.to_string().contains("handshake"), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    crate::support::eventually("it is counted", || listening.counters().failed_handshakes == 1);
}

#[test]
fn a_dial_gives_up_on_a_handshake_at_its_deadline() {
    let loops = crate::support::loops(1);
    // Accepts, and says nothing.
    let listener = crate::support::bind(&loops, &Coat::inner(&Coat::scratch()), &ListenOptions::default());
    let address = Address::on(&Coat, listener.local().location()).expect("the coat's addresses are TCP's");
    let hasty = DialOptions { handshake_timeout: Duration::from_millis(50), ..DialOptions::default() };
    let error = ask(&address, hasty).expect_err("nobody answers");
    assert!(matches!(error, DialError::Handshake { .. }) && error.is_timeout(), "{error}");
}
