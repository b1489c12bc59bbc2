//! A loop whose tasks always have something to do never sleeps, and still takes what is handed over.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc;

use anywire_loops::{Loops, local};

#[derive(Default)]
struct Enough(Cell<bool>);

#[test]
fn a_loop_that_never_runs_dry_takes_hand_overs() {
    let loops = Loops::start(1).expect("one loop can be had");
    let one = loops.get(0);
    let (spins, is_spinning) = mpsc::channel();
    let spinner = one.spawn(|| async move {
        let enough: Rc<Enough> = local(Enough::default);
        let mut turns = 0u64;
        while !enough.0.get() {
            turns += 1;
            if turns == 100 {
                spins.send(()).expect("the test listens");
            }
            tokio::task::yield_now().await;
        }
        turns
    });
    is_spinning.recv().expect("it spins");
    // Only a hand-over can end the spinner.
    one.spawn(|| async { local(Enough::default).0.set(true) }).wait().expect("it is taken");
    assert!(spinner.wait().expect("it ends") >= 100);
}
