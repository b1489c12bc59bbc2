//! The real thing beside the model of `verdicts_are_right_in_forty_runs`: two servers of which the second one does as much
//! work for a request, or 5 % more. Ignored, since it takes minutes and is about the machine too:
//!
//! ```sh
//! cargo test --release -p anywire-load --test behaviours -- --ignored --nocapture ab_finds_five_percent
//! ```
//!
//! `AB_RUNS` is how many comparisons of each kind are made (10), and `AB_SEED` the seed of the first (1). Each prints its seed.

use std::cell::Cell;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anywire_load::ab::{Options, Side, ab};
use anywire_load::statistics::Verdict;
use anywire_load::{Plan, contrast};
use anywire_loops::Loops;

/// A server that does so many steps of arithmetic for each request.
struct Working {
    address: SocketAddr,
    steps: u64,
    /// Until it is to be started anew.
    accepts: Cell<Option<(Arc<AtomicBool>, JoinHandle<()>)>>,
}

impl Working {
    fn new(steps: u64) -> Rc<Self> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Rc::new(Self { address, steps, accepts: Cell::new(None) })
    }

    /// Takes its place with a new thread. Where the scheduler puts a thread is luck that lasts as long as the thread, and the
    /// threads of its connections begin beside it: without a restart it looks like a difference, and for that run it is one.
    fn restart(&self) {
        if let Some((end, thread)) = self.accepts.take() {
            end.store(true, Ordering::SeqCst);
            // Wakes it up.
            drop(TcpStream::connect(self.address));
            thread.join().unwrap();
        }
        let (end, steps) = (Arc::new(AtomicBool::new(false)), self.steps);
        let listener = TcpListener::bind(self.address).unwrap();
        let ended = Arc::clone(&end);
        let thread = thread::spawn(move || {
            for peer in listener.incoming().take_while(|_| !ended.load(Ordering::SeqCst)) {
                let mut peer = peer.unwrap();
                thread::spawn(move || {
                    while peer.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                        black_box((0..steps).fold(1_u64, |sum, step| black_box(sum.wrapping_mul(31) ^ step)));
                        if peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                            return;
                        }
                    }
                });
            }
        });
        self.accepts.set(Some((end, thread)));
    }

    fn side(self: &Rc<Self>, name: &str) -> Side {
        let server = Rc::clone(self);
        let restart = move || {
            server.restart();
            Ok(())
        };
        Side { restart: Some(Box::new(restart)), ..Side::new(name, format!("http://{}/", self.address)) }
    }
}

fn number(name: &str, usual: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
#[ignore = "takes minutes, and needs a machine that does nothing else"]
fn of_all_comparisons() {
    let (runs, seed) = (number("AB_RUNS", 10), number("AB_SEED", 1));
    let [usual, same, more] = [STEPS, STEPS, STEPS * 105 / 100].map(Working::new);
    let loops = Loops::start(1).unwrap();
    let mut verdicts = Vec::new();
    for (what, other) in [("the same work", &same), ("5 % more work", &more)] {
        let mut different = 0;
        for seed in seed..seed + runs {
            let sides = [usual.side("a"), other.side("b")];
            let options = Options {
                plan: Plan {
                    connections: 4,
                    warm_up: Duration::from_millis(50),
                    ..Plan::new("http://test/")
                },
                duration: Duration::from_millis(600),
                turn: Some(Duration::from_millis(60)),
                seed: Some(seed),
                ..Options::default()
            };
            let outcome = ab(&loops, &sides, &options, |_| ()).unwrap();
            let shown = outcome.contrast.verdict != Some(Verdict::NoDifferenceShown);
            different += u32::from(shown);
            let rate = outcome.contrast.metrics.iter().find(|one| one.name == contrast::METRICS[0].name);
            let change = rate.map_or_else(String::new, |rate| rate.change());
            println!("{what}, seed {seed}: {} (requests/s {change})", outcome.contrast.sentence("a", "b"));
        }
        println!("{what}: called different in {different} of {runs}");
        verdicts.push(different);
    }
    assert!(verdicts[0] * 10 <= runs, "the same work was called different in {} of {runs}", verdicts[0]);
    assert!(verdicts[1] * 10 >= runs * 8, "5 % more work was found in {} of {runs}", verdicts[1]);
}

/// Some 1 ms. What the kernel and the load spend on a request, 30 us or so, is the same for both sides: beside 100 us of work it
/// would leave 3.7 % of 5 %.
const STEPS: u64 = 1_000_000;
