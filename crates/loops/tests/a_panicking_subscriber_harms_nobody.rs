//! The subscriber that gets the log of a panic is code of a user, too: if it panics itself, the loop goes on.

#[path = "behaviours/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anywire_loops::{Limits, LoopState, Loops, TaskError};
use common::{Blocked, eventually};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Panics at each event, with a payload that panics again when it is dropped.
struct Panicking;

static EVENTS: AtomicUsize = AtomicUsize::new(0);

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("a payload, on purpose");
    }
}

impl Subscriber for Panicking {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        EVENTS.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any(Payload);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_panicking_subscriber_harms_nobody() {
    tracing::subscriber::set_global_default(Panicking).expect("nobody else has set one");
    // A slow machine may take longer than a stall to print a panic.
    let unwatched = Limits { stall_after: Duration::MAX, ..Limits::default() };
    let loops = Loops::builder().count(1).limits(unwatched).start().expect("one loop can be had");
    let one = loops.get(0);
    for _ in 0..3 {
        let task = one.spawn(|| async { panic!("on purpose") });
        assert_eq!(task.wait(), Err::<(), _>(TaskError::Panicked("on purpose".into())));
    }
    assert_eq!(one.spawn(|| async { 7 }).wait(), Ok(7));
    assert_eq!(EVENTS.load(Ordering::SeqCst), 3);
    assert_eq!(one.state(), LoopState::Running);
    // The thread that watches loops goes on, too: each loop that is blocked is warned of.
    let watched = Loops::start(3).expect("three loops can be had");
    for one in watched.iter() {
        let before = EVENTS.load(Ordering::SeqCst);
        let blocked = Blocked::new(&one);
        eventually("it is warned of", || EVENTS.load(Ordering::SeqCst) > before);
        blocked.free();
    }
}
