//! `load` on several machines: agents that are listed or that join by their index, one result of all, and a lost one is named.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use anywire::load::search::End;
#[cfg(feature = "udp")]
use anywire::load::udp::UdpOutcome;
use anywire::load::{Latency, LatencySummary, Outcome};

use crate::common::{Served, anywire, assert_refused, command, has, stderr, stdout, text};

/// `load --agent` under way, killed at the end of the test.
struct Agent {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    address: String,
}

impl Agent {
    fn start(options: &[&str]) -> Self {
        Self::of(&["load"], options)
    }

    fn of(load: &[&str], options: &[&str]) -> Self {
        let mut command = command();
        command.args(load).args(["--agent", "127.0.0.1:0", "--loops", "1"]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on tcp:").expect("an address").to_owned();
        Self { child, _stdout: stdout, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Neither can fail but for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command takes all arguments of the manifest, and the Job has as many pods as it loads from. An index that is beyond them is
/// refused as the last thing of all.
#[test]
fn the_manifest_of_the_guide_has_arguments_of_the_command() {
    let manifest = include_str!("../../../../docs/guide/many-machines/job.yaml");
    let value = |key: &str| {
        let line = manifest.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {key} in the manifest"))
    };
    let (pods, url) = (value("completions"), value("command").split('"').nth(1).expect("a URL"));
    assert_eq!(pods, value("parallelism"), "all have to run at one time");
    let arguments: Vec<String> = manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- --"))
        .map(|argument| format!("--{}", argument.replace("$(JOB_COMPLETION_INDEX)", pods)))
        .collect();
    assert!(arguments.len() >= 6, "{arguments:?}");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = anywire(&[&["load", url], &arguments[..]].concat());
    assert_refused(&output, 2, &format!("--index {pods} --of {pods}: "));
}

/// Datagrams over the same agents, whichever command has started them.
#[cfg(feature = "udp")]
#[test]
fn datagrams_are_dealt_over_listed_agents() {
    let service = crate::udp_accounts_on_both_ends::Service::on("udp:127.0.0.1:0", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    let agents = [Agent::of(&["lab", "udp-load"], &[]), Agent::start(&[])];
    let list = list(dir.path(), &agents.each_ref().map(|agent| &*agent.address));
    let load =
        ["lab", "udp-load", &service.address, "--agents", &list, "--rate", "500", "--duration", "400ms"];
    let output = anywire(&[&load[..], &["--flows", "4", "--wait", "10s", "--json", "-"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let outcome: UdpOutcome = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!((outcome.intended, outcome.sent, outcome.received), (200, 200, 200), "{outcome}");
    let sent: Vec<_> = outcome.agents.iter().map(|share| share.sent).collect();
    assert_eq!(sent, [Some(100), Some(100)], "one schedule is dealt to both in turn");
    assert!(outcome.agents.iter().all(|share| share.agent.lost.is_none() && share.agent.host.is_some()));
    let table = anywire(&load);
    assert!(table.status.success() && stdout(&table).contains("agent 1"), "{}", stdout(&table));
}

#[test]
fn a_search_is_dealt_over_listed_agents() {
    let (served, dir) = (Served::demo(), tempfile::tempdir().expect("a directory"));
    let agents = [Agent::start(&[]), Agent::start(&[])];
    let list = list(dir.path(), &agents.each_ref().map(|agent| &*agent.address));
    let url = served.url("/");
    let search =
        ["--search=1:100", "--rate", "50", "--precision", "50%", "-d", "200ms", "--confirm", "300ms"];
    let load = [&["load", &url, "--agents", &list, "-c", "4", "--json", "-", "--warm-up", "0"], &search[..]];
    // A server that answers nothing in time would break it, however busy this machine is.
    let output = anywire(&[&load.concat()[..], &["--require", "p99<60s"]].concat());
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    let outcome = outcome(&output);
    let found = outcome.search.as_ref().expect("it was a search");
    // Each run was one plan over both machines.
    assert!(found.trials.len() >= 2, "{found:?}");
    assert_eq!((outcome.agents.len(), outcome.totals.connections.opened), (2, 4));
    let target = outcome.rate.target.expect("there is a rate");
    assert!(found.trials.iter().any(|trial| trial.target == target), "{target} {found:?}");

    let lost = "127.0.0.1:1".to_owned();
    std::fs::write(dir.path().join("lost"), format!("{}\n{lost}", agents[0].address)).expect("it is written");
    let lost = text(&dir.path().join("lost")).to_owned();
    let output = anywire(&[&["load", &url, "--agents", &lost, "-c", "4"], &search[..]].concat());
    assert_refused(&output, 1, "127.0.0.1:1");
}

#[test]
fn members_by_index_do_not_search() {
    let args = ["load", "h", "--search", "--index", "1", "--of", "2", "--coordinator", "127.0.0.1:1"];
    assert_eq!(anywire(&args).status.code(), Some(2));
}

/// A list of these agents.
fn list(dir: &Path, agents: &[&str]) -> String {
    let path = dir.join("agents");
    std::fs::write(&path, agents.join("\n")).expect("it can be written");
    text(&path).to_owned()
}

fn outcome(output: &Output) -> Outcome {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

fn merged(summaries: &[LatencySummary]) -> Option<LatencySummary> {
    let mut all = Latency::new();
    for summary in summaries {
        all.merge(&Latency::from_summary(summary).expect("it is a histogram"));
    }
    all.summary()
}

#[test]
fn listed_agents_share_the_plan_and_give_one_result() {
    let (served, dir) = (Served::demo(), tempfile::tempdir().expect("a directory"));
    let agents = [Agent::start(&[]), Agent::start(&[]), Agent::start(&[])];
    let list = list(dir.path(), &agents.each_ref().map(|agent| &*agent.address));
    // Agents stay for the next run.
    for requests in ["1001", "500"] {
        let url = served.url("/");
        let output = anywire(&["load", &url, "--agents", &list, "-c", "7", "-n", requests, "--json", "-"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let outcome = outcome(&output);
        let answered = outcome.totals.measured.answered;
        assert_eq!(answered.to_string(), requests);
        assert_eq!(outcome.totals.connections.opened, 7);
        assert_eq!(outcome.latency.send.as_ref().map(|latency| latency.count), Some(answered));
        assert_eq!((outcome.agents.len(), outcome.loops.len()), (3, 3));
        assert_eq!(outcome.agents.iter().filter_map(|agent| agent.answered).sum::<u64>(), answered);
        assert!(outcome.agents.iter().all(|share| share.agent.lost.is_none() && share.agent.host.is_some()));
    }
    let table = anywire(&["load", &served.url("/"), "--agents", &list, "-c", "3", "-n", "30"]);
    assert!(stdout(&table).contains("agent 2"), "{}", stdout(&table));
}

/// Four processes, as the pods of an Indexed Job: the merged histogram is that of all samples.
#[test]
fn four_that_join_by_their_index_are_merged_to_the_bucket() {
    let (served, dir) = (Served::demo(), tempfile::tempdir().expect("a directory"));
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        free.local_addr().expect("it is bound").port()
    };
    let (url, coordinator) = (served.url("/"), format!("127.0.0.1:{port}"));
    // The others come first: a leader that starts later is no fault.
    let children = [3, 2, 1, 0].map(|index| {
        let json = dir.path().join(format!("{index}.json"));
        let mut command = command();
        command.args(["load", &url, "-c", "8", "-n", "4001", "--loops", "1", "--of", "4"]);
        command.args(["--index", &index.to_string(), "--coordinator", &coordinator, "--json", text(&json)]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    });
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let outcomes: Vec<Outcome> = (0..4)
        .map(|index| {
            let json = std::fs::read(dir.path().join(format!("{index}.json"))).expect("it was written");
            serde_json::from_slice(&json).expect("it is a result")
        })
        .collect();
    let all = &outcomes[0];
    assert_eq!((all.totals.measured.answered, all.agents.len()), (4001, 4));
    // Number 0 has a part, too; what it recorded is what the others did not.
    let others: Vec<_> = outcomes[1..].iter().filter_map(|one| one.latency.send.clone()).collect();
    assert_eq!(
        others.iter().map(|one| one.count).sum::<u64>(),
        4001 - all.agents[0].answered.expect("it is there")
    );
    let whole =
        Latency::from_summary(all.latency.send.as_ref().expect("it has samples")).expect("a histogram");
    let of_others = merged(&others).expect("they have samples");
    let of_others = Latency::from_summary(&of_others).expect("a histogram");
    let own = whole.since(&of_others);
    assert_eq!(
        own.count(),
        all.agents[0].answered.expect("it is there"),
        "no bucket of the others is missing"
    );
    let mut again = of_others;
    again.merge(&own);
    // The histogram is the text; a share of the curve may change its last digit in JSON.
    let hdr = |summary: Option<LatencySummary>| summary.expect("it has samples").hdr;
    assert_eq!(hdr(again.summary()), hdr(all.latency.send.clone()));
}

/// Leads two agents with these options beside the rest, and kills the second one while both are at work.
fn with_one_that_goes(options: &[&str]) -> Output {
    let (served, dir) = (Served::demo(), tempfile::tempdir().expect("a directory"));
    let (stays, mut goes) = (Agent::start(&[]), Agent::start(&[]));
    let list = list(dir.path(), &[&stays.address, &goes.address]);
    let mut leader = command();
    leader.args(["load", &served.url("/"), "--agents", &list, "-c", "2", "-d", "1500ms", "--warm-up", "0"]);
    let leader =
        leader.args(["-v", "--json", "-"]).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut leader = leader.spawn().expect("it starts");
    let mut said = BufReader::new(leader.stderr.take().expect("it was asked for"));
    let mut text = String::new();
    // The first line of an interval with answers: both are at work.
    while !text.contains("measuring") {
        assert!(said.read_line(&mut text).expect("it says text") > 0, "{text}");
    }
    goes.child.kill().expect("it runs");
    let output = leader.wait_with_output().expect("it ends");
    said.read_to_string(&mut text).expect("it says text");
    Output { stderr: text.into_bytes(), ..output }
}

#[test]
fn a_lost_agent_is_named_and_the_others_stay_valid() {
    let output = with_one_that_goes(&[]);
    assert_refused(&output, 18, "1 of 2 agents was lost");
    let outcome = outcome(&output);
    let [one, other] = &outcome.agents[..] else { panic!("{:?}", outcome.agents) };
    assert!(one.agent.lost.is_none() && other.agent.lost.is_some(), "{:?}", outcome.agents);
    assert!(other.answered.is_none(), "{:?}", outcome.agents);
    assert_eq!(Some(outcome.totals.measured.answered), one.answered);
    assert!(one.answered > Some(0));
}

#[test]
fn a_search_ends_with_the_agent_that_is_lost() {
    let output = with_one_that_goes(&["--search=1:100", "--rate", "50", "--require", "p99<60s"]);
    assert_refused(&output, 18, "1 of 2 agents was lost");
    assert!(stderr(&output).contains("searching the limit of"), "{}", stderr(&output));
    let outcome = outcome(&output);
    let found = outcome.search.as_ref().expect("it was a search");
    // Two machines were asked for 50/s: what one did alone is no verdict on that rate, nor on a lower one.
    assert_eq!((found.end, found.trials.len(), found.highest_rate), (End::Interrupted, 1, None), "{found:?}");
    assert!(outcome.totals.measured.answered > 0, "what was measured until then is kept");
}

#[test]
fn what_cannot_begin_says_why_and_sends_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let agent = Agent::start(&[]);
    let load = |agents: &[&str], options: &[&str]| {
        let list = list(dir.path(), agents);
        anywire(&[&["load", "http://127.0.0.1:9/", "--agents", &list], options].concat())
    };
    // Nobody listens at port 1.
    assert_refused(&load(&["127.0.0.1:1"], &[]), 1, "agent 0 at tcp:127.0.0.1:1 was not reached");
    assert_refused(&load(&["nonsense"], &[]), 26, "line 1");
    assert_refused(&load(&[&agent.address], &["-c", "0"]), 2, "0 connections");
    assert_refused(&load(&[&agent.address, "127.0.0.1:1"], &["-c", "1"]), 2, "1 connections");
    // A service of HTTP is no agent.
    let served = Served::demo();
    let refused = load(&[served.authority()], &[]);
    assert_refused(&refused, 1, "takes no part");
    let token = dir.path().join("token");
    std::fs::write(&token, "secret\n").expect("it can be written");
    assert_refused(&load(&[&agent.address], &["--agents-token", text(&token)]), 1, "does not know the token");
    let guarded = Agent::start(&["--agents-token", text(&token)]);
    assert_refused(&load(&[&guarded.address], &[]), 1, "does not know the token");
    // The agents have survived all of it.
    let url = served.url("/");
    let list = list(dir.path(), &[&guarded.address]);
    let good =
        anywire(&["load", &url, "--agents", &list, "--agents-token", text(&token), "-n", "10", "-c", "1"]);
    assert!(good.status.success(), "{}", stderr(&good));
}

#[test]
fn an_agent_of_another_version_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let later = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the leader comes");
        let hello = receive(&mut peer);
        assert!(hello["hello"].is_object(), "{hello}");
        let welcome = r#"{"welcome":{"protocol":2,"version":"9.9.9","token":null,"place":null,
                          "unix_seconds":0.0,"later":true}}"#;
        send(&mut peer, welcome);
        // Until the leader has gone.
        let _ = peer.read(&mut [0]);
    });
    let list = list(dir.path(), &[&address]);
    let output = anywire(&["load", "http://127.0.0.1:9/", "--agents", &list, "-n", "1", "-c", "1"]);
    assert_refused(&output, 1, "it is anywire 9.9.9 (protocol 2), and this is anywire ");
    assert!(stderr(&output).contains("run the same version on all machines"), "{}", stderr(&output));
    later.join().expect("it was greeted");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for arguments in [
        &["load", "h", "--index", "0"][..],
        &["load", "h", "--of", "2"],
        &["load", "h", "--index", "2", "--of", "2", "--coordinator", "h:1"],
        &["load", "h", "--agents", "f", "--index", "0", "--of", "1", "--coordinator", "h:1"],
        &["load", "--agent", "127.0.0.1:0", "--agents", "f"],
        &["load"],
    ] {
        assert_eq!(anywire(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// Each machine with a network of its own, joined by a bridge, and the clock of one an hour ahead of the others'.
#[test]
fn machines_of_their_own_load_one_server() {
    if !has("unshare") || !has("ip") {
        return;
    }
    let of_its_own = ["--user", "--map-root-user", "--net", "--mount"];
    let can = Command::new("unshare").args(of_its_own).args(["sh", "-c", MACHINES_CAN]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "namespaces are needed: {can:?}");
        return crate::skipped::say("this user can make no machines of their own");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("unshare");
    let command = command.args(of_its_own).args(["sh", "-c", MACHINES, env!("CARGO_BIN_EXE_anywire")]);
    let output = command.arg(dir.path()).stdin(Stdio::null()).output().expect("it was found before");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let outcome = outcome(&output);
    assert_eq!((outcome.totals.measured.answered, outcome.agents.len()), (4000, 4), "{}", stderr(&output));
    let hosts = outcome.agents.iter().map(|agent| agent.answered).collect::<Vec<_>>();
    assert_eq!(hosts, [Some(1000); 4]);
}

/// What the script below needs of the system.
const MACHINES_CAN: &str = "
    ip link add bridge type bridge && ip link set bridge up &&
    unshare --net sh -c 'ip link set lo up' && unshare --time --monotonic 3600 true";

/// A bridge, a server at it, and four machines of which the last has a clock that is an hour ahead.
const MACHINES: &str = r#"
    set -e
    ip link set lo up
    ip link add bridge type bridge && ip addr add 10.9.0.1/24 dev bridge && ip link set bridge up
    mkfifo "$1/listening"
    "$0" serve --loops 1 --listen tcp:10.9.0.1:8080 > "$1/listening" & server=$!
    read -r line < "$1/listening"
    machine() {
        later=; [ "$1" = 3 ] && later="--time --monotonic 3600"
        mkfifo "$2/up$1"
        unshare --net $later sh -c 'echo up > "$1"; while ! ip link show eth0 > /dev/null 2>&1; do :; done
            ip link set lo up; ip addr add "$2" dev eth0; ip link set eth0 up; shift 2; exec "$@"' \
            machine "$2/up$1" "10.9.0.$((10 + $1))/24" "$0" load http://10.9.0.1:8080/ -c 4 -n 4000 --loops 1 \
            --index "$1" --of 4 --coordinator tcp:10.9.0.10:7117 --json "$2/$1.json" > "$2/$1.out" 2>&1 &
        pid=$!
        read -r up < "$2/up$1"
        ip link add "veth$1" type veth peer name eth0 netns "$pid"
        ip link set "veth$1" master bridge up
        pids="$pids $pid"
    }
    for index in 0 1 2 3; do machine $index "$1"; done
    for pid in $pids; do wait "$pid" || { cat "$1"/*.out >&2; exit 1; }; done
    kill $server
    cat "$1/0.json"
"#;

/// A message as leaders and agents send it.
fn send(peer: &mut TcpStream, json: &str) {
    let frame = [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat();
    peer.write_all(&frame).expect("the leader reads");
}

fn receive(peer: &mut TcpStream) -> serde_json::Value {
    let mut length = [0; 4];
    peer.read_exact(&mut length).expect("the leader sends");
    let mut json = vec![0; u32::from_be_bytes(length) as usize];
    peer.read_exact(&mut json).expect("the leader sends");
    serde_json::from_slice(&json).expect("it is JSON")
}
