//! `Duration::MAX` means never, for each duration of those who listen and those who dial, on each wire.

mod support;

use std::time::Duration;

use anywire_wire::{Address, DialOptions, Dialer, ListenOptions};

const MAX: Duration = Duration::MAX;

#[test]
fn of_those_who_dial() {
    for address in support::addresses() {
        let loops = support::loops(1);
        let listening = support::serve_echo(&loops, &address, &support::listening());
        for options in [
            DialOptions { connect_timeout: MAX, ..support::dialling() },
            DialOptions { attempt_delay: MAX, ..support::dialling() },
            DialOptions { resolve_timeout: MAX, ..support::dialling() },
            DialOptions { handshake_timeout: MAX, ..support::dialling() },
        ] {
            ask(listening.local(), options);
        }
    }
}

/// A name has several addresses, of which each attempt tries one.
#[test]
fn of_those_who_dial_a_name() {
    let loops = support::loops(1);
    let address = "tcp:127.0.0.1:0".parse().expect("an address");
    let listening = support::serve_echo(&loops, &address, &support::listening());
    let port = listening.local().port().expect("TCP has ports");
    let named: Address = format!("tcp:localhost:{port}").parse().expect("an address");
    let all = DialOptions {
        connect_timeout: MAX,
        attempt_delay: MAX,
        resolve_timeout: MAX,
        handshake_timeout: MAX,
        ..support::dialling()
    };
    ask(&named, all);
}

#[test]
fn of_those_who_listen() {
    for address in support::addresses() {
        let loops = support::loops(1);
        let options = ListenOptions { handshake_timeout: MAX, ..support::listening() };
        let listening = support::serve_echo(&loops, &address, &options);
        ask(listening.local(), support::dialling());
    }
}

fn ask(address: &Address, options: DialOptions) {
    let (address, dialer) = (address.clone(), Dialer::new(options));
    support::on_a_loop(move || async move {
        let mut connection = dialer.dial(&address).await.expect("somebody listens there");
        support::ask_echo(&mut connection).await;
    });
}
