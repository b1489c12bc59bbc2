//! The run as its caller holds it, and the controller that leads all loops through the phases together.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anywire_loops::clock::precise;
use anywire_loops::{Loops, Task, block_on};
use tokio::sync::{mpsc, oneshot, watch};

use crate::engine::generator::{self, LoopEvent, LoopResult, RunPhase, Share};
use crate::engine::monitor::{Live, Monitor};
use crate::engine::pace::{Begins, LEAD};
use crate::errors::LoadError;
use crate::handles::Handles;
use crate::outcome::Outcome;
use crate::plan::{Amount, Plan, Prepared};
use crate::script::Stride;
use crate::stop::Stop;
use crate::summing;

/// Runs a plan on these loops and waits for its outcome.
///
/// Blocks the thread; on an event loop, use [`start`] and await [`Run::outcome`].
///
/// ```no_run
/// use anywire_load::{Handles, Plan, run};
/// use anywire_loops::Loops;
///
/// let loops = Loops::start(2)?;
/// let outcome = run(&loops, Plan::new("http://127.0.0.1:8080/"), Handles::default())?;
/// println!("{outcome}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The plan is wrong, the loops ended, or this thread is an event loop. Faults of the peer are no errors here:
/// they are counted in the outcome.
pub fn run(loops: &Loops, plan: Plan, handles: Handles) -> Result<Outcome, LoadError> {
    start(loops, plan, handles)?.wait()
}

/// Like [`run`], and calls `observe` on this thread right before the measured part begins and right after it has ended.
///
/// The run waits for it: load goes on before the first call, and has stopped before the second, so that counters read
/// in it belong to the measured part.
///
/// # Errors
///
/// As [`run`].
pub fn run_observed(
    loops: &Loops,
    plan: Plan,
    handles: Handles,
    mut observe: impl FnMut(Boundary),
) -> Result<Outcome, LoadError> {
    refuse_on_loop()?;
    let (sender, mut boundaries) = mpsc::unbounded_channel();
    let run = begin(loops, plan, handles, Some(sender))?;
    while let Some((boundary, seen)) = block_on(boundaries.recv()) {
        observe(boundary);
        // Fails if the run was lost meanwhile; the outcome reports that.
        let _ = seen.send(());
    }
    run.wait()
}

/// Starts a plan on these loops; the run goes on by itself.
///
/// # Errors
///
/// The plan is wrong (see [`LoadError`]); nothing was sent then.
pub fn start(loops: &Loops, plan: Plan, handles: Handles) -> Result<Run, LoadError> {
    begin(loops, plan, handles, None)
}

fn begin(
    loops: &Loops,
    plan: Plan,
    handles: Handles,
    boundaries: Option<Observer>,
) -> Result<Run, LoadError> {
    let prepared = plan.prepare(&handles)?;
    let (phase, phases) = watch::channel(RunPhase::Connecting);
    let live: Vec<Arc<Live>> = loops.iter().map(|_| Arc::default()).collect();
    let monitor = Monitor::new(live.clone(), phases);
    let controller = Controller {
        loops: loops.clone(),
        plan: Arc::new(plan),
        prepared: Arc::new(prepared),
        begins: Arc::default(),
        stop: handles.stop,
        phase,
        boundaries,
        live,
    };
    let task = loops.get(0).spawn(move || controller.lead());
    Ok(Run { lead: Lead(task), monitor })
}

/// Receives each boundary, and the sender by which the observer lets the controller go on.
type Observer = mpsc::UnboundedSender<(Boundary, oneshot::Sender<()>)>;

/// A run under way. Dropping it ends the run without an outcome.
#[derive(Debug)]
pub struct Run {
    lead: Lead,
    monitor: Monitor,
}

impl Run {
    /// Where the run is; for a progress line, from any thread.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// The outcome, when the run has ended.
    ///
    /// # Errors
    ///
    /// A loop ended while the run was on it.
    pub async fn outcome(self) -> Result<Outcome, LoadError> {
        self.lead.await
    }

    /// Like [`Run::outcome`], for a thread that may block.
    ///
    /// # Errors
    ///
    /// As [`Run::outcome`]; and if this thread is an event loop.
    pub fn wait(self) -> Result<Outcome, LoadError> {
        refuse_on_loop()?;
        block_on(self.outcome())
    }
}

/// The controller's task. Dropping the handle aborts it, because the outcome goes with the handle.
#[derive(Debug)]
struct Lead(Task<Result<Outcome, LoadError>>);

impl Future for Lead {
    type Output = Result<Outcome, LoadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(ended.unwrap_or_else(|source| Err(LoadError::LoopLost { source })))
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An edge of the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The measured part begins when the observer returns.
    Measuring,
    /// The measured part ends when the observer returns. The load still runs, so the figures do not include the cost of
    /// closing the connections.
    Measured,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// Its time has passed.
    TimeUp,
    /// It was told to.
    Stopped,
    /// No connection has anything left to do: the requests are spent, or all connections were given up.
    NothingLeft,
}

/// Leads the loops through the phases; lives on the first of them.
struct Controller {
    loops: Loops,
    plan: Arc<Plan>,
    prepared: Arc<Prepared>,
    begins: Arc<Begins>,
    stop: Stop,
    phase: watch::Sender<RunPhase>,
    boundaries: Option<Observer>,
    live: Vec<Arc<Live>>,
}

impl Controller {
    async fn lead(self) -> Result<Outcome, LoadError> {
        let (event_sender, events) = mpsc::unbounded_channel();
        let tasks = self.spawn_generators(&event_sender);
        drop(event_sender);
        let mut loops = LoopProgress { events, attempted: 0, idle: 0, count: tasks.len() };

        let mut going = self.unless_ended(None, &mut loops, LoopProgress::all_attempted).await;
        if going && !self.plan.warm_up.is_zero() {
            // Set once, here.
            let _ = self.begins.warm_up.set(precise() + self.lead_time());
            self.phase.send_replace(RunPhase::WarmUp);
            going = self.unless_ended(Some(self.plan.warm_up), &mut loops, LoopProgress::all_idle).await;
        }
        if going {
            self.cross(Boundary::Measuring).await;
            // Set once, here.
            let _ = self.begins.measuring.set(precise() + self.lead_time());
            self.phase.send_replace(RunPhase::Measuring);
            let time = match self.plan.amount {
                // A schedule ends so long after its own begin.
                Amount::Duration(time) => Some(time.saturating_add(self.lead_time())),
                Amount::Requests(_) => None,
            };
            going = self.unless_ended(time, &mut loops, LoopProgress::all_idle).await;
        }
        let end = match going {
            _ if self.stop.is_stopped() => RunEnd::Stopped,
            false => RunEnd::NothingLeft,
            true => RunEnd::TimeUp,
        };
        self.cross(Boundary::Measured).await;
        self.phase.send_replace(RunPhase::Ended);

        let mut results: Vec<LoopResult> = Vec::with_capacity(tasks.len());
        for task in tasks {
            results.push(task.await.map_err(|source| LoadError::LoopLost { source })?);
        }
        Ok(summing::outcome(&self.loops, &self.plan, &self.prepared, &results, end))
    }

    /// Starts each loop's part with its share of the connections and requests.
    fn spawn_generators(&self, events: &mpsc::UnboundedSender<LoopEvent>) -> Vec<Task<LoopResult>> {
        let count = self.loops.len();
        let requests = match self.plan.amount {
            Amount::Requests(requests) => requests,
            Amount::Duration(_) => 0,
        };
        // The requests are divided by connections, not by loops, because a loop may have no connection.
        let (place, generators) = self.plan.place;
        let connections = self.plan.connections;
        let mut connections_before = 0;
        let mut tasks = Vec::with_capacity(count);
        for (index, one) in self.loops.iter().enumerate() {
            let own = connections / count + usize::from(index < connections % count);
            let share = |up_to: usize| portion(requests, up_to, connections);
            let share = Share {
                plan: Arc::clone(&self.plan),
                prepared: Arc::clone(&self.prepared),
                part: Stride {
                    index: index as u64 * generators.max(1) + place,
                    of: count as u64 * generators.max(1),
                },
                connections: own,
                requests: share(connections_before + own) - share(connections_before),
                paced: self.plan.part_of_loop(index, count),
                begins: Arc::clone(&self.begins),
                phase: self.phase.subscribe(),
                events: events.clone(),
                live: Arc::clone(&self.live[index]),
            };
            connections_before += own;
            tasks.push(one.spawn(move || generator::generate(share)));
        }
        tasks
    }

    /// How far the begin of a schedule lies ahead.
    fn lead_time(&self) -> Duration {
        if self.plan.schedule.is_some() { LEAD } else { Duration::ZERO }
    }

    /// Waits for `time` (`None`: for ever) or until the loops' progress satisfies `done`. False if the run has to end now:
    /// it was stopped, or no connection can go on.
    async fn unless_ended(
        &self,
        time: Option<Duration>,
        loops: &mut LoopProgress,
        done: fn(&LoopProgress) -> bool,
    ) -> bool {
        let time = time.map_or(FOREVER, |time| time);
        tokio::select! {
            biased;
            () = self.stop.stopped() => false,
            () = loops.until(done) => !loops.all_idle(),
            () = tokio::time::sleep(time) => true,
        }
    }

    /// Tells the observer, if there is one, and waits for its reply.
    async fn cross(&self, boundary: Boundary) {
        let Some(observer) = &self.boundaries else { return };
        let (seen, sight) = oneshot::channel();
        if observer.send((boundary, seen)).is_ok() {
            // An error means that there is no observer any more.
            let _ = sight.await;
        }
    }
}

/// The events of all loops so far.
struct LoopProgress {
    events: mpsc::UnboundedReceiver<LoopEvent>,
    attempted: usize,
    idle: usize,
    count: usize,
}

impl LoopProgress {
    async fn until(&mut self, done: fn(&Self) -> bool) {
        while !done(self) {
            match self.events.recv().await {
                Some(LoopEvent::Attempted) => self.attempted += 1,
                Some(LoopEvent::Idle) => self.idle += 1,
                // All loops have ended without saying so: they were shut down.
                None => self.idle = self.count,
            }
        }
    }

    fn all_attempted(&self) -> bool {
        self.attempted == self.count || self.all_idle()
    }

    fn all_idle(&self) -> bool {
        self.idle == self.count
    }
}

/// `whole * part / parts` without overflow.
fn portion(whole: u64, part: usize, parts: usize) -> u64 {
    let exact = u128::from(whole) * part as u128 / parts as u128;
    u64::try_from(exact).expect("a portion is at most the whole")
}

fn refuse_on_loop() -> Result<(), LoadError> {
    if anywire_loops::current().is_some() { Err(LoadError::OnLoop) } else { Ok(()) }
}

/// A run that is ended by its requests has no time of its own; tokio's timer takes at most about two years.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_add_up_to_the_whole() {
        for whole in [0, 1, 7, 1000, u64::MAX] {
            let parts = 7;
            let sum: u128 = (0..parts)
                .map(|part| u128::from(portion(whole, part + 1, parts) - portion(whole, part, parts)))
                .sum();
            assert_eq!(sum, u128::from(whole));
        }
    }
}
