//! What became of each datagram is told, and where the lost ones were lost: on an impaired way it is exactly what was injected.
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc;
use std::time::Duration;

use anywire_load::udp::{HEADER_BYTES, Search, UdpLoadError, UdpOutcome, UdpPlan, run, search};
use anywire_load::{Handles, Schedule};
use anywire_loops::Loops;
use anywire_wire::udp::{Outgoing, Received, Udp, UdpOptions};

use crate::support::again;

/// Far beyond what any test needs: only a hang gets there.
const HANG: Duration = Duration::from_secs(60);

fn plan(target: SocketAddr) -> UdpPlan {
    UdpPlan {
        // All of them fit in a receive buffer, however late they are read.
        schedule: Schedule::constant(200.0),
        duration: Duration::from_millis(500),
        flows: 10,
        // On a slow machine, too, nothing that was not lost is taken for lost.
        wait: Duration::from_secs(5),
        ..UdpPlan::new(target).expect("an address")
    }
}

fn load(plan: UdpPlan) -> UdpOutcome {
    run(&Loops::start(2).expect("threads"), plan, Handles::default()).expect("the plan is possible")
}

/// An echo on a thread, which sends for each datagram what `answer` makes of it.
fn echo(mut answer: impl FnMut(u64, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        for number in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            for datagram in answer(number, &buffer[..length]) {
                let _ = socket.send_to(&datagram, from);
            }
        }
    });
    address
}

#[test]
fn a_good_way_loses_nothing() {
    // They have a minute each, so that nothing depends on how fast the machine is.
    let plan = plan(echo(|_, datagram| vec![datagram.to_vec()]));
    let outcome = load(UdpPlan { wait: HANG, ..plan });
    assert_eq!((outcome.intended, outcome.received), (100, outcome.sent), "{outcome}");
    assert_eq!(
        (outcome.lost, outcome.late, outcome.duplicated, outcome.reordered, outcome.corrupt, outcome.foreign),
        (0, 0, 0, 0, 0, 0),
        "{outcome}"
    );
    assert_eq!(outcome.loss_by_layer.unexplained, 0);
    assert_eq!(outcome.loss_by_layer.socket_there, Some(0), "{:?}", outcome.loss_by_layer);
    assert_eq!(outcome.loops.iter().map(|one| one.received).sum::<u64>(), outcome.sent);
    assert!(outcome.latency.sent.is_some_and(|latency| latency.count == outcome.sent));
}

#[test]
fn an_impaired_way_is_told_exactly() {
    // What each tenth datagram meets, so that none meets two things.
    let address = echo(|number, datagram| match number % 10 {
        1 => vec![],
        3 => vec![datagram.to_vec(), datagram.to_vec()],
        5 => {
            let mut changed = datagram.to_vec();
            changed[HEADER_BYTES + 3] ^= 0x10;
            vec![changed]
        }
        7 => vec![datagram.to_vec(), b"a stranger".to_vec()],
        _ => vec![datagram.to_vec()],
    });
    let outcome = load(UdpPlan { wait: Duration::from_millis(500), ..plan(address) });
    let injected = outcome.sent / 10;
    assert_eq!(
        (outcome.lost, outcome.corrupt, outcome.duplicated),
        (injected, injected, injected),
        "{outcome}"
    );
    assert_eq!(outcome.foreign, injected, "{outcome}");
    let layers = &outcome.loss_by_layer;
    assert_eq!((layers.socket, &layers.unread), (Some(0), &vec![]), "{layers:?}");
    // Other traffic of this machine may have lost something meanwhile.
    let elsewhere = layers.namespace.unwrap_or(0) + layers.device.unwrap_or(0);
    assert_eq!(layers.unexplained, injected.saturating_sub(elsewhere), "{layers:?}");
}

#[test]
fn a_later_one_that_comes_first_is_reordering() {
    let mut held = HashMap::<[u8; 4], Vec<u8>>::new();
    let mut seen = HashMap::<[u8; 4], u64>::new();
    let address = echo(move |_, datagram| {
        let flow: [u8; 4] = *datagram[4..].first_chunk().expect("a header");
        let count = seen.entry(flow).or_default();
        *count += 1;
        // Of each ten of a flow the first is held back until three more have come.
        match *count % 10 {
            1 => {
                held.insert(flow, datagram.to_vec());
                vec![]
            }
            4 => [Some(datagram.to_vec()), held.remove(&flow)].into_iter().flatten().collect(),
            _ => vec![datagram.to_vec()],
        }
    });
    let outcome = load(plan(address));
    assert_eq!((outcome.received, outcome.lost), (100, 0), "{outcome}");
    assert_eq!((outcome.reordered, outcome.reorder_extent_max), (10, 3), "{outcome}");
}

#[test]
fn one_that_comes_after_its_time_is_late_and_not_lost() {
    let wait = Duration::from_secs(2);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        for number in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            let (socket, datagram) = (socket.try_clone().expect("a descriptor"), buffer[..length].to_vec());
            let answer = move || socket.send_to(&datagram, from);
            if number % 10 == 3 {
                // It was sent before it arrived, so it has been on its way for longer than this.
                std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    answer()
                });
            } else {
                let _ = answer();
            }
        }
    });
    let outcome = load(UdpPlan { schedule: Schedule::constant(200.0), wait, ..plan(address) });
    assert_eq!((outcome.sent, outcome.received, outcome.late, outcome.lost), (100, 90, 10, 0), "{outcome}");
    // Their times are part of the latencies: leaving them out would hide the worst.
    let latency = outcome.latency.sent.as_ref().expect("answers came");
    assert!(latency.count == 100 && latency.max >= 2e6, "{outcome}");
}

#[test]
fn all_that_a_tiny_buffer_loses_is_found_at_the_socket() {
    let options = UdpOptions { receive_buffer_bytes: 4096, ..UdpOptions::default() };
    let socket = Udp::bind("udp:127.0.0.1:0", &options, 1).expect("a free port").remove(0);
    let (address, drops) = (socket.local().socket_addr(), socket.drop_counter().expect("an open socket"));
    let service = Loops::start(1).expect("a thread");
    let (go_on, wait) = mpsc::channel::<()>();
    let serving = service.get(0).spawn(move || async move {
        // It stands still until something has been lost.
        let _ = wait.recv_timeout(HANG);
        let socket = socket.register().expect("it was bound");
        let (mut received, mut replies) = (Received::new(&socket), Outgoing::new(&socket));
        loop {
            socket.receive(&mut received).await.expect("an open socket");
            for datagram in received.iter() {
                replies.push(&datagram.peer, None, datagram.data()).expect("a few");
            }
            socket.flush(&mut replies).await;
        }
    });
    std::thread::spawn(move || {
        let hang = std::time::Instant::now() + HANG;
        while drops.drops() == Some(0) && std::time::Instant::now() < hang {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = go_on.send(());
    });
    let outcome = load(plan(address.expect("an IP address")));
    serving.abort();
    let layers = &outcome.loss_by_layer;
    assert!(outcome.lost > 0 && outcome.received > 0, "{outcome}");
    assert_eq!((layers.socket_there, layers.unexplained), (Some(outcome.lost), 0), "{outcome}");
}

/// A thousand over a loopback with this queue, without joining them: a queue that drops joined ones counts one.
fn over_loopback(queue: &str) -> Option<UdpOutcome> {
    if !again::queue_of_loopback(queue) {
        return None;
    }
    let plan = plan(echo(|_, datagram| vec![datagram.to_vec()]));
    let (schedule, duration) = (Schedule::constant(10_000.0), Duration::from_millis(100));
    // From one socket, so that its send buffer is filled.
    Some(load(UdpPlan { schedule, duration, bytes: 1000, sockets: Some(1), offload: false, ..plan }))
}

/// The layers, of which each is known: together they are what was lost.
fn assert_are_the_lost(outcome: &UdpOutcome) {
    let layers = &outcome.loss_by_layer;
    let counted = [layers.socket, layers.namespace, layers.device, layers.send_queue];
    let counted: Option<u64> = counted.into_iter().sum();
    assert_eq!(counted.map(|counted| counted + layers.unexplained), Some(outcome.lost), "{outcome}");
}

#[test]
fn a_send_buffer_that_was_full_has_lost_nothing() {
    let name = "udp_accounts_for_each_datagram::a_send_buffer_that_was_full_has_lost_nothing";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, name);
    }
    // Slower than they are sent, and with room for all of them.
    let Some(outcome) = over_loopback("tbf rate 20mbit burst 32kb limit 100mb") else { return };
    let snmp = std::fs::read_to_string("/proc/net/snmp").expect("it is there");
    let udp: Vec<&str> = snmp.lines().filter_map(|line| line.strip_prefix("Udp: ")).collect();
    let at = udp[0].split(' ').position(|name| name == "SndbufErrors").expect("Linux counts them");
    assert_ne!(udp[1].split(' ').nth(at), Some("0"), "no send found its buffer full: {snmp}");
    assert_are_the_lost(&outcome);
    assert_eq!(outcome.loss_by_layer.send_queue, Some(0), "{outcome}");
}

#[test]
fn what_the_queue_of_a_device_drops_is_its_own() {
    let name = "udp_accounts_for_each_datagram::what_the_queue_of_a_device_drops_is_its_own";
    if !again::is_inner() {
        return again::passes_within(again::OWN_NETWORK, name);
    }
    let Some(outcome) = over_loopback("tbf rate 20mbit burst 32kb limit 20kb") else { return };
    assert!(outcome.loss_by_layer.send_queue > Some(0), "{outcome}");
    assert_are_the_lost(&outcome);
    assert_eq!(outcome.loss_by_layer.unexplained, 0, "{outcome}");
}

#[test]
fn each_sent_one_has_one_fate_whatever_comes_back() {
    // Beside each that comes back, copies that were changed.
    let address = echo(|_, datagram| {
        let mut changed = datagram.to_vec();
        changed[HEADER_BYTES] ^= 1;
        vec![changed.clone(), datagram.to_vec(), changed]
    });
    let outcome = load(UdpPlan { schedule: Schedule::constant(200.0), ..plan(address) });
    assert_eq!(
        (outcome.sent, outcome.received, outcome.lost, outcome.corrupt),
        (100, 100, 0, 0),
        "{outcome}"
    );
    assert!(outcome.duplicated > 0, "{outcome}");
}

#[test]
fn what_another_flow_was_owed_is_none_of_a_socket() {
    let mut latest = [None, None];
    // Each is given the latest of the other flow.
    let address = echo(move |_, datagram| {
        let flow = usize::from(datagram[7]);
        latest[flow] = Some(datagram.to_vec());
        latest[1 - flow].clone().into_iter().collect()
    });
    for loops in [1, 2] {
        let plan = UdpPlan { flows: 2, wait: Duration::from_millis(50), ..plan(address) };
        let plan = UdpPlan { schedule: Schedule::constant(40.0), ..plan };
        let outcome =
            run(&Loops::start(loops).expect("threads"), plan, Handles::default()).expect("it is possible");
        assert_eq!((outcome.sent, outcome.received, outcome.lost), (20, 0, 20), "{outcome}");
        assert!(outcome.foreign >= 10, "{outcome}");
    }
}

#[test]
fn loops_share_the_datagrams_of_the_plan() {
    let address = echo(|_, datagram| vec![datagram.to_vec()]);
    for (datagrams, flows) in [(1, 3), (2, 3), (10, 3), (1, 1), (7, 5)] {
        let plan = UdpPlan { flows, schedule: Schedule::constant(datagrams as f64 * 10.0), ..plan(address) };
        let plan = UdpPlan { duration: Duration::from_millis(100), ..plan };
        let outcome =
            run(&Loops::start(3).expect("threads"), plan, Handles::default()).expect("it is possible");
        assert_eq!((outcome.intended, outcome.sent, outcome.received), (datagrams, datagrams, datagrams));
    }
}

#[test]
fn a_unix_service_that_reads_nothing_holds_up_no_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("service");
    let _service = UnixDatagram::bind(&path).expect("it is ours");
    let target = format!("unixgram:{}", path.display());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let plan = UdpPlan {
            schedule: Schedule::constant(100_000.0),
            duration: Duration::from_millis(100),
            wait: Duration::from_millis(10),
            ..UdpPlan::new(&target).expect("an address")
        };
        let _ = tell.send(load(plan));
    });
    let outcome = told.recv_timeout(HANG).expect("it ends");
    assert!(outcome.sent > 0 && outcome.sent < outcome.intended, "{outcome}");
    assert_eq!((outcome.received, outcome.lost), (0, outcome.sent), "{outcome}");
}

#[test]
fn nobody_there_is_said() {
    let gone = UdpSocket::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    let outcome = load(UdpPlan { wait: Duration::from_millis(50), ..plan(gone) });
    assert_eq!((outcome.received, outcome.lost), (0, outcome.sent), "{outcome}");
    assert!(outcome.unreachable > 0 && outcome.to_string().contains("Nobody receives"), "{outcome}");
    assert_eq!(outcome.loss_by_layer.socket_there, None);
    assert_eq!(outcome.loss_by_layer.unread.len(), 1, "{:?}", outcome.loss_by_layer);
    // A search does not try lower rates.
    let plan = UdpPlan { wait: Duration::from_millis(50), duration: Duration::from_millis(50), ..plan(gone) };
    let loops = Loops::start(1).expect("a thread");
    let found =
        search(&loops, &plan, &Handles::default(), &Search::default(), |_| {}).expect("it is possible");
    assert_eq!((found.trials.len(), found.highest_rate), (1, None), "{found}");
}

#[test]
fn a_plan_that_is_not_possible_is_refused() {
    let target = "127.0.0.1:9".parse().expect("an address");
    let refused = |change: fn(&mut UdpPlan)| {
        let mut plan = plan(target);
        change(&mut plan);
        match run(&Loops::start(1).expect("a thread"), plan, Handles::default()) {
            Err(UdpLoadError::Limit { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|plan| plan.bytes = HEADER_BYTES - 1), "bytes of a datagram");
    assert_eq!(refused(|plan| plan.bytes = 65_508), "bytes of a datagram");
    assert_eq!(refused(|plan| plan.flows = 0), "flows");
    assert_eq!(refused(|plan| plan.sockets = Some(11)), "sockets");
    assert_eq!(refused(|plan| plan.schedule = Schedule::constant(f64::NAN)), "datagrams a second");
    assert_eq!(refused(|plan| plan.duration = Duration::from_secs(1 << 40)), "datagrams in all");
    assert_eq!(refused(|plan| plan.wait = Duration::ZERO), "seconds of waiting");
}

#[test]
fn a_run_can_be_stopped() {
    // At the second rate the sender is behind from the start, and would be until the end.
    for (rate, seconds) in [(2000.0, 3600), (1e8, 40)] {
        let address = echo(|_, datagram| vec![datagram.to_vec()]);
        let plan = UdpPlan {
            duration: Duration::from_secs(seconds),
            schedule: Schedule::constant(rate),
            wait: Duration::from_millis(500),
            ..plan(address)
        };
        let handles = Handles::default();
        let stop = handles.stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            stop.stop();
        });
        let outcome = run(&Loops::start(2).expect("threads"), plan, handles).expect("it is possible");
        assert!(outcome.rate.interrupted && outcome.sent < outcome.intended, "{outcome}");
    }
}
