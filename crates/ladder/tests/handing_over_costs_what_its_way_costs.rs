//! Each way of handing a job over makes the system calls that it is about, and no other.
//!
//! Where the system does not let us count, the test says why and passes, except under `CI`, where it fails.

#[path = "../../sys/tests/behaviours/skipped/mod.rs"]
mod skipped;

use std::time::Duration;

use anywire_ladder::hand_over::{Error, HandOver, Options, Way, measure};

fn options(in_flight: &[usize]) -> Options {
    // Long enough for two spinning threads to meet on cores that others use, too.
    let duration = Duration::from_millis(250);
    Options { in_flight: in_flight.to_vec(), duration, syscall_duration: duration }
}

#[test]
fn every_way_is_measured_and_makes_its_own_calls() {
    let mut announced = Vec::new();
    let all = measure(&options(&[1, 100]), || false, |way, in_flight| announced.push((way, in_flight)))
        .expect("it runs");
    let rows: Vec<_> = all.rows.iter().map(|row| (row.way, row.in_flight)).collect();
    assert_eq!(announced, rows);
    let ways = if all.cores.is_some() { 4 } else { 3 };
    assert_eq!(rows.len(), 2 * ways, "{:?}", all.notes);
    for row in &all.rows {
        assert!(row.hand_overs_per_second > 0.0 && row.cpu_us_per_hand_over > Some(0.0), "{row:?}");
        assert!(row.p50_us.is_some() && row.p50_us <= row.p99_us && row.p99_us <= row.max_us, "{row:?}");
    }
    if let Some(why_not) = all.notes.iter().find(|note| note.contains("cannot count")) {
        assert!(std::env::var_os("CI").is_none(), "{why_not}");
        skipped::say(why_not);
        return;
    }
    let row = |way, in_flight| {
        let found = all.rows.iter().find(|row| (row.way, row.in_flight) == (way, in_flight));
        found.expect("it was measured")
    };
    let calls = |row: &HandOver| row.syscalls_per_hand_over.expect("they are counted");
    for in_flight in [1, 100] {
        let named = row(Way::Pipe, in_flight).syscalls_by_name.as_ref().expect("they are counted");
        // The counters of the two threads are enabled one after the other.
        assert!((0.8..1.2).contains(&named["read"]) && (0.8..1.2).contains(&named["write"]), "{named:?}");
        assert!(calls(row(Way::Futex, in_flight)) > 0.8, "{:?}", row(Way::Futex, in_flight));
        let futexes = row(Way::Futex, in_flight).syscalls_by_name.as_ref().expect("they are counted");
        assert!(futexes.keys().all(|name| ["futex", "other"].contains(&name.as_str())), "{futexes:?}");
        if all.cores.is_some() {
            assert!(calls(row(Way::Spin, in_flight)) < 0.1, "{:?}", row(Way::Spin, in_flight));
        }
    }
    // Most jobs meet a taker that is awake.
    assert!(calls(row(Way::FutexIfAsleep, 100)) < 0.8 * calls(row(Way::Futex, 100)));
}

#[test]
fn more_jobs_than_a_pipe_holds_are_refused() {
    for wrong in [0, Options::IN_FLIGHT_MAX + 1] {
        let error = measure(&options(&[1, wrong]), || false, |_, _| panic!("nothing is measured"))
            .expect_err("out of range");
        assert!(matches!(error, Error::InFlight(found) if found == wrong), "{error}");
        assert!(error.to_string().contains("1 to 4096"), "{error}");
    }
}
