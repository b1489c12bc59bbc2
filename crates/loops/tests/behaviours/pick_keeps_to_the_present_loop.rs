//! New work goes to the loop that asks, or to each loop in turn.

use std::collections::HashMap;

use anywire_loops::{LoopId, Loops};

#[test]
fn from_outside_each_loop_has_its_turn() {
    let loops = Loops::start(3).expect("three loops can be had");
    let mut turns: HashMap<LoopId, u32> = HashMap::new();
    for _ in 0..300 {
        *turns.entry(loops.pick().id()).or_default() += 1;
    }
    assert_eq!(turns.len(), 3);
    assert!(turns.values().all(|&turns| turns == 100), "{turns:?}");
}

#[test]
fn on_a_loop_it_is_that_loop() {
    let loops = Loops::start(2).expect("two loops can be had");
    let others = Loops::start(2).expect("two loops can be had");
    for one in loops.iter() {
        let (loops, others) = (loops.clone(), others.clone());
        let checked = one.clone().spawn(move || async move {
            assert!(anywire_loops::current().is_some_and(|present| present.same_as(&one)));
            assert!(one.is_current());
            for _ in 0..10 {
                assert!(loops.pick().same_as(&one));
            }
            // For another set of loops the caller is a stranger: the next in turn is picked.
            let picked = others.pick();
            assert!(!picked.same_as(&one) && !picked.is_current());
            assert!(!others.pick().same_as(&picked));
        });
        checked.wait().expect("no assertion failed");
    }
    assert!(!loops.get(0).same_as(&others.get(0)));
    assert_eq!(loops.get(1).id().to_string(), "1");
}
