//! A neighbour that asks for an address gets one answer, from the loop that receives the question: a loop that is stuck costs the others no
//! neighbour, though it was the first that had the address.

use crate::hosts::run;
use crate::queues::{Loops, Queue, a_while};

#[test]
fn whoever_receives_it_answers() {
    run(async || {
        let loops = Loops::new(2);
        let Loops { queues, brakes, .. } = &loops;
        let [both, first, second] = [[10, 0, 0, 2], [10, 0, 0, 3], [10, 0, 0, 4]];
        loops.join(both, &[0, 1]).await;
        loops.join(first, &[0]).await;
        loops.join(second, &[1]).await;
        loops.settle().await;

        // Each queue gets the questions for all three.
        for queue in queues {
            [both, first, second, [10, 0, 0, 9]].into_iter().for_each(|address| queue.asks(address));
            a_while().await;
            let mut all: Vec<_> = queues.iter().flat_map(Queue::answered).collect();
            all.sort_unstable();
            assert_eq!(all, [both, first, second], "one answer for each address of ours");
        }

        // The first one leads the address that both have.
        for (stuck, other) in [(0, 1), (1, 0)] {
            brakes[stuck].set(true);
            queues[other].asks(both);
            a_while().await;
            assert_eq!((queues[other].answered(), queues[stuck].answered()), (vec![both], vec![]));
            brakes[stuck].set(false);
            a_while().await;
            assert_eq!(queues[stuck].answered(), Vec::<[u8; 4]>::new(), "it was answered");
        }
    });
}

/// It is stuck, but another loop that has the address is not.
#[test]
fn a_loop_without_the_address_asks_more_than_one() {
    run(async || {
        let loops = Loops::new(3);
        let (queues, both) = (&loops.queues, [10, 0, 0, 2]);
        loops.join(both, &[0, 1]).await;
        loops.settle().await;
        for stuck in [0, 1] {
            loops.brakes[stuck].set(true);
            // As neighbours do, it is asked for again.
            for _ in 0..2 {
                queues[2].asks(both);
                a_while().await;
            }
            assert_eq!(queues[1 - stuck].answered(), [both], "loop {stuck} is stuck");
            loops.brakes[stuck].set(false);
            a_while().await;
            assert_eq!(queues[stuck].answered(), [both], "each is asked in turn");
        }
    });
}

/// A loop that has asked for the address, and does not use it yet, cannot answer.
#[test]
fn a_loop_that_is_about_to_have_the_address_leaves_it_to_others() {
    run(async || {
        let loops = Loops::new(2);
        let (queues, both) = (&loops.queues, [10, 0, 0, 2]);
        loops.join(both, &[0]).await;
        loops.settle().await;
        // The question is there when the loop takes the address.
        loops.brakes[1].set(true);
        let second = loops.hosts[1].clone();
        let joining = tokio::task::spawn_local(async move {
            second.join("10.0.0.2/24".parse().expect("a network"), None).await
        });
        tokio::task::yield_now().await;
        queues[1].asks(both);
        loops.brakes[1].set(false);
        joining.await.expect("no panic").expect("the other loop has it");
        a_while().await;
        let answers: Vec<_> = queues.iter().flat_map(Queue::answered).collect();
        assert_eq!(answers, [both]);
    });
}
