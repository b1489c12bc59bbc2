//! One agent: it waits for a leader or joins one, takes its part of the plan, begins when it is told, and sends its result.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anywire_advice::Chain;
use anywire_loops::{Loops, block_on};
use anywire_wire::{Address, Connection, DialOptions, Dialer, ListenOptions, Listener};

use crate::agents::TeamLimits;
use crate::agents::clock::Clock;
use crate::agents::error::{AgentError, LinkError};
use crate::agents::job::{Done, Job};
use crate::agents::link::Link;
use crate::agents::member::unix_seconds;
use crate::agents::message::{Greeting, Place, Progress, ToAgent, ToLeader, VERSION};
use crate::engine::{Monitor, Snapshot, start};
use crate::handles::Handles;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::stop::Stop;
#[cfg(feature = "udp")]
use crate::udp::{self, UdpOutcome, UdpPlan};

/// What an agent generates load with, and whom it serves.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The loops that generate the load.
    pub loops: Loops,
    /// How TLS is spoken with the target, and what ends the agent.
    pub handles: Handles,
    /// What a leader must know (`None`: anybody may give it a plan).
    pub token: Option<String>,
    /// Limits.
    pub limits: TeamLimits,
}

/// What an agent tells while it serves.
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentEvent {
    /// It listens at this address.
    Listening(Address),
    /// A leader gave it this part.
    Begins {
        /// The leader's address.
        leader: String,
        /// The part of the plan.
        plan: Box<Plan>,
    },
    /// Its part is done, and the leader has the result.
    Done(Box<Outcome>),
    /// A leader gave it this part of a load of datagrams.
    #[cfg(feature = "udp")]
    BeginsDatagrams {
        /// The leader's address.
        leader: String,
        /// The part of the plan.
        plan: Box<UdpPlan>,
    },
    /// Its part of a load of datagrams is done, and the leader has the result.
    #[cfg(feature = "udp")]
    DatagramsDone(Box<UdpOutcome>),
    /// A leader was lost, or turned away.
    Lost(AgentError),
}

/// Serves leaders at an address, one after the other, until `handles.stop` is used. A second leader meanwhile is refused.
///
/// Blocks; `told` hears what happens, on another thread. `control` is one loop that generates no load.
///
/// # Errors
///
/// The address cannot be listened at.
pub fn serve(
    control: &Loops,
    listen: &Address,
    options: &AgentOptions,
    told: impl Fn(AgentEvent) + Send + Sync + 'static,
) -> Result<(), AgentError> {
    let listener = Listener::bind(listen, &ListenOptions::default(), control)?;
    told(AgentEvent::Listening(listener.local().clone()));
    let (shared, told) = (options.clone(), Arc::new(told));
    let is_busy = Arc::new(AtomicBool::new(false));
    let busy = Arc::clone(&is_busy);
    let handle = listener.serve(move |connection| {
        let (options, told, is_busy) = (shared.clone(), Arc::clone(&told), Arc::clone(&busy));
        anywire_loops::spawn(async move {
            let mut link = Link::new(connection, options.limits.greeting_bytes);
            // Before it counts as busy: a stranger who says nothing must not keep a leader away.
            if let Err(source) = greeted(&mut link, &options, None).await {
                return told(AgentEvent::Lost(AgentError::Leader { leader: link.peer(), source }));
            }
            // A leader that comes again at once, as for the next rate of a search, may find its last run ending.
            let until = Instant::now() + ENDING;
            while is_busy.swap(true, Ordering::AcqRel) {
                if Instant::now() >= until {
                    return refuse(link, &options, "it serves another leader").await;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            let served = work(link, &options, &*told).await;
            is_busy.store(false, Ordering::Release);
            match served {
                Ok(done) => told(done.event()),
                Err(error) => told(AgentEvent::Lost(error)),
            }
        });
    });
    block_on(options.handles.stop.stopped());
    // A run that goes on has heard of it, too: its result still leaves.
    let until = Instant::now() + options.limits.answer;
    while is_busy.load(Ordering::Acquire) && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    handle.stop();
    Ok(())
}

/// Joins the leader as agent `index` of `of`, and carries out its part; its outcome is of that part.
///
/// Blocks. The leader may come later: it is tried for [`TeamLimits::gather`].
///
/// # Errors
///
/// [`AgentError`]; the leader was told if it could be.
pub fn join(
    control: &Loops,
    leader: &Address,
    place: (usize, usize),
    options: &AgentOptions,
    told: impl Fn(AgentEvent) + Send + Sync + 'static,
) -> Result<Outcome, AgentError> {
    match joined(control, leader, place, options, told)? {
        Done::Requests(outcome) => Ok(*outcome),
        #[cfg(feature = "udp")]
        Done::Datagrams(_) => Err(AgentError::OtherWork { leader: leader.clone() }),
    }
}

/// The same for a load of datagrams.
///
/// # Errors
///
/// As [`join`].
#[cfg(feature = "udp")]
pub fn join_datagrams(
    control: &Loops,
    leader: &Address,
    place: (usize, usize),
    options: &AgentOptions,
    told: impl Fn(AgentEvent) + Send + Sync + 'static,
) -> Result<UdpOutcome, AgentError> {
    match joined(control, leader, place, options, told)? {
        Done::Datagrams(outcome) => Ok(*outcome),
        Done::Requests(_) => Err(AgentError::OtherWork { leader: leader.clone() }),
    }
}

fn joined(
    control: &Loops,
    leader: &Address,
    (index, of): (usize, usize),
    options: &AgentOptions,
    told: impl Fn(AgentEvent) + Send + Sync + 'static,
) -> Result<Done, AgentError> {
    let (leader, options) = (leader.clone(), options.clone());
    let joined = control.get(0).spawn(move || async move {
        let connection = tokio::select! {
            biased;
            () = options.handles.stop.stopped() => return Err(AgentError::Stopped),
            dialled = dial(&leader, options.limits.gather) => dialled?,
        };
        let link = Link::new(connection, options.limits.greeting_bytes);
        attend(link, &options, Some(Place { index, of }), &told).await
    });
    joined.wait().map_err(AgentError::LoopLost)?
}

/// Dials until somebody answers: a leader that starts later than its agents is no fault.
async fn dial(leader: &Address, gather: Duration) -> Result<Connection, AgentError> {
    let dialer = Dialer::new(DialOptions::default());
    let begun = Instant::now();
    loop {
        match dialer.dial(leader).await {
            Ok(connection) => return Ok(connection),
            Err(source) if begun.elapsed() >= gather => {
                let source = Box::new(source);
                return Err(AgentError::Dial { address: leader.clone(), after: gather, source });
            }
            Err(_) => tokio::time::sleep(DIAL_EVERY).await,
        }
    }
}

async fn refuse(mut link: Link, options: &AgentOptions, reason: &str) {
    let refused = ToLeader::Refused { reason: reason.to_owned() };
    // What the leader says first is read, so that the refusal is not lost to a reset.
    if link.receive::<ToAgent>(options.limits.answer).await.is_ok()
        && link.send(&refused, options.limits.answer).await.is_ok()
    {
        link.closed_by_peer(options.limits.answer).await;
    }
}

/// Serves one leader from its greeting to the result.
pub(crate) async fn attend(
    mut link: Link,
    options: &AgentOptions,
    place: Option<Place>,
    told: &(impl Fn(AgentEvent) + ?Sized),
) -> Result<Done, AgentError> {
    tokio::select! {
        biased;
        () = options.handles.stop.stopped() => return Err(AgentError::Stopped),
        greeted = greeted(&mut link, options, place) => {
            greeted.map_err(|source| AgentError::Leader { leader: link.peer(), source })?;
        }
    }
    work(link, options, told).await
}

/// Carries out what a leader that was greeted asks for.
async fn work(
    mut link: Link,
    options: &AgentOptions,
    told: &(impl Fn(AgentEvent) + ?Sized),
) -> Result<Done, AgentError> {
    let leader = link.peer();
    let lost = |source| AgentError::Leader { leader: leader.clone(), source };
    let plan = tokio::select! {
        biased;
        () = options.handles.stop.stopped() => return Err(AgentError::Stopped),
        plan = take_part(&mut link, options) => plan,
    };
    let (job, begin_after) = match plan {
        Ok(part) => part,
        Err(Turn::Link(source)) => return Err(lost(source)),
        Err(Turn::Failed(error)) => {
            let message = Chain(&error).message();
            let failed = ToLeader::Failed { found: message.found, help: message.help };
            link.send(&failed, options.limits.answer).await.map_err(lost)?;
            link.closed_by_peer(options.limits.answer).await;
            return Err(error);
        }
    };
    told(job.event(leader.clone()));
    tokio::time::sleep(begin_after).await;
    let stop = Stop::new();
    let mut handles = options.handles.clone();
    handles.stop = stop.clone();
    let done = match job {
        Job::Requests(plan) => {
            let run = start(&options.loops, *plan, handles)?;
            let monitor = run.monitor();
            let mut said = monitor.snapshot();
            let tell = || progress(&monitor, &mut said);
            let outcome = follow(&mut link, options, &stop, run.outcome(), tell).await?;
            ToLeader::Done { outcome: Box::new(outcome) }
        }
        #[cfg(feature = "udp")]
        Job::Datagrams(plan) => {
            let run = udp::start(&options.loops, *plan, handles)?;
            let (begun, view) = (Instant::now(), run.view());
            let tell = || Progress::of_datagrams(begun.elapsed(), view.counts());
            let outcome = follow(&mut link, options, &stop, run.outcome(), tell).await?;
            ToLeader::DatagramsDone { outcome: Box::new(outcome) }
        }
    };
    link.send(&done, options.limits.answer).await.map_err(lost)?;
    link.closed_by_peer(options.limits.answer).await;
    Done::of(done).ok_or_else(|| lost(LinkError::Closed))
}

/// Waits for the outcome of a run, tells the leader how it goes, and ends it if the leader says so, or is gone.
async fn follow<O, E: Into<AgentError>>(
    link: &mut Link,
    options: &AgentOptions,
    stop: &Stop,
    outcome: impl Future<Output = Result<O, E>>,
    mut tell: impl FnMut() -> Progress,
) -> Result<O, AgentError> {
    let leader = link.peer();
    let mut outcome = pin!(outcome);
    let mut broken = None;
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut outcome => break outcome.map_err(Into::into)?,
            () = options.handles.stop.stopped(), if !stop.is_stopped() => stop.stop(),
            message = link.next::<ToAgent>(), if broken.is_none() => match message {
                Ok(ToAgent::Stop) => stop.stop(),
                Ok(_) => {
                    broken = Some(LinkError::OutOfOrder { found: "something else", wanted: "the end of the run" });
                    stop.stop();
                }
                // Nobody wants the result any more, so the target need not bear the load.
                Err(error) => {
                    broken = Some(error);
                    stop.stop();
                }
            },
            () = tokio::time::sleep(TELL_EVERY), if broken.is_none() => {
                let progress = ToLeader::Progress(Box::new(tell()));
                if let Err(error) = link.send(&progress, options.limits.answer).await {
                    broken = Some(error);
                    stop.stop();
                }
            }
        }
    };
    // What came since the last look belongs to the whole.
    let last = ToLeader::Progress(Box::new(tell()));
    let told = match broken {
        Some(source) => Err(source),
        None => link.send(&last, options.limits.answer).await,
    };
    told.map_err(|source| AgentError::Leader { leader, source })?;
    Ok(outcome)
}

/// Why an agent has no part.
enum Turn {
    Link(LinkError),
    Failed(AgentError),
}

impl From<LinkError> for Turn {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

/// Hears who the leader is, and says who this is. An error is one that is of another version or does not know the token.
async fn greeted(link: &mut Link, options: &AgentOptions, place: Option<Place>) -> Result<(), LinkError> {
    let (limits, token) = (&options.limits, options.token.as_deref());
    match link.receive(limits.answer).await? {
        ToAgent::Hello(greeting) => {
            // Both ends say their versions, so that each can say which one differs.
            let theirs = greeting.other_version();
            if theirs.is_none() && !greeting.knows(token) {
                let reason = "it does not know the token".to_owned();
                link.send(&ToLeader::Refused { reason }, limits.answer).await?;
                link.closed_by_peer(limits.answer).await;
                return Err(LinkError::Token);
            }
            // The token goes to nobody of another version: it may have asked for that alone.
            let greeting = Greeting::ours(token.filter(|_| theirs.is_none()));
            let welcome = ToLeader::Welcome { greeting, place, unix_seconds: unix_seconds() };
            link.send(&welcome, limits.answer).await?;
            if let Some(theirs) = theirs {
                link.closed_by_peer(limits.answer).await;
                return Err(LinkError::Version { theirs, ours: VERSION });
            }
        }
        _ => return Err(LinkError::OutOfOrder { found: "something else", wanted: "a greeting" }),
    }
    link.limit_bytes = limits.message_bytes;
    Ok(())
}

/// Everything from the greeting to the start: the part, and how long it is until then.
async fn take_part(link: &mut Link, options: &AgentOptions) -> Result<(Job, Duration), Turn> {
    let limits = &options.limits;
    let clock = Clock::start();
    let mut job: Option<Job> = None;
    loop {
        // Others may still be joining.
        let within = limits.gather.saturating_add(limits.answer);
        match link.receive(within).await? {
            ToAgent::Ping { number } => {
                link.send(&ToLeader::Pong { number, clock_ns: clock.ns() }, limits.answer).await?;
            }
            ToAgent::Start { at_ns } if job.is_some() => {
                let after = Duration::from_nanos(at_ns.saturating_sub(clock.ns()));
                // No leader waits for so long: its clock, or this one, is broken.
                let Some(job) = job else { continue };
                return Ok((job, after.min(limits.gather)));
            }
            ToAgent::Stop => return Err(LinkError::Closed.into()),
            other => {
                let none = LinkError::OutOfOrder { found: "something else", wanted: "a plan" };
                let mut part = Job::of(other).filter(|_| job.is_none()).ok_or(none)?;
                part.check(&options.handles).map_err(Turn::Failed)?;
                link.send(&ToLeader::Ready, limits.answer).await?;
                job = Some(part);
            }
        }
    }
}

/// What happened since the last look.
fn progress(monitor: &Monitor, said: &mut Snapshot) -> Progress {
    let now = monitor.snapshot();
    let added = now.since(said).latency;
    let progress = Progress {
        phase: now.phase,
        up: now.loops.iter().map(|one| one.up).max().unwrap_or_default(),
        measured: now.measured(),
        counts: now.counts(),
        hdr: added.summary().and_then(|summary| summary.hdr),
    };
    *said = now;
    progress
}

/// How often an agent tells how it goes.
const TELL_EVERY: Duration = Duration::from_millis(500);
const DIAL_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a run may take to end after its leader has the result.
const ENDING: Duration = Duration::from_secs(1);
