//! Many connections at once: how long each takes to open, and how requests on them are answered.

use std::rc::Rc;
use std::time::Duration;

use anywire_loops::clock::precise;

use super::super::line::Line;
use super::super::link::{Fault, FaultKind};
use super::super::measures::Many;
use super::super::spread::{Spread, micros};
use super::super::target::Target;

/// What one connection has seen.
#[derive(Debug, Default)]
struct Seen {
    /// Still open.
    line: Option<Line>,
    connect: Option<Duration>,
    latencies: Vec<Duration>,
    failed: usize,
    failure: Option<Fault>,
}

/// Opens them, and makes requests on all of them side by side. The connections that are still open come with the figures: a server
/// with a thread for each would otherwise end its threads before anybody has seen what they used.
pub(crate) async fn many(target: &Rc<Target>) -> (Many, Vec<Line>) {
    let begun = precise();
    let tasks: Vec<_> = (0..target.plan.connections)
        .map(|_| {
            let target = Rc::clone(target);
            anywire_loops::spawn(async move { one(&target).await })
        })
        .collect();
    let mut seen = Vec::new();
    for task in tasks {
        // One that panicked, which the loop has logged, has seen nothing.
        seen.push(task.await.unwrap_or_default());
    }
    let time = begun.elapsed();
    let open = seen.iter_mut().filter_map(|seen: &mut Seen| seen.line.take()).collect();
    let connects = || seen.iter().filter_map(|seen| seen.connect);
    let latencies = || seen.iter().flat_map(|seen| seen.latencies.iter().copied());
    let many = Many {
        connections: target.plan.connections,
        opened: connects().count(),
        slow_connects: connects().filter(|connect| *connect >= SLOW_CONNECT).count(),
        connect: Spread::of(connects()),
        answered: latencies().count(),
        failed: seen.iter().map(|seen| seen.failed).sum(),
        first_failure: seen.iter().find_map(|seen| Some(seen.failure.as_ref()?.message.to_string())),
        latency: Spread::of(latencies()),
        time: micros(time),
    };
    (many, open)
}

async fn one(target: &Target) -> Seen {
    let begun = precise();
    let mut seen = Seen::default();
    let question = target.get();
    let mut line = None;
    while seen.latencies.len() < REQUESTS && seen.failed < FAILURES_MAX && !target.is_over(begun) {
        if line.is_none() {
            match target.open().await {
                Ok(opened) => {
                    seen.connect.get_or_insert(opened.connect());
                    line = Some(opened);
                }
                Err(fault) => {
                    seen.failed += 1;
                    seen.failure.get_or_insert(fault);
                    continue;
                }
            }
        }
        let Some(open) = &mut line else { continue };
        match open.exchange(&question, target.patience()).await {
            Ok(answer) => {
                seen.latencies.push(answer.latency());
                if !answer.keep_alive {
                    line = None;
                }
            }
            // It had been said, and costs another connection alone.
            Err(fault) if fault.kind == FaultKind::Left && open.answers() > 0 => line = None,
            Err(fault) => {
                seen.failed += 1;
                seen.failure.get_or_insert(fault);
                line = None;
            }
        }
    }
    seen.line = line;
    seen
}

/// Requests on each connection: with 32 connections they cost a fast server some 60 ms, which shows how its threads share them.
const REQUESTS: usize = 100;
/// Failures of one connection after which it is given up.
const FAILURES_MAX: usize = 2;
/// Linux sends a lost SYN again after one second.
const SLOW_CONNECT: Duration = Duration::from_millis(900);
