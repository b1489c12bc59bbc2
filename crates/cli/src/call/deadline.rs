//! How far a call has come, for the thread that watches its time, and its end when that is over.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anywire::client::{Client, Phase};
use anywire::loops::block_on;
use tokio::sync::Notify;

use super::exchange::Plan;
use super::facts::Facts;
use crate::blocks::Blocks;
use crate::failure::{Code, Failure};

/// How far a call has come.
#[derive(Default)]
pub(super) struct SoFar {
    stage: Mutex<Stage>,
    /// Held by each file that is still to be sent.
    unsent: Arc<()>,
    /// Bytes that were taken of data which are read while they are sent.
    taken: Arc<AtomicU64>,
    /// Its time is over.
    late: Notify,
    facts: Mutex<Facts>,
}

/// What a call is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its data are opened.
    #[default]
    Data,
    /// The client calls.
    Call,
    /// There is a response, and more of its body is awaited.
    Answer,
    /// What has come of it is written.
    Output,
}

impl SoFar {
    pub(super) fn reaches(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of it.
    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks of a file whose end is noticed.
    pub(super) fn sends(&self, blocks: Blocks) -> Blocks {
        blocks.holding(self.unsent.clone())
    }

    /// What counts the bytes that are taken of data.
    pub(super) fn counts(&self) -> Arc<AtomicU64> {
        self.taken.clone()
    }

    /// Bytes that were taken of data which are read while they are sent.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// What is said of a call that took too long.
    fn late(&self, url: &str, limit: Duration, client: &Client) -> Failure {
        let (doing, help) = match self.stage() {
            Stage::Data => ("opening the data".to_owned(), "see that something writes to what --data names"),
            Stage::Call => (self.phase(client).to_string(), "see what the server does"),
            Stage::Answer => (Phase::Body.to_string(), "see what the server does"),
            Stage::Output => ("writing it".to_owned(), "see that something takes what is written"),
        };
        let message =
            format!("calling {url}: the answer was not whole after {limit:?}, which ended while {doing}");
        Failure::new(Code::Timeout, message).help(format_args!("{help}, or raise --timeout"))
    }

    /// The phase of a call that has no response yet.
    fn phase(&self, client: &Client) -> Phase {
        match client.counters().total().active {
            0 => Phase::Connect,
            _ if Arc::strong_count(&self.unsent) > 1 => Phase::Write,
            _ => Phase::Read,
        }
    }
}

/// What has become of a call.
pub(super) enum Ended {
    /// It is over.
    Over(Result<(), Failure>),
    /// It is late, and its thread cannot be ended: something does not read what it writes.
    Stuck(Failure),
}

/// Makes one of the calls of a plan within its time.
///
/// The call has a thread of its own, because opening and writing may block: a pipe waits for its other end, and no timer of
/// that thread would fire.
pub(super) fn call(plan: &Arc<Plan>, at: usize, watched: &Arc<SoFar>) -> Ended {
    let Some(limit) = plan.limit() else { return Ended::Over(block_on(plan.exchange(at, watched))) };
    let (running, ended) = mpsc::channel::<()>();
    let (called, so_far) = (plan.clone(), watched.clone());
    let call = thread::Builder::new().name("call".to_owned()).spawn(move || {
        let _running = running;
        block_on(async {
            tokio::select! {
                biased;
                () = so_far.late.notified() => Ok(()),
                done = called.exchange(at, &so_far) => done,
            }
        })
    });
    let call = match call {
        Ok(call) => call,
        Err(cause) => return Ended::Over(Err(Failure::of(Code::Failed, &cause))),
    };
    if ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
        return Ended::Over(call.join().unwrap_or_else(|panic| resume_unwind(panic)));
    }
    let late = watched.late(plan.url(at), limit, plan.client());
    watched.late.notify_one();
    match ended.recv_timeout(FOR_THE_END) {
        Err(RecvTimeoutError::Timeout) => Ended::Stuck(late),
        _ => Ended::Over(Err(late)),
    }
}

/// How long a call that is late has to end: it only has to notice.
const FOR_THE_END: Duration = Duration::from_millis(100);
