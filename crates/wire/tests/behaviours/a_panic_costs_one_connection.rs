//! A panic in what a listener calls closes that connection; the listener goes on, on every loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_panic_costs_one_connection() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(2);
        let calls = Arc::new(AtomicUsize::new(0));
        let listening =
            crate::support::bind(&loops, &address, &crate::support::listening()).serve(move |connection| {
                assert!(calls.fetch_add(1, Ordering::Relaxed) % 2 == 1, "every other one is a bug");
                drop(anywire_loops::spawn(crate::support::echo(connection)));
            });
        let address = listening.local().clone();
        let answered = crate::support::on_a_loop(move || async move {
            let mut answered = 0;
            for _ in 0..20 {
                let mut connection = crate::support::dial(&address).await;
                // If it was closed already the write may fail, or the read may; neither hangs.
                let _ = connection.write_all(b"x").await;
                answered += usize::from(connection.read(&mut [0; 1]).await.is_ok_and(|read| read == 1));
            }
            answered
        });
        assert_eq!(answered, 10);
        // A connection is closed a little before its panic is counted.
        let panics = || loops.counters().iter().map(|one| one.panics).sum::<u64>();
        crate::support::eventually("each is counted by its loop", || panics() == 10);
        crate::support::eventually("their permits are free", || listening.limit().open() == 0);
    }
}
