//! A malformed or unsafe set-up of shared memory is refused with a reason, and harms no other connection.
#[allow(dead_code, reason = "a part of it is used here")]
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::thread;

use crate::raw::{HELLO, Hello, MEMORY_BYTES, RING_BYTES};
use anywire_sys::shm::OpenError;
use anywire_wire::shm::ShmError;
use anywire_wire::{Address, DialError, ListenOptions, ListenerHandle};
use rustix::fs::{SealFlags, fcntl_add_seals};

fn scratch() -> Address {
    crate::support::wires()
        .find(|wire| wire.scheme() == "shm")
        .and_then(|wire| wire.scratch())
        .expect("a path")
}

/// Whether an honest peer is served.
fn serves(listening: &ListenerHandle) {
    crate::support::play_on(listening, async |mut connection| {
        crate::support::ask_echo(&mut connection).await
    });
}

/// The code with which a hello is refused.
fn refused(listening: &ListenerHandle, hello: &[u8]) -> Option<u32> {
    let before = listening.counters().failed_handshakes;
    let socket = crate::raw::connect(listening.local());
    crate::raw::send(&socket, hello, &[]);
    let code = crate::raw::answer(&socket);
    assert_ne!(code, Some(0), "it was accepted");
    assert_eq!((&socket).read(&mut [0]).unwrap_or(0), 0, "the socket is closed");
    crate::support::eventually("it is counted", || listening.counters().failed_handshakes == before + 1);
    serves(listening);
    code
}

#[test]
fn each_part_of_it_is_checked() {
    let loops = crate::support::loops(1);
    let listening = crate::support::serve_echo(&loops, &scratch(), &ListenOptions::default());
    let refused = |hello: Hello| refused(&listening, &hello.bytes());
    assert_eq!(refused(Hello { magic: *b"GET / HT", ..HELLO }), Some(1));
    assert_eq!(refused(Hello { version: 1, ..HELLO }), Some(2));
    assert_eq!(refused(Hello { features: 1, ..HELLO }), Some(1));
    for ring_bytes in [0, 1, 4095, 4097, 2048, 6000, 2 << 20, 1 << 63, u64::MAX] {
        assert_eq!(refused(Hello { ring_bytes, ..HELLO }), Some(3), "{ring_bytes}");
    }
}

#[test]
fn a_torn_message_is_none() {
    let loops = crate::support::loops(1);
    let listening = crate::support::serve_echo(&loops, &scratch(), &ListenOptions::default());
    for bytes in 1..24 {
        assert_eq!(refused(&listening, &HELLO.bytes()[..bytes]), Some(1), "{bytes}");
    }
}

#[test]
fn a_listener_may_accept_small_rings_alone() {
    let loops = crate::support::loops(1);
    let address: Address = format!("{}?ring=8k", scratch()).parse().expect("an address");
    let listening = crate::support::serve_echo(&loops, &address, &ListenOptions::default());
    let dial = |ring: &str| {
        let address: Address = format!("{}?ring={ring}", listening.local()).parse().expect("an address");
        crate::support::try_dial(&address)
    };
    dial("8k").expect("it is small enough");
    let error = dial("16k").expect_err("it is too large");
    let DialError::Handshake { cause, .. } = &error else { panic!("{error}") };
    assert!(matches!(ShmError::of(cause), Some(ShmError::Refused { code: 3 })), "{error}");
    assert!(error.to_string().contains("option `ring`"), "{error}");
}

/// Dials a server that answers with these bytes and descriptors and closes, and gives the reason for which that fails.
fn dialled_to_one_that_gives(answer: &'static [u8], descriptors: Vec<File>) -> ShmError {
    let address = scratch();
    let listener = UnixListener::bind(address.location()).expect("a free path");
    let serving = thread::spawn(move || {
        let socket = listener.accept().expect("somebody dials").0;
        (&socket).read_exact(&mut [0; 24]).expect("a hello");
        if !answer.is_empty() {
            crate::raw::send(&socket, answer, &descriptors.iter().collect::<Vec<_>>());
        }
    });
    let small: Address = format!("{address}?ring=4k").parse().expect("an address");
    let error = crate::support::try_dial(&small).expect_err("no such server");
    serving.join().expect("no panic");
    std::fs::remove_file(address.location()).expect("it is ours");
    let DialError::Handshake { cause, .. } = error else { panic!("{error}") };
    *cause.into_inner().expect("a reason").downcast().expect("one of this wire")
}

fn dialled_to_one_that_says(answer: &'static [u8]) -> ShmError {
    dialled_to_one_that_gives(answer, Vec::new())
}

#[test]
fn the_dialling_end_says_what_is_wrong_with_the_server() {
    assert!(matches!(dialled_to_one_that_says(b""), ShmError::Left));
    assert!(matches!(dialled_to_one_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ShmError::NotShm));
    assert!(matches!(dialled_to_one_that_says(b"anyw-shm"), ShmError::NotShm));
    let version = dialled_to_one_that_says(b"anyw-shm\x07\0\0\0\x02\0\0\0");
    assert!(matches!(version, ShmError::Version { theirs: 7, ours: 2 }), "{version}");
    let refused = dialled_to_one_that_says(b"anyw-shm\x02\0\0\0\x05\0\0\0");
    assert!(matches!(refused, ShmError::Refused { code: 5 }), "{refused}");
}

#[test]
fn memory_that_could_harm_the_dialling_end_is_refused() {
    let given = |descriptors| dialled_to_one_that_gives(b"anyw-shm\x02\0\0\0\0\0\0\0", descriptors);
    let good = || crate::raw::memory(MEMORY_BYTES, true);
    for descriptors in [Vec::new(), vec![good(), good()], (0..8).map(|_| good()).collect()] {
        let refused = given(descriptors);
        assert!(matches!(refused, ShmError::Descriptors { found } if found != 1), "{refused}");
    }
    for bytes in [0, 1, 4096, MEMORY_BYTES - 1, MEMORY_BYTES + 1, MEMORY_BYTES + RING_BYTES] {
        let refused = given(vec![crate::raw::memory(bytes, true)]);
        assert!(
            matches!(refused, ShmError::Memory(OpenError::Size { found, .. }) if found == bytes),
            "{refused}"
        );
    }
    let unsealed = crate::raw::memory(MEMORY_BYTES, false);
    let grows_only = crate::raw::memory(MEMORY_BYTES, false);
    fcntl_add_seals(&grows_only, SealFlags::GROW).expect("it has no seals");
    let null = File::open("/dev/null").expect("it is everywhere");
    let socket = File::from(OwnedFd::from(UnixListener::bind(scratch().location()).expect("a path")));
    for not_memory in [unsealed, grows_only, null, socket] {
        let refused = given(vec![not_memory]);
        assert!(matches!(refused, ShmError::Memory(OpenError::NotSealed)), "{refused}");
    }
    // It cannot be written to: by its seals, or by the descriptor.
    let constant = crate::raw::memory(MEMORY_BYTES, false);
    fcntl_add_seals(&constant, SealFlags::SHRINK | SealFlags::FUTURE_WRITE).expect("it has no seals");
    let kept = good();
    let read_only = File::open(format!("/proc/self/fd/{}", kept.as_raw_fd())).expect("it is ours");
    for memory in [constant, read_only] {
        let refused = given(vec![memory]);
        assert!(matches!(refused, ShmError::Memory(OpenError::Map(_))), "{refused}");
    }
}
