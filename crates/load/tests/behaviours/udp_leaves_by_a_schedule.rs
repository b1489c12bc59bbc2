//! Datagrams leave by the same schedules as requests: each names the time at which it was due, and those of all loops together are the times
//! of the whole.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anywire_load::udp::{UdpOutcome, UdpPlan, run};
use anywire_load::{Gaps, Handles, Pacer, Part, Schedule, Shape};
use anywire_loops::Loops;

/// A service that returns each datagram and tells at which time it was due: bytes 24 to 31, in nanoseconds.
fn recorder() -> (SocketAddr, mpsc::Receiver<u64>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut datagram = [0; 2048];
        while let Ok((length, peer)) = socket.recv_from(&mut datagram) {
            let due = datagram[24..32].try_into().expect("they are eight");
            // Before it is returned, so that all have been told when the run is over.
            if say.send(u64::from_be_bytes(due)).is_err() {
                return;
            }
            let _ = socket.send_to(&datagram[..length], peer);
        }
    });
    (address, said)
}

/// The outcome of a schedule for 0.2 s, and when each datagram was due. A machine that is too busy to send them all in that time has to do
/// it again.
fn sent(schedule: Schedule, loops: usize) -> (UdpOutcome, Vec<Duration>) {
    let begun = Instant::now();
    loop {
        let (outcome, due) = try_to_send(schedule, loops);
        if outcome.sent == outcome.intended || begun.elapsed() > HANG {
            assert_eq!((outcome.lost, outcome.sent), (0, outcome.intended), "{outcome}");
            return (outcome, due);
        }
    }
}

fn try_to_send(schedule: Schedule, loops: usize) -> (UdpOutcome, Vec<Duration>) {
    let (target, told) = recorder();
    let plan = UdpPlan {
        schedule,
        duration: Duration::from_millis(200),
        flows: 5,
        ..UdpPlan::new(target).expect("an address")
    };
    let outcome = run(&Loops::start(loops).expect("threads"), plan, Handles::default());
    let outcome = outcome.expect("it is possible");
    let mut due: Vec<_> = told.try_iter().map(Duration::from_nanos).collect();
    due.sort();
    (outcome, due)
}

#[test]
fn all_loops_together_send_at_the_times_of_the_whole() {
    let constant = Shape::Constant { per_second: 1000.0 };
    let (ramp, steps) =
        (Shape::Ramp { from: 100.0, to: 1900.0 }, Shape::Steps { from: 500.0, to: 1500.0, count: 4 });
    for shape in [constant, ramp, steps] {
        for gaps in [Gaps::Even, Gaps::Jitter] {
            for loops in [1, 2, 3] {
                let schedule = Schedule { gaps, ..Schedule::of(shape) };
                let (outcome, due) = sent(schedule, loops);
                let whole = Pacer::new(&schedule, Duration::from_millis(200), Part::whole());
                let wanted: Vec<_> = (0..200).map(|number| whole.intended(number)).collect();
                assert_eq!(due, wanted, "{schedule} on {loops} loops");
                assert_eq!((outcome.intended, outcome.plan.schedule), (200, Some(schedule)));
            }
        }
    }
}

#[test]
fn gaps_by_chance_are_drawn_by_the_seed() {
    let of = |seed| {
        let schedule = Schedule { gaps: Gaps::Poisson, seed, ..Schedule::constant(1000.0) };
        sent(schedule, 2).1
    };
    let (one, again, other) = (of(7), of(7), of(8));
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert!(one.iter().all(|due| *due < Duration::from_millis(200)), "{one:?}");
    // 200 on average, with a deviation of 14.
    assert!((100..300).contains(&one.len()), "{}", one.len());
}

/// Far beyond what a machine may be busy for.
const HANG: Duration = Duration::from_secs(60);
