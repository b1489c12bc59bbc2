//! Hosts on several threads reach each other's services over a mesh; a host that goes is noticed, and no thread wakes up
//! for nothing.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::hosts::{bytes, echo, exchange};
use anywire_stack::mesh::{Host, Limits, ListenQueue, Mesh, MeshError};
use anywire_stack::stream::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

const SERVICE: &str = "10.0.0.2:80";

fn service() -> SocketAddr {
    SERVICE.parse().expect("an address")
}

/// Runs something on a host of its own.
fn on_a_host<T>(mesh: &Mesh, run: impl AsyncFnOnce(Host) -> T) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build_local(Default::default()).expect("a runtime");
    runtime.block_on(async {
        let (host, driver) = Host::join(mesh, [3, 1, 4, 1]).expect("there is room");
        tokio::task::spawn_local(driver);
        let result = run(host.clone()).await;
        host.interface().finish(Duration::from_millis(100), Duration::from_secs(10));
        result
    })
}

/// Serves a queue with echoes on a thread of its own, until told to stop; gives how many it accepted.
fn serve(mesh: &Mesh, address: SocketAddr, queue: ListenQueue) -> (oneshot::Sender<()>, JoinHandle<usize>) {
    let (stop, stopped) = oneshot::channel();
    let mesh = mesh.clone();
    let thread = std::thread::spawn(move || {
        on_a_host(&mesh, async |host| {
            let mut listener = host.listen(address, &queue).expect("nobody else listens there");
            let mut count = 0;
            let accepting = async {
                while let Ok(stream) = listener.accept().await {
                    count += 1;
                    tokio::task::spawn_local(echo(stream));
                }
            };
            tokio::select! {
                biased;
                _ = stopped => {}
                () = accepting => {}
            }
            count
        })
    });
    (stop, thread)
}

async fn ask(stream: &mut Stream) {
    stream.write_all(b"hello").await.expect("it is read");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.expect("it is answered");
    assert_eq!(&answer, b"hello");
}

#[test]
fn every_byte_arrives_and_hosts_take_turns() {
    let mesh = Mesh::new(Limits::default());
    let (_service, queues) = mesh.listen(service(), 3, 1024).expect("nobody listens there");
    let servers: Vec<_> = queues.into_iter().map(|queue| serve(&mesh, service(), queue)).collect();
    let clients: Vec<_> = (0..2)
        .map(|client| {
            let mesh = mesh.clone();
            std::thread::spawn(move || {
                on_a_host(&mesh, async |host| {
                    let mut tasks = Vec::new();
                    for number in 0..30 {
                        let host = host.clone();
                        tasks.push(tokio::task::spawn_local(async move {
                            let stream = host.dial(service()).await.expect("somebody listens");
                            let sent = bytes(client * 1000 + number, 100_000 + number);
                            let back = exchange(stream, sent.clone()).await.expect("it ends well");
                            assert!(back == sent, "{} of {} bytes came back", back.len(), sent.len());
                        }));
                    }
                    for task in tasks {
                        task.await.expect("no panic");
                    }
                });
            })
        })
        .collect();
    for client in clients {
        client.join().expect("no panic");
    }
    for (stop, server) in servers {
        stop.send(()).expect("it serves");
        assert_eq!(server.join().expect("no panic"), 20);
    }
}

#[test]
fn a_host_reaches_its_own_services_and_those_of_ipv6() {
    let mesh = Mesh::new(Limits::default());
    for address in [SERVICE, "[fd00::2]:80"] {
        let address: SocketAddr = address.parse().expect("an address");
        let (_service, mut queues) = mesh.listen(address, 1, 16).expect("nobody listens there");
        let queue = queues.remove(0);
        on_a_host(&mesh, async |host| {
            let mut listener = host.listen(address, &queue).expect("nobody else listens there");
            let mut stream = host.dial(address).await.expect("it is here");
            let accepted = listener.accept().await.expect("it has come");
            assert_eq!((stream.peer_addr(), accepted.local_addr()), (address, address));
            assert_eq!(stream.local_addr(), accepted.peer_addr());
            tokio::task::spawn_local(echo(accepted));
            ask(&mut stream).await;
        });
    }
}

/// All hosts are on one link.
#[test]
fn an_address_is_the_same_with_a_zone_and_without() {
    let mesh = Mesh::new(Limits::default());
    let [zoned, bare]: [SocketAddr; 2] =
        ["[fe80::2%3]:80", "[fe80::2]:80"].map(|address| address.parse().expect("an address"));
    let (_service, mut queues) = mesh.listen(zoned, 1, 16).expect("nobody listens there");
    let queue = queues.remove(0);
    on_a_host(&mesh, async |host| {
        let mut listener = host.listen(zoned, &queue).expect("nobody else listens there");
        for address in [zoned, bare] {
            let mut stream = host.dial(address).await.expect("it is here");
            tokio::task::spawn_local(echo(listener.accept().await.expect("it has come")));
            ask(&mut stream).await;
        }
    });
}

#[test]
fn who_dials_before_anybody_listens_waits_and_may_write() {
    let mesh = Mesh::new(Limits::default());
    let (service_guard, mut queues) = mesh.listen(service(), 1, 2).expect("nobody listens there");
    let (dialled, wait) = mpsc::channel();
    let peer = std::thread::spawn({
        let mesh = mesh.clone();
        move || {
            on_a_host(&mesh, async |host| {
                let mut one = host.dial(service()).await.expect("it may wait");
                let mut two = host.dial(service()).await.expect("it may wait");
                one.write_all(b"hel").await.expect("it waits, too");
                // One more than the backlog may wait, as with Linux; the others wait for their handshakes.
                let mut three = host.dial(service()).await.expect("it may wait");
                let mut four = std::pin::pin!(host.dial(service()));
                let is_waiting = poll_fn(|cx| Poll::Ready(four.as_mut().poll(cx).is_pending())).await;
                assert!(is_waiting, "the backlog is full");
                dialled.send(()).expect("the test waits");
                one.write_all(b"lo").await.expect("it is read");
                let mut answer = [0; 5];
                one.read_exact(&mut answer).await.expect("it is answered");
                assert_eq!(&answer, b"hello");
                ask(&mut two).await;
                ask(&mut three).await;
                ask(&mut four.await.expect("there is room in the end")).await;
            });
        }
    });
    wait.recv().expect("it dials");
    let (stop, server) = serve(&mesh, service(), queues.remove(0));
    peer.join().expect("no panic");
    stop.send(()).expect("it serves");
    assert_eq!(server.join().expect("no panic"), 4);
    drop(service_guard);
}

#[test]
fn who_dialled_early_and_has_left_takes_no_place() {
    let mesh = Mesh::new(Limits::default());
    let (_service, _queues) = mesh.listen(service(), 1, 2).expect("nobody listens there");
    on_a_host(&mesh, async |host| {
        for ends_at_once in [true, false].repeat(5) {
            let mut stream = host.dial(service()).await.expect("it may wait");
            if ends_at_once {
                stream.abort();
            }
        }
        // Of three places all are free again.
        let _three = [
            host.dial(service()).await.expect("it may wait"),
            host.dial(service()).await.expect("it may wait"),
            host.dial(service()).await.expect("it may wait"),
        ];
        let mut fourth = std::pin::pin!(host.dial(service()));
        assert!(poll_fn(|cx| Poll::Ready(fourth.as_mut().poll(cx).is_pending())).await);
    });
}

#[test]
fn beyond_the_backlog_the_newest_wait_and_none_is_reset() {
    let mesh = Mesh::new(Limits::default());
    let (_service, queues) = mesh.listen(service(), 1, 1).expect("nobody listens there");
    crate::hosts::run(async || {
        let (host, driver) = Host::join(&mesh, [3, 1, 4, 1]).expect("there is room");
        tokio::task::spawn_local(driver);
        let mut listener = host.listen(service(), &queues[0]).expect("nobody else listens there");
        let asking: Vec<_> = (0..5)
            .map(|_| {
                let host = host.clone();
                tokio::task::spawn_local(async move {
                    ask(&mut host.dial(service()).await.expect("somebody listens")).await;
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let overflows = || host.interface().with_engine(|engine| engine.counters().listen_overflows);
        assert!(overflows() > 0, "two wait, as with Linux, and three are too many");
        for _ in 0..asking.len() {
            tokio::task::spawn_local(echo(listener.accept().await.expect("it has come")));
        }
        for task in asking {
            task.await.expect("it is answered");
        }
    });
}

#[test]
fn who_waits_at_an_entrance_that_closes_is_turned_away() {
    let mesh = Mesh::new(Limits::default());
    let (service_guard, queues) = mesh.listen(service(), 1, 16).expect("nobody listens there");
    on_a_host(&mesh, async |host| {
        let mut stream = host.dial(service()).await.expect("it may wait");
        std::thread::spawn(move || drop((service_guard, queues)));
        let error = stream.read(&mut [0; 1]).await.expect_err("nobody will ever answer");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let error = host.dial(service()).await.expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(host.interface().counters().departed, 1);
    });
}

#[test]
fn connections_of_a_host_that_goes_are_reset() {
    let mesh = Mesh::new(Limits::default());
    let (_service, mut queues) = mesh.listen(service(), 1, 16).expect("nobody listens there");
    let (stop, server) = serve(&mesh, service(), queues.remove(0));
    on_a_host(&mesh, async |host| {
        let mut idle = host.dial(service()).await.expect("somebody listens");
        ask(&mut idle).await;
        stop.send(()).expect("it serves");
        // Its tasks and streams are dropped with its runtime: an end, or a reset if they had something left
        // to read.
        match idle.read(&mut [0; 1]).await {
            Ok(0) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            Ok(_) => panic!("nobody has sent anything"),
        }
        server.join().expect("no panic");
        loop {
            let Err(error) = idle.write_all(b"anybody?").await else {
                tokio::task::yield_now().await;
                continue;
            };
            assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
            break;
        }
        let error = host.dial(service()).await.expect_err("nobody listens any more");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

/// Their last segments would never be acknowledged, and be sent again until the user timeout.
#[test]
fn connections_that_close_end_with_their_host() {
    let mesh = Mesh::new(Limits::default());
    let (_service, mut queues) = mesh.listen(service(), 1, 16).expect("nobody listens there");
    let queue = queues.remove(0);
    crate::hosts::run(async || {
        let join = || Host::join(&mesh, [2, 7, 1, 8]).expect("there is room");
        let ((client, client_driver), (server, server_driver)) = (join(), join());
        tokio::task::spawn_local(client_driver);
        let serving = tokio::task::spawn_local(server_driver);
        let mut listener = server.listen(service(), &queue).expect("nobody else listens there");
        let mut stream = client.dial(service()).await.expect("somebody listens");
        let accepted = listener.accept().await.expect("it has come");
        // It receives nothing any more, and so resets nothing.
        serving.abort();
        assert!(serving.await.is_err());
        stream.write_all(b"anybody?").await.expect("the engine takes it");
        drop(stream);
        let connections = || client.interface().with_engine(|engine| engine.connections());
        assert_eq!(connections(), 1);
        drop((server, listener, accepted));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((connections(), client.interface().counters().departed), (0, 1));
    });
}

#[test]
fn a_connection_stays_with_its_host_whoever_listens_next() {
    let mesh = Mesh::new(Limits::default());
    let (old_service, mut queues) = mesh.listen(service(), 1, 16).expect("nobody listens there");
    on_a_host(&mesh, async |host| {
        let queue = queues.remove(0);
        let mut listener = host.listen(service(), &queue).expect("nobody else listens there");
        let mut old = host.dial(service()).await.expect("it is here");
        tokio::task::spawn_local(echo(listener.accept().await.expect("it has come")));
        drop((old_service, listener, queue));

        let (_service, mut queues) = mesh.listen(service(), 1, 16).expect("it is free again");
        let (stop, server) = serve(&mesh, service(), queues.remove(0));
        let mut new = host.dial(service()).await.expect("somebody listens again");
        ask(&mut new).await;
        ask(&mut old).await;
        stop.send(()).expect("it serves");
        assert_eq!(server.join().expect("no panic"), 1);
        ask(&mut old).await;
    });
}

/// A port is used again after all others, and a connection from there may not have ended by then: it keeps its way.
#[test]
fn a_port_that_comes_round_again_takes_no_frames_away() {
    let mesh = Mesh::new(Limits::default());
    let (_service, queues) = mesh.listen(service(), 2, 16).expect("nobody listens there");
    on_a_host(&mesh, async |first| {
        let join = || Host::join(&mesh, [2, 7, 1, 8]).expect("there is room");
        let ((second, driver), (client, client_driver)) = (join(), join());
        tokio::task::spawn_local(driver);
        tokio::task::spawn_local(client_driver);
        let hosts = [first, second];
        let mut listeners: Vec<_> = hosts
            .iter()
            .zip(&queues)
            .map(|(host, queue)| host.listen(service(), queue).expect("nobody else listens there"))
            .collect();
        let mut stream = client.dial(service()).await.expect("somebody listens");
        let port = stream.local_addr().port();
        let mut accepted = listeners[0].accept().await.expect("it has come");
        // More than its window takes: the rest leaves once somebody reads.
        let sent = bytes(0, 400_000);
        stream.write_all(&sent).await.expect("the queue has room");
        drop(stream);
        let nowhere = "10.0.0.3:80".parse().expect("an address");
        for _ in 0..49_151 {
            client.dial(nowhere).await.expect_err("nobody listens there");
        }
        // The second host's turn.
        let dialled = client.dial(service()).await.expect("somebody listens");
        assert_eq!(dialled.local_addr().port(), port + 1, "the port itself is in use");
        let mut received = Vec::new();
        accepted.read_to_end(&mut received).await.expect("it ends well");
        assert!(received == sent, "{} of {} bytes have come", received.len(), sent.len());
    });
}

#[test]
fn an_idle_host_sleeps() {
    let mesh = Mesh::new(Limits::default());
    let (_service, mut queues) = mesh.listen(service(), 1, 16).expect("nobody listens there");
    let (stop, server) = serve(&mesh, service(), queues.remove(0));
    on_a_host(&mesh, async |host| {
        let mut stream = host.dial(service()).await.expect("somebody listens");
        let polls_before = host.interface().counters().polls;
        for _ in 0..100 {
            ask(&mut stream).await;
        }
        let polls = host.interface().counters().polls - polls_before;
        // To send, to receive, and to see that there is no more; now and then for a timer.
        assert!(polls <= 100 * 4 + 20, "{polls} polls for 100 questions");
    });
    stop.send(()).expect("it serves");
    server.join().expect("no panic");
}

#[test]
fn limits_are_reached_with_an_error() {
    let mesh = Mesh::new(Limits { endpoints: 1, services: 2, ..Limits::default() });
    let endpoint = mesh.join().expect("there is room for one");
    assert!(matches!(mesh.join(), Err(MeshError::EndpointsExhausted { limit: 1 })));
    drop(endpoint);
    drop(mesh.join().expect("there is room again"));

    let (one, _entrances) = mesh.listen(service(), 1, 16).expect("there is room for two");
    let taken = mesh.listen(service(), 1, 16).expect_err("somebody listens there");
    assert_eq!(taken, MeshError::AddressTaken(service()));
    let any = SocketAddr::new(service().ip(), 0);
    let (two, _entrances) = mesh.listen(any, 1, 16).expect("a free port");
    assert!(two.address().port() >= 49_152, "{:?}", two.address());
    let refused = mesh.listen(any, 1, 16).expect_err("there are two");
    assert_eq!(refused, MeshError::ServicesExhausted { limit: 2 });
    drop(one);
    for wrong in ["10.255.0.1:80", "0.0.0.0:80", "224.0.0.1:80"] {
        let refused = mesh.listen(wrong.parse().expect("an address"), 1, 16).expect_err("nobody's");
        assert!(matches!(refused, MeshError::NotAService(_)), "{refused:?}");
    }
}
