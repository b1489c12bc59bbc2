//! Without descriptors, a listener goes on serving its connections, counts, and logs at most once a second. Once it has
//! descriptors again, it accepts the waiting peers. Alone in its file: the limit is the whole process's.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use anywire_loops::Loops;
use anywire_wire::{Address, ListenerHandle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const PEERS: usize = 16;

#[test]
fn out_of_descriptors_keeps_serving() {
    let warnings: &'static AtomicU64 = Box::leak(Box::default());
    tracing::subscriber::set_global_default(Warnings(warnings)).expect("the only test of this process");
    let before = getrlimit(Resource::Nofile);
    for address in support::addresses_without_handshake() {
        warnings.store(0, Ordering::Relaxed);
        let (here, there) = (support::loops(1), support::loops(1));
        let listener = support::bind(&here, &address, &support::listening());
        let peers = Peers::dial(&there, listener.local());
        if !peers.have_descriptors {
            continue;
        }
        // Every number up to the limit is taken, but for three.
        let mut taken: Vec<_> =
            (0..100).map(|_| rustix::io::dup(std::io::stderr()).expect("a number")).collect();
        let highest = taken.iter().map(AsRawFd::as_raw_fd).max().expect("a hundred") as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 1), ..before }).expect("it is lowered");
        taken.truncate(97);
        let started = Instant::now();
        let listening = listener.serve(|connection| drop(anywire_loops::spawn(support::echo(connection))));
        wait_for_exhaustions(&listening, 1);
        let accepted = listening.counters().accepted;
        assert!((1..=3).contains(&accepted), "{accepted}");
        assert_eq!(peers.ask(1), 1, "a connection that is open is served");
        wait_for_exhaustions(&listening, 4);
        assert_eq!(listening.counters().accepted, accepted);
        assert_eq!(peers.ask(1), 1, "and still is");

        let said = warnings.load(Ordering::Relaxed);
        assert!((1..=1 + started.elapsed().as_secs()).contains(&said), "{said}");

        setrlimit(Resource::Nofile, before).expect("it is raised again");
        assert_eq!(peers.ask(PEERS), PEERS, "all who waited are served");
        assert_eq!(listening.counters().accepted, PEERS as u64);
        listening.stop();
        // Gone before the next wire is tested, so that descriptors are not mixed up.
        drop((taken, peers));
        for loops in [here, there] {
            assert!(loops.shutdown(support::HANG).expect("not on a loop").is_clean());
        }
    }
}

fn wait_for_exhaustions(listening: &ListenerHandle, count: u64) {
    support::eventually("descriptors run out", || listening.counters().descriptor_exhaustions >= count);
}

/// Connections that wait in the backlog, on a loop of their own.
struct Peers {
    have_descriptors: bool,
    asks: tokio::sync::mpsc::UnboundedSender<(usize, mpsc::Sender<usize>)>,
}

impl Peers {
    fn dial(loops: &Loops, address: &Address) -> Self {
        let (asks, mut asked) = tokio::sync::mpsc::unbounded_channel::<(usize, mpsc::Sender<usize>)>();
        let (dialled, ready) = mpsc::channel();
        let address = address.clone();
        drop(loops.get(0).spawn(move || async move {
            let mut connections = Vec::new();
            for _ in 0..PEERS {
                connections.push(support::dialer().dial(&address).await.expect("the backlog has room"));
            }
            let have_descriptors = connections.iter().all(|one| one.as_fd().is_some());
            dialled.send(have_descriptors).expect("the test waits");
            while let Some((count, answer)) = asked.recv().await {
                // In the order in which they were dialled, which is that of the backlog.
                for connection in &mut connections[..count] {
                    support::ask_echo(connection).await;
                }
                answer.send(count).expect("the test waits");
            }
        }));
        Self { have_descriptors: ready.recv_timeout(support::HANG).expect("all are dialled"), asks }
    }

    /// Has the first ones of them ask, and says how many were answered.
    fn ask(&self, count: usize) -> usize {
        let (answer, answered) = mpsc::channel();
        self.asks.send((count, answer)).expect("the peers are there");
        answered.recv_timeout(support::HANG).expect("an answer")
    }
}

/// Counts warnings in the log.
struct Warnings(&'static AtomicU64);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("anywire_wire")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
