//! A dial to a place: its name is resolved, and its addresses race, each phase with a deadline of its own.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use anywire_loops::clock::{self, precise};

use super::cache::Found;
use super::happy_eyeballs::{Candidate, HappyEyeballs, Input, Output};
use super::names::{Looked, Names, with_port, worse};
use super::resolver::{Records, ResolveError};
use crate::address::Address;
use crate::dial_log::{DialLog, DialStep};
use crate::dialer::{AddressTurns, DialOptions};
use crate::error::DialError;
use crate::place;

/// Connects to the first address of a `HOST:PORT` that answers. The first one has
/// [`resolve_timeout`](DialOptions::resolve_timeout) to come; from then on all together have
/// [`connect_timeout`](DialOptions::connect_timeout).
pub(crate) async fn dial<T, F>(
    address: &Address,
    options: &DialOptions,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, DialError>
where
    F: Future<Output = io::Result<T>>,
{
    let names = &options.names;
    let failed = |cause| DialError::from_io(address, cause);
    let place = names.hosts().detour(address.location());
    // Past the cache and the race: most addresses that programs dial are numbers.
    if names.hosts().is_empty()
        && let Some(number) = place::literal(&place).map_err(failed)?
    {
        let connecting = async { connect(number).await.map_err(failed) };
        return options.connect_in_time(address, connecting).await;
    }
    let (host, port) = place::host_and_port(&place).unwrap_or((&place, 0));
    let known = names.hosts().addresses_of(host, port).map(|known| with_port(known, port).collect());
    let given = match known {
        Some(known) => Some(known),
        None => match place::literal(&place).map_err(failed)? {
            Some(number) => Some(vec![number]),
            None => names.given(host, port),
        },
    };
    let is_asked = given.is_none();
    let (now, records) = (precise(), if given.is_some() { &[Records::Any] } else { names.records() });
    let mut race = Race::new(address, options, port, records, now);
    match given {
        Some(given) => race.take(Records::Any, Ok(given), now),
        None => race.ask(host, records, now),
    }
    let outcome = race.run(connect).await;
    if is_asked && matches!(&outcome, Err(error) if !matches!(error, DialError::Resolve { .. })) {
        names.doubt(host);
    }
    outcome
}

/// The addresses of a `HOST:PORT`, without a dial: all that are known within [`resolve_timeout`](DialOptions::resolve_timeout).
pub(crate) async fn resolve(address: &Address, options: &DialOptions) -> Result<Vec<SocketAddr>, DialError> {
    let names = &options.names;
    let place = names.hosts().detour(address.location());
    if let Some(number) = place::literal(&place).map_err(|cause| DialError::from_io(address, cause))? {
        return Ok(vec![number]);
    }
    let (host, port) = place::host_and_port(&place).unwrap_or((&place, 0));
    let after = options.resolve_timeout;
    let found = tokio::time::timeout(after, names.addresses(host, port)).await;
    let found = found.unwrap_or(Err(ResolveError::Timeout { after }));
    if found.is_ok() {
        DialLog::note(DialStep::Resolved);
    }
    found.map_err(|error| DialError::of_resolving(address, error.into()))
}

/// A dial under way.
struct Race<'a, F> {
    address: &'a Address,
    options: &'a DialOptions,
    port: u16,
    /// The number of this dial, if addresses take turns.
    turn: usize,
    machine: HappyEyeballs,
    queries: Vec<(Records, Asking<'a>)>,
    attempts: Vec<Attempt<F>>,
    resolve_until: Instant,
    /// Set by the first attempt.
    connect_until: Option<Instant>,
    unresolved: Option<ResolveError>,
    failure: Option<io::Error>,
}

/// A query under way.
type Asking<'a> = Pin<Box<dyn Future<Output = Found> + 'a>>;

struct Attempt<F> {
    address: SocketAddr,
    /// Which of them it is.
    number: usize,
    connecting: Pin<Box<F>>,
}

enum Happened<T> {
    Answered(Records, Found),
    Ended(Attempted<T>),
    Time,
}

struct Attempted<T> {
    address: SocketAddr,
    number: usize,
    result: io::Result<T>,
}

impl<'a, F> Race<'a, F> {
    fn new(
        address: &'a Address,
        options: &'a DialOptions,
        port: u16,
        records: &[Records],
        now: Instant,
    ) -> Self {
        Self {
            address,
            options,
            port,
            turn: options.in_turn.as_ref().map_or(0, AddressTurns::next),
            machine: HappyEyeballs::new(options.attempt_delay, records),
            queries: Vec::new(),
            attempts: Vec::new(),
            resolve_until: clock::after(now, options.resolve_timeout),
            connect_until: None,
            unresolved: None,
            failure: None,
        }
    }

    fn names(&self) -> &'a Names {
        &self.options.names
    }

    /// Looks the name up, and asks for what is not known.
    fn ask(&mut self, host: &str, records: &[Records], now: Instant) {
        let names = self.names();
        for &records in records {
            match names.look_up(host, records) {
                Looked::Known(found) => self.answered(records, found, now),
                looked => self.queries.push((records, Box::pin(looked.found(names)))),
            }
        }
    }

    fn answered(&mut self, records: Records, found: Found, now: Instant) {
        let port = self.port;
        self.take(records, found.map(|addresses| with_port(&addresses, port).collect()), now);
    }

    fn take(&mut self, records: Records, found: Result<Vec<SocketAddr>, ResolveError>, now: Instant) {
        let addresses = found.unwrap_or_else(|error| {
            self.unresolved = Some(worse(self.unresolved.take(), error));
            Vec::new()
        });
        let names = self.names();
        let candidate = |address| Candidate { address, is_cooling: names.is_cooling(address, now) };
        let (mut addresses, cooling): (Vec<_>, Vec<_>) =
            addresses.into_iter().map(candidate).partition(|candidate| !candidate.is_cooling);
        if !addresses.is_empty() {
            let first = self.turn % addresses.len();
            addresses.rotate_left(first);
        }
        addresses.extend(cooling);
        self.machine.process_input(Input::Answer { records, addresses: &addresses }, now);
    }

    async fn run<T>(mut self, connect: impl Fn(SocketAddr) -> F) -> Result<T, DialError>
    where
        F: Future<Output = io::Result<T>>,
    {
        let mut begun = 0;
        loop {
            let now = precise();
            let until = match self.machine.next_output(now) {
                Output::Attempt(address) => {
                    self.connect_until.get_or_insert_with(|| {
                        DialLog::note(DialStep::Resolved);
                        clock::after(now, self.options.connect_timeout)
                    });
                    let connecting = Box::pin(connect(address));
                    self.attempts.push(Attempt { address, number: begun, connecting });
                    begun += 1;
                    continue;
                }
                Output::Wait(until) => until,
                Output::Over => return Err(self.failed()),
            };
            match self.next(until).await {
                Happened::Answered(records, found) => self.answered(records, found, precise()),
                Happened::Ended(Attempted { address, number, result: Ok(connected) }) => {
                    // Those before it have had their head start, and have not answered.
                    let silent = self.attempts.iter().filter(|other| other.number < number);
                    self.names().note_failed(silent.map(|other| other.address));
                    self.names().note_connected(address);
                    return Ok(connected);
                }
                Happened::Ended(Attempted { address, result: Err(failure), .. }) => {
                    if is_of_peer(&failure) {
                        self.names().note_failed([address]);
                    }
                    // That a machine was reached tells more than that there is no route to another one.
                    let refused = |failure: &io::Error| failure.kind() == io::ErrorKind::ConnectionRefused;
                    if !self.failure.as_ref().is_some_and(refused) {
                        self.failure = Some(failure);
                    }
                    self.machine.process_input(Input::Failed, precise());
                }
                Happened::Time => self.check_deadlines(precise())?,
            }
        }
    }

    /// The next event, or the next time at which there is something to do.
    async fn next<T>(&mut self, until: Option<Instant>) -> Happened<T>
    where
        F: Future<Output = io::Result<T>>,
    {
        let resolving = (!self.queries.is_empty()).then_some(self.resolve_until);
        let until = [until, resolving, self.connect_until].into_iter().flatten().min();
        // There is always a query or an attempt, each with its deadline.
        let until = until.unwrap_or(self.resolve_until);
        let mut time = pin!(tokio::time::sleep_until(until.into()));
        poll_fn(|cx| match self.poll_event(cx) {
            Poll::Pending => time.as_mut().poll(cx).map(|()| Happened::Time),
            event => event,
        })
        .await
    }

    fn poll_event<T>(&mut self, cx: &mut Context<'_>) -> Poll<Happened<T>>
    where
        F: Future<Output = io::Result<T>>,
    {
        for at in 0..self.queries.len() {
            if let Poll::Ready(found) = self.queries[at].1.as_mut().poll(cx) {
                let (records, _) = self.queries.swap_remove(at);
                return Poll::Ready(Happened::Answered(records, found));
            }
        }
        for at in 0..self.attempts.len() {
            if let Poll::Ready(result) = self.attempts[at].connecting.as_mut().poll(cx) {
                let Attempt { address, number, .. } = self.attempts.swap_remove(at);
                return Poll::Ready(Happened::Ended(Attempted { address, number, result }));
            }
        }
        Poll::Pending
    }

    fn check_deadlines(&mut self, now: Instant) -> Result<(), DialError> {
        if self.connect_until.is_some_and(|until| until <= now) {
            self.names().note_failed(self.attempts.iter().map(|attempt| attempt.address));
            let after = self.options.connect_timeout;
            return Err(DialError::Timeout { address: self.address.clone(), after });
        }
        if self.resolve_until <= now {
            for (records, _) in std::mem::take(&mut self.queries) {
                let after = self.options.resolve_timeout;
                self.take(records, Err(ResolveError::Timeout { after }), now);
            }
        }
        Ok(())
    }

    fn failed(self) -> DialError {
        match self.failure {
            Some(failure) => DialError::from_io(self.address, failure),
            None => {
                let error = self.unresolved.unwrap_or(ResolveError::NotFound);
                DialError::of_resolving(self.address, error.into())
            }
        }
    }
}

/// Whether an error tells something of the address. The others are of this machine, such as that no descriptor is left.
fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::TimedOut
    )
}
