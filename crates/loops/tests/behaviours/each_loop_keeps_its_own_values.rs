//! Loop-local storage holds one value of a type for each loop, shared by all its tasks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use anywire_loops::{Loops, current, local};

#[derive(Default)]
struct Visitors(RefCell<Vec<usize>>);

#[test]
fn each_loop_keeps_its_own_values() {
    let loops = Loops::start(3).expect("three loops can be had");
    for visit in 0..10 {
        for one in loops.iter() {
            let index = one.id().index();
            one.spawn(move || async move {
                local(Visitors::default).0.borrow_mut().push(100 * index + visit);
            })
            .wait()
            .expect("the loop runs");
        }
    }
    for one in loops.iter() {
        let index = one.id().index();
        let seen = one
            .spawn(|| async { local(Visitors::default).0.borrow().clone() })
            .wait()
            .expect("the loop runs");
        assert_eq!(seen, (0..10).map(|visit| 100 * index + visit).collect::<Vec<_>>());
    }
}

#[test]
fn making_a_value_may_ask_for_others() {
    struct Inner(Cell<u32>);
    struct Outer(Rc<Inner>);
    struct Twice(u32);

    let loops = Loops::start(1).expect("one loop can be had");
    let same = loops.get(0).spawn(|| async {
        let outer = local(|| Outer(local(|| Inner(Cell::new(1)))));
        let inner = local(|| Inner(Cell::new(2)));
        // Even for itself: the value that is there first stays.
        let twice = local(|| Twice(local(|| Twice(1)).0 + 1));
        (Rc::ptr_eq(&outer.0, &inner), inner.0.get(), twice.0)
    });
    assert_eq!(same.wait(), Ok((true, 1, 1)));
}

#[test]
fn the_newest_is_dropped_first() {
    struct Named<const NUMBER: usize>(mpsc::Sender<usize>);
    impl<const NUMBER: usize> Drop for Named<NUMBER> {
        fn drop(&mut self) {
            let _ = self.0.send(NUMBER);
        }
    }
    struct Outer(Rc<Named<3>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            let _ = self.0.0.send(4);
        }
    }
    let loops = Loops::start(1).expect("one loop can be had");
    let (tell, told) = mpsc::channel();
    let made = loops.get(0).spawn(move || async move {
        let _held_beyond = local(|| Named::<1>(tell.clone()));
        local(|| Named::<2>(tell.clone()));
        // What a value asked for when it was made is older, so it is still there when the value is dropped.
        local(|| Outer(local(|| Named::<3>(tell.clone()))));
    });
    made.wait().expect("the loop runs");
    loops.shutdown(Duration::ZERO).expect("not on a loop");
    assert_eq!(told.into_iter().collect::<Vec<_>>(), [4, 3, 2, 1]);
}

#[test]
fn other_threads_are_no_loops() {
    assert!(current().is_none());
    assert!(std::panic::catch_unwind(|| local(|| 1)).is_err());
    assert!(std::panic::catch_unwind(|| anywire_loops::spawn(async {})).is_err());
    assert!(std::panic::catch_unwind(anywire_loops::Deadline::new).is_err());
}
