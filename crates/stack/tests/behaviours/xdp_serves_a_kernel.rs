//! A kernel's TCP and an engine over `xdp:` exchange each byte, with either side connecting, over IPv4 and IPv6, in each mode.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anywire_stack::stream::{Interface, Stream};
use anywire_stack::xdp::{Options, Wanted, WantedMode};
use anywire_tcp::{Cidr, Engine, Limits, Mac, Route, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::networks::Pair;
use crate::networks::frames::{STACK, THEIRS, open};

const STACK_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
const THEIRS_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
const BYTES: usize = 2 << 20;

fn engine() -> Engine {
    let mut engine = Engine::new(anywire_tcp::Settings::new([7; 4]), Limits::default()).expect("memory");
    engine.set_mac(Mac::new([2, 0, 0, 0, 0, 1]));
    for (own, neighbour) in [(IpAddr::from(STACK), IpAddr::from(THEIRS)), (STACK_V6.into(), THEIRS_V6.into())]
    {
        engine.add_address(own).expect("there is room");
        let route = Route { network: Cidr::host(neighbour), via: Via::OnLink, mtu: 1500, source: None };
        engine.add_route(route).expect("a good route");
        engine.add_neighbour(neighbour, Mac::new([2, 0, 0, 0, 0, 2])).expect("there is room");
    }
    engine
}

/// Runs this beside an engine over a device, on a loop.
fn beside_an_engine<R: Send>(
    pair: &Pair,
    mode: WantedMode,
    test: impl AsyncFnOnce(Interface) -> R + Send,
) -> R {
    let (device, claim) = open(pair, mode, Options::default());
    let v6 = device.attachment().claim(Wanted::Address(STACK_V6.into())).expect("the group is joined");
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(Default::default()).expect("a runtime");
    let result = runtime.block_on(async {
        let (interface, driver) = Interface::new(engine(), device);
        tokio::task::spawn_local(driver);
        let result = test(interface.clone()).await;
        // The last bytes are still on their way.
        while interface.with_engine(|engine| engine.connections()) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        result
    });
    drop((claim, v6));
    result
}

fn pattern() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 31 + (at >> 8)) as u8).collect()
}

/// Sends the pattern and reads it back, as a kernel's socket.
fn exchange(mut socket: &TcpStream) {
    thread::scope(|scope| {
        let mut writer = socket;
        scope.spawn(move || {
            writer.write_all(&pattern()).expect("the peer takes it");
            writer.shutdown(Shutdown::Write).expect("it is open");
        });
        let mut came = Vec::new();
        socket.read_to_end(&mut came).expect("the peer ends in order");
        assert!(came == pattern(), "{} bytes came back", came.len());
    });
}

/// Gives each byte back until the peer ends.
async fn echo(stream: &mut Stream) -> usize {
    let (mut buffer, mut sum) = (vec![0; 100_000], 0);
    loop {
        let came = stream.read(&mut buffer).await.expect("the peer ends in order");
        if came == 0 {
            stream.shutdown().await.expect("the peer is there");
            return sum;
        }
        stream.write_all(&buffer[..came]).await.expect("the peer reads");
        sum += came;
    }
}

#[test]
fn a_kernel_connects() {
    let Some(pair) = Pair::new() else { return };
    for mode in [WantedMode::Native, WantedMode::Generic] {
        for address in [IpAddr::from(STACK), STACK_V6.into()] {
            let to = SocketAddr::new(address, 80);
            thread::scope(|scope| {
                let (listening, is_listening) = std::sync::mpsc::channel();
                let theirs = &pair.theirs;
                scope.spawn(move || {
                    is_listening.recv().expect("the engine listens");
                    let socket = theirs.run(|| TcpStream::connect(to)).expect("the engine accepts");
                    exchange(&socket);
                });
                let echoed = beside_an_engine(&pair, mode, async |interface| {
                    let mut listener = interface.listen(to, Default::default()).expect("the port is free");
                    listening.send(()).expect("the thread waits");
                    echo(&mut listener.accept().await.expect("it has come")).await
                });
                assert_eq!(echoed, BYTES, "{mode:?} {address}");
            });
        }
    }
}

#[test]
fn an_engine_connects() {
    let Some(pair) = Pair::new() else { return };
    for address in [IpAddr::from(THEIRS), THEIRS_V6.into()] {
        let listener = pair.theirs.run(|| TcpListener::bind((address, 0)).expect("a free port"));
        let to = listener.local_addr().expect("it is bound");
        thread::scope(|scope| {
            scope.spawn(move || exchange(&listener.accept().expect("it has come").0));
            let echoed = beside_an_engine(&pair, WantedMode::Any, async |interface| {
                echo(&mut interface.connect(to).await.expect("the kernel listens")).await
            });
            assert_eq!(echoed, BYTES, "{address}");
        });
    }
}
