//! Linux and a stream end their connection as two sockets do: by halves, with a reset, refused.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use anywire_stack::stream::{Interface, Stream};
use anywire_stack::tap::Options;
use anywire_sys::tcp_info::TcpInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kernel::{Version, beside_the_kernel, kernel};

/// A connection that the kernel has opened: its end, and ours.
async fn connected(ours: &Interface, version: Version) -> (TcpStream, Stream) {
    let mut listener = ours.listen(version.ours(80), Default::default()).expect("the port is free");
    let socket = tokio::task::spawn_blocking(move || TcpStream::connect(version.ours(80)));
    let stream = listener.accept().await.expect("it has come");
    (socket.await.expect("no panic").expect("somebody listens"), stream)
}

#[test]
fn by_halves() {
    beside_the_kernel("tap_ends_as_sockets_do::by_halves", Options::default(), async |ours| {
        for version in Version::BOTH {
            // The kernel ends first, and hears on.
            let (socket, mut stream) = connected(&ours, version).await;
            socket.shutdown(Shutdown::Write).expect("it is open");
            assert_eq!(stream.read(&mut [0; 9]).await.expect("it ends well"), 0);
            stream.write_all(b"still here").await.expect("it takes all");
            let mut socket = kernel(move || {
                let mut heard = [0; 10];
                (&socket).read_exact(&mut heard).expect("it comes");
                assert_eq!(&heard, b"still here");
                socket
            })
            .await;
            stream.shutdown().await.expect("it is open");
            assert_eq!(kernel(move || socket.read(&mut [0; 9])).await.expect("it ends well"), 0);
            drop(stream);
            // We end first, and hear on.
            let (mut socket, mut stream) = connected(&ours, version).await;
            stream.shutdown().await.expect("it is open");
            kernel(move || {
                assert_eq!(socket.read(&mut [0; 9]).expect("it ends well"), 0);
                socket.write_all(b"still there").expect("it takes all");
            })
            .await;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.expect("it ends well");
            assert_eq!(heard, b"still there");
        }
    });
}

#[test]
fn with_a_reset() {
    beside_the_kernel("tap_ends_as_sockets_do::with_a_reset", Options::default(), async |ours| {
        for version in Version::BOTH {
            // What was not read is reset for (RFC 2525 2.17), by the kernel and by us.
            let (socket, mut stream) = connected(&ours, version).await;
            stream.write_all(b"never read").await.expect("it takes all");
            kernel(move || while anywire_sys::tcp_info::unread_bytes(&socket).expect("it is TCP") == 0 {})
                .await;
            let error = stream.read(&mut [0; 9]).await.expect_err("it was reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

            let (mut socket, mut stream) = connected(&ours, version).await;
            let (mut socket, sent) = kernel(move || {
                let sent = socket.write_all(b"never read");
                (socket, sent)
            })
            .await;
            sent.expect("it takes all");
            stream.readable().await;
            drop(stream);
            let error = kernel(move || socket.read(&mut [0; 9])).await.expect_err("it was reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn refused() {
    beside_the_kernel("tap_ends_as_sockets_do::refused", Options::default(), async |ours| {
        for version in Version::BOTH {
            let error = ours.connect(version.kernel(9)).await.expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{version:?}");
            let error =
                kernel(move || TcpStream::connect(version.ours(9))).await.expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{version:?}");
        }
    });
}

/// MSS, timestamps, SACK and scaled windows, as the kernel sees them.
#[test]
fn agreed_on_options() {
    beside_the_kernel("tap_ends_as_sockets_do::agreed_on_options", Options::default(), async |ours| {
        for (version, mss) in Version::BOTH.into_iter().zip([1460, 1440]) {
            let (socket, stream) = connected(&ours, version).await;
            let listener = TcpListener::bind(version.kernel(0)).expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            let accepted = tokio::task::spawn_blocking(move || listener.accept().expect("it comes").0);
            let calling = ours.connect(address).await.expect("the kernel listens");
            for socket in [socket, accepted.await.expect("no panic")] {
                let info = TcpInfo::of(&socket).expect("it is TCP");
                let options = info.options;
                assert!(options.timestamps && options.sack, "{version:?}: {info:?}");
                let (ours, its) = options.window_scales.expect("windows are scaled");
                assert!(256 << 10 <= 0xffff << ours && its > 0, "{version:?}: {info:?}");
                // Timestamps take 12 bytes of each segment.
                let segments = (info.segment_bytes_out, info.segment_bytes_in);
                assert_eq!(segments, (mss - 12, mss - 12), "{version:?}");
            }
            drop((stream, calling));
        }
    });
}

/// A driver whose kernel says nothing sleeps.
#[test]
fn without_looking_all_the_time() {
    beside_the_kernel(
        "tap_ends_as_sockets_do::without_looking_all_the_time",
        Options::default(),
        async |ours| {
            let (mut socket, mut stream) = connected(&ours, Version::V4).await;
            let before = ours.counters().polls;
            let writing = tokio::task::spawn_blocking(move || {
                std::thread::sleep(Duration::from_millis(300));
                socket.write_all(b"late").map(|()| socket)
            });
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).await.expect("it comes");
            let polls = ours.counters().polls - before;
            assert!(polls < 300, "{polls} polls for a segment, and what the kernel says of its own");
            drop(writing.await.expect("no panic").expect("it takes all"));
        },
    );
}
