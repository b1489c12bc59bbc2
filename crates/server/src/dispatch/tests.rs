//! Several requests of one connection at a time, driven as a session with streams would drive them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use anywire_http::StatusCode;
use tokio::sync::Notify;

use super::*;
use crate::counters::Counters;
use crate::{Path, Router, State};

/// What lets each handler go on.
#[derive(Clone)]
struct Gates(Arc<[Notify; 4]>);

/// What handlers have dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<Mutex<Vec<usize>>>);

struct NotesDrop(usize, Rc<Dropped>);

impl Drop for NotesDrop {
    fn drop(&mut self) {
        self.1.0.lock().expect("no panic under the lock").push(self.0);
        assert_ne!(self.0, 3, "the destructor of 3 panics");
    }
}

async fn wait(
    Path(number): Path<usize>,
    State(gates): State<Gates>,
    State(dropped): State<Dropped>,
) -> String {
    let _noted = NotesDrop(number, dropped);
    gates.0[number].notified().await;
    assert_ne!(number, 2, "the handler of 2 panics");
    number.to_string()
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A request on its way.
struct Stream {
    run: Invocation,
    woken: Arc<Woken>,
    left: Duration,
}

/// A connection with many requests at a time.
struct Session {
    dispatch: Rc<Dispatch>,
    gates: Gates,
    dropped: Dropped,
    counters: Arc<Live>,
    streams: BTreeMap<usize, Stream>,
    spare: Option<Arc<Peer>>,
    /// The streams that were answered, in order.
    answered: Vec<(usize, StatusCode)>,
    polls: usize,
}

impl Session {
    fn new() -> Self {
        let (gates, dropped) = (Gates(Arc::default()), Dropped::default());
        let router = Router::new().state(gates.clone()).state(dropped.clone()).get("/wait/{number}", wait);
        let (table, counters) = (Arc::new(router.build().expect("routes are right")), Arc::<Live>::default());
        Self {
            dispatch: Rc::new(Dispatch::new(table, &Limits::default(), Arc::clone(&counters))),
            gates,
            dropped,
            counters,
            streams: BTreeMap::new(),
            spare: None,
            answered: Vec::new(),
            polls: 0,
        }
    }

    /// Four requests whose handlers wait, with deadlines of 10, 20, 30 and 40 seconds.
    fn of_four() -> Self {
        let mut session = Self::new();
        (0..4).for_each(|id| {
            session.open(id, &format!("/wait/{id}"), Duration::from_secs(10 * (id as u64 + 1)))
        });
        assert_eq!(session.streams.len(), 4);
        session
    }

    fn open(&mut self, id: usize, target: &str, left: Duration) {
        let head = RequestHead::new(Method::GET, target).expect("a target");
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let peer = || Peer::at("memory:test".parse().expect("an address"));
        let mut cx = TaskContext::from_waker(&waker);
        let answered = |answer: Answer<&mut Response>| self.answered.push((id, answer.response.status));
        let request = Received { kind: RequestKind::of(&head), head, body: None };
        let started = self.dispatch.start(request, &mut self.spare, peer, answered, &mut cx);
        if let Some(run) = started {
            self.streams.insert(id, Stream { run, woken, left });
        }
    }

    /// Polls the streams that were woken, and no other.
    fn poll_woken(&mut self) {
        let (spare, answered, polls) = (&mut self.spare, &mut self.answered, &mut self.polls);
        self.streams.retain(|id, stream| {
            if !stream.woken.0.swap(false, Ordering::Relaxed) {
                return true;
            }
            *polls += 1;
            let waker = Waker::from(Arc::clone(&stream.woken));
            match stream.run.poll(spare, &mut TaskContext::from_waker(&waker)) {
                Poll::Ready(answer) => answered.push((*id, answer.response.status)),
                Poll::Pending => return true,
            }
            false
        });
    }

    /// Lets time pass: a stream whose deadline has passed is answered.
    fn pass(&mut self, seconds: u64) {
        for stream in self.streams.values_mut() {
            stream.left = stream.left.saturating_sub(Duration::from_secs(seconds));
        }
        let late: Vec<_> = self.streams.extract_if(.., |_, stream| stream.left.is_zero()).collect();
        self.answered
            .extend(late.into_iter().map(|(id, stream)| (id, stream.run.time_out(&mut None).status)));
    }

    fn let_go(&mut self, number: usize) {
        self.gates.0[number].notify_one();
        self.poll_woken();
    }

    fn dropped(&self) -> Vec<usize> {
        self.dropped.0.lock().expect("no panic under the lock").clone()
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.counters.add_to(&mut sum);
        sum
    }
}

#[test]
fn each_wakes_its_own_waker_and_they_end_in_any_order() {
    let mut session = Session::of_four();
    session.poll_woken();
    assert_eq!(session.polls, 0, "none was woken");
    session.let_go(1);
    assert_eq!((session.polls, &session.answered[..]), (1, &[(1, StatusCode::OK)][..]));
    session.let_go(0);
    assert_eq!((session.polls, session.answered.last()), (2, Some(&(0, StatusCode::OK))));
    session.open(4, "/wait/1", Duration::from_secs(1));
    session.let_go(1);
    assert_eq!((session.polls, session.answered.last()), (3, Some(&(4, StatusCode::OK))));
    assert_eq!(session.counters().requests, 5);
}

#[test]
fn each_has_its_own_deadline() {
    let mut session = Session::of_four();
    session.pass(10);
    assert_eq!(session.answered, [(0, StatusCode::SERVICE_UNAVAILABLE)]);
    assert_eq!(session.dropped(), [0]);
    session.let_go(1);
    assert_eq!(session.answered.last(), Some(&(1, StatusCode::OK)));
    session.pass(20);
    assert_eq!(session.answered.last(), Some(&(2, StatusCode::SERVICE_UNAVAILABLE)));
    assert_eq!((session.streams.len(), session.counters().handler_timeouts), (1, 2));
}

#[test]
fn one_that_is_cancelled_leaves_the_others() {
    let mut session = Session::of_four();
    session.streams.remove(&0);
    // Its destructor panics, which ends no other either.
    session.streams.remove(&3);
    assert_eq!(session.dropped(), [0, 3]);
    assert_eq!(session.counters().panics, 1);
    session.let_go(1);
    assert_eq!(session.answered, [(1, StatusCode::OK)]);
    assert_eq!(session.streams.len(), 1);
}

#[test]
fn a_peer_is_free_again_once_the_arguments_are_extracted() {
    let mut session = Session::new();
    session.open(0, "/wait/0", Duration::MAX);
    let first = Arc::clone(session.spare.as_ref().expect("the handler waits and has no request"));
    session.open(1, "/wait/1", Duration::MAX);
    session.let_go(0);
    assert!(session.spare.as_ref().is_some_and(|peer| Arc::ptr_eq(peer, &first)));
}

#[test]
fn a_panic_is_the_answer_of_its_own_request() {
    let mut session = Session::of_four();
    session.let_go(2);
    assert_eq!(session.answered, [(2, StatusCode::INTERNAL_SERVER_ERROR)]);
    session.let_go(0);
    assert_eq!(session.answered.last(), Some(&(0, StatusCode::OK)));
    assert_eq!(session.counters().panics, 1);
}

#[test]
fn routes_that_have_ended_are_forgotten() {
    let mut dispatch = Session::new().dispatch;
    for _ in 0..40 {
        let table = Arc::new(Router::new().build().expect("no routes are right"));
        let next = Rc::new(dispatch.replaced_by(table, &Limits::default()));
        dispatch = next;
    }
    assert_eq!(dispatch.replaced.len(), 16, "bodies of the last ones may go on, as far as is known");
}

#[test]
fn only_so_much_memory_of_a_handler_is_kept() {
    let Session { dispatch, .. } = Session::new();
    let head = RequestHead::new(Method::GET, "/wait/0").expect("a target");
    let endpoint = dispatch.table.find(&head, &dispatch.param_names, &mut Params::default());
    let slots = &dispatch.slots[endpoint.index()];
    let put = |_: &i32| slots.put(dispatch.new_slot(endpoint).expect("no panic")).is_some();
    assert_eq!((0..300).filter(put).count(), 300 - 257, "the last one, and 256 others");
}

#[test]
fn the_router_answers_at_once() {
    let mut session = Session::of_four();
    session.open(4, "/nowhere", Duration::MAX);
    assert_eq!(session.answered, [(4, StatusCode::NOT_FOUND)]);
    assert_eq!(session.streams.len(), 4);
    let kept = session.dispatch.slots.iter().filter_map(FreeSlots::take).count();
    assert_eq!(kept, 1, "by an endpoint, as any other");
}

#[test]
fn the_memory_of_a_handler_is_kept_for_the_next_request() {
    for at_once in [false, true] {
        let mut session = Session::new();
        if at_once {
            session.gates.0[0].notify_one();
        }
        session.open(0, "/wait/0", Duration::MAX);
        if !at_once {
            session.let_go(0);
        }
        assert_eq!(session.answered, [(0, StatusCode::OK)]);
        assert!(session.dispatch.slots[0].take().is_some());
    }
}
