//! A load of datagrams is divided among agents as one of requests is: one schedule over all flows, and histograms merged to the bucket.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anywire_load::agents::{
    AgentError, AgentEvent, AgentOptions, Leading, Members, TeamError, TeamLimits, TeamOptions, join,
    join_datagrams, lead, lead_datagrams, serve,
};
use anywire_load::udp::{UdpOutcome, UdpPlan};
use anywire_load::{Handles, Latency, Pacer, Part, Plan, Schedule};
use anywire_loops::Loops;

/// A service that returns each datagram, and tells when it was due: bytes 24 to 31, in nanoseconds.
fn recorder() -> (SocketAddr, mpsc::Receiver<u64>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    let (say, said) = mpsc::channel();
    thread::spawn(move || {
        let mut datagram = [0; 2048];
        while let Ok((length, peer)) = socket.recv_from(&mut datagram) {
            let due = datagram[24..32].try_into().expect("they are eight");
            if say.send(u64::from_be_bytes(due)).is_err() {
                return;
            }
            let _ = socket.send_to(&datagram[..length], peer);
        }
    });
    (address, said)
}

fn options() -> AgentOptions {
    let (loops, handles) = (Loops::start(2).expect("threads"), Handles::default());
    AgentOptions { loops, handles, token: None, limits: TeamLimits::default() }
}

fn control() -> Loops {
    Loops::start(1).expect("a thread")
}

/// A leader that waits for two others.
fn joining(plan: &UdpPlan, control: &Loops) -> Leading<UdpOutcome> {
    let listen = "tcp:127.0.0.1:0".parse().expect("an address");
    let members = Members::Joining { listen, of: 3, own: Box::new(options()) };
    lead_datagrams(control, plan, members, TeamOptions::default()).expect("it listens")
}

#[test]
fn the_schedule_and_the_histograms_are_those_of_all() {
    let (target, told) = recorder();
    let schedule = Schedule::constant(1000.0);
    // Flows and sockets that do not divide evenly.
    let plan = UdpPlan {
        schedule,
        duration: Duration::from_millis(200),
        flows: 7,
        sockets: Some(4),
        ..UdpPlan::new(target).expect("an address")
    };
    let control = control();
    let leading = joining(&plan, &control);
    let leader = leading.listening().expect("it listens").clone();
    let joined = [1, 2].map(|index| {
        let leader = leader.clone();
        thread::spawn(move || join_datagrams(&self::control(), &leader, (index, 3), &options(), |_| {}))
    });
    let view = leading.view();
    let outcome = leading.wait().expect("all are there");
    // What was told last is all of it.
    let told_so_far =
        view.snapshot().loops.iter().fold((0, 0), |(sent, received), agent| {
            (sent + agent.counts.sent, received + agent.counts.answered)
        });
    assert_eq!(told_so_far, (outcome.sent, outcome.received));
    let parts = joined.map(|one| one.join().expect("it ends").expect("it has a part"));
    let whole = Pacer::new(&schedule, plan.duration, Part::whole());
    let mut due: Vec<_> = told.try_iter().map(Duration::from_nanos).collect();
    due.sort();
    assert_eq!(due, (0..200).map(|number| whole.intended(number)).collect::<Vec<_>>());
    assert_eq!((outcome.intended, outcome.sent, outcome.received), (200, 200, 200), "{outcome}");
    assert_eq!((outcome.plan.flows, outcome.plan.sockets, outcome.plan.schedule), (7, 4, Some(schedule)));
    let sent: Vec<_> = outcome.agents.iter().map(|agent| agent.sent).collect();
    assert_eq!(sent[1..], parts.each_ref().map(|part| Some(part.sent)));
    assert_eq!(sent.iter().flatten().sum::<u64>(), 200);
    assert!(outcome.agents.iter().all(|share| share.agent.lost.is_none() && share.agent.host.is_some()));
    let all = outcome.latency.sent.as_ref().expect("they came back");
    assert_eq!(all.count, 200);
    // What is left without the parts that joined is that of the leader's own part: it is there to the bucket.
    let mut of_parts = Latency::new();
    for part in &parts {
        of_parts.merge(
            &Latency::from_summary(part.latency.sent.as_ref().expect("they came back")).expect("it is one"),
        );
    }
    assert_eq!(all.count - of_parts.count(), sent[0].expect("it sent"));
    assert!(all.max >= of_parts.summary().expect("it has some").max);
    assert!(outcome.to_string().contains("agent 2"), "{outcome}");
}

#[test]
fn agents_in_a_list_serve_either_kind_and_one_that_is_lost_is_named() {
    let (say, events) = mpsc::channel();
    let own = options();
    let stop = own.handles.stop.clone();
    let agent = thread::spawn(move || {
        let listen = "tcp:127.0.0.1:0".parse().expect("an address");
        serve(&control(), &listen, &own, move |event| drop(say.send(event)))
    });
    let Ok(AgentEvent::Listening(address)) = events.recv() else { panic!("it listens") };
    let (target, _told) = recorder();
    let plan = UdpPlan {
        schedule: Schedule::constant(500.0),
        duration: Duration::from_millis(100),
        flows: 2,
        ..UdpPlan::new(target).expect("an address")
    };
    let led = |plan: &UdpPlan| {
        let members = Members::Listed(vec![address.clone()]);
        lead_datagrams(&control(), plan, members, TeamOptions::default())?.wait()
    };
    let outcome = led(&plan).expect("it runs");
    assert_eq!((outcome.sent, outcome.agents.len()), (50, 1), "{outcome}");
    let Ok(AgentEvent::BeginsDatagrams { plan: part, .. }) = events.recv() else { panic!("it begins") };
    assert_eq!((part.flows, part.place, part.flows_together), (2, (0, 1), Some(2)));
    let Ok(AgentEvent::DatagramsDone(part)) = events.recv() else { panic!("it is done") };
    assert_eq!((part.sent, &part.latency), (outcome.sent, &outcome.latency));
    // What cannot be done is refused by the leader, before any agent hears of it.
    let refused = led(&UdpPlan { flows: 0, ..plan.clone() }).expect_err("there is no flow");
    assert!(matches!(refused, TeamError::Datagrams(_)), "{refused}");
    stop.stop();
    agent.join().expect("it ends").expect("it served");
    let gone = led(&plan).expect_err("nobody listens");
    assert!(matches!(gone, TeamError::Dial { .. }), "{gone}");
}

#[test]
fn one_who_joins_for_another_kind_of_load_is_told() {
    let control = control();
    let (target, _told) = recorder();
    let plan = UdpPlan { duration: Duration::from_millis(50), ..UdpPlan::new(target).expect("an address") };
    let leading = {
        let listen = "tcp:127.0.0.1:0".parse().expect("an address");
        let members = Members::Joining { listen, of: 2, own: Box::new(options()) };
        lead_datagrams(&control, &plan, members, TeamOptions::default()).expect("it listens")
    };
    let leader = leading.listening().expect("it listens").clone();
    let joined = thread::spawn(move || join(&self::control(), &leader, (1, 2), &options(), |_| {}));
    leading.wait().expect("it has done its part");
    let other = joined.join().expect("it ends").expect_err("it was to load requests");
    assert!(matches!(other, AgentError::OtherWork { .. }), "{other}");
}

#[test]
fn a_part_is_refused_if_it_is_none() {
    let plan = UdpPlan { flows: 10, ..UdpPlan::new("udp:127.0.0.1:9").expect("an address") };
    let parts: Vec<_> = (0..4).map(|index| plan.part(index, 4).expect("it can be divided")).collect();
    assert_eq!(parts.iter().map(|part| part.flows).collect::<Vec<_>>(), [3, 3, 2, 2]);
    for of in [0, 11] {
        assert!(plan.part(0, of).is_err(), "{of}");
    }
    let refused = |part: UdpPlan| {
        let members = Members::Listed(vec!["tcp:127.0.0.1:1".parse().expect("an address")]);
        lead_datagrams(&control(), &part, members, TeamOptions::default()).is_err()
    };
    assert!(refused(UdpPlan { flows: 0, ..plan }));
    // A plan of another kind stays what it was.
    let members = Members::Listed(Vec::new());
    assert!(lead(&control(), &Plan::new("http://h/"), members, TeamOptions::default()).is_err());
}
