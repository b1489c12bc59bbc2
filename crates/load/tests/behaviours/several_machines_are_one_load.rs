//! Several agents carry out one plan, begin at one moment, and their histograms become one. What an agent does wrong costs it its own part.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anywire_advice::Chain;
use anywire_load::agents::{
    AgentError, AgentEvent, AgentOptions, LinkError, Members, TeamError, TeamLimits, TeamOptions, join, lead,
    serve,
};
use anywire_load::script::{Script, Sequence, Step};
use anywire_load::{
    Amount, Handles, Latency, LatencySummary, Limits, Outcome, Plan, Recorder, RunPhase, Schedule, Stop,
};
use anywire_loops::Loops;
use anywire_wire::Address;
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::server::{Manner, TestServer};

/// An agent of the crate, on threads of its own.
struct Agent {
    address: Address,
    stop: Stop,
    events: mpsc::Receiver<AgentEvent>,
    thread: thread::JoinHandle<Result<(), AgentError>>,
}

impl Agent {
    fn start() -> Self {
        let (options, stop) = options();
        let (say, events) = mpsc::channel();
        let thread = thread::spawn(move || {
            let told = move |event| drop(say.send(event));
            serve(&Loops::start(1).unwrap(), &"tcp:127.0.0.1:0".parse().unwrap(), &options, told)
        });
        let Ok(AgentEvent::Listening(address)) = events.recv() else { panic!("it listens") };
        Self { address, stop, events, thread }
    }

    /// The outcome of its own part.
    fn outcome(&self) -> Outcome {
        loop {
            match self.events.recv().expect("it goes on") {
                AgentEvent::Done(outcome) => return *outcome,
                AgentEvent::Begins { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn end(self) {
        self.stop.stop();
        self.thread.join().unwrap().unwrap();
    }
}

fn options() -> (AgentOptions, Stop) {
    let handles = Handles::default();
    let stop = handles.stop.clone();
    (
        AgentOptions { loops: Loops::start(1).unwrap(), handles, token: None, limits: TeamLimits::default() },
        stop,
    )
}

fn led(plan: &Plan, members: Members, options: TeamOptions) -> Result<Outcome, TeamError> {
    lead(&Loops::start(1).unwrap(), plan, members, options)?.wait()
}

/// What an agent says to a leader, step by step, in its own words.
struct Scripted {
    address: Address,
    listener: TcpListener,
}

impl Scripted {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { address: format!("tcp:{}", listener.local_addr().unwrap()).parse().unwrap(), listener }
    }

    /// Runs it until it has its part, with a clock that is so far ahead.
    fn ready(&self, clock_ahead: Duration) -> (TcpStream, Instant) {
        let (mut leader, _) = self.listener.accept().unwrap();
        let begun = Instant::now();
        assert!(heard(&mut leader)["hello"].is_object());
        say(
            &mut leader,
            &json!({ "welcome": { "protocol": 1, "version": env!("CARGO_PKG_VERSION"),
            "token": null, "place": null, "unix_seconds": 0.0 } }),
        );
        loop {
            let message = heard(&mut leader);
            if message["job"].is_object() {
                say(&mut leader, &json!("ready"));
                return (leader, begun);
            }
            let number = &message["ping"]["number"];
            assert!(number.is_u64(), "{message}");
            let clock_ns = (begun.elapsed() + clock_ahead).as_nanos() as u64;
            say(&mut leader, &json!({ "pong": { "number": number, "clock_ns": clock_ns } }));
        }
    }
}

fn say(peer: &mut TcpStream, message: &Value) {
    let json = message.to_string();
    peer.write_all(&[&(json.len() as u32).to_be_bytes(), json.as_bytes()].concat()).unwrap();
}

fn heard(peer: &mut TcpStream) -> Value {
    let mut length = [0; 4];
    peer.read_exact(&mut length).unwrap();
    let mut json = vec![0; u32::from_be_bytes(length) as usize];
    peer.read_exact(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

#[test]
fn the_merged_histogram_is_that_of_all_samples() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Statuses);
    let agents: Vec<Agent> = (0..4).map(|_| Agent::start()).collect();
    let plan = Plan { connections: 10, ..server.plan(2003) };
    let members = Members::Listed(agents.iter().map(|agent| agent.address.clone()).collect());
    let outcome = led(&plan, members, TeamOptions::default()).unwrap();
    let parts: Vec<Outcome> = agents.iter().map(Agent::outcome).collect();
    let mut all = Latency::new();
    for part in &parts {
        all.merge(&Latency::from_summary(part.latency.send.as_ref().unwrap()).unwrap());
    }
    assert_eq!(outcome.latency.send, all.summary());
    let totals = &outcome.totals;
    assert_eq!((totals.measured.answered, totals.unsent), (2003, Some(0)));
    assert_eq!(server.seen.requests(), 2003);
    assert_eq!(totals.connections.opened, 10);
    assert_eq!(outcome.plan.connections, 10);
    assert_eq!(outcome.plan.requests, Some(2003));
    for status in [200, 201, 404] {
        let of_parts = parts.iter().map(|part| part.totals.statuses[&status]).sum::<u64>();
        assert_eq!(totals.statuses[&status], of_parts);
    }
    let shares: Vec<_> = outcome.agents.iter().map(|agent| (agent.connections, agent.answered)).collect();
    assert_eq!(shares, [(3, Some(501)), (3, Some(501)), (2, Some(501)), (2, Some(500))]);
    assert_eq!(outcome.loops.iter().map(|share| share.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // They stay for the next one.
    let members = Members::Listed(vec![agents[1].address.clone()]);
    assert_eq!(led(&server.plan(7), members, TeamOptions::default()).unwrap().totals.measured.answered, 7);
    agents.into_iter().for_each(Agent::end);
}

#[test]
fn a_schedule_is_one_over_all_agents_and_so_is_each_of_its_histograms() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Statuses);
    let agents: Vec<Agent> = (0..4).map(|_| Agent::start()).collect();
    // Connections that do not divide evenly.
    let schedule = Schedule::constant(2000.0);
    let plan = Plan { connections: 6, schedule: Some(schedule), ..server.plan(403) };
    let members = Members::Listed(agents.iter().map(|agent| agent.address.clone()).collect());
    let outcome = led(&plan, members, TeamOptions::default()).unwrap();
    let parts: Vec<Outcome> = agents.iter().map(Agent::outcome).collect();
    type Column = fn(&Outcome) -> Option<&LatencySummary>;
    let columns: [(&str, Column); 7] = [
        ("intended", |one| one.latency.intended.as_ref()),
        ("send", |one| one.latency.send.as_ref()),
        ("lag", |one| one.latency.lag.as_ref()),
        ("first byte", |one| one.latency.first_byte.as_ref()),
        ("connect", |one| one.latency.connect.as_ref()),
        ("2xx", |one| one.latency.by_status.get("2xx")),
        ("own lag", |one| one.generator.lag.as_ref()),
    ];
    for (name, column) in columns {
        let mut all = Latency::new();
        for summary in parts.iter().filter_map(column) {
            all.merge(&Latency::from_summary(summary).unwrap());
        }
        assert!(all.count() > 0, "{name}");
        assert_eq!(column(&outcome), all.summary().as_ref(), "{name}");
    }
    assert_eq!((outcome.totals.measured.sent, outcome.rate.intended), (403, Some(403)));
    assert_eq!((outcome.rate.target, outcome.plan.schedule), (Some(2000.0), Some(schedule)));
    let targets: Vec<f64> = parts.iter().filter_map(|part| part.rate.target).map(f64::round).collect();
    assert_eq!(targets, [667.0, 667.0, 333.0, 333.0]);
    let max = parts.iter().filter_map(|part| part.generator.max_schedule_lag_us).fold(0.0, f64::max);
    assert_eq!(outcome.generator.max_schedule_lag_us, Some(max));
    agents.into_iter().for_each(Agent::end);
}

#[test]
fn the_rate_of_few_requests_is_not_that_of_one_more() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let agents: Vec<Agent> = (0..2).map(|_| Agent::start()).collect();
    let schedule = Some(Schedule::constant(20.0));
    let plan = Plan { connections: 2, schedule, ..server.plan(3) };
    let members = Members::Listed(agents.iter().map(|agent| agent.address.clone()).collect());
    let rate = led(&plan, members, TeamOptions::default()).unwrap().rate;
    let (achieved, time) = (rate.achieved.unwrap(), rate.schedule_seconds.unwrap());
    assert!(time >= 3.0 / 20.0 - 1e-6 && (achieved * time - 3.0).abs() < 1e-6, "{rate:?}");
    agents.into_iter().for_each(Agent::end);
}

#[test]
fn a_clock_an_hour_ahead_is_told_its_own_time() {
    for ahead in [Duration::ZERO, Duration::from_secs(3600)] {
        let scripted = Scripted::new();
        let members = Members::Listed(vec![scripted.address.clone()]);
        let agent = thread::spawn(move || {
            let (mut leader, begun) = scripted.ready(ahead);
            let start = heard(&mut leader);
            let clock_now = (begun.elapsed() + ahead).as_nanos() as u64;
            let at_ns = start["start"]["at_ns"].as_u64().unwrap();
            // The start lies ahead of what was asked before it, and within the minute in which this test runs.
            assert!(at_ns.abs_diff(clock_now) < 60_000_000_000, "{at_ns} at {clock_now}");
        });
        let failed = led(&Plan::new("http://127.0.0.1:9/"), members, TeamOptions::default()).unwrap_err();
        agent.join().unwrap();
        assert!(matches!(failed, TeamError::AllLost { .. }), "{failed}");
    }
}

#[test]
fn an_agent_that_goes_falls_silent_or_talks_nonsense_is_lost_alone() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    type Fault = fn(TcpStream);
    let faults: [(&str, Fault); 4] = [
        ("it closed the connection", drop),
        ("it was silent for", |mut leader| {
            let _ = leader.read_to_end(&mut Vec::new());
        }),
        ("no message between", |mut leader| say(&mut leader, &json!({ "gossip": {} }))),
        ("a message of 1195725856 bytes", |mut leader| leader.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap()),
    ];
    for (why, fault) in faults {
        let (good, scripted) = (Agent::start(), Scripted::new());
        let members = Members::Listed(vec![scripted.address.clone(), good.address.clone()]);
        let lost = thread::spawn(move || {
            let (mut leader, _) = scripted.ready(Duration::ZERO);
            assert!(heard(&mut leader)["start"].is_object());
            fault(leader);
        });
        // Far more than the pause between two words of an agent that is well.
        let limits = TeamLimits { silence: Duration::from_secs(3), ..TeamLimits::default() };
        let options = TeamOptions { limits, ..TeamOptions::default() };
        let outcome = led(&Plan { connections: 2, ..server.plan(100) }, members, options).unwrap();
        lost.join().unwrap();
        assert!(
            outcome.agents[0].agent.lost.as_ref().is_some_and(|said| said.contains(why)),
            "{:?}",
            outcome.agents
        );
        assert_eq!((outcome.totals.measured.answered, outcome.agents[1].answered), (50, Some(50)));
        let shortfall = outcome.shortfall().expect("the plan was not carried out").to_string();
        assert!(shortfall.contains("1 of 2 agents was lost") && shortfall.contains(why), "{shortfall}");
        assert!(outcome.to_string().contains("lost: "), "{outcome}");
        good.end();
    }
}

#[test]
fn those_who_join_are_known_by_their_index_and_strangers_are_turned_away() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let control = Loops::start(1).unwrap();
    let (own, _) = options();
    let members = Members::Joining { listen: "tcp:127.0.0.1:0".parse().unwrap(), of: 3, own: Box::new(own) };
    let leading =
        lead(&control, &Plan { connections: 3, ..server.plan(90) }, members, TeamOptions::default());
    let leading = leading.unwrap();
    let leader = leading.listening().expect("it listens").clone();
    let mut stranger = TcpStream::connect(leader.location()).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
    let _ = stranger.read_to_end(&mut Vec::new());
    let joins = |place| {
        let (leader, (options, _)) = (leader.clone(), options());
        thread::spawn(move || join(&Loops::start(1).unwrap(), &leader, place, &options, |_| {}))
    };
    // One that believes in another number of agents, and one that says to be the leader.
    for wrong in [(1, 4), (0, 3)] {
        let refused = joins(wrong).join().unwrap().unwrap_err();
        assert!(matches!(refused, AgentError::Leader { .. }), "{}", Chain(&refused));
    }
    let parts = [joins((2, 3)), joins((1, 3))].map(|joined| joined.join().unwrap().unwrap());
    let outcome = leading.wait().unwrap();
    assert_eq!(outcome.totals.measured.answered, 90);
    assert!(parts.iter().all(|part| part.totals.measured.answered == 30), "{parts:?}");
    assert!(outcome.agents.iter().all(|share| share.agent.lost.is_none() && share.answered == Some(30)));
}

#[test]
fn a_team_that_is_not_complete_says_who_was_turned_away() {
    let (own, _) = options();
    let members = Members::Joining { listen: "tcp:127.0.0.1:0".parse().unwrap(), of: 2, own: Box::new(own) };
    let limits = TeamLimits { gather: Duration::from_secs(1), ..TeamLimits::default() };
    let options = TeamOptions { limits, ..TeamOptions::default() };
    let control = Loops::start(1).unwrap();
    let plan = Plan { connections: 2, ..Plan::new("http://127.0.0.1:9/") };
    let leading = lead(&control, &plan, members, options).unwrap();
    let mut stranger = TcpStream::connect(leading.listening().unwrap().location()).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let said = leading.wait().unwrap_err().to_string();
    assert!(said.contains("1 of 2 agents were ready") && said.contains("turned away"), "{said}");
}

#[test]
fn a_run_that_is_stopped_has_the_parts_so_far() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let agents = [Agent::start(), Agent::start()];
    let members = Members::Listed(agents.iter().map(|agent| agent.address.clone()).collect());
    let (control, stop) = (Loops::start(1).unwrap(), Stop::new());
    let plan = Plan { connections: 2, amount: Amount::Duration(Duration::from_secs(3600)), ..server.plan(1) };
    let leading =
        lead(&control, &plan, members, TeamOptions { stop: stop.clone(), ..TeamOptions::default() });
    let leading = leading.unwrap();
    let view = leading.view();
    eventually("both have told of answers", || {
        let now = view.snapshot();
        now.phase == RunPhase::Measuring && now.loops.iter().all(|one| one.counts.answered > 0)
    });
    eventually("latencies have come", || view.snapshot().latency.count() > 0);
    stop.stop();
    let outcome = leading.wait().unwrap();
    assert!(outcome.rate.interrupted && outcome.totals.measured.answered > 0, "{outcome}");
    assert_eq!(outcome.agents.iter().filter_map(|agent| agent.answered).count(), 2);
    agents.into_iter().for_each(Agent::end);
}

#[test]
fn an_agent_whose_leader_goes_ends_its_load() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let agent = Agent::start();
    let control = Loops::start(1).unwrap();
    let plan = Plan { connections: 1, amount: Amount::Duration(Duration::from_secs(3600)), ..server.plan(1) };
    let members = Members::Listed(vec![agent.address.clone()]);
    let leading = lead(&control, &plan, members, TeamOptions::default()).unwrap();
    let view = leading.view();
    eventually("it loads", || view.snapshot().counts().answered > 0);
    drop((leading, control));
    let lost = loop {
        match agent.events.recv().expect("it goes on") {
            AgentEvent::Lost(error) => break error,
            AgentEvent::Begins { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(
        matches!(&lost, AgentError::Leader { source: LinkError::Closed | LinkError::Broken(_), .. }),
        "{lost:?}"
    );
    agent.end();
}

#[test]
fn a_plan_that_cannot_be_divided_begins_nowhere() {
    let members = || Members::Listed(vec!["tcp:127.0.0.1:1".parse().unwrap(); 3]);
    for (plan, found) in [
        (Plan { connections: 2, ..Plan::new("http://h/") }, "2 connections"),
        (Plan { amount: Amount::Requests(2), ..Plan::new("http://h/") }, "2 requests"),
        (Plan::new("nonsense"), "nonsense"),
    ] {
        let refused = led(&plan, members(), TeamOptions::default()).unwrap_err();
        assert!(
            matches!(refused, TeamError::Plan(_)) && Chain(&refused).to_string().contains(found),
            "{refused}"
        );
    }
    let limits = TeamLimits { agents: 2, ..TeamLimits::default() };
    let refused = led(&Plan::new("http://h/"), members(), TeamOptions { limits, ..TeamOptions::default() });
    assert!(refused.unwrap_err().to_string().contains("3 agents, allowed is 1 to 2"));
}

#[test]
fn an_agent_that_never_comes_to_its_end_is_lost() {
    let told = json!({ "progress": { "phase": "measuring", "up": { "secs": u64::MAX, "nanos": 999_999_999 },
        "measured": { "secs": u64::MAX, "nanos": 999_999_999 }, "hdr": null, "counts": { "sent": u64::MAX,
        "answered": u64::MAX, "bytes_out": u64::MAX, "bytes_in": u64::MAX, "errors": { "close": u64::MAX },
        "answered_in_warm_up": u64::MAX, "connections_lost": u64::MAX, "connections_open": u64::MAX } } });
    let limits = TeamLimits {
        gather: Duration::from_secs(2),
        answer: Duration::from_millis(500),
        ..TeamLimits::default()
    };
    let second = Amount::Duration(Duration::from_secs(1));
    // Counted requests have no time of their own, so that the user's stop is their end.
    for (amount, stops) in [(second, false), (Amount::Requests(1), true)] {
        let scripted = Scripted::new();
        let members = Members::Listed(vec![scripted.address.clone()]);
        let told = told.clone();
        thread::spawn(move || {
            let (mut leader, _) = scripted.ready(Duration::ZERO);
            let json = told.to_string();
            let frame = [&(json.len() as u32).to_be_bytes(), json.as_bytes()].concat();
            while leader.write_all(&frame).is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let stop = Stop::new();
        let options = TeamOptions { limits: limits.clone(), stop: stop.clone(), ..TeamOptions::default() };
        let plan = Plan { amount, warm_up: Duration::ZERO, ..Plan::new("http://127.0.0.1:9/") };
        let control = Loops::start(1).unwrap();
        let leading = lead(&control, &Plan { timeout: Duration::from_millis(1), ..plan }, members, options);
        let leading = leading.unwrap();
        let view = leading.view();
        // What it tells is looked at as a screen does.
        let mut recorder = Recorder::of(move || view.snapshot(), Duration::from_secs(1));
        let view = leading.view();
        eventually("it tells", || view.snapshot().phase == RunPhase::Measuring);
        recorder.look();
        if stops {
            stop.stop();
        }
        let failed = leading.wait().unwrap_err().to_string();
        assert!(failed.contains("its result had not come after"), "{failed}");
        recorder.finish();
    }
}

#[test]
fn a_stranger_who_says_nothing_keeps_no_leader_away() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let agent = Agent::start();
    let stranger = TcpStream::connect(agent.address.location()).unwrap();
    let members = Members::Listed(vec![agent.address.clone()]);
    let outcome = led(&server.plan(10), members, TeamOptions::default()).unwrap();
    assert_eq!(outcome.totals.measured.answered, 10);
    drop(stranger);
    agent.end();
}

#[test]
fn a_leader_does_not_raise_the_limits_of_an_agent() {
    let agent = Agent::start();
    let members = Members::Listed(vec![agent.address.clone()]);
    let limits = Limits { connections: 1 << 40, ..Limits::default() };
    let plan = Plan { connections: 1 << 40, limits, ..Plan::new("http://127.0.0.1:9/") };
    let refused = led(&plan, members, TeamOptions::default()).unwrap_err();
    let said = Chain(&refused).to_string();
    assert!(said.contains("1099511627776 connections, allowed is 1 to 100000"), "{said}");
    agent.end();
}

/// A real result in which everything that is counted is as large as a number can be.
fn boundless(plan: &Plan) -> Value {
    let outcome = crate::support::run(&Loops::start(1).unwrap(), plan.clone()).unwrap();
    let mut json: Value = serde_json::from_str(&outcome.to_json()).unwrap();
    json["rate"]["intended"] = json!(u64::MAX);
    for request in json["requests"].as_array_mut().unwrap() {
        (request["answered"], request["bad"]) = (json!(u64::MAX), json!(u64::MAX));
        request["statuses"] = json!({ "200": u64::MAX });
    }
    (json["events"]["count"], json["events"]["streams"]) = (json!(u64::MAX), json!(u64::MAX));
    for count in ["sent", "answered", "bytes_in"] {
        json["totals"][count] = json!(u64::MAX);
    }
    json
}

#[test]
fn counts_that_no_number_holds_are_the_largest_one() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let script = Script {
        sequences: ["/a", "/b"].map(|target| Sequence::one(Step::get(target))).into(),
        ..Script::default()
    };
    let schedule = Some(Schedule::constant(10_000.0));
    let plan = Plan { script: Some(script), events: true, schedule, connections: 2, ..server.plan(10) };
    let result = boundless(&plan);
    let agents = [Scripted::new(), Scripted::new()];
    let members = Members::Listed(agents.each_ref().map(|agent| agent.address.clone()).into());
    for agent in agents {
        let result = result.clone();
        thread::spawn(move || {
            let (mut leader, _) = agent.ready(Duration::ZERO);
            assert!(heard(&mut leader)["start"].is_object());
            say(&mut leader, &json!({ "done": { "outcome": result } }));
            let _ = leader.read_to_end(&mut Vec::new());
        });
    }
    let outcome = led(&plan, members, TeamOptions::default()).unwrap();
    assert_eq!((outcome.rate.intended, outcome.totals.measured.sent), (Some(u64::MAX), u64::MAX));
    assert!(outcome.requests.iter().all(|request| request.answered == u64::MAX), "{:?}", outcome.requests);
    assert_eq!(outcome.events.as_ref().unwrap().count, u64::MAX);
    // It is shown, and read again.
    assert!(outcome.to_string().contains("18,446,744,073,709,551,615 sent"), "{outcome}");
    serde_json::from_str::<Outcome>(&outcome.to_json()).unwrap();
}
