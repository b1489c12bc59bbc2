//! Options of TCP sockets are set before they connect or listen, accepted connections have the listener's, and what the system refuses is
//! said with the option's name.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anywire_wire::{
    Address, Connection, DialError, DialOptions, Dialer, KeepAlive, ListenError, ListenOptions, Listener,
    ListenerHandle, SocketHook, SocketOptions,
};
use socket2::SockRef;

use crate::support::{HANG, loops, on_a_loop};

fn all_options() -> SocketOptions {
    SocketOptions {
        keep_alive: Some(KeepAlive {
            idle: Duration::from_secs(77),
            interval: Duration::from_secs(7),
            probes: 3,
        }),
        user_timeout: Some(Duration::from_millis(12_345)),
        interface: Some("lo".to_owned()),
        fast_open: true,
        send_buffer_bytes: Some(70_000),
        receive_buffer_bytes: Some(80_000),
        hook: None,
    }
}

/// What the system says of a connection.
fn check(connection: &Connection) {
    let socket = connection.as_fd().expect("a socket");
    let socket = SockRef::from(&socket);
    assert!(socket.keepalive().expect("an option"));
    assert_eq!(socket.tcp_keepalive_time().expect("an option"), Duration::from_secs(77));
    assert_eq!(socket.tcp_keepalive_interval().expect("an option"), Duration::from_secs(7));
    assert_eq!(socket.tcp_keepalive_retries().expect("an option"), 3);
    assert_eq!(socket.tcp_user_timeout().expect("an option"), Some(Duration::from_millis(12_345)));
    // Doubled by the system.
    assert_eq!(socket.send_buffer_size().expect("an option"), 140_000);
    assert_eq!(socket.recv_buffer_size().expect("an option"), 160_000);
    assert_eq!(socket.device().expect("an option").as_deref(), Some(&b"lo"[..]));
}

/// Greets each peer, and tells where it comes from.
fn greeter(
    loops: &anywire_loops::Loops,
    options: &ListenOptions,
) -> (ListenerHandle, mpsc::Receiver<Address>) {
    let (told, peers) = mpsc::channel();
    let listener = Listener::bind("tcp:127.0.0.1:0", options, loops).expect("a free port");
    let has_options = options.socket.keep_alive.is_some();
    let listening = listener.serve(move |mut connection| {
        if has_options {
            check(&connection);
        }
        told.send(connection.peer()).expect("the test waits");
        drop(anywire_loops::spawn(async move {
            let mut byte = [0];
            // What came with the first segment comes back.
            if connection.read(&mut byte).await.is_ok() {
                let _ = connection.write_all(&byte).await;
            }
        }));
    });
    (listening, peers)
}

fn dial(address: &Address, options: DialOptions) -> Result<(), DialError> {
    let address = address.clone();
    on_a_loop(move || async move {
        let has_options = options.socket.keep_alive.is_some();
        let mut connection = Dialer::new(options).dial(&address).await?;
        if has_options {
            check(&connection);
        }
        connection.write_all(b"x").await.expect("it reads");
        let mut answer = [0];
        assert_eq!(connection.read(&mut answer).await.expect("an answer"), 1);
        assert_eq!(&answer, b"x");
        Ok(())
    })
}

#[test]
fn both_ends_have_them() {
    let here = loops(2);
    let options = ListenOptions { socket: all_options(), ..ListenOptions::default() };
    let (listening, _peers) = greeter(&here, &options);
    // More than once, so that a cookie of fast open is there.
    for _ in 0..3 {
        let options = DialOptions { socket: all_options(), ..DialOptions::default() };
        dial(listening.local(), options).expect("a connection");
    }
}

#[test]
fn a_connection_comes_from_the_address_that_is_asked_for() {
    let here = loops(1);
    let (listening, peers) = greeter(&here, &ListenOptions::default());
    let from = |ip: &str| DialOptions {
        local_address: Some(ip.parse().expect("an address")),
        ..DialOptions::default()
    };
    dial(listening.local(), from("127.0.0.9")).expect("a connection");
    let peer = peers.recv_timeout(HANG).expect("a connection");
    assert_eq!(peer.ip(), Some("127.0.0.9".parse().expect("an address")));

    let error = dial(listening.local(), from("::1")).expect_err("another family");
    assert!(
        matches!(error, DialError::System { .. }) && error.to_string().contains("another family"),
        "{error}"
    );
    // An address of documentation (RFC 5737), which no machine has.
    let error = dial(listening.local(), from("192.0.2.1")).expect_err("not ours");
    assert!(error.to_string().contains("`local_address` is refused"), "{error}");
}

#[test]
fn what_is_refused_is_named() {
    let interface =
        || SocketOptions { interface: Some("no-such-name-0".to_owned()), ..SocketOptions::default() };
    let options = DialOptions { socket: interface(), ..DialOptions::default() };
    let error = dial(&"tcp:127.0.0.1:1".parse().expect("an address"), options).expect_err("no interface");
    assert!(
        matches!(error, DialError::System { .. }) && error.to_string().contains("`interface`"),
        "{error}"
    );
    let options = ListenOptions { socket: interface(), ..ListenOptions::default() };
    let error = Listener::bind("tcp:127.0.0.1:0", &options, &loops(1)).err().expect("no interface");
    assert!(
        matches!(error, ListenError::System { .. }) && error.to_string().contains("`interface`"),
        "{error}"
    );
}

#[test]
fn the_hook_sees_each_fresh_socket() {
    let seen = Arc::new(AtomicUsize::new(0));
    let hook = || {
        let seen = Arc::clone(&seen);
        let hook = SocketHook::new(move |socket| {
            seen.fetch_add(1, Ordering::Relaxed);
            // It is neither connected nor bound.
            let socket = SockRef::from(&socket);
            assert!(socket.peer_addr().is_err());
            socket.set_tcp_nodelay(true)
        });
        SocketOptions { hook: Some(hook), ..SocketOptions::default() }
    };
    let here = loops(2);
    let options = ListenOptions { socket: hook(), ..ListenOptions::default() };
    let (listening, _peers) = greeter(&here, &options);
    assert_eq!(seen.swap(0, Ordering::Relaxed), 2, "one socket a loop");
    let options = DialOptions { socket: hook(), ..DialOptions::default() };
    dial(listening.local(), options).expect("a connection");
    assert_eq!(seen.load(Ordering::Relaxed), 1);

    let refuses = SocketHook::new(|_| Err(io::Error::other("not today")));
    let socket = SocketOptions { hook: Some(refuses), ..SocketOptions::default() };
    let error =
        dial(listening.local(), DialOptions { socket, ..DialOptions::default() }).expect_err("refused");
    assert!(error.to_string().contains("`hook` is refused: not today"), "{error}");
}
