//! A device serves all loops of a process: each has connections of its own, in both roles, and another one steps in where a loop ends.
//!
//! Each test has a network namespace of its own, where the kernel has 10.0.0.1 and fd00::1 at the other end of a TAP device: one
//! with a queue for each loop, and one with a single queue.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Barrier, Mutex};

use anywire_advice::Chain;
use anywire_loops::Loops;
use anywire_stack::tap::{Options, Tap};
use anywire_wire::stack::{Snapshot, snapshot};
use anywire_wire::{Address, Connection, Listener, ListenerHandle};

use crate::again;
use crate::support::{HANG, bind, dialer, listening, loops};

/// Runs a test twice, each time in a network of its own: with `multi_queue`, and without.
fn on_a_tap(name: &str, test: impl FnOnce()) {
    if !again::is_inner() {
        let possible =
            Command::new("unshare").args(again::OWN_NETWORK).args(["sh", "-c", &make("")]).output();
        if !possible.as_ref().is_ok_and(|tried| tried.status.success()) {
            assert!(
                std::env::var_os("CI").is_none(),
                "unshare, ip and /dev/net/tun are needed: {possible:?}"
            );
            return crate::skipped::say(format_args!("no TAP device in a network of its own: {possible:?}"));
        }
        return again::passes_within(again::OWN_NETWORK, name);
    }
    let queues = if name.ends_with("one_queue") { "" } else { "multi_queue" };
    shell(&make(queues));
    test();
}

fn make(queues: &str) -> String {
    format!(
        "ip tuntap add dev tap0 mode tap {queues}
         ip link set lo up; ip link set tap0 up
         ip addr add 10.0.0.1/24 dev tap0; ip -6 addr add fd00::1/64 dev tap0 nodad"
    )
}

fn shell(commands: &str) {
    let done = Command::new("sh").args(["-ec", commands]).output().expect("there is a shell");
    assert!(done.status.success(), "{commands}: {done:?}");
}

/// Bytes that tell one connection from the next.
fn bytes(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + number * 7 + at / 251) as u8).collect()
}

/// Serves at an address: each connection hears first which loop it is on, and then what it says.
fn serve(on: &Loops, address: &str) -> ListenerHandle {
    let address: Address = address.parse().expect("an address");
    bind(on, &address, &listening()).serve(|mut connection| {
        drop(anywire_loops::spawn(async move {
            let index = anywire_loops::current().expect("it runs on a loop").id().index();
            if connection.write_all(&[index as u8]).await.is_ok() {
                crate::support::echo(connection).await;
            }
        }));
    })
}

fn socket_address(listener: &ListenerHandle) -> SocketAddr {
    let (_, address) = listener.local().location().split_once('/').expect("a device");
    address.parse().expect("an address and port")
}

/// Calls so many times at once by the kernel, and says how many of the connections each loop has.
fn call(address: SocketAddr, count: usize) -> BTreeMap<u8, usize> {
    let mut sockets: Vec<_> =
        (0..count).map(|_| TcpStream::connect_timeout(&address, HANG).expect("somebody listens")).collect();
    for (number, socket) in sockets.iter_mut().enumerate() {
        socket.set_read_timeout(Some(HANG)).expect("it can be set");
        socket.write_all(&bytes(number, 3000 + number)).expect("it takes all");
        socket.shutdown(Shutdown::Write).expect("it is open");
    }
    let mut loops = BTreeMap::new();
    for (number, socket) in sockets.iter_mut().enumerate() {
        let mut back = Vec::new();
        socket.read_to_end(&mut back).expect("it ends well");
        let (index, rest) = back.split_first().expect("it says which loop it is on");
        assert!(rest == bytes(number, 3000 + number), "connection {number}");
        *loops.entry(*index).or_default() += 1;
    }
    loops
}

fn a_service_runs_on_all_loops() {
    let on = loops(3);
    let listeners = ["stack:tap0/10.0.0.2:0", "stack:tap0/[fd00::2]:80", "stack:tap0/10.0.0.3:80"]
        .map(|address| serve(&on, address));
    for listener in &listeners {
        let served = call(socket_address(listener), 200);
        // 67 each on average, and one less than 30 by chance once in a hundred million times.
        assert!(served.len() == 3 && served.values().all(|count| *count >= 30), "{served:?}");
    }
}

#[test]
fn a_service_runs_on_all_loops_of_many_queues() {
    on_a_tap("loops_share_a_device::a_service_runs_on_all_loops_of_many_queues", a_service_runs_on_all_loops);
}

#[test]
fn a_service_runs_on_all_loops_of_one_queue() {
    on_a_tap("loops_share_a_device::a_service_runs_on_all_loops_of_one_queue", a_service_runs_on_all_loops);
}

/// The kernel echoes.
fn kernel_echo(address: &str) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("a free port");
    let local = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            std::thread::spawn(move || {
                let mut all = Vec::new();
                // A peer that resets it is seen by the test.
                if socket.read_to_end(&mut all).is_ok() {
                    let _ = socket.write_all(&all);
                }
            });
        }
    });
    local
}

async fn exchange(mut connection: Connection, number: usize) {
    connection.write_all(&bytes(number, 2000 + number)).await.expect("it takes all");
    connection.half_close().await.expect("it is open");
    let back = crate::support::read_to_end(&mut connection).await.expect("it ends well");
    assert!(back == bytes(number, 2000 + number), "connection {number}");
}

/// Dials from each loop, many at a time. Gives the ports that the connections had.
fn dial_from_all(on: &Loops, address: &Address, each: usize) -> usize {
    let ports: Arc<Mutex<HashSet<Address>>> = Arc::default();
    let dialling: Vec<_> = on
        .iter()
        .map(|on| {
            let (address, ports) = (address.clone(), Arc::clone(&ports));
            on.spawn(move || async move {
                let dialer = dialer();
                let mut open = Vec::new();
                for _ in 0..each {
                    let connection = dialer.dial(&address).await.expect("the kernel listens");
                    ports.lock().expect("nobody panics").insert(connection.local());
                    open.push(connection);
                }
                let open = open.into_iter().enumerate();
                let tasks: Vec<_> = open
                    .map(|(number, connection)| anywire_loops::spawn(exchange(connection, number)))
                    .collect();
                for task in tasks {
                    task.await.expect("it ends well");
                }
            })
        })
        .collect();
    dialling.into_iter().for_each(|task| task.wait().expect("no panic"));
    ports.lock().expect("nobody panics").len()
}

fn clients_of_all_loops_are_answered() {
    let on = loops(3);
    for (kernel, from) in [("10.0.0.1:0", "10.0.0.2"), ("[fd00::1]:0", "fd00::2")] {
        let kernel = kernel_echo(kernel);
        let address = format!("stack:tap0/{kernel}?from={from}").parse().expect("an address");
        // More than the 64 ports that a loop begins with.
        assert_eq!(dial_from_all(&on, &address, 100), 300);
    }
}

#[test]
fn clients_of_all_loops_are_answered_by_many_queues() {
    on_a_tap(
        "loops_share_a_device::clients_of_all_loops_are_answered_by_many_queues",
        clients_of_all_loops_are_answered,
    );
}

#[test]
fn clients_of_all_loops_are_answered_by_one_queue() {
    on_a_tap(
        "loops_share_a_device::clients_of_all_loops_are_answered_by_one_queue",
        clients_of_all_loops_are_answered,
    );
}

/// The loop ends that has the first queue and answers for the address. Connections of others go on, and neighbours find the address.
fn a_loop_may_end() {
    let (first, second) = (loops(1), loops(2));
    let ends = serve(&first, "stack:tap0/10.0.0.2:80");
    assert_eq!(call(socket_address(&ends), 5).len(), 1);
    let stays = serve(&second, "stack:tap0/10.0.0.2:81");
    let at = socket_address(&stays);
    let mut open: Vec<_> =
        (0..20).map(|_| TcpStream::connect_timeout(&at, HANG).expect("it listens")).collect();
    let kernel = kernel_echo("10.0.0.1:0");
    let dialled: Address = format!("stack:tap0/{kernel}").parse().expect("an address");
    assert_eq!(dial_from_all(&second, &dialled, 10), 20, "a client and services share the device");
    ends.stop();
    first.shutdown(HANG).expect("it is not one of its own loops");
    drop(first);
    // The neighbour is not known any more, and has to be found.
    shell("ip neigh flush dev tap0");
    for (number, socket) in open.iter_mut().enumerate() {
        socket.set_read_timeout(Some(HANG)).expect("it can be set");
        let mut index = [0];
        socket.read_exact(&mut index).expect("it was said at the start");
        socket.write_all(&bytes(number, 100)).expect("it takes all");
        let mut back = [0; 100];
        socket.read_exact(&mut back).expect("it goes on");
        assert!(back[..] == bytes(number, 100)[..], "connection {number}");
    }
    drop(open);
    assert_eq!(call(at, 60).len(), 2, "both loops go on");
    assert_eq!(dial_from_all(&second, &dialled, 10), 20);
    // Who comes later has the address as well.
    let third = loops(1);
    let again = serve(&third, "stack:tap0/10.0.0.2:80");
    assert_eq!(call(socket_address(&again), 5).len(), 1);
    // All of it ends, and the device is there for others.
    for (listener, on) in [(stays, second), (again, third)] {
        listener.stop();
        on.shutdown(HANG).expect("it is not one of its own loops");
    }
    let fourth = loops(2);
    let last = serve(&fourth, "stack:tap0/10.0.0.2:81");
    assert_eq!(call(socket_address(&last), 60).len(), 2);
}

#[test]
fn a_loop_may_end_of_many_queues() {
    on_a_tap("loops_share_a_device::a_loop_may_end_of_many_queues", a_loop_may_end);
}

#[test]
fn a_loop_may_end_of_one_queue() {
    on_a_tap("loops_share_a_device::a_loop_may_end_of_one_queue", a_loop_may_end);
}

/// Another host on the link of the TAP device, with 10.0.0.9, in a namespace that ends with its process.
struct Neighbour(std::process::Child);

impl Neighbour {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        let held = command.args(["--net", "sh", "-c", "echo; exec cat"]);
        let held = held.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = held.spawn().expect("there is unshare");
        let said = child.stdout.as_mut().expect("it is a pipe").read(&mut [0]).expect("it says so");
        assert_eq!(said, 1);
        let id = child.id();
        shell(&format!(
            "ip link add br0 type bridge
             ip link add ours type veth peer name theirs netns {id}
             for port in ours tap0; do ip link set $port master br0; ip link set $port up; done
             ip link set br0 up
             nsenter --net=/proc/{id}/ns/net ip addr add 10.0.0.9/24 dev theirs
             nsenter --net=/proc/{id}/ns/net ip link set theirs up"
        ));
        Self(child)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The bridge learns that the device has somebody when its kernel gets to it.
fn wait_for_the_bridge() {
    for port in ["tap0", "ours"] {
        let forwards = format!("ip -d link show {port} | grep -q 'state forwarding'");
        shell(&format!("timeout 30 sh -c \"until {forwards}; do sleep 0.01; done\""));
    }
}

fn the_second_listener_hears_of_a_conflict() {
    let _neighbour = Neighbour::new();
    let on = loops(2);
    let _first = serve(&on, "stack:tap0/10.0.0.2:80");
    wait_for_the_bridge();
    let listen = |address: &str| {
        let address: Address = address.parse().expect("an address");
        Listener::bind(&address, &listening(), &on).map(drop)
    };
    let fault = listen("stack:tap0/10.0.0.9:80").expect_err("the neighbour has it");
    assert!(Chain(&fault).to_string().contains("has the address 10.0.0.9 on tap0"), "{}", Chain(&fault));
    listen("stack:tap0/10.0.0.3:80").expect("nobody has it");
}

#[test]
fn the_second_listener_hears_of_a_conflict_with_many_queues() {
    on_a_tap(
        "loops_share_a_device::the_second_listener_hears_of_a_conflict_with_many_queues",
        the_second_listener_hears_of_a_conflict,
    );
}

/// Each would wait for the other to ask on the link, and in vain.
fn loops_that_listen_at_once_wait_for_no_other() {
    let on = loops(2);
    let first = serve(&on, "stack:tap0/10.0.0.2:80");
    assert_eq!(call(socket_address(&first), 60).len(), 2, "both have the device");
    let begin = Arc::new(Barrier::new(2));
    for addresses in [["10.0.0.3:80", "10.0.0.4:80"], ["10.0.0.5:80", "10.0.0.5:81"]] {
        let listening = [0, 1].map(|index| {
            let (begin, loops) = (Arc::clone(&begin), on.clone());
            let address: Address = format!("stack:tap0/{}", addresses[index]).parse().expect("an address");
            on.get(index).spawn(move || async move {
                begin.wait();
                Listener::bind(&address, &listening(), &loops).map(drop)
            })
        });
        for listening in listening {
            listening.wait().expect("no panic").unwrap_or_else(|fault| panic!("{}", Chain(&fault)));
        }
    }
    // And what it finds out is told.
    let _neighbour = Neighbour::new();
    wait_for_the_bridge();
    let alone = on.clone();
    let asking = on.get(0).spawn(move || async move {
        let address: Address = "stack:tap0/10.0.0.9:80".parse().expect("an address");
        Listener::bind(&address, &listening(), &alone).map(drop)
    });
    let fault = asking.wait().expect("no panic").expect_err("the neighbour has it");
    assert!(Chain(&fault).to_string().contains("has the address 10.0.0.9 on tap0"), "{}", Chain(&fault));
}

#[test]
fn loops_that_listen_at_once_wait_for_no_other_with_many_queues() {
    on_a_tap(
        "loops_share_a_device::loops_that_listen_at_once_wait_for_no_other_with_many_queues",
        loops_that_listen_at_once_wait_for_no_other,
    );
}

#[test]
fn loops_that_listen_at_once_wait_for_no_other_with_one_queue() {
    on_a_tap(
        "loops_share_a_device::loops_that_listen_at_once_wait_for_no_other_with_one_queue",
        loops_that_listen_at_once_wait_for_no_other,
    );
}

/// As a server and a client of one process have them.
#[test]
fn sets_of_loops_are_told_apart_with_many_queues() {
    on_a_tap("loops_share_a_device::sets_of_loops_are_told_apart_with_many_queues", || {
        let sets = [loops(1), loops(2)];
        let _served = [80, 81].map(|port| serve(&sets[port - 80], &format!("stack:tap0/10.0.0.2:{port}")));
        let snapshot = || sets[0].get(0).spawn(|| snapshot(0)).wait().expect("no panic");
        let hosts =
            |snapshot: &Snapshot| snapshot.hosts.iter().map(|host| host.loop_number).collect::<Vec<_>>();
        while hosts(&snapshot()).len() < 3 {
            std::thread::yield_now();
        }
        assert_eq!(hosts(&snapshot()), [0, 0, 1]);
        let text = snapshot().prometheus();
        let series: Vec<_> =
            text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name).collect();
        assert_eq!(series.iter().collect::<HashSet<_>>().len(), series.len(), "{text}");
    });
}

/// It would keep the device, and answer for an address at which nobody listens.
#[test]
fn a_listener_that_ends_at_once_leaves_the_device_closed_with_one_queue() {
    on_a_tap(
        "loops_share_a_device::a_listener_that_ends_at_once_leaves_the_device_closed_with_one_queue",
        || {
            let on = loops(1);
            let all = on.clone();
            let listened =
                on.get(0).spawn(move || async move { drop(serve(&all, "stack:tap0/10.0.0.2:80")) });
            listened.wait().expect("no panic");
            let after = on.get(0).spawn(|| async {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                snapshot(0).await
            });
            assert!(after.wait().expect("no panic").hosts.is_empty());
            Tap::open("tap0", Options::default()).expect("its one queue is free");
        },
    );
}

/// The kernel counts them for all queues together.
#[test]
fn what_the_kernel_drops_is_counted_once_with_many_queues() {
    on_a_tap("loops_share_a_device::what_the_kernel_drops_is_counted_once_with_many_queues", || {
        let on = loops(2);
        let served = serve(&on, "stack:tap0/10.0.0.2:80");
        assert_eq!(call(socket_address(&served), 60).len(), 2, "both have the device");
        let held = [0, 1].map(|index| {
            let (hold, released) = std::sync::mpsc::channel::<()>();
            on.get(index).post(move || _ = released.recv()).expect("there is room");
            hold
        });
        for _ in 0..64 {
            // The queue of a flow follows from its ports.
            let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
            (0..100).for_each(|_| _ = socket.send_to(b"unread", "10.0.0.2:9"));
        }
        drop(held);
        let counted = on.get(0).spawn(|| snapshot(0)).wait().expect("no panic");
        let counted: u64 = counted.hosts.iter().map(|host| host.link.dropped_in).sum();
        let dropped = Command::new("awk").args(["/tap0:/ { print $13 }", "/proc/net/dev"]).output();
        let dropped: u64 =
            String::from_utf8_lossy(&dropped.expect("it runs").stdout).trim().parse().expect("a number");
        // Some of them before the device was opened.
        assert!(counted > 0 && counted <= dropped, "{counted} of {dropped}");
    });
}

/// The same loops serve there again, though the handle of the listener that has failed is kept.
fn a_device_that_was_removed_may_come_back() {
    let on = loops(2);
    let failed = serve(&on, "stack:tap0/10.0.0.2:80");
    assert_eq!(call(socket_address(&failed), 60).len(), 2);
    for round in 0..2 {
        shell("ip link del tap0");
        let why = failed.failed();
        let failing = on.get(0).spawn(move || async move { why.await.to_string() });
        assert!(failing.wait().expect("no panic").contains("was removed"), "round {round}");
        shell(&make("multi_queue"));
        let again = serve(&on, "stack:tap0/10.0.0.2:80");
        assert_eq!(call(socket_address(&again), 60).len(), 2, "round {round}");
    }
}

#[test]
fn a_device_that_was_removed_may_come_back_with_many_queues() {
    on_a_tap(
        "loops_share_a_device::a_device_that_was_removed_may_come_back_with_many_queues",
        a_device_that_was_removed_may_come_back,
    );
}

/// Nothing brings its frames back.
#[test]
fn a_call_to_an_own_address_is_refused_at_once_with_one_queue() {
    on_a_tap("loops_share_a_device::a_call_to_an_own_address_is_refused_at_once_with_one_queue", || {
        let on = loops(2);
        let _served = serve(&on, "stack:tap0/10.0.0.2:80");
        // It has the address, and so have the loops.
        assert_eq!(call("10.0.0.2:80".parse().expect("an address"), 30).len(), 2);
        for from in ["", "?from=10.0.0.4", "?from=10.0.0.2"] {
            let address: Address = format!("stack:tap0/10.0.0.2:80{from}").parse().expect("an address");
            let dialling = on.get(0).spawn(move || async move { dialer().dial(&address).await.map(drop) });
            let fault = dialling.wait().expect("no panic").expect_err("it would wait in vain");
            let said = Chain(&fault).to_string();
            assert!(said.contains("10.0.0.2 is this process's own address on tap0"), "{said}");
        }
    });
}
