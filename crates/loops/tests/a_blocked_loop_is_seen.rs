//! A task that blocks its loop is seen while it does so: the loop counts as busy, the stall is counted, and a warning says what
//! the loop works on. Loops that sleep are left alone.

#[path = "behaviours/common/mod.rs"]
mod common;

use std::fmt::{self, Write};
use std::fs;
use std::sync::{Mutex, Once};
use std::time::Duration;

use anywire_loops::{Label, Limits, Loops};
use common::{Blocked, eventually};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

#[test]
fn a_loop_that_a_task_blocks_is_busy() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let blocked = Blocked::new(&one);
    eventually("it is busy while it is blocked", || one.counters().busy >= Duration::from_millis(300));
    let counters = one.counters();
    assert!(counters.cpu < Duration::from_millis(200), "it does not compute: {counters:?}");
    assert!(counters.busy <= counters.up && counters.busy_share() > 0.0, "{counters:?}");
    blocked.free();
    let freed = one.counters();
    assert!(freed.busy >= counters.busy, "and it was so: {freed:?}");
    loops.shutdown(Duration::ZERO).expect("not on a loop");
    let ended = one.counters();
    assert!(ended.busy >= freed.busy && ended.cpu < ended.busy, "{ended:?}");
}

#[test]
fn a_stall_is_counted_while_it_lasts_if_it_is_one() {
    let start = |stall_after| {
        let limits = Limits { stall_after, ..Limits::default() };
        Loops::builder().count(1).limits(limits).start().expect("one loop can be had")
    };
    let (watched, unwatched) = (start(Duration::from_millis(50)), start(Duration::MAX));
    for stalls in 1..=3 {
        let blocked = [&watched, &unwatched].map(|loops| Blocked::new(&loops.get(0)));
        eventually("it is counted", || watched.get(0).counters().stalls == stalls);
        let longest = watched.get(0).counters().longest_stall;
        assert!(longest >= Duration::from_millis(50), "{longest:?}");
        eventually("it grows", || watched.get(0).counters().longest_stall > longest);
        assert_eq!(watched.get(0).counters().stalls, stalls, "and is still the same one");
        blocked.into_iter().for_each(Blocked::free);
    }
    let counters = unwatched.get(0).counters();
    assert_eq!((counters.stalls, counters.longest_stall), (0, Duration::ZERO));
    assert!(counters.busy >= Duration::from_millis(100), "each turn counts once it is over: {counters:?}");
}

#[test]
fn a_warning_says_what_the_loop_works_on() {
    keep_log();
    let loops = Loops::start(3).expect("three loops can be had");
    let labels = [Some(Label::new("GET /blocks/{first}")), Some(Label::new("GET /blocks/{second}")), None];
    let blocked: Vec<_> = loops
        .iter()
        .zip(labels)
        .map(|(one, label)| Blocked::at_work(&one, label.unwrap_or(Label::NONE)))
        .collect();
    // While they are blocked.
    for (number, label) in labels.iter().enumerate() {
        eventually("it is warned of", || {
            let of_loop = format!(" loop_id={number} ");
            let name = label.map_or("a task blocks its loop".to_owned(), |label| format!("route={label} "));
            log(|lines| lines.iter().any(|line| line.contains(&of_loop) && line.contains(&name)))
        });
    }
    blocked.into_iter().for_each(Blocked::free);
    // Once a minute.
    for route in ["{first}", "{second}"] {
        assert_eq!(log(|lines| lines.iter().filter(|line| line.contains(route)).count()), 1);
    }
}

#[test]
fn a_loop_that_sleeps_is_not_woken_to_be_looked_at() {
    let loops = Loops::start(2).expect("two loops can be had");
    let (asleep, other) = (loops.get(0), loops.get(1));
    let falls_asleep = || {
        let status = format!("/proc/self/task/{}/status", asleep.thread_id());
        let status = fs::read_to_string(status).expect("the thread is there");
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
        line.expect("Linux counts them").to_owned()
    };
    // A slow machine may let it run on for long before it sleeps at all.
    eventually("it sleeps while the other one is looked at", || {
        let before = falls_asleep();
        let stalls = other.counters().stalls;
        let blocked = Blocked::new(&other);
        eventually("the other one was looked at", || other.counters().stalls > stalls);
        blocked.free();
        falls_asleep() == before
    });
}

fn log<R>(look: impl FnOnce(&[String]) -> R) -> R {
    look(&LINES.lock().expect("no panic under the lock"))
}

/// Keeps the warnings of this process.
fn keep_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keeper).expect("nobody else has set one"));
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().expect("no panic under the lock").push(line.0 + " ");
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The fields of an event as ` name=value`.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("memory takes it");
    }
}
