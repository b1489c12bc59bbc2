//! A peer that writes impossible positions, or nonsense at any moment, spoils its own connection and nothing else.
#[allow(dead_code, reason = "a part of it is used here")]
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::mpsc;

use anywire_loops::Loops;
use anywire_wire::shm::ShmError;
use anywire_wire::{Address, Connection, ListenOptions, ListenerHandle};
use proptest::prelude::*;

/// A server, and how its end of each connection has ended.
struct Served {
    listening: ListenerHandle,
    ends: mpsc::Receiver<Error>,
    _loops: Loops,
}

impl Served {
    fn address(&self) -> &Address {
        self.listening.local()
    }

    fn end(&self) -> Error {
        self.ends.recv_timeout(crate::support::HANG).expect("it ends")
    }
}

fn serve<F>(serve: impl Fn(Connection) -> F + Clone + Send + 'static) -> Served
where
    F: Future<Output = Error> + 'static,
{
    let address = crate::support::wires().find(|wire| wire.scheme() == "shm").and_then(|wire| wire.scratch());
    let (ended, ends) = mpsc::channel();
    let loops = crate::support::loops(1);
    let listener = crate::support::bind(&loops, &address.expect("a path"), &ListenOptions::default());
    let listening = listener.serve(move |connection| {
        let (ended, served) = (ended.clone(), serve(connection));
        drop(anywire_loops::spawn(async move {
            let _ = ended.send(served.await);
        }));
    });
    Served { listening, ends, _loops: loops }
}

/// Reads until that fails.
async fn read(mut connection: Connection) -> Error {
    loop {
        match connection.read(&mut [0; 1000]).await {
            Ok(0) => return ErrorKind::UnexpectedEof.into(),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

/// Writes until that fails.
async fn write(mut connection: Connection) -> Error {
    loop {
        if let Err(error) = connection.write_all(&[7; 1000]).await {
            return error;
        }
    }
}

fn is_position(error: &Error) -> bool {
    matches!(ShmError::of(error), Some(ShmError::Position(_))) && error.kind() == ErrorKind::InvalidData
}

#[test]
fn a_reader_finds_out() {
    let served = serve(read);
    for written in [4097, 1 << 40, (1 << 62) - 1] {
        let (socket, memory) = crate::raw::set_up(served.address());
        crate::raw::set_written(&memory, written);
        crate::raw::send_if_open(&socket, b"!");
        let error = served.end();
        assert!(is_position(&error), "{written}: {error:?}");
    }
}

#[test]
fn a_writer_finds_out() {
    let served = serve(write);
    for read in [4097, 1 << 40, u64::MAX, 1 << 61] {
        let (socket, memory) = crate::raw::set_up(served.address());
        crate::raw::set_read(&memory, read);
        crate::raw::send_if_open(&socket, b"!");
        let error = served.end();
        assert!(is_position(&error), "{read}: {error:?}");
    }
}

#[test]
fn a_peer_that_leaves_without_a_word_has_not_ended_its_stream() {
    let served = serve(read);
    let (socket, memory) = crate::raw::set_up(served.address());
    crate::raw::set_written(&memory, 1000);
    drop(socket);
    let error = served.end();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let (socket, memory) = crate::raw::set_up(served.address());
    crate::raw::set_written(&memory, 1000 | 1 << 62);
    drop(socket);
    let error = served.end();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "this one has");
}

#[test]
fn a_writer_that_waits_for_room_hears_of_the_end() {
    let served = serve(write);
    let (socket, _memory) = crate::raw::set_up(served.address());
    drop(socket);
    assert_eq!(served.end().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn many_wake_ups_at_once_are_stood() {
    let served = serve(read);
    let (socket, memory) = crate::raw::set_up(served.address());
    socket.set_nonblocking(true).expect("a socket");
    // Until the other end has so many that the socket is full.
    while rustix::net::send(&socket, &[0; 1000], rustix::net::SendFlags::NOSIGNAL).is_ok() {}
    crate::raw::set_written(&memory, 1 << 62);
    drop(socket);
    assert_eq!(served.end().kind(), ErrorKind::UnexpectedEof);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is written over the positions, the connection ends when the peer does, or before.
    #[test]
    fn nonsense_ends_one_connection(writes in proptest::collection::vec((0u64..1024, any::<[u8; 8]>()), 1..64)) {
        for served in [serve(read), serve(write)] {
            let (socket, memory) = crate::raw::set_up(served.address());
            for (offset, bytes) in &writes {
                memory.write_all_at(bytes, *offset).expect("it is memory");
                crate::raw::send_if_open(&socket, b"!");
            }
            drop(socket);
            served.end();
        }
    }
}
