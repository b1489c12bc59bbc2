//! The leader: it gathers its agents, gives each its part, starts all at one moment, and merges what they send.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anywire_advice::Chain;
use anywire_loops::{Loops, Task};
use anywire_wire::{Address, Connection, DialOptions, Dialer, ListenOptions, Listener, ListenerHandle};
use tokio::sync::{mpsc, watch};

use crate::agents::TeamLimits;
use crate::agents::agent::{self, AgentOptions};
use crate::agents::clock::Clock;
use crate::agents::error::{LinkError, TeamError};
use crate::agents::link::Link;
use crate::agents::member::{Member, Slot};
use crate::agents::merge::{Agent, Part};
use crate::agents::message::Place;
use crate::agents::work::Work;
use crate::engine::{LoopSnapshot, RunPhase, Snapshot};
use crate::handles::Handles;
use crate::histogram::Latency;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::stop::Stop;
#[cfg(feature = "udp")]
use crate::udp::{UdpOutcome, UdpPlan};

/// The agents of a run.
#[derive(Debug, Clone)]
pub enum Members {
    /// Agents that wait at these addresses ([`serve`](super::serve)). The leader generates no load.
    Listed(Vec<Address>),
    /// Agents that join at this address ([`join`](super::join)), `of` with this one, which has index 0 and generates its part with these
    /// options.
    Joining {
        /// Where they join.
        listen: Address,
        /// How many there are, with this one.
        of: usize,
        /// What generates this one's part.
        own: Box<AgentOptions>,
    },
}

/// How a leader leads.
#[derive(Debug, Clone, Default)]
pub struct TeamOptions {
    /// What agents must know (`None`: any may take part).
    pub token: Option<String>,
    /// Limits.
    pub limits: TeamLimits,
    /// Ends the run early; what was measured until then is kept.
    pub stop: Stop,
}

/// A run on several machines, under way. Dropping it ends the agents' runs.
pub struct Leading<O = Outcome> {
    task: Task<Result<O, TeamError>>,
    view: TeamView,
    /// Where agents join, with the port that the system chose.
    listening: Option<Address>,
}

impl<O: Send + 'static> Leading<O> {
    /// How the run goes.
    pub fn view(&self) -> TeamView {
        self.view.clone()
    }

    /// Where agents join; `None` if they are listed.
    pub fn listening(&self) -> Option<&Address> {
        self.listening.as_ref()
    }

    /// Waits for the outcome of all agents. Blocks; not to be called on a loop.
    ///
    /// # Errors
    ///
    /// The run could not begin, or every agent was lost.
    pub fn wait(self) -> Result<O, TeamError> {
        self.task.wait().map_err(TeamError::LoopLost)?
    }
}

/// Looks at a run on several machines from any thread: each agent is a loop of its snapshots.
#[derive(Debug, Clone)]
pub struct TeamView(Arc<[Slot]>);

impl TeamView {
    /// All that the agents have told; some are half a second behind.
    pub fn snapshot(&self) -> Snapshot {
        let mut latency = Latency::new();
        let mut phase = RunPhase::Ended;
        let loops = self.0.iter().map(|slot| {
            let seen = slot.seen();
            latency.merge(&seen.latency);
            phase = phase.min(seen.phase);
            seen.progress.map_or_else(LoopSnapshot::default, |progress| LoopSnapshot {
                up: progress.up,
                measured: progress.measured,
                counts: progress.counts,
            })
        });
        let loops = loops.collect();
        Snapshot { phase, loops, latency, error_samples: Vec::new() }
    }
}

/// Starts a plan on several machines. `control` is one loop that generates no load.
///
/// # Errors
///
/// The plan has less than one connection and one request for each agent, or the address cannot be listened at.
pub fn lead(
    control: &Loops,
    plan: &Plan,
    members: Members,
    options: TeamOptions,
) -> Result<Leading, TeamError> {
    begin(control, plan, members, options)
}

/// Starts a load of datagrams on several machines, as [`lead`] does one of requests.
///
/// # Errors
///
/// The plan has less than one flow and one socket for each agent, or the address cannot be listened at.
#[cfg(feature = "udp")]
pub fn lead_datagrams(
    control: &Loops,
    plan: &UdpPlan,
    members: Members,
    options: TeamOptions,
) -> Result<Leading<UdpOutcome>, TeamError> {
    begin(control, plan, members, options)
}

fn begin<W: Work>(
    control: &Loops,
    plan: &W,
    members: Members,
    options: TeamOptions,
) -> Result<Leading<W::Outcome>, TeamError> {
    let of = match &members {
        Members::Listed(addresses) => addresses.len(),
        Members::Joining { of, .. } => *of,
    };
    if !(1..=options.limits.agents).contains(&of) {
        let (what, asked, most) = ("agents", of as u64, options.limits.agents as u64);
        return Err(crate::errors::LoadError::Limit { what, asked, least: 1, most }.into());
    }
    let handles = match &members {
        Members::Listed(_) => Handles::default(),
        Members::Joining { own, .. } => own.handles.clone(),
    };
    let parts = (0..of).map(|index| plan.part(index, of)).collect::<Result<Vec<_>, _>>()?;
    // What is wrong with the plan is wrong for all.
    plan.check(&handles)?;
    let view = TeamView((0..of).map(|_| Slot::new()).collect());
    let (events, happened) = mpsc::unbounded_channel();
    let (start, started) = watch::channel(None);
    let common = Arc::new(Common {
        parts,
        clock: Clock::start(),
        claimed: Mutex::new(vec![false; of]),
        options,
        view: view.clone(),
        started,
        events,
    });
    let (mut listening, mut listener) = (None, None);
    if let Members::Joining { listen, .. } = &members {
        let bound = Listener::bind(listen, &ListenOptions::default(), control)?;
        listening = Some(bound.local().clone());
        let common = Arc::clone(&common);
        listener = Some(bound.serve(move |connection| {
            anywire_loops::spawn(Arc::clone(&common).admit(connection));
        }));
    }
    let leader = Leader { common, plan: plan.clone(), members, happened, start, listener };
    let task = control.get(0).spawn(move || leader.lead());
    Ok(Leading { task, view, listening })
}

/// What the tasks of all members share.
struct Common<W: Work> {
    parts: Vec<W>,
    clock: Clock,
    /// Which indices have an agent.
    claimed: Mutex<Vec<bool>>,
    options: TeamOptions,
    view: TeamView,
    /// When all begin, by `clock`.
    started: watch::Receiver<Option<u64>>,
    events: mpsc::UnboundedSender<Event<W::Outcome>>,
}

/// What a member's task tells the leader.
enum Event<O> {
    /// It waits for the start; how long an answer of it takes, in nanoseconds.
    Ready { round_trip: u64 },
    /// It was ready and went before the start.
    Left,
    /// A member that joined was turned away; the run does not wait for it.
    TurnedAway(String),
    /// A listed agent takes no part.
    Failed(TeamError),
    /// Its end.
    Ended(Box<Part<O>>),
}

impl<W: Work> Common<W> {
    fn tell(&self, event: Event<W::Outcome>) {
        // The leader is gone: nobody wants to know.
        let _ = self.events.send(event);
    }

    /// One listed agent, from the dial to its result.
    async fn visit(self: Arc<Self>, index: usize, address: Address) {
        match Dialer::new(DialOptions::default()).dial(&address).await {
            Ok(connection) => {
                let link = Link::new(connection, self.options.limits.greeting_bytes);
                if let Err(source) = self.take(link, Some(index)).await {
                    self.tell(Event::Failed(TeamError::Agent {
                        index,
                        address: address.to_string(),
                        source,
                    }));
                }
            }
            Err(source) => {
                self.tell(Event::Failed(TeamError::Dial { index, address, source: Box::new(source) }));
            }
        }
    }

    /// One that joins. Whoever is none of us is turned away, and the others are waited for.
    async fn admit(self: Arc<Self>, connection: Connection) {
        let link = Link::new(connection, self.options.limits.greeting_bytes);
        let peer = link.peer();
        if let Err(error) = self.take(link, None).await {
            self.tell(Event::TurnedAway(format!("{peer}: {}", Chain(&error))));
        }
    }

    /// A member from its greeting to its result; an error is one before it was ready.
    async fn take(&self, link: Link, index: Option<usize>) -> Result<(), LinkError> {
        let Self { options, clock, .. } = self;
        let mut member = Member::greet(link, *clock, options.token.as_deref(), &options.limits).await?;
        let index = match index {
            Some(index) => index,
            None => match self.claim(member.place) {
                Ok(index) => index,
                Err(reason) => {
                    member.turn_away(&options.limits).await;
                    return Err(LinkError::Refused { reason });
                }
            },
        };
        if let Err(error) = member.prepare(self.parts[index].clone(), &options.limits).await {
            self.release(index);
            return Err(error);
        }
        self.tell(Event::Ready { round_trip: member.offset.round_trip });
        let start = match member.wait(&mut self.started.clone()).await {
            Ok(Some(start)) => start,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.release(index);
                self.tell(Event::Left);
                return Err(error);
            }
        };
        let slot = &self.view.0[index];
        let (outcome, lost) = match member.follow::<W>(start, &options.stop, slot, &options.limits).await {
            Ok(outcome) => (Some(outcome), None),
            Err(error) => (None, Some(Chain(&error).to_string())),
        };
        let agent = Agent {
            index,
            address: member.peer(),
            host: None,
            lost,
            clock_ahead_seconds: member.clock_ahead_seconds,
            round_trip_us: member.offset.round_trip as f64 / 1000.0,
        };
        self.tell(Event::Ended(Box::new(Part { agent, outcome })));
        Ok(())
    }

    /// Gives one that joins the place which it names.
    fn claim(&self, place: Option<Place>) -> Result<usize, String> {
        let of = self.parts.len();
        let Some(Place { index, of: believed }) = place else {
            return Err("it has no index; it is one that waits for leaders".to_owned());
        };
        if believed != of || index >= of {
            return Err(format!("it is number {index} of {believed}, and this run has {of}"));
        }
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut claimed[index], true) {
            true => Err(format!("there is another agent with index {index}")),
            false => Ok(index),
        }
    }

    fn release(&self, index: usize) {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)[index] = false;
    }
}

struct Leader<W: Work> {
    common: Arc<Common<W>>,
    plan: W,
    members: Members,
    happened: mpsc::UnboundedReceiver<Event<W::Outcome>>,
    start: watch::Sender<Option<u64>>,
    listener: Option<ListenerHandle>,
}

impl<W: Work> Leader<W> {
    async fn lead(mut self) -> Result<W::Outcome, TeamError> {
        match &self.members {
            Members::Listed(addresses) => {
                for (index, address) in addresses.iter().enumerate() {
                    anywire_loops::spawn(Arc::clone(&self.common).visit(index, address.clone()));
                }
            }
            Members::Joining { own, of, .. } => {
                // The own part is an agent as the others are, at the other end of a pipe.
                let (here, there) = Connection::pair();
                let (own, place) = (own.clone(), Place { index: 0, of: *of });
                anywire_loops::spawn(async move {
                    let link = Link::new(there, own.limits.greeting_bytes);
                    // The other end says what became of it.
                    let _ = agent::attend(link, &own, Some(place), &|_| {}).await;
                });
                anywire_loops::spawn(Arc::clone(&self.common).admit(here));
            }
        }
        let slowest = self.gather().await?;
        // Nobody joins from here on.
        drop(self.listener.take());
        let begin = BEGIN_AFTER + Duration::from_nanos(slowest).saturating_mul(2);
        let begin = self.common.clock.ns().saturating_add(begin.as_nanos() as u64);
        self.start.send_replace(Some(begin));
        let mut parts = Vec::with_capacity(self.common.parts.len());
        while parts.len() < self.common.parts.len() {
            match self.happened.recv().await {
                Some(Event::Ended(part)) => parts.push(*part),
                // One that went at the very moment of the start has its end, too.
                Some(_) => {}
                None => break,
            }
        }
        parts.sort_by_key(|part| part.agent.index);
        self.merge(parts)
    }

    /// Waits until all are ready; gives the longest round trip to one of them, in nanoseconds.
    async fn gather(&mut self) -> Result<u64, TeamError> {
        let (of, after) = (self.common.parts.len(), self.common.options.limits.gather);
        let (mut ready, mut slowest, mut refusal) = (0, 0, None);
        let mut over = std::pin::pin!(tokio::time::sleep(after));
        while ready < of {
            let event = tokio::select! {
                biased;
                () = self.common.options.stop.stopped() => return Err(TeamError::Stopped),
                () = &mut over => return Err(TeamError::Missing { ready, of, after, refusal }),
                event = self.happened.recv() => event,
            };
            match event {
                Some(Event::Ready { round_trip }) => {
                    ready += 1;
                    slowest = slowest.max(round_trip);
                }
                Some(Event::Left) => ready -= 1,
                Some(Event::TurnedAway(why)) => {
                    tracing::warn!(%why, "an agent was turned away");
                    refusal = Some(why);
                }
                Some(Event::Failed(error)) => return Err(error),
                Some(Event::Ended(_)) | None => {}
            }
        }
        Ok(slowest)
    }

    /// All results as one. An agent whose histogram is none counts as lost.
    fn merge(&self, mut parts: Vec<Part<W::Outcome>>) -> Result<W::Outcome, TeamError> {
        loop {
            match self.plan.merged(&parts) {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {
                    let first = parts.iter().find_map(|part| part.agent.lost.clone());
                    return Err(TeamError::AllLost { first: first.unwrap_or_default() });
                }
                Err((index, error)) => {
                    let broken = parts.iter_mut().find(|part| part.agent.index == index);
                    let Some(Part { agent, outcome }) = broken else { continue };
                    (agent.lost, *outcome) = (Some(error.to_string()), None);
                }
            }
        }
    }
}

/// Until all begin, beside the ways to them.
const BEGIN_AFTER: Duration = Duration::from_millis(100);
