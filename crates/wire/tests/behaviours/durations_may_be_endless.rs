//! `Duration::MAX` means never, for each duration of those who listen and those who dial, on each wire.

use std::time::Duration;

use anywire_wire::{Address, DialOptions, Dialer, ListenOptions};

const MAX: Duration = Duration::MAX;

#[test]
fn of_those_who_dial() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(1);
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        for options in [
            DialOptions { connect_timeout: MAX, ..crate::support::dialling() },
            DialOptions { attempt_delay: MAX, ..crate::support::dialling() },
            DialOptions { resolve_timeout: MAX, ..crate::support::dialling() },
            DialOptions { handshake_timeout: MAX, ..crate::support::dialling() },
        ] {
            ask(listening.local(), options);
        }
    }
}

/// A name has several addresses, of which each attempt tries one.
#[test]
fn of_those_who_dial_a_name() {
    let loops = crate::support::loops(1);
    let address = "tcp:127.0.0.1:0".parse().expect("an address");
    let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
    let port = listening.local().port().expect("TCP has ports");
    let named: Address = format!("tcp:localhost:{port}").parse().expect("an address");
    let all = DialOptions {
        connect_timeout: MAX,
        attempt_delay: MAX,
        resolve_timeout: MAX,
        handshake_timeout: MAX,
        ..crate::support::dialling()
    };
    ask(&named, all);
}

#[test]
fn of_those_who_listen() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(1);
        let options = ListenOptions { handshake_timeout: MAX, ..crate::support::listening() };
        let listening = crate::support::serve_echo(&loops, &address, &options);
        ask(listening.local(), crate::support::dialling());
    }
}

fn ask(address: &Address, options: DialOptions) {
    let (address, dialer) = (address.clone(), Dialer::new(options));
    crate::support::on_a_loop(move || async move {
        let mut connection = dialer.dial(&address).await.expect("somebody listens there");
        crate::support::ask_echo(&mut connection).await;
    });
}
