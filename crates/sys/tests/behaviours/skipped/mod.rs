//! Says that a test has nothing to do here, where its reader sees it.

use std::io::Write;

/// Prints the reason past the test harness, which shows what `println!` prints only if the test fails.
pub(crate) fn say(why: impl std::fmt::Display) {
    let test = std::thread::current();
    // If stderr is closed, the message is lost.
    let _ = writeln!(std::io::stderr(), "skipped {}: {why}", test.name().unwrap_or("a test"));
}
