//! The figures of each command agree with each other: wholes with their parts, rates with times and counts. Also in what an early
//! end leaves. The rules are in `common/figures.rs`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Served, anywire, command, ended_at_its_first_word, stderr, stdout, text};
use crate::figures::Checker;
use crate::random::{Random, for_each_seed};

#[test]
fn in_whole_runs_and_in_runs_that_are_ended_early() {
    for_each_seed(1, |seed| {
        let parts: [fn(&mut Checker, Random); 5] = [loads, schedules, datagrams, rows, ends];
        let mut random = Random::new(seed);
        let mut all = Checker::default();
        thread::scope(|scope| {
            let running = parts.map(|part| {
                let random = random.split();
                scope.spawn(move || {
                    let mut checker = Checker::default();
                    part(&mut checker, random);
                    checker
                })
            });
            running.into_iter().for_each(|part| all.merge(part.join().expect("it was checked")));
        });
        assert!(all.faults.is_empty(), "{}", all.faults.join("\n"));
        assert!(all.unused().is_empty(), "no result has the figures of {:#?}", all.unused());
    });
}

/// Runs a command to its end, and checks its JSON.
fn run(checker: &mut Checker, args: &[&str]) -> Value {
    let output = anywire(&[args, &["--json", "-"]].concat());
    let result = serde_json::from_str(&stdout(&output));
    let result = result.unwrap_or_else(|_| panic!("{args:?} has no JSON: {}", stderr(&output)));
    checker.check(args, &result);
    result
}

/// HTTP over each wire, in both versions, by time and by number, with good answers and bad ones.
fn loads(checker: &mut Checker, mut random: Random) {
    let folder = tempfile::tempdir().expect("a folder for sockets");
    let [unix, shm] = ["unix", "shm"].map(|wire| format!("{wire}:{}/{wire}.sock", text(folder.path())));
    let served = Served::on(&["tcp:127.0.0.1:0", &unix, &shm], &[]);
    let mut pick = |all: &[&'static str]| all[random.below(all.len() as u64) as usize];
    for (wire, way) in [(0, "-d"), (1, "-d"), (2, "-d"), (0, "-n"), (1, "-n"), (2, "-n")] {
        for protocol in ["--depth", "--streams"] {
            let mut args = vec!["load", pick(&["/", "/json", "/nothing"]), "--via", served.address(wire)];
            args.extend(["-c", pick(&["1", "3", "20"]), "--loops", pick(&["1", "2", "3"])]);
            args.extend(["--warm-up", pick(&["0s", "30ms"]), protocol, pick(&["1", "4", "50"])]);
            args.extend([way, if way == "-d" { "100ms" } else { pick(&["1", "7", "500"]) }]);
            args.extend((protocol == "--streams").then_some("--http2"));
            args.extend(pick(&["", "--timeout=1ms"]).split_terminator(' '));
            run(checker, &args);
        }
    }
    // Each place for a request is taken all the time, and what is on its way at the end began in it.
    let args = ["load", &served.url("/"), "-c", "3", "-d", "200ms", "--warm-up", "50ms", "--loops", "1"];
    let result = run(checker, &args);
    let rule = "2.85e6 * rate.seconds <= latency.send.mean * latency.send.count + 3 * latency.send.max \
                + totals.unanswered_at_end * totals.oldest_unanswered_us";
    checker.holds(&args, &result, rule);
    let args = ["load", &served.url("/echo"), "-n", "50", "-c", "2", "--data", "hello"];
    let result = run(checker, &args);
    checker.holds(&args, &result, "totals.bytes_out = plan.request_bytes * totals.sent");
    let args = ["load", &served.url("/"), "-n", "50", "-c", "2", "-H", "Connection: close"];
    let result = run(checker, &args);
    checker.holds(&args, &result, "totals.connections.opened = 50");
}

/// HTTP by a schedule, and what is made of several loads.
fn schedules(checker: &mut Checker, mut random: Random) {
    let served = Served::demo();
    let url = served.url("/");
    let mut pick = |all: &[&'static str]| all[random.below(all.len() as u64) as usize];
    for requests in ["1", "2", "3", pick(&["7", "40"])] {
        let mut args = vec!["load", &url, "--rate", pick(&["20", "50"]), "-n", requests];
        args.extend([
            "-c",
            pick(&["1", "3"]),
            "--loops",
            pick(&["1", "2"]),
            "--warm-up",
            pick(&["0s", "30ms"]),
        ]);
        args.extend(pick(&["", "--jitter", "--http2"]).split_terminator(' '));
        run(checker, &args);
    }
    let short = ["-d", "150ms", "-c", "3", "--warm-up", "20ms", "--loops", pick(&["1", "2"])];
    for schedule in [
        &["--rate", "10", pick(&["--jitter", "--poisson"])][..],
        &["--rate", "1k", "--deadline", "50ms"],
        &["--rate", "100", "--rounds", "2"],
        &["--ramp", "100:1k"],
        &["--step", "100:1k:3"],
    ] {
        let args = [&["load", &url], schedule, &short].concat();
        let result = run(checker, &args);
        if result["steps"][0].is_object() {
            checker.holds(&args, &result, "rate.intended = steps.*.intended");
            checker.holds(&args, &result, "totals.sent = steps.*.sent");
        }
    }
    let search = ["load", &url, "--search", "--rate", "200", "-d", "100ms", "-c", "3", "--warm-up", "0s"];
    run(checker, &search);
    let turns =
        ["--rounds", "5", "-d", "40ms", "--turn", "20ms", "--warm-up", "0", "-c", "2", "--loops", "1"];
    for rate in [&[][..], &["--rate", "100"]] {
        run(checker, &[&["ab", &url, &url], &turns[..], rate].concat());
    }
    run(
        checker,
        &["compare", "--wires", "tcp", "--rounds", "1", "--quick", "--duration", "150ms", "--rate", "200"],
    );
    run(checker, &["pipe", &url, "-c", pick(&["1", "3"]), "-n", "50", "--reconnect", pick(&["7", "50"])]);
}

/// Datagrams at several rates, to a service and to nobody.
fn datagrams(checker: &mut Checker, mut random: Random) {
    let mut service = command()
        .args(["udp", "serve", "--listen", "udp:127.0.0.1:0", "--loops", "2", "--json", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command starts");
    let mut said = BufReader::new(service.stderr.take().expect("it was asked for"));
    let address = line_with(&mut said, "receiving on ");
    let address = address.trim().rsplit(' ').next().expect("an address");
    let nobody = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let nobody = format!("udp:{nobody}");
    for (target, rate) in [(address, "5"), (address, "500"), (address, "20000"), (nobody.as_str(), "100")] {
        let loops = if random.once_in(2) { "1" } else { "2" };
        let args = ["udp", "load", target, "--rate", rate, "--duration", "300ms", "--wait", "100ms"];
        run(checker, &[&args[..], &["--loops", loops, "--flows", "5"]].concat());
    }
    kill_process(Pid::from_child(&service), Signal::TERM).expect("it runs");
    let output = service.wait_with_output().expect("it ends");
    let counted: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    checker.check(&["udp", "serve"], &counted);
}

/// What measures row by row, and swarms.
fn rows(checker: &mut Checker, mut random: Random) {
    let short = ["--quick", "--duration", "150ms", "-c", "5"];
    run(checker, &[&["compare", "--wires", "limit,unix", "--rounds", "2"], &short[..]].concat());
    run(
        checker,
        &[&["compare", "--wires", "tcp", "--rounds", "1", "--protocols", "h2"], &short[..]].concat(),
    );
    run(checker, &[&["ladder", "--rungs", "epoll,blocking", "--rounds", "1"], &short[..]].concat());
    run(checker, &["ladder", "--rungs", "hand-over", "--quick"]);
    run(checker, &["ipc", "--ways", "tcp,pipe,unix-loop,shm-loop", "--sizes", "1,1k", "--duration", "20ms"]);
    for mode in ["echo", "push", "group", "short", "http"] {
        let loss = if random.once_in(2) { "0.01" } else { "0" };
        let connections = if random.once_in(2) { "1" } else { "200" };
        let args = ["swarm", "--mode", mode, "--duration", "100ms", "--warm-up", "20ms", "--loss", loss];
        run(checker, &[&args[..], &["-c", connections]].concat());
    }
    run(checker, &["swarm", "tasks", "-n", "1000", "--duration", "20ms"]);
}

/// Each ends at SIGINT, as soon as it is under way. What ran is told, and not what was planned.
fn ends(checker: &mut Checker, _: Random) {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = silent.local_addr().expect("it is bound").to_string();
    for args in [
        &["load", &silent, "-d", "1h", "-c", "3"][..],
        &["pipe", &silent, "-c", "1", "--timeout", "1h"],
        &["compare", "--wires", "limit,tcp", "--quick"],
        &["ladder", "--rungs", "epoll,poll", "--quick"],
        &["ladder", "--rungs", "hand-over"],
        &["ipc", "--ways", "unix,tcp-loop", "--duration", "60s"],
        &["udp", "load", "udp:127.0.0.1:9", "--duration", "1h", "--rate", "10"],
        &["swarm", "tasks", "-n", "1000"],
    ] {
        let output = ended_at_its_first_word(args, Signal::INT);
        of_an_early_end(checker, args, &output);
    }
    for warm_up in ["0s", "1h"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let args = ["load", &url, "-d", "1h", "-c", "1", "--warm-up", warm_up];
        let child = begin(&args);
        let (mut peer, _) = listener.accept().expect("it connects");
        for _ in 0..3 {
            assert!(peer.read(&mut [0; 4096]).expect("it sends") > 0);
            peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("it reads");
        }
        assert!(peer.read(&mut [0; 4096]).expect("it sends") > 0);
        let result = interrupted(checker, &args, child);
        checker.holds(&args, &result, "rate.seconds <= 600");
        checker.holds(&args, &result, "totals.answered + totals.warm_up.answered = 3");
        checker.holds(&args, &result, "totals.unanswered_at_end + totals.warm_up.unanswered_at_end = 1");
    }
    // By a schedule, between two of its requests.
    for schedule in [&["--rate", "1"][..], &["--rate", "2", "-n", "100"]] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let time = if schedule.contains(&"-n") { &[][..] } else { &["-d", "1h"] };
        let args = [&["load", &url, "-c", "1", "--warm-up", "0s"], schedule, time].concat();
        let child = begin(&args);
        let (mut peer, _) = listener.accept().expect("it connects");
        assert!(peer.read(&mut [0; 4096]).expect("it sends") > 0);
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("it reads");
        let result = interrupted(checker, &args, child);
        checker.holds(&args, &result, "rate.seconds <= 600");
    }
    for search in [&[][..], &["--search", "0"]] {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let target = format!("udp:{}", socket.local_addr().expect("it is bound"));
        let args = [&["udp", "load", &target, "--rate", "100", "--duration", "1h"], search].concat();
        let child = begin(&args);
        for _ in 0..3 {
            socket.recv(&mut [0; 2048]).expect("it sends");
        }
        let result = interrupted(checker, &args, child);
        // What was cut has shown nothing of its rate.
        assert!(search.is_empty() || result["trials"][0]["held"].is_null(), "{result}");
        if search.is_empty() {
            checker.holds(&args, &result, "rate.seconds <= 600");
            checker.holds(&args, &result, "0.5 * plan.datagrams_per_second <= rate.sent");
        }
    }
    let args = ["swarm", "-c", "100", "--duration", "1h", "--warm-up", "0s"];
    let mut child = begin(&args);
    line_with(&mut BufReader::new(child.stderr.take().expect("it was asked for")), "measuring");
    let result = interrupted(checker, &args, child);
    checker.holds(&args, &result, "seconds <= 600");
}

fn begin(args: &[&str]) -> Child {
    let mut command = command();
    let command = command.args(args).args(["--json", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the built command starts")
}

/// The result of a command that is interrupted now.
fn interrupted(checker: &mut Checker, args: &[&str], child: Child) -> Value {
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    of_an_early_end(checker, args, &output)
}

/// The result, which has to say that it is of a part.
fn of_an_early_end(checker: &mut Checker, args: &[&str], output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(130), "{args:?}: {}", stderr(output));
    let result: Value = serde_json::from_str(&stdout(output)).expect("the result is JSON alone");
    assert!(result["interrupted"] == true || result["rate"]["interrupted"] == true, "{args:?}: {result}");
    checker.check(args, &result);
    result
}

/// The first line with these words.
fn line_with(said: &mut impl BufRead, words: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).expect("it says text") > 0, "it ended without {words:?}");
        if line.contains(words) {
            return line;
        }
    }
}
