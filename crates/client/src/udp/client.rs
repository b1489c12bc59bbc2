//! A client of one peer, on one loop.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anywire_http::gateway;
use anywire_loops::LocalTask;
use anywire_loops::clock::precise;
use anywire_wire::udp::{
    DatagramAddress, Received, ToDatagramAddress, Udp, UdpError, UdpOptions, is_too_large,
};
use tokio::sync::oneshot;

use super::error::UdpCallError;
use super::matching::Matching;
use crate::Error;

/// Calls one peer by datagrams. Cheap to clone; all clones share a socket, which is closed with the last of them.
#[derive(Clone)]
pub struct UdpClient {
    inner: Rc<Inner>,
    _receiving: Rc<Receiving>,
}

/// How a client calls.
#[derive(Debug, Clone)]
pub struct UdpClientOptions {
    /// How long an attempt waits for room to send, and for its response (1 s).
    pub timeout: Duration,
    /// How often the request is sent before the call fails (1). The peer may then see it more than once, so take more only
    /// for requests that do no harm twice.
    pub attempts: u32,
    /// Calls under way at once (1024).
    pub calls_max: usize,
    /// Buffer, largest datagram and the like.
    pub socket: UdpOptions,
}

impl Default for UdpClientOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(1), attempts: 1, calls_max: 1024, socket: UdpOptions::default() }
    }
}

/// What a client has counted: a copy of this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpClientCounters {
    /// Requests that were sent, each attempt.
    pub sent: u64,
    /// Responses that found their request.
    pub matched: u64,
    /// Datagrams that belong to no call under way: late ones, second ones, or without a tag. They are dropped.
    pub unmatched: u64,
    /// Attempts that ended without a response.
    pub timeouts: u64,
    /// Datagrams that the system dropped at the socket.
    pub dropped_by_system: u64,
}

impl UdpClient {
    /// A client of this peer, on the loop that calls. Nothing is sent: nobody need be there yet, and a peer that is started anew is
    /// found again.
    ///
    /// # Errors
    /// [`UdpError`]: the name does not resolve, or the system refused.
    ///
    /// # Panics
    /// If the caller does not run on a loop.
    pub async fn connect(
        address: impl ToDatagramAddress,
        matching: Matching,
        options: UdpClientOptions,
    ) -> Result<Self, UdpError> {
        gateway::know_calls(Error::status_of);
        let peer = address.to_datagram_address()?;
        let socket = Udp::connect(&peer, &options.socket).await?;
        let inner = Rc::new(Inner {
            socket,
            peer,
            matching,
            options,
            calls: RefCell::default(),
            calls_made: Cell::default(),
            lost_at: Cell::default(),
            counters: Cell::default(),
        });
        let task = anywire_loops::spawn(Rc::clone(&inner).receive());
        Ok(Self { inner, _receiving: Rc::new(Receiving(task)) })
    }

    /// Sends a request, and waits for the datagram with the same tag.
    ///
    /// # Errors
    /// [`UdpCallError`]. A call that is dropped is forgotten; its response then counts as unmatched.
    pub async fn call(&self, request: &[u8]) -> Result<Vec<u8>, UdpCallError> {
        let inner = &*self.inner;
        let tag = inner.matching.tag(request).ok_or(UdpCallError::NoTag { bytes: request.len() })?;
        let attempts = inner.options.attempts.max(1);
        let (mut response, _registered) = inner.register(tag)?;
        for _ in 0..attempts {
            // A Unix socket whose peer reads nothing has no room, so sending may wait, too.
            let attempt = async {
                tokio::select! {
                    biased;
                    // To an earlier attempt.
                    outcome = &mut response => return outcome.unwrap_or(Err(UdpCallError::Ended)),
                    sent = inner.send(tag, request) => sent?,
                }
                (&mut response).await.unwrap_or(Err(UdpCallError::Ended))
            };
            match tokio::time::timeout(inner.options.timeout, attempt).await {
                Ok(outcome) => return outcome,
                Err(_) => inner.count(|counters| counters.timeouts += 1),
            }
        }
        let (peer, after) = (inner.peer.clone(), inner.options.timeout);
        Err(UdpCallError::Timeout { peer, after, attempts })
    }

    /// The peer.
    pub fn peer(&self) -> &DatagramAddress {
        &self.inner.peer
    }

    /// Its counters.
    pub fn counters(&self) -> UdpClientCounters {
        let dropped_by_system = self.inner.socket.drops().unwrap_or(0).into();
        UdpClientCounters { dropped_by_system, ..self.inner.counters.get() }
    }
}

impl fmt::Debug for UdpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpClient").field("peer", &self.inner.peer).finish()
    }
}

/// What all clones and the task that receives share.
struct Inner {
    socket: Udp,
    peer: DatagramAddress,
    matching: Matching,
    options: UdpClientOptions,
    /// Calls under way, by their tag.
    calls: RefCell<HashMap<u64, Call>>,
    /// Calls so far.
    calls_made: Cell<u64>,
    /// When the latest request was given up without a response, though the peer may have taken it.
    lost_at: Cell<Option<Instant>>,
    counters: Cell<UdpClientCounters>,
}

struct Call {
    /// Tells it from a later call with the same tag.
    number: u64,
    /// Datagrams that were sent for it.
    sent: u32,
    /// The end of its last attempt, if there is one: a response is too late then, though the loop has yet to say so.
    until: Option<Instant>,
    response: oneshot::Sender<Outcome>,
}

type Outcome = Result<Vec<u8>, UdpCallError>;

impl Inner {
    fn register(&self, tag: u64) -> Result<(oneshot::Receiver<Outcome>, Registered<'_>), UdpCallError> {
        let mut calls = self.calls.borrow_mut();
        let under_way = calls.len();
        match calls.entry(tag) {
            Entry::Occupied(_) => Err(UdpCallError::TagInUse { tag }),
            Entry::Vacant(_) if under_way >= self.options.calls_max => Err(UdpCallError::Full { under_way }),
            Entry::Vacant(place) => {
                let (sender, response) = oneshot::channel();
                let number = self.calls_made.get();
                self.calls_made.set(number + 1);
                let longest = self.options.timeout.saturating_mul(self.options.attempts.max(1));
                let until = precise().checked_add(longest);
                place.insert(Call { number, sent: 0, until, response: sender });
                Ok((response, Registered { inner: self, tag, number }))
            }
        }
    }

    async fn send(&self, tag: u64, request: &[u8]) -> Result<(), UdpCallError> {
        match self.socket.send(request).await {
            Ok(()) => {
                self.count(|counters| counters.sent += 1);
                if let Some(call) = self.calls.borrow_mut().get_mut(&tag) {
                    call.sent += 1;
                }
                Ok(())
            }
            Err(cause) => Err(self.failure(cause, request.len())),
        }
    }

    fn failure(&self, cause: io::Error, bytes: usize) -> UdpCallError {
        let peer = self.peer.clone();
        match cause.kind() {
            io::ErrorKind::ConnectionRefused => {
                UdpCallError::Refused { peer, is_certain: self.unanswered(precise()) == 0 }
            }
            _ if is_too_large(&cause) => UdpCallError::TooLarge { peer, bytes },
            _ => UdpCallError::System { peer, cause },
        }
    }

    /// Datagrams that are on their way, or may be, without a response or an error from the network so far.
    fn unanswered(&self, now: Instant) -> u64 {
        let is_on_its_way = |at: Instant| now.saturating_duration_since(at) < LIFETIME_MAX;
        let lost = u64::from(self.lost_at.get().is_some_and(is_on_its_way));
        lost + self.calls.borrow().values().map(|call| u64::from(call.sent)).sum::<u64>()
    }

    /// Datagrams of a call have no response, and wait for none any more.
    fn lose(&self, datagrams: u32) {
        if datagrams > 0 {
            self.lost_at.set(Some(precise()));
        }
    }

    /// Receives until the last client is dropped.
    async fn receive(self: Rc<Self>) {
        let mut received = Received::new(&self.socket);
        loop {
            match self.socket.receive(&mut received).await {
                Ok(()) => {
                    let now = precise();
                    received.iter().for_each(|datagram| {
                        let outcome = datagram.whole().map(<[u8]>::to_vec).map_err(UdpCallError::from);
                        self.settle(now, self.matching.tag(datagram.data()), outcome);
                    });
                }
                Err(gone)
                    if matches!(
                        gone.kind(),
                        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
                    ) =>
                {
                    self.refuse_all();
                }
                // The calls under way find out by their deadlines.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            // A peer that floods starves no other task of the loop.
            tokio::task::yield_now().await;
        }
    }

    /// Gives a response to its call, unless it has come too late.
    fn settle(&self, now: Instant, tag: Option<u64>, outcome: Outcome) {
        let in_time = |call: &Call| call.until.is_none_or(|until| now < until);
        let call = tag.and_then(|tag| match self.calls.borrow_mut().entry(tag) {
            Entry::Occupied(call) if in_time(call.get()) => Some(call.remove()),
            _ => None,
        });
        if let Some(call) = &call {
            // The peer has answered one of its attempts.
            self.lose(call.sent.saturating_sub(1));
        }
        match call.map(|call| call.response.send(outcome)) {
            Some(Ok(())) => self.count(|counters| counters.matched += 1),
            _ => self.count(|counters| counters.unmatched += 1),
        }
    }

    /// The system does not say for which request nobody was there. None of them will be answered, and if there are several,
    /// the peer may have taken some of them before it left.
    fn refuse_all(&self) {
        let is_certain = self.unanswered(precise()) == 1;
        for (_, call) in self.calls.borrow_mut().drain() {
            if !is_certain {
                self.lose(call.sent);
            }
            // A call that was dropped meanwhile waits for nothing.
            let _ = call.response.send(Err(UdpCallError::Refused { peer: self.peer.clone(), is_certain }));
        }
    }

    fn count(&self, change: impl FnOnce(&mut UdpClientCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

/// A call that waits for its response; dropped, it waits no more.
struct Registered<'i> {
    inner: &'i Inner,
    tag: u64,
    number: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut calls = self.inner.calls.borrow_mut();
        if calls.get(&self.tag).is_some_and(|call| call.number == self.number)
            && let Some(call) = calls.remove(&self.tag)
        {
            self.inner.lose(call.sent);
        }
    }
}

/// The task that receives; it ends with the last client.
struct Receiving(LocalTask<()>);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long a datagram may be on its way, and then the error that it meets: 2 minutes each (RFC 9293 section 3.4.1). An error that comes
/// later is none of it.
const LIFETIME_MAX: Duration = Duration::from_secs(240);

const PAUSE: Duration = Duration::from_millis(100);
