//! A long answer: read as fast as it comes, and by a reader that pauses while others ask.

use std::time::Duration;

use anywire_loops::clock::precise;

use super::super::link::{Fault, FaultKind};
use super::super::measures::{Large, SlowReader};
use super::super::spread::{Spread, median, micros};
use super::super::target::Target;

/// Whether an answer is long enough for these patterns: it fills a window.
pub(crate) fn is_large(body_bytes: u64) -> bool {
    body_bytes >= LARGE_BYTES
}

/// Reads a few of them as fast as they come.
pub(crate) async fn large(target: &Target) -> Result<Large, Fault> {
    let begun = precise();
    let question = target.get();
    let mut line = target.open().await?;
    let (mut rates, mut segments, mut expected, mut body_bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    while rates.len() < ANSWERS && (rates.is_empty() || !target.is_over(begun)) {
        let answer = line.exchange(&question, target.patience()).await?;
        rates.push(answer.bytes as f64 / answer.latency().as_secs_f64().max(1e-9));
        body_bytes = answer.body_bytes;
        if let Some(wire) = answer.on_wire {
            segments.push(f64::from(wire.segments));
            expected.push(f64::from(wire.expected));
        }
        if !answer.keep_alive {
            line = target.open().await?;
        }
    }
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    Ok(Large {
        body_bytes,
        answers: rates.len(),
        bytes_per_second: median(rates).unwrap_or(0.0),
        segments: mean(&segments),
        segments_expected: mean(&expected),
    })
}

/// Asks for one, reads nothing for a while, and makes quick requests on another connection meanwhile.
pub(crate) async fn slow_reader(target: &Target) -> Result<SlowReader, Fault> {
    let mut beside = target.open_and_get().await?;
    let mut slow = target.open().await?;
    let begun = precise();
    let long = target.get();
    let sent_at = slow.send(&long, target.patience()).await?;
    let quick = target.question(&anywire_http::Method::HEAD, target.path(), &[]);
    let mut others = Vec::new();
    while begun.elapsed() < PAUSE && !target.plan.stop.is_stopped() {
        let answer = beside.exchange(&quick, target.patience()).await?;
        others.push(answer.latency());
        if !answer.keep_alive {
            beside = target.open().await?;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    let pause = begun.elapsed();
    let rest = slow.receive(&long, sent_at, target.patience()).await;
    Ok(SlowReader {
        pause: micros(pause),
        complete: rest.is_ok(),
        cut: matches!(&rest, Err(fault) if fault.kind == FaultKind::Cut),
        failure: rest.err().map(|fault| fault.message.to_string()),
        others: Spread::of(others),
    })
}

/// More than the send and receive buffers of one connection hold at first, so that a window has to open.
const LARGE_BYTES: u64 = 256 << 10;
/// Answers that are read.
const ANSWERS: usize = 5;
/// How long nothing is read.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two quick requests.
const BETWEEN: Duration = Duration::from_millis(10);
