//! `anywire lab swarm`: every payload arrives as it was sent, in each mode and over a bad network. The JSON has all its keys.
//! A plan that is impossible is refused before it starts.

use crate::common::{anywire, assert_refused, stderr, stdout, text};
use serde_json::Value;

/// Runs a few connections for a moment, and gives the result as JSON.
#[track_caller]
fn swarm(args: &[&str]) -> Value {
    let args = [&["swarm", "--duration", "300ms", "--warm-up", "0s", "--json", "-"], args].concat();
    let output = anywire(&args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    let outcome: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(outcome["corrupt"], 0, "{outcome}");
    assert!(outcome["echoes"].as_u64() > Some(0), "{outcome}");
    outcome
}

/// The same, until a run is not held up by a busy machine for a retransmission timeout, 200 ms at least: such a run rightly sends again.
#[track_caller]
fn undisturbed(args: &[&str]) -> Value {
    let mut runs = (0..100).map(|_| swarm(args));
    let is_undisturbed = |outcome: &Value| outcome["max_us"].as_f64() < Some(190_000.0);
    runs.find(is_undisturbed).expect("one of a hundred runs is not held up")
}

const MODES: [&str; 5] = ["echo", "push", "group", "short", "http"];

#[test]
fn each_mode_verifies_and_names_its_figures() {
    for mode in MODES {
        let outcome = undisturbed(&["-c", "100", "--mode", mode]);
        for key in [
            "echoes_per_second",
            "frames_per_second",
            "ns_per_echo",
            "bytes_per_endpoint",
            "p50_us",
            "p99_us",
            "p9999_us",
            "max_us",
            "longest_gap_ratio",
            "segments_per_echo",
        ] {
            assert!(outcome[key].as_f64() > Some(0.0), "{mode}: {key} in {outcome}");
        }
        assert_eq!((&outcome["endpoints"], &outcome["retransmits"]), (&200.into(), &0.into()), "{outcome}");
        assert!(outcome["starved"].is_u64() && outcome["checksum"] == true, "{mode}: {outcome}");
        assert!(outcome["model_echoes_per_second"].is_null(), "it is the bench that measures the model");
        // Each short connection has one echo, so there is nothing to compare.
        assert_eq!(outcome["jain"].is_null(), mode == "short", "{outcome}");
        assert_eq!(outcome["short"].is_null(), mode != "short", "{outcome}");
        assert!(
            ["huge", "mixed", "small"].iter().any(|pages| outcome["memory"]["pages"] == *pages),
            "{outcome}"
        );
    }
}

#[test]
fn each_mode_stands_losses() {
    for mode in MODES {
        let outcome = swarm(&["-c", "50", "--mode", mode, "--loss", "0.02"]);
        assert!(outcome["retransmits"].as_u64() > Some(0), "{mode}: {outcome}");
    }
}

#[test]
fn payloads_of_any_length_that_makes_one_segment_are_verified() {
    for bytes in ["8", "9", "233", "1448"] {
        assert_eq!(swarm(&["-c", "20", "--payload", bytes])["payload_bytes"].to_string(), bytes);
    }
    swarm(&["-c", "20", "--payload", "1288", "--mode", "http"]);
    for bytes in ["8", "1448"] {
        swarm(&["-c", "20", "--payload", bytes, "--mode", "group"]);
    }
}

#[test]
fn without_timestamps_a_segment_carries_twelve_bytes_more() {
    let outcome = swarm(&["-c", "20", "--payload", "1460", "--no-timestamps"]);
    assert_eq!((&outcome["timestamps"], &outcome["payload_bytes"]), (&false.into(), &1460.into()));
    // One each way: among so few, the next request carries the acknowledgment.
    assert!(outcome["segments_per_echo"].as_f64() < Some(2.1), "{outcome}");
    for mode in MODES {
        swarm(&["-c", "20", "--no-timestamps", "--mode", mode, "--loss", "0.01"]);
    }
}

#[test]
fn connections_have_keep_alive_and_an_idle_deadline() {
    let outcome = swarm(&["-c", "100", "--keep-alive", "90s", "--idle-deadline", "1m"]);
    assert_eq!(
        (&outcome["keep_alive_seconds"], &outcome["idle_deadline_seconds"]),
        (&90.0.into(), &60.0.into()),
        "{outcome}"
    );
    // Nobody was silent for so long.
    assert_eq!(outcome["keep_alive_probes"], 0, "{outcome}");
    let without = swarm(&["-c", "100"]);
    assert!(without["keep_alive_seconds"].is_null() && without["timestamps"] == true, "{without}");
    // Both are kept beside the connections, and take nothing in the task.
    let bytes = |outcome: &Value, of: &str| outcome["memory"][of].as_u64();
    assert!(bytes(&outcome, "others_bytes") > bytes(&without, "others_bytes"), "{outcome}");
    assert_eq!(bytes(&outcome, "server_task_bytes"), bytes(&without, "server_task_bytes"));
    for mode in MODES {
        swarm(&["-c", "20", "--keep-alive", "1s", "--mode", mode]);
    }
}

#[test]
fn a_message_to_the_group_reaches_all_connections() {
    for count in ["1", "2", "17", "1025"] {
        let outcome = swarm(&["-c", count, "--mode", "group"]);
        let completions = |key: &str| outcome["completions"][key].as_u64().expect("a number");
        // Two messages are under way, and the measured part may begin or end within both.
        assert!(completions("max") - completions("min") <= 4, "{outcome}");
    }
}

#[test]
fn with_two_segments_the_acknowledgment_rides_on_the_next_request() {
    let outcome = swarm(&["-c", "3000", "--segments", "2", "--no-checksum", "--order", "sequential"]);
    let number = |key: &str| outcome[key].as_f64().expect("a number");
    // Frames in flight when the measured part begins and ends are not those of its echoes: a batch or two.
    let stray_frames = (number("segments_per_echo") - 2.0) * number("echoes");
    assert!(stray_frames.abs() <= 256.0, "{outcome}");
    assert_eq!((&outcome["checksum"], &outcome["order"]), (&false.into(), &"sequential".into()));
}

#[test]
fn any_number_of_connections_starts() {
    for count in ["1", "2", "15", "16", "17", "65", "1025"] {
        let outcome = swarm(&["-c", count]);
        assert_eq!(outcome["connections"].to_string(), count);
        assert!(outcome["completions"]["min"].as_u64() > Some(0), "somebody was left behind: {outcome}");
    }
}

#[test]
fn short_connections_name_their_time_wait() {
    let outcome = swarm(&["-c", "10", "--mode", "short", "--time-wait", "3s"]);
    let short = &outcome["short"];
    assert_eq!(short["time_wait_seconds"], 3.0, "{outcome}");
    assert!(short["time_waits"].as_u64() > Some(0), "{outcome}");
}

#[test]
fn the_table_goes_to_stdout_and_the_json_to_a_file() {
    let dir = tempfile::tempdir().expect("a directory for the results");
    let (json, pcap) = (dir.path().join("swarm.json"), dir.path().join("frames.pcap"));
    let output = anywire(&[
        "swarm",
        "-c",
        "10",
        "--keep-alive",
        "1m",
        "--duration",
        "50ms",
        "--json",
        text(&json),
        "--capture",
        text(&pcap),
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    for word in
        ["echo over 10 connections", "rate", "latency", "fairness", "verified", "keep-alive", "memory"]
    {
        assert!(stdout(&output).contains(word), "{word} in {}", stdout(&output));
    }
    let outcome = std::fs::read_to_string(&json).expect("the JSON was written");
    let outcome: Value = serde_json::from_str(&outcome).expect("it is JSON");
    assert_eq!(outcome["schema"], "anywire.swarm/1");
    let capture = std::fs::read(&pcap).expect("the capture was written");
    assert!(capture.starts_with(&0xa1b2_c3d4_u32.to_le_bytes()) && capture.len() > 1000);
}

#[test]
fn what_cannot_be_is_refused_before_it_starts() {
    let refused = |args: &[&str]| anywire(&[&["swarm"], args].concat());
    let output = refused(&["-c", "200000000", "--segments", "2", "--payload", "1000"]);
    assert_refused(&output, 1, "200,000,000 connections: both ends need");
    assert!(stderr(&output).contains("--connections"), "{}", stderr(&output));
    assert_refused(&refused(&["--payload", "1449"]), 2, "1449 bytes");
    assert_refused(&refused(&["--payload", "7"]), 2, "7 bytes");
    assert_refused(&refused(&["--mode", "http", "--payload", "1400"]), 2, "1400 bytes");
    assert_refused(&refused(&["--segments", "2", "--loss", "0.1"]), 2, "2 segments");
    assert_refused(&refused(&["--mode", "push", "--idle-deadline", "1m"]), 2, "idle deadline");
    assert_refused(&refused(&["--payload", "1461", "--no-timestamps"]), 2, "1461 bytes");
    assert_refused(&refused(&["--core", "9999"]), 2, "core 9999");
    assert_refused(
        &refused(&["-c", "10", "--capture", "/nonexistent/frames.pcap"]),
        23,
        "/nonexistent/frames.pcap",
    );
}

#[test]
fn the_executor_alone_is_measured() {
    let args = ["swarm", "tasks", "--count", "10000", "--duration", "10ms", "--json", "-"];
    let output = anywire(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let outcome: Value = serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    assert_eq!(outcome["tasks"], 10_000);
    for key in ["switches_per_second", "switches_per_second_random", "wakes_per_second", "bytes_per_task"] {
        assert!(outcome[key].is_f64(), "{key}: {outcome}");
    }
    let output = anywire(&["swarm", "tasks", "--count", "4000000000"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("GB of memory") && said.contains("--count "), "{said}");
}
