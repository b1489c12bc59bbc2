//! A slow request, and quick ones on other connections beside it: does the slow one hold them up?
//!
//! A handler that blocks its event loop holds up every connection of that loop. With sixteen connections some share the loop of
//! the slow one, unless the server has far more loops than that.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anywire_http::Method;

use super::super::link::Fault;
use super::super::measures::SlowPath;
use super::super::spread::{Spread, micros};
use super::super::target::Target;

/// Makes them. `path` is that of the slow request.
pub(crate) async fn slow_path(target: &Rc<Target>, path: &str) -> Result<SlowPath, Fault> {
    let mut slow = target.open().await?;
    let mut lines = Vec::new();
    for _ in 0..CONNECTIONS {
        lines.push(target.open_and_get().await?);
    }
    let question = target.get();
    let mut alone = Vec::new();
    for line in &mut lines {
        alone.push(line.exchange(&question, target.patience()).await?.latency());
    }

    let long = target.question(&Method::GET, path, &[]);
    let sent_at = slow.send(&long, target.patience()).await?;
    let quick: Vec<_> = lines
        .into_iter()
        .map(|mut line| {
            let (target, question) = (Rc::clone(target), question.clone());
            anywire_loops::spawn(async move {
                // The slow handler has begun by then.
                tokio::time::sleep(HEAD_START).await;
                let answer = line.exchange(&question, target.patience()).await;
                answer.map(|answer| (answer.sent_at, answer.ended_at))
            })
        })
        .collect();
    let answer = slow.receive(&long, sent_at, target.patience()).await?;
    let mut beside = Vec::new();
    for task in quick {
        // One that panicked, which the loop has logged, tells nothing.
        if let Ok(times) = task.await {
            beside.push(times?);
        }
    }
    let slow_time = answer.latency();
    // Those alone that were sent while the slow one was under way.
    beside.retain(|(sent, _)| *sent < answer.ended_at);
    Ok(SlowPath {
        path: path.to_owned(),
        slow: micros(slow_time),
        connections: beside.len(),
        alone: Spread::of(alone),
        beside: Spread::of(beside.iter().map(|(sent, ended)| ended.saturating_duration_since(*sent))),
        held_up: beside.iter().filter(|times| is_held_up(**times, slow_time)).count(),
    })
}

/// Whether a quick request waited for at least half of the time of the slow one.
fn is_held_up((sent, ended): (Instant, Instant), slow: Duration) -> bool {
    ended.saturating_duration_since(sent) * 2 >= slow
}

/// Quick requests beside the slow one, each on a connection of its own.
const CONNECTIONS: usize = 16;
/// Between the slow request and the quick ones.
const HEAD_START: Duration = Duration::from_millis(20);
