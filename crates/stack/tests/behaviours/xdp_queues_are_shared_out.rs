//! Two loops share an interface over `xdp:`, with fewer queues than loops and with as many: each has connections of its own in both
//! roles, and each byte arrives as it was sent, also when the loop ends that has the queues.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anywire_stack::device::Device;
use anywire_stack::shards::{HostOptions, Mac, Shards, SharedHost};
use anywire_stack::stream::{Interface, ListenOptions, Stream};
use anywire_stack::xdp::{Attachment, Options, WantedMode, Xdp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::networks::Pair;

const MAC: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const SERVICE: &str = "10.77.0.2:80";

fn bytes(number: usize) -> Vec<u8> {
    (0..2000 + number).map(|at| (at * 31 + number * 7) as u8).collect()
}

/// Gives back what comes, behind the number of the loop.
async fn echo(mut stream: Stream, number: u8) {
    let mut all = vec![number];
    stream.read_to_end(&mut all).await.expect("the peer ends in order");
    stream.write_all(&all).await.expect("the peer takes it");
    stream.shutdown().await.expect("it is open");
}

/// One loop: it listens, dials so many connections to `kernel` when it is told where, and ends when it is told nothing more.
async fn run(host: SharedHost, number: u8, orders: Receiver<SocketAddr>, started: Arc<Barrier>) -> Interface {
    host.join("10.77.0.2/24".parse().expect("a network"), None).await.expect("nobody has it");
    let service = SERVICE.parse().expect("an address");
    let mut listener = host.listen(service, ListenOptions::default()).expect("nobody listens there");
    let accepting = tokio::task::spawn_local(async move {
        while let Ok(stream) = listener.accept().await {
            tokio::task::spawn_local(echo(stream, number));
        }
    });
    started.wait();
    loop {
        match orders.try_recv() {
            Ok(kernel) => {
                let mut open = Vec::new();
                for _ in 0..80 {
                    open.push(host.connect(kernel).await.expect("the kernel listens"));
                }
                for (number, mut stream) in open.into_iter().enumerate() {
                    stream.write_all(&bytes(number)).await.expect("the peer takes it");
                    stream.shutdown().await.expect("it is open");
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).await.expect("the peer ends in order");
                    assert!(back == bytes(number), "connection {number}");
                }
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => break,
        }
    }
    accepting.abort();
    let counters = host.interface().device_counters();
    assert!(counters.frames_in > 0 && counters.frames_out > 0, "{counters:?}");
    host.interface().clone()
}

/// Starts a loop with these queues.
fn start(
    pair: &Pair,
    shards: &Arc<Shards>,
    queues: Vec<Box<dyn Device + Send>>,
    number: u8,
    started: &Arc<Barrier>,
) -> (Sender<SocketAddr>, thread::JoinHandle<()>) {
    let (order, orders) = channel();
    let (shards, started) = (Arc::clone(shards), Arc::clone(started));
    let thread = pair.ours.run(move || {
        thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build_local(Default::default()).expect("a runtime");
            let interface = runtime.block_on(async {
                let shard = shards.join(queues).expect("there is room");
                let options = HostOptions::new([number.into(); 4], number.into(), MAC);
                let (host, driver, watch) = SharedHost::start(shard, options, |_| ()).expect("memory");
                tokio::task::spawn_local(driver);
                tokio::task::spawn_local(watch);
                run(host, number, orders, started).await
            });
            drop(runtime);
            interface.finish(Duration::from_millis(100), Duration::from_secs(10));
        })
    });
    (order, thread)
}

/// The kernel calls so many times at once; which loops have answered.
fn call(pair: &Pair, count: usize) -> Vec<u8> {
    pair.theirs.run(|| {
        let mut sockets: Vec<_> =
            (0..count).map(|_| TcpStream::connect(SERVICE).expect("somebody listens")).collect();
        for (number, socket) in sockets.iter_mut().enumerate() {
            socket.write_all(&bytes(number)).expect("it takes all");
            socket.shutdown(Shutdown::Write).expect("it is open");
        }
        let mut loops = Vec::new();
        for (number, socket) in sockets.iter_mut().enumerate() {
            let mut back = Vec::new();
            socket.read_to_end(&mut back).expect("it ends well");
            assert!(back[1..] == bytes(number), "connection {number}");
            loops.push(back[0]);
        }
        loops
    })
}

/// The kernel echoes.
fn kernel_echo(pair: &Pair) -> SocketAddr {
    let listener = pair.theirs.run(|| TcpListener::bind("10.77.0.1:0").expect("a free port"));
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for socket in listener.incoming() {
            thread::spawn(move || {
                let (mut socket, mut all) = (socket.expect("it has come"), Vec::new());
                socket.read_to_end(&mut all).expect("it ends well");
                socket.write_all(&all).expect("it takes all");
            });
        }
    });
    address
}

fn between(pair: &Pair) {
    let (shards, queues) = pair.ours.run(|| {
        let attachment = Attachment::attach("near", WantedMode::Any).expect("it is up");
        let count = attachment.interface().receive_queues;
        let open = |place| {
            let queues = attachment.share(place, count).expect("it is there");
            Box::new(Xdp::open(&attachment, queues, Options::default()).expect("it is free")) as Box<_>
        };
        let queues: Vec<Box<dyn Device + Send>> = (0..count).map(open).collect();
        (Shards::new(queues[0].capabilities(), Some(attachment), [77; 2]), queues)
    });
    let _service = shards.reserve(SERVICE.parse().expect("an address"), 2).expect("nobody listens there");
    let started = Arc::new(Barrier::new(3));
    // The first one has all queues, until another one wants some.
    let (first, first_thread) = start(pair, &shards, queues, 1, &started);
    let (second, second_thread) = start(pair, &shards, Vec::new(), 2, &started);
    started.wait();
    let of = |loops: &[u8], number| loops.iter().filter(|other| **other == number).count();
    let served = call(pair, 120);
    // 60 each on average, and less than 20 by chance once in a trillion times.
    assert!(of(&served, 1) > 20 && of(&served, 2) > 20, "{served:?}");
    let kernel = kernel_echo(pair);
    for order in [&first, &second] {
        order.send(kernel).expect("it runs");
    }
    call(pair, 50);
    drop(first);
    first_thread.join().expect("no panic");
    assert_eq!(of(&call(pair, 50), 2), 50, "the other one has all queues and all slots");
    second.send(kernel).expect("it runs");
    drop(second);
    second_thread.join().expect("no panic");
    assert_eq!(shards.loops(), 0);
}

#[test]
fn of_one_queue() {
    let Some(pair) = Pair::new() else { return };
    between(&pair);
}

#[test]
fn of_several_queues() {
    let Some(pair) = Pair::with("numrxqueues 3 numtxqueues 3") else { return };
    between(&pair);
}
