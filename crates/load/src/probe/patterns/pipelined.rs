//! Several requests in one write: are all answered, in their order, and in how many segments?

use std::time::Instant;

use anywire_http::Method;
use anywire_loops::clock::precise;

use super::super::link::{Answer, Fault, FaultKind, Link, Wanted, on_wire};
use super::super::measures::Pipelining;
use super::super::spread::micros;
use super::super::target::Target;

/// Sends them. Two paths are asked for, whose answers can be told apart if the server has two answers at all.
pub(crate) async fn pipelined(target: &Target) -> Result<Pipelining, Fault> {
    let own = target.get().bytes;
    let mut link = target.open_http1().await?;
    link.ask(&own, Wanted::Get, target.patience()).await?;
    let other = target.question(&Method::GET, OTHER_PATH, &[]).bytes;
    let marks = marks(target, &own, &other).await;
    let count = target.plan.pipeline;
    let mut bytes = Vec::new();
    // Without a mark there is no reason to ask for the other path.
    let asks_other = |at: usize| marks.is_some() && PLACES & (1 << (at % 16)) != 0;
    (0..count).for_each(|at| bytes.extend_from_slice(if asks_other(at) { &other } else { &own }));

    let before = link.tcp();
    let sent_at = precise();
    let deadline = target.patience();
    link.send(&bytes, deadline).await?;
    let (answers, fault) = receive(&mut link, count, sent_at, deadline).await;
    let is_broken = fault.as_ref().is_some_and(|fault| fault.kind == FaultKind::Parse);
    let has_said = answers.last().is_some_and(|answer| !answer.keep_alive);
    let closed = answers.len() < count && (has_said || fault.as_ref().is_some_and(Fault::is_closed));
    let in_order = marks.map(|marks| {
        let expected = |(at, answer): (usize, &Answer)| marks.is_of_other(answer) == Some(asks_other(at));
        // Bytes that are no answers, or answers within others, have lost their order, too.
        !is_broken && answers.iter().enumerate().all(expected)
    });
    if answers.is_empty()
        && let Some(fault) = fault
    {
        return Err(fault);
    }
    let total = answers.iter().map(|answer| answer.bytes).sum();
    let came = before.zip(link.tcp()).map(|(before, after)| on_wire(&before, &after, total));
    Ok(Pipelining {
        requests: count,
        answered: answers.len(),
        supported: answers.len() == count,
        // One answer alone is in any order.
        in_order: in_order.filter(|_| answers.len() > 1),
        closed: closed.then_some(has_said),
        segments: came.map(|came| came.segments.into()),
        segments_expected: came.map(|came| came.expected.into()),
        reads: answers.iter().map(|answer| answer.reads).sum(),
        time: answers.last().map_or(0.0, |answer| micros(answer.latency())),
    })
}

async fn receive(
    link: &mut Link,
    count: usize,
    sent_at: Instant,
    deadline: Instant,
) -> (Vec<Answer>, Option<Fault>) {
    let mut answers = Vec::new();
    while answers.len() < count {
        match link.receive(Wanted::Get, sent_at, deadline).await {
            Ok(answer) => {
                let ends = !answer.keep_alive;
                answers.push(answer);
                if ends {
                    break;
                }
            }
            Err(fault) => return (answers, Some(fault)),
        }
    }
    (answers, None)
}

/// What tells answers of the two paths apart.
#[derive(Debug, Clone, Copy)]
struct Marks {
    own: (u16, Option<u64>),
    other: (u16, Option<u64>),
}

impl Marks {
    /// `None` for an answer of neither.
    fn is_of_other(&self, answer: &Answer) -> Option<bool> {
        let is = |mark: (u16, Option<u64>)| {
            mark.0 == answer.status.as_u16() && mark.1.is_none_or(|bytes| bytes == answer.body_bytes)
        };
        match (is(self.own), is(self.other)) {
            (true, false) => Some(false),
            (false, true) => Some(true),
            _ => None,
        }
    }
}

/// Asks for each path alone, twice, on a connection of its own. `None` if the answers are alike, or change.
async fn marks(target: &Target, own: &[u8], other: &[u8]) -> Option<Marks> {
    let mut link = target.open_http1().await.ok()?;
    let mut seen = [[(0, 0); 2]; 2];
    for (round, path) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let request = if path == 0 { own } else { other };
        let answer = link.ask(request, Wanted::Get, target.patience()).await.ok()?;
        if !answer.keep_alive {
            return None;
        }
        seen[path][round] = (answer.status.as_u16(), answer.body_bytes);
    }
    let [[own, own_again], [other, other_again]] = seen;
    if own.0 == own_again.0 && other.0 == other_again.0 && own.0 != other.0 {
        return Some(Marks { own: (own.0, None), other: (other.0, None) });
    }
    let is_stable = own == own_again && other == other_again && own.1 != other.1;
    is_stable.then_some(Marks { own: (own.0, Some(own.1)), other: (other.0, Some(other.1)) })
}

impl Fault {
    /// Whether the peer has ended the connection.
    fn is_closed(&self) -> bool {
        matches!(self.kind, FaultKind::Closed | FaultKind::Cut)
    }
}

/// A path that hardly any service has: its answer is mostly a 404.
const OTHER_PATH: &str = "/anywire-probe-of-the-order-of-answers";

/// Which of sixteen requests ask for the other path. It is another word read backwards or turned, so that no wrong order looks right.
const PLACES: u16 = 0b0001_0111_0100_0110;
