//! Linux on the other end of a TAP device: in both roles, over IPv4 and IPv6, each byte arrives as it was sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use anywire_stack::stream::{Interface, Stream};
use anywire_stack::tap::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hosts::{bytes, echo};
use crate::kernel::{Version, beside_the_kernel, kernel};

const NO_OFFLOADS: Options = Options { offloads: false };

/// Sends all of this while it reads, ends its direction, and gives what comes back.
fn exchange_by_socket(socket: &TcpStream, sent: &[u8]) -> Vec<u8> {
    let mut back = Vec::with_capacity(sent.len());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&*socket).write_all(sent).expect("it takes all");
            socket.shutdown(Shutdown::Write).expect("it is open");
        });
        (&*socket).read_to_end(&mut back).expect("it ends well");
    });
    back
}

/// The kernel calls, and what it sends comes back.
async fn kernel_calls(ours: &Interface, version: Version, length: usize) {
    let mut listener = ours.listen(version.ours(80), Default::default()).expect("the port is free");
    let accepting = tokio::task::spawn_local(async move {
        echo(listener.accept().await.expect("it has come")).await;
    });
    let sent = bytes(length, length);
    let back = kernel(move || {
        let socket = TcpStream::connect(version.ours(80)).expect("somebody listens");
        exchange_by_socket(&socket, &sent) == sent
    });
    assert!(back.await, "{length} bytes by {version:?}");
    accepting.await.expect("it ends well");
}

/// We call the kernel, and what we send comes back.
async fn we_call(ours: &Interface, version: Version, length: usize) {
    let listener = TcpListener::bind(version.kernel(0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let echoing = tokio::task::spawn_blocking(move || {
        let (socket, _) = listener.accept().expect("it comes");
        let mut buffer = vec![0; 1 << 17];
        loop {
            let count = (&socket).read(&mut buffer).expect("it ends well");
            if count == 0 {
                break;
            }
            (&socket).write_all(&buffer[..count]).expect("it takes all");
        }
    });
    let stream = ours.connect(address).await.expect("the kernel listens");
    let sent = bytes(length, length);
    assert!(crate::hosts::exchange(stream, sent.clone()).await.expect("it ends well") == sent);
    echoing.await.expect("it ends well");
}

async fn both_roles(ours: Interface, versions: &[Version], lengths: &[usize]) {
    for &version in versions {
        for &length in lengths {
            kernel_calls(&ours, version, length).await;
            we_call(&ours, version, length).await;
        }
    }
    let counters = ours.with_engine(|engine| *engine.counters());
    assert_eq!(counters.frames_malformed, 0, "{counters:?}");
}

/// Around the length of a segment, of a cell, of a super-frame and of a window.
const LENGTHS: [usize; 8] = [1, 1447, 1449, 2029, 65_483, 65_536, 262_145, 1 << 20];

#[test]
fn in_both_roles() {
    beside_the_kernel("tap_carries_every_byte::in_both_roles", Options::default(), async |ours| {
        both_roles(ours, &Version::BOTH, &LENGTHS).await;
    });
}

#[test]
fn without_offloads() {
    beside_the_kernel("tap_carries_every_byte::without_offloads", NO_OFFLOADS, async |ours| {
        both_roles(ours.clone(), &Version::BOTH, &LENGTHS).await;
        let counters = ours.device_counters();
        assert_eq!((counters.super_frames_in, counters.super_frames_out), (0, 0));
    });
}

/// 16 MiB each way, and 4 over IPv6. With offloads most of it is in super-frames.
#[test]
fn in_bulk() {
    beside_the_kernel("tap_carries_every_byte::in_bulk", Options::default(), async |ours| {
        for (version, length) in [(Version::V4, 16 << 20), (Version::V6, 4 << 20)] {
            let before = ours.device_counters();
            kernel_calls(&ours, version, length).await;
            let counters = ours.device_counters();
            let (received, sent) =
                (counters.frames_in - before.frames_in, counters.super_frames_out - before.super_frames_out);
            let segments = length as u64 / 1428;
            assert!(received < segments * 3 / 4, "{received} frames by {version:?}: {counters:?}");
            assert!(
                sent > segments / 100 && counters.super_frames_in > before.super_frames_in,
                "{counters:?}"
            );
            assert_eq!(counters.dropped_out, 0);
        }
    });
}

#[test]
fn by_many_connections() {
    const CONNECTIONS: usize = 200;
    beside_the_kernel("tap_carries_every_byte::by_many_connections", Options::default(), async |ours| {
        for version in Version::BOTH {
            let mut listener = ours.listen(version.ours(80), Default::default()).expect("the port is free");
            let accepting = tokio::task::spawn_local(async move {
                let mut tasks = Vec::new();
                for _ in 0..CONNECTIONS {
                    tasks.push(tokio::task::spawn_local(echo(listener.accept().await.expect("it has come"))));
                }
                for task in tasks {
                    task.await.expect("it ends well");
                }
            });
            kernel(move || {
                let sockets: Vec<_> = (0..CONNECTIONS)
                    .map(|_| TcpStream::connect(version.ours(80)).expect("somebody listens"))
                    .collect();
                for (number, mut socket) in sockets.iter().enumerate() {
                    socket.write_all(&bytes(number, 5000)).expect("it takes all");
                    socket.shutdown(Shutdown::Write).expect("it is open");
                }
                for (number, mut socket) in sockets.iter().enumerate() {
                    let mut back = Vec::new();
                    socket.read_to_end(&mut back).expect("it ends well");
                    assert!(back == bytes(number, 5000), "connection {number}");
                }
            })
            .await;
            accepting.await.expect("it ends well");
        }
    });
}

/// A reader that does not read stops its sender, and nothing is lost.
#[test]
fn through_a_window_that_closes() {
    beside_the_kernel(
        "tap_carries_every_byte::through_a_window_that_closes",
        Options::default(),
        async |ours| {
            for version in Version::BOTH {
                let mut listener =
                    ours.listen(version.ours(80), Default::default()).expect("the port is free");
                let (go, gone) = std::sync::mpsc::channel();
                let sending = tokio::task::spawn_blocking(move || {
                    let mut socket = TcpStream::connect(version.ours(80)).expect("somebody listens");
                    socket.set_nonblocking(true).expect("it can be set");
                    // Until both buffers are full for a while.
                    let (sent, mut taken, mut full) = (bytes(0, 6 << 20), 0, 0);
                    while full < 30 {
                        match socket.write(&sent[taken..]) {
                            Ok(count) => (taken, full) = (taken + count, 0),
                            Err(_) => {
                                full += 1;
                                std::thread::sleep(std::time::Duration::from_millis(5));
                            }
                        }
                    }
                    assert!(taken < sent.len(), "the window closes");
                    go.send(()).expect("somebody waits");
                    socket.set_nonblocking(false).expect("it can be set");
                    socket.write_all(&sent[taken..]).expect("it takes the rest");
                    // The same the other way round: the kernel reads late.
                    socket.shutdown(Shutdown::Write).expect("it is open");
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    let mut back = Vec::new();
                    socket.read_to_end(&mut back).expect("it ends well");
                    back == sent
                });
                let mut stream = listener.accept().await.expect("it has come");
                kernel(move || gone.recv().expect("the window was full")).await;
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.expect("it ends well");
                assert!(read == bytes(0, 6 << 20), "{version:?}");
                stream.write_all(&read).await.expect("it takes all");
                stream.shutdown().await.expect("it is open");
                assert!(sending.await.expect("it does not panic"));
                drop::<Stream>(stream);
            }
        },
    );
}
