//! Which connection takes what is due, on a clock of the test.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Wake;

use super::super::*;

/// A loop whose connections have room, in this order, and whose requests are due a millisecond apart.
struct Scene {
    paced: Paced,
    slots: Vec<Rc<Slot>>,
    begin: Instant,
}

impl Scene {
    fn new(reuse: Reuse, connections: usize) -> Self {
        let plan = Plan { schedule: Some(Schedule::constant(1000.0)), reuse, ..Plan::new("http://test/") };
        let paced = Paced::of(&plan, Part::every(1, 0, connections)).expect("it has a schedule");
        let begin = Instant::now();
        paced.begin_measuring(begin, 100);
        let slots: Vec<_> = (0..connections).map(|_| Rc::new(Slot::default())).collect();
        for slot in &slots {
            assert_eq!(paced.take(slot, begin - MS).due, None, "nothing is due yet");
        }
        Self { paced, slots, begin }
    }

    /// The connections that take what is due at this moment, the first of all due at 0.
    fn takers(&self, ms: u32) -> Vec<usize> {
        let now = self.begin + MS * ms;
        self.paced.promise(now);
        let promised = (0..self.slots.len()).filter(|at| self.slots[*at].is_promised());
        promised.filter(|at| self.paced.take(&self.slots[*at], now).due.is_some()).collect()
    }

    /// The connection has its response, and room again.
    fn answers(&self, connection: usize, ms: u32) {
        assert_eq!(self.paced.take(&self.slots[connection], self.begin + MS * ms).due, None);
    }

    /// Who takes each of some requests, if every response comes before the next one is due.
    fn in_turn(&self, requests: u32) -> Vec<usize> {
        let mut all = Vec::new();
        for ms in 0..requests {
            let takers = self.takers(ms);
            takers.iter().for_each(|taker| self.answers(*taker, ms));
            all.extend(takers);
        }
        all
    }
}

#[test]
fn the_connection_that_was_idle_for_longest_is_the_next() {
    assert_eq!(Scene::new(Reuse::Lru, 3).in_turn(7), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn the_connection_that_was_used_last_is_the_next() {
    assert_eq!(Scene::new(Reuse::Mru, 3).in_turn(4), [2, 2, 2, 2]);
}

#[test]
fn what_is_due_together_goes_to_different_connections() {
    for (reuse, spared) in [(Reuse::Lru, 2), (Reuse::Mru, 0)] {
        let scene = Scene::new(reuse, 3);
        let takers = scene.takers(1);
        assert!(takers.len() == 2 && !takers.contains(&spared), "{reuse:?}: {takers:?}");
    }
}

#[test]
fn without_room_what_is_due_waits_for_the_first_that_has_it() {
    let scene = Scene::new(Reuse::Lru, 1);
    assert_eq!(scene.takers(0), [0]);
    assert_eq!((scene.takers(5), scene.paced.is_busy()), (vec![], true));
    let now = scene.begin + MS * 9;
    let taken = scene.paced.take(&scene.slots[0], now);
    let due = taken.due.expect("it is late");
    assert_eq!(due.intended, scene.begin + MS, "the oldest goes first");
    assert_eq!(taken.own_lag, Duration::ZERO, "it had no room before");
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn who_has_to_send_goes_before_who_has_to_read() {
    let scene = Scene::new(Reuse::Lru, 4);
    let (reader, woken) = counted();
    let context = Context::from_waker(&reader);
    let gives_way = |at: usize, ms| {
        let now = scene.begin + MS * ms;
        scene.paced.gives_way(&scene.slots[at], &context, now)
    };
    assert!(!gives_way(0, 0), "what is due is promised to the first, without the task that paces");
    assert!(gives_way(2, 0) && gives_way(3, 0) && gives_way(2, 1) && !gives_way(1, 1));
    scene.paced.turn_ended();
    assert_eq!(woken(), 0, "there is something to send");
    assert_eq!(scene.takers(1), [0, 1]);
    for turns in [1, 2, 2] {
        scene.paced.turn_ended();
        assert_eq!(woken(), turns, "one has its turn behind another");
    }
    assert!(!gives_way(0, 1), "all that is due has left");
    // One that ends instead of sending holds up nobody.
    for ended in [2, 3] {
        let before = woken();
        assert!(gives_way(0, 2));
        assert_eq!(woken(), before + 1, "it is woken for what it was promised");
        scene.paced.leave(&scene.slots[ended]);
        assert_eq!(woken(), before + 2, "the other has its turn");
    }
    assert!(!gives_way(0, 2), "no other has room");
}

/// A waker, and how often it was used.
fn counted() -> (Waker, impl Fn() -> usize) {
    struct Wakes(AtomicUsize);
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    (Waker::from(Arc::clone(&wakes)), move || wakes.0.load(Relaxed))
}
