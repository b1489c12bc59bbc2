//! Each system call is counted under its name, also in threads that are started later.
//!
//! If the system does not let us count, the test says why and passes, except under `CI`, where it fails.

use std::fs;
use std::io::Read;

use anywire_sys::cpu;
use anywire_sys::syscalls::CallsByName;

fn counter_of(tid: i32) -> Option<CallsByName> {
    match CallsByName::for_thread(tid) {
        Ok(counter) => Some(counter),
        Err(why_not) => {
            assert!(std::env::var_os("CI").is_none(), "{why_not}");
            crate::skipped::say(why_not);
            None
        }
    }
}

fn read_zeros(times: u64) {
    let mut zeros = fs::File::open("/dev/zero").expect("every Linux has it");
    (0..times).for_each(|_| zeros.read_exact(&mut [0]).expect("zeros never end"));
}

#[test]
fn own_calls_have_their_names() {
    let Some(mut counter) = counter_of(cpu::thread_id()) else { return };
    for times in [0, 1, 100] {
        counter.enable().expect("the counters are open");
        read_zeros(times);
        counter.disable().expect("the counters are open");
        let calls = counter.read().expect("the counters are open");
        assert_eq!(calls.get("read").copied().unwrap_or(0), times, "{calls:?}");
        // Opening the file, the call that disables the counters, and perhaps one for memory.
        assert!(calls["close"] == 1 && (2..=4).contains(&calls["other"]), "{calls:?}");
        assert!(!calls.contains_key("sendto"), "{calls:?}");
        assert_eq!(counter.read().expect("the counters are open"), calls, "disabled, it stands still");
    }
}

#[test]
fn threads_that_are_started_later_count_too() {
    let Some(mut counter) = counter_of(cpu::thread_id()) else { return };
    for _ in 0..2 {
        counter.enable().expect("the counters are open");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| read_zeros(1000));
            }
        });
        counter.disable().expect("the counters are open");
        let calls = counter.read().expect("the counters are open");
        assert!((3000..3100).contains(&calls["read"]), "{calls:?}");
    }
}
