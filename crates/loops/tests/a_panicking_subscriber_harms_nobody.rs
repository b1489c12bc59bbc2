//! The subscriber that gets the log of a panic is code of a user, too: if it panics itself, the loop goes on.

use std::sync::atomic::{AtomicUsize, Ordering};

use anywire_loops::{LoopState, Loops, TaskError};
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
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    for _ in 0..3 {
        let task = one.spawn(|| async { panic!("on purpose") });
        assert_eq!(task.wait(), Err::<(), _>(TaskError::Panicked("on purpose".into())));
    }
    assert_eq!(one.spawn(|| async { 7 }).wait(), Ok(7));
    assert_eq!(EVENTS.load(Ordering::SeqCst), 3);
    assert_eq!(one.state(), LoopState::Running);
}
