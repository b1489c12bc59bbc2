//! What a test's process logs, kept for its tests to look at.

use std::fmt::{self, Write};
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// One event: its level, and its fields as ` name=value`, the message among them.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// Begins to keep what this process logs, for all tests in it.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Keeper).expect("nobody else takes this process's log");
    });
}

/// The lines so far that hold `part`.
pub(crate) fn with(part: &str) -> Vec<Line> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| line.text.contains(part)).cloned().collect()
}

/// Waits until there is a line that holds `part`.
pub(crate) fn wait_for(part: &str) -> Line {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    // Far beyond what a slow machine needs: only a line that never comes reaches it.
    let waited = MORE.wait_timeout_while(lines, Duration::from_secs(60), |lines| {
        !lines.iter().any(|line| line.text.contains(part))
    });
    let (lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
    let found = lines.iter().find(|line| line.text.contains(part));
    found.cloned().unwrap_or_else(|| panic!("no line holds {part:?}: {lines:#?}"))
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("anywire")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let line = Line { level: *event.metadata().level(), text: text.0 };
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        MORE.notify_all();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("text is written to memory");
    }
}
