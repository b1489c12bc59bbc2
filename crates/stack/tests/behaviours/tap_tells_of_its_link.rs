//! An interface that is switched off and on, or removed, while it is used.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};

use anywire_stack::stream::{Interface, Stream};
use anywire_stack::tap::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kernel::{Version, engine, in_own_network, kernel, open, runtime, set_addresses_for, shell};
use anywire_stack::device::{Device, LinkEvent};
use anywire_tcp::Instant;

#[test]
fn removed() {
    in_own_network("tap_tells_of_its_link::removed", || {
        runtime().block_on(async {
            let tap = open(Options::default());
            let (ours, driver) = Interface::new(engine(&tap, |_| ()), tap);
            let driver = tokio::task::spawn_local(driver);
            let mut listener =
                ours.listen(Version::V4.ours(80), Default::default()).expect("the port is free");
            let socket = tokio::task::spawn_blocking(move || TcpStream::connect(Version::V4.ours(80)));
            let mut stream = listener.accept().await.expect("it has come");
            let _socket = socket.await.expect("no panic").expect("somebody listens");
            // While all of them wait.
            let reading = tokio::task::spawn_local(async move { stream.read(&mut [0; 9]).await });
            tokio::task::yield_now().await;
            kernel(|| shell("ip link del tap0")).await;
            let error = reading.await.expect("no panic").expect_err("the device is gone");
            assert_eq!(error.kind(), io::ErrorKind::NetworkDown);
            let error = listener.accept().await.expect_err("the device is gone");
            assert_eq!(error.kind(), io::ErrorKind::NetworkDown);
            driver.await.expect("it ends");
            let error = ours.connect(Version::V4.kernel(9)).await.expect_err("the device is gone");
            assert_eq!(error.kind(), io::ErrorKind::NetworkDown);
        });
    });
}

/// What is not read in time is dropped by the kernel, and counted here.
#[test]
fn of_what_was_not_read() {
    in_own_network("tap_tells_of_its_link::of_what_was_not_read", || {
        let tap = open(Options::default());
        let socket = UdpSocket::bind(Version::V4.kernel(0)).expect("a free port");
        for _ in 0..5000 {
            // The queue of the device is full at some time.
            let _ = socket.send_to(b"datagram", Version::V4.ours(9));
        }
        assert!(tap.counters().dropped_in > 0, "{:?}", tap.counters());
    });
}

/// In the middle of a stream, whose segments are as long as the MTU lets them from then on.
#[test]
fn narrower() {
    in_own_network("tap_tells_of_its_link::narrower", || {
        runtime().block_on(async {
            let tap = open(Options::default());
            let (ours, driver) = Interface::new(engine(&tap, |_| ()), tap);
            tokio::task::spawn_local(driver);
            let mut listener =
                ours.listen(Version::V4.ours(80), Default::default()).expect("the port is free");
            let connect = || tokio::task::spawn_blocking(|| TcpStream::connect(Version::V4.ours(80)));
            let socket = connect();
            let mut stream = listener.accept().await.expect("it has come");
            let mut socket = socket.await.expect("no panic").expect("somebody listens");
            let mss = |stream: &Stream| stream.info().expect("it is open").tcp.mss;
            assert!(mss(&stream) > 1400, "{}", mss(&stream));
            kernel(|| shell("ip link set tap0 mtu 1000")).await;
            while mss(&stream) > 1000 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            assert_eq!(mss(&stream), 1000 - 52);
            stream.write_all(&[7; 100_000]).await.expect("it is taken");
            let reading = tokio::task::spawn_blocking(move || socket.read_exact(&mut vec![0; 100_000]));
            reading.await.expect("no panic").expect("all of it comes");
            let later = connect();
            let stream = listener.accept().await.expect("it has come");
            drop(later.await.expect("no panic").expect("somebody listens"));
            assert_eq!(mss(&stream), 1000 - 52, "so are those of later connections");
        });
    });
}

#[test]
fn off_and_on() {
    in_own_network("tap_tells_of_its_link::off_and_on", || {
        runtime().block_on(async {
            let tap = open(Options::default());
            let mac = tap.capabilities().mac.expect("a TAP has one");
            let (ours, driver) = Interface::new(engine(&tap, |_| ()), tap);
            tokio::task::spawn_local(driver);
            let mut listener =
                ours.listen(Version::V4.ours(80), Default::default()).expect("the port is free");
            let socket = tokio::task::spawn_blocking(move || TcpStream::connect(Version::V4.ours(80)));
            let mut stream = listener.accept().await.expect("it has come");
            let mut socket = socket.await.expect("no panic").expect("somebody listens");
            kernel(|| shell("ip link set tap0 down")).await;
            // This is lost, and counted.
            stream.write_all(b"hello").await.expect("it is kept");
            while ours.device_counters().dropped_out == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            assert_eq!(ours.counters().link_downs, 1);
            kernel(move || {
                shell("ip link set tap0 up");
                set_addresses_for(mac);
            })
            .await;
            // And comes again.
            let mut socket = kernel(move || {
                let mut heard = [0; 5];
                socket.read_exact(&mut heard).expect("it comes");
                assert_eq!(&heard, b"hello");
                socket
            })
            .await;
            kernel(move || socket.write_all(b"world")).await.expect("it takes all");
            let mut heard = [0; 5];
            stream.read_exact(&mut heard).await.expect("it comes");
            assert_eq!((&heard, ours.counters().link_downs), (b"world", 1));
        });
    });
}

/// It always has something to do, or spins.
#[test]
fn to_a_loop_that_never_sleeps() {
    in_own_network("tap_tells_of_its_link::to_a_loop_that_never_sleeps", || {
        let (mut tap, ours) = (open(Options::default()), Version::V4.ours(0).ip());
        let mut frames = tap.batch();
        tap.receive(Instant::from_micros(1_000_000), &mut frames);
        // The addresses of the kernel's end.
        while tap.link_event().is_some() {}
        shell(&format!("ip addr add {ours}/32 dev lo"));
        frames.clear();
        tap.receive(Instant::from_micros(2_000_000), &mut frames);
        assert_eq!(tap.link_event(), Some(LinkEvent::KernelHasAddress(ours)));
    });
}
