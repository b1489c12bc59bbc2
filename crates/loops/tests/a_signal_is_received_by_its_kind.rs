//! SIGINT and SIGTERM reach the task that registered for them, and the process lives on.

use anywire_loops::{Loops, Signal, Signals};
use rustix::process::{self, getpid, kill_process};

#[test]
fn both_signals_arrive_as_what_they_are() {
    let loops = Loops::start(1).expect("one loop starts");
    let received = loops.get(0).spawn(|| async {
        let mut signals = Signals::register()?;
        let mut received = Vec::new();
        for sent in [process::Signal::INT, process::Signal::TERM] {
            kill_process(getpid(), sent)?;
            received.push(signals.recv().await);
        }
        Ok::<_, std::io::Error>(received)
    });
    let received = received.wait().expect("the task ends by itself").expect("signals can be registered");
    assert_eq!(received, [Signal::Interrupt, Signal::Terminate]);
}
