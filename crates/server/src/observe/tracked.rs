//! An exchange from the head of its request to the last byte of its response, as the drivers carry it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anywire_http::{Headers, Method, RequestHead, Response, StatusCode, Version};
use anywire_loops::clock::precise;
use anywire_wire::{Address, Position};

use super::{Begun, Ended, ExchangeEnd, MakeObserver, Observer};
use crate::contained::{Payload, dispose, drop_each, text};
use crate::counters::Live;
use crate::layers::request_id::is_id;
use crate::pool::QueueTime;

/// The observers of one loop.
#[derive(Default)]
pub(crate) struct Observers {
    each: Vec<RefCell<Box<dyn ErasedObserver>>>,
    counters: Arc<Live>,
    /// The deadline of a shutdown has passed: what ends now was cut.
    is_cut: Cell<bool>,
}

/// An observer without its type.
pub(crate) trait ErasedObserver {
    fn begin(&mut self, begun: &Begun<'_>) -> Box<dyn Any>;
    fn end(&mut self, exchange: Box<dyn Any>, ended: &Ended<'_>);
}

pub(super) struct TypedObserver<O>(pub(super) O);

impl<O: Observer> ErasedObserver for TypedObserver<O> {
    fn begin(&mut self, begun: &Begun<'_>) -> Box<dyn Any> {
        Box::new(self.0.begin(begun))
    }

    fn end(&mut self, exchange: Box<dyn Any>, ended: &Ended<'_>) {
        if let Ok(exchange) = exchange.downcast() {
            self.0.end(*exchange, ended);
        }
    }
}

impl Observers {
    pub(crate) fn new(make: &[MakeObserver], counters: Arc<Live>) -> Rc<Self> {
        let mut observers = Self { each: Vec::new(), counters, is_cut: Cell::new(false) };
        for make in make {
            match catch_unwind(AssertUnwindSafe(make)) {
                Ok(observer) => observers.each.push(RefCell::new(observer)),
                Err(panic) => observers.note_panic(panic),
            }
        }
        Rc::new(observers)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// What ends from now on was cut.
    pub(crate) fn cut(&self) {
        self.is_cut.set(true);
    }

    /// A request has come whose head was read. If layers name requests, the name that its peer has written is none by itself.
    #[cold]
    pub(crate) fn begin(
        self: &Rc<Self>,
        head: &mut RequestHead,
        layers_name: bool,
        route: Option<&Rc<str>>,
        received_bytes: usize,
        peer: &Address,
    ) -> Tracked {
        let mut record = ExchangeRecord::new(head.version(), peer);
        record.method = Some(head.method().clone());
        record.route = route.cloned();
        if layers_name {
            head.extensions_mut().insert(record.name.clone());
        } else {
            record.request_id = request_id(head.headers()).filter(|id| is_id(id));
        }
        record.received_bytes = received_bytes as u64;
        self.open(record, Some(head))
    }

    /// A request has come whose head could not be read.
    #[cold]
    pub(crate) fn begin_unknown(self: &Rc<Self>, version: Version, peer: &Address) -> Tracked {
        if self.is_empty() { Tracked::default() } else { self.open(ExchangeRecord::new(version, peer), None) }
    }

    fn open(self: &Rc<Self>, record: ExchangeRecord, head: Option<&RequestHead>) -> Tracked {
        let begun = Begun { head, route: record.route.as_deref(), peer: &record.peer };
        let begin = |observer: &RefCell<Box<dyn ErasedObserver>>| {
            catch_unwind(AssertUnwindSafe(|| observer.borrow_mut().begin(&begun)))
                .map_err(|panic| self.note_panic(panic))
                .ok()
        };
        let kept = self.each.iter().map(begin).collect();
        Tracked(Some(Box::new(OpenExchange { observers: Rc::clone(self), kept, record })))
    }

    fn end(&self, kept: Vec<Option<Box<dyn Any>>>, ended: &Ended<'_>) {
        for (observer, kept) in self.each.iter().zip(kept) {
            let Some(kept) = kept else { continue };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer.borrow_mut().end(kept, ended))) {
                self.note_panic(panic);
            }
        }
    }

    fn note_panic(&self, panic: Payload) {
        self.counters.hook_panics.increment();
        tracing::error!(panic = text(&*panic), "an observer panicked");
        dispose(panic);
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        drop_each(self.each.drain(..));
    }
}

/// An exchange under way, or nothing if nobody observes it. Dropped without an [end](Self::end_by), its peer has left.
#[derive(Default)]
pub(crate) struct Tracked(Option<Box<OpenExchange>>);

struct OpenExchange {
    observers: Rc<Observers>,
    /// What each observer keeps of it.
    kept: Vec<Option<Box<dyn Any>>>,
    record: ExchangeRecord,
}

/// What is known of an exchange so far.
struct ExchangeRecord {
    method: Option<Method>,
    route: Option<Rc<str>>,
    version: Version,
    peer: Address,
    name: GivenName,
    /// What counts if no layer has named it.
    request_id: Option<Box<str>>,
    status: Option<StatusCode>,
    received_bytes: u64,
    sent_bytes: u64,
    begun_at: Instant,
    queue_time: Option<Duration>,
    head_at: Option<Instant>,
    end: Option<ExchangeEnd>,
}

impl Tracked {
    /// Takes it, and leaves nothing.
    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The route was looked up, within layers of the server.
    #[cold]
    pub(crate) fn set_route(&mut self, route: Option<&Rc<str>>) {
        if let Some(open) = &mut self.0 {
            open.record.route = route.cloned();
        }
    }

    /// Bytes of the request's body have come.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        if let Some(open) = &mut self.0 {
            open.record.received_bytes += bytes as u64;
        }
    }

    /// The head of the response was written, and its body if that is whole and follows. An earlier response, if there was one,
    /// has not left.
    #[inline]
    pub(crate) fn responds(&mut self, response: &Response, has_body: bool) {
        if let Some(open) = &mut self.0 {
            open.record.responds(response, has_body);
        }
    }

    /// Bytes of the response's body were written.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(open) = &mut self.0 {
            open.record.sent_bytes += bytes as u64;
        }
    }

    /// Sets how it ends, unless that is known.
    #[inline]
    pub(crate) fn ends(&mut self, end: ExchangeEnd) {
        if let Some(open) = &mut self.0 {
            open.record.end.get_or_insert(end);
        }
    }

    /// It ends now.
    #[inline]
    pub(crate) fn end_by(mut self, end: ExchangeEnd) {
        self.ends(end);
    }
}

impl ExchangeRecord {
    fn new(version: Version, peer: &Address) -> Self {
        Self {
            method: None,
            route: None,
            version,
            peer: peer.clone(),
            name: GivenName::default(),
            request_id: None,
            status: None,
            received_bytes: 0,
            sent_bytes: 0,
            begun_at: precise(),
            queue_time: None,
            head_at: None,
            end: None,
        }
    }

    #[cold]
    fn responds(&mut self, response: &Response, has_body: bool) {
        self.status = Some(response.status);
        self.head_at = Some(precise());
        self.queue_time = response.extensions().get().map(|QueueTime(waited)| *waited);
        let whole = response.body.as_full().filter(|_| has_body);
        self.sent_bytes = whole.map_or(0, |whole| whole.len() as u64);
        if let Some(id) = request_id(&response.headers) {
            self.request_id = Some(id);
        }
    }
}

impl Drop for OpenExchange {
    #[cold]
    fn drop(&mut self) {
        let Self { observers, kept, record } = self;
        let unsaid = if observers.is_cut.get() { ExchangeEnd::Cut } else { ExchangeEnd::PeerLeft };
        let since = |at: Instant| at.saturating_duration_since(record.begun_at);
        let ended = Ended {
            method: record.method.as_ref(),
            route: record.route.as_deref(),
            version: record.version,
            peer: &record.peer,
            request_id: record.name.0.get().map(AsRef::as_ref).or(record.request_id.as_deref()),
            status: record.status,
            received_bytes: record.received_bytes,
            sent_bytes: record.sent_bytes,
            time_to_head: record.head_at.map(since),
            queue_time: record.queue_time,
            duration: since(precise()),
            end: match record.end.unwrap_or(unsaid) {
                ExchangeEnd::Complete if record.status == Some(StatusCode::SWITCHING_PROTOCOLS) => {
                    ExchangeEnd::Upgraded
                }
                end => end,
            },
        };
        observers.end(std::mem::take(kept), &ended);
    }
}

/// The name that a layer gives the request of an exchange. It travels with the request, and the exchange has it whatever becomes of the
/// layer: a handler that times out, and a peer that leaves, end it before it has a response.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenName(Arc<OnceLock<Arc<str>>>);

impl GivenName {
    /// Gives this name, unless a layer around has given one.
    pub(crate) fn give(&self, name: &Arc<str>) {
        self.0.get_or_init(|| Arc::clone(name));
    }
}

/// The exchanges of a connection whose responses are written and have not left, in order.
#[derive(Default)]
pub(crate) struct Written(Option<Box<Queue>>);

#[derive(Default)]
struct Queue {
    /// With the place behind the last byte.
    exchanges: VecDeque<(Position, Tracked)>,
}

impl Written {
    /// The response of this exchange is written: its last byte stands before `end`.
    #[cold]
    pub(crate) fn push(&mut self, end: Position, exchange: Tracked) {
        self.0.get_or_insert_default().exchanges.push_back((end, exchange));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The wire has taken everything before this place.
    #[cold]
    pub(crate) fn taken(&mut self, until: Position) {
        let Some(queue) = &mut self.0 else { return };
        while let Some((end, _)) = queue.exchanges.front()
            && *end <= until
        {
            if let Some((_, exchange)) = queue.exchanges.pop_front() {
                exchange.end_by(ExchangeEnd::Complete);
            }
        }
        if queue.exchanges.is_empty() {
            self.0 = None;
        }
    }

    /// None of them will leave whole.
    #[cold]
    pub(crate) fn end_by(&mut self, end: ExchangeEnd) {
        for (_, exchange) in self.0.take().into_iter().flat_map(|queue| queue.exchanges) {
            exchange.end_by(end);
        }
    }
}

/// What these fields name a request: it goes into logs, so it is short.
fn request_id(headers: &Headers) -> Option<Box<str>> {
    headers.get(REQUEST_ID).filter(|id| id.len() <= REQUEST_ID_BYTES_MAX).map(Into::into)
}

const REQUEST_ID: &str = "x-request-id";

const REQUEST_ID_BYTES_MAX: usize = 128;
