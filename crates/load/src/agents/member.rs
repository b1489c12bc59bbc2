//! The leader's side of one agent: greet, ask for its clock, give it its part, start it, and follow it to its result.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::agents::TeamLimits;
use crate::agents::clock::{Clock, Exchange, Offset};
use crate::agents::error::LinkError;
use crate::agents::link::Link;
use crate::agents::message::{Greeting, Place, Progress, ToAgent, ToLeader, VERSION};
use crate::agents::work::Work;
use crate::engine::RunPhase;
use crate::histogram::Latency;
use crate::stop::Stop;

/// An agent that has been greeted.
pub(crate) struct Member {
    link: Link,
    pub(crate) place: Option<Place>,
    /// How far the clock on its wall is ahead, in seconds.
    pub(crate) clock_ahead_seconds: f64,
    pub(crate) offset: Offset,
    /// How long its part may take, from the start to its result.
    longest: Duration,
}

impl Member {
    /// Greets who is at the other end, and asks for its clock.
    pub(crate) async fn greet(
        mut link: Link,
        clock: Clock,
        token: Option<&str>,
        limits: &TeamLimits,
    ) -> Result<Self, LinkError> {
        link.send(&ToAgent::Hello(Greeting::ours(token)), limits.answer).await?;
        let (greeting, place, theirs) = match link.receive(limits.answer).await? {
            ToLeader::Welcome { greeting, place, unix_seconds } => (greeting, place, unix_seconds),
            other => return Err(unexpected(other, "a welcome")),
        };
        if let Some(theirs) = greeting.other_version() {
            return Err(LinkError::Version { theirs, ours: VERSION });
        }
        if !greeting.knows(token) {
            return Err(LinkError::Token);
        }
        let clock_ahead_seconds = theirs - unix_seconds();
        link.limit_bytes = limits.message_bytes;
        let mut exchanges = Vec::with_capacity(PINGS as usize);
        for number in 0..PINGS {
            let asked = clock.ns();
            link.send(&ToAgent::Ping { number }, limits.answer).await?;
            match link.receive(limits.answer).await? {
                ToLeader::Pong { number: answered, clock_ns } if answered == number => {
                    exchanges.push(Exchange { asked, other: clock_ns, answered: clock.ns() });
                }
                other => return Err(unexpected(other, "its clock")),
            }
        }
        let offset = Offset::of(&exchanges).ok_or(LinkError::Closed)?;
        Ok(Self { link, place, clock_ahead_seconds, offset, longest: Duration::MAX })
    }

    pub(crate) fn peer(&self) -> String {
        self.link.peer()
    }

    /// Gives it its part, and waits until it has checked it.
    pub(crate) async fn prepare(&mut self, plan: impl Work, limits: &TeamLimits) -> Result<(), LinkError> {
        self.longest = plan.longest(limits);
        self.link.send(&plan.job(), limits.answer).await?;
        match self.link.receive(limits.answer).await? {
            ToLeader::Ready => Ok(()),
            other => Err(unexpected(other, "that it is ready")),
        }
    }

    /// Says why it takes no part.
    pub(crate) async fn turn_away(mut self, limits: &TeamLimits) {
        // It hears of it by the end of the connection, too.
        let _ = self.link.send(&ToAgent::Stop, limits.answer).await;
    }

    /// Waits for the moment at which all begin, as the leader's clock says it; `None` if there is none. An agent that goes meanwhile is
    /// lost at once.
    pub(crate) async fn wait(
        &mut self,
        start: &mut watch::Receiver<Option<u64>>,
    ) -> Result<Option<u64>, LinkError> {
        tokio::select! {
            biased;
            moment = start.wait_for(Option::is_some) => Ok(moment.ok().and_then(|moment| *moment)),
            message = self.link.next::<ToLeader>() => Err(unexpected(message?, "nothing")),
        }
    }

    /// Starts it, and follows it to its result.
    pub(crate) async fn follow<W: Work>(
        &mut self,
        start_ns: u64,
        stop: &Stop,
        slot: &Slot,
        limits: &TeamLimits,
    ) -> Result<W::Outcome, LinkError> {
        let at_ns = self.offset.there(start_ns);
        self.link.send(&ToAgent::Start { at_ns }, limits.answer).await?;
        let mut is_told = false;
        // It may tell how it goes for ever, and never come to an end.
        let mut longest = self.longest;
        let mut over = pin!(tokio::time::sleep(longest));
        loop {
            let message = tokio::select! {
                biased;
                () = stop.stopped(), if !is_told => None,
                () = &mut over => return Err(LinkError::Endless { after: longest }),
                message = self.link.receive::<ToLeader>(limits.silence) => Some(message?),
            };
            match message {
                None => {
                    is_told = true;
                    longest = limits.answer;
                    over.set(tokio::time::sleep(longest));
                    self.link.send(&ToAgent::Stop, limits.answer).await?;
                }
                Some(ToLeader::Progress(progress)) => slot.take(&progress)?,
                Some(other) => return W::result(other).map_err(|other| unexpected(other, "how it goes")),
            }
        }
    }
}

/// How it goes at one agent, for the screen.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<Seen>);

/// What an agent has told.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) phase: RunPhase,
    pub(crate) progress: Option<Progress>,
    pub(crate) latency: Latency,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Seen { phase: RunPhase::Connecting, progress: None, latency: Latency::new() }))
    }

    pub(super) fn take(&self, progress: &Progress) -> Result<(), LinkError> {
        let added = progress.hdr.as_deref().map(Latency::from_hdr).transpose();
        let added = added.map_err(|error| LinkError::Failed { found: error.to_string(), help: None })?;
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(added) = added {
            seen.latency.merge(&added);
        }
        seen.phase = progress.phase;
        seen.progress = Some(Progress { hdr: None, ..progress.clone() });
        Ok(())
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What an agent says in place of what was waited for.
fn unexpected(message: ToLeader, wanted: &'static str) -> LinkError {
    let found = match message {
        ToLeader::Refused { reason } => return LinkError::Refused { reason },
        ToLeader::Failed { found, help } => return LinkError::Failed { found, help },
        ToLeader::Welcome { .. } => "a welcome",
        ToLeader::Pong { .. } => "its clock",
        ToLeader::Ready => "that it is ready",
        ToLeader::Progress(_) => "how it goes",
        ToLeader::Done { .. } => "a result of requests",
        #[cfg(feature = "udp")]
        ToLeader::DatagramsDone { .. } => "a result of datagrams",
    };
    LinkError::OutOfOrder { found, wanted }
}

/// What the clock on the wall says. One that is before 1970 says 0.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}

/// So many that one of them met no queue.
const PINGS: u32 = 16;
