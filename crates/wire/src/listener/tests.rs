//! When a listener accepts, fails and tries again.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use super::*;

/// Gives scripted outcomes, and records when it is asked.
struct Scripted {
    outcomes: VecDeque<io::Result<()>>,
    asked: Arc<Mutex<Vec<tokio::time::Instant>>>,
}

impl Acceptor for Scripted {
    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        self.asked.lock().expect("no panic").push(tokio::time::Instant::now());
        let Some(outcome) = self.outcomes.pop_front() else { return Poll::Pending };
        Poll::Ready(outcome.map(|()| Box::new(crate::memory::pair("scripted").0) as Box<dyn Arrival>))
    }
}

/// What so many acceptors share.
fn common(acceptors: usize) -> Arc<Common> {
    Arc::new(Common {
        address: "memory:scripted".parse().expect("an address"),
        allowed_peers: None,
        handshakes: Handshakes::new(Duration::ZERO, 1),
        limit: ConnectionLimit::new(1),
        stopped: watch::Sender::new(false),
        failed: watch::Sender::new(None),
        tasks: Mutex::default(),
        accepting: AtomicUsize::new(acceptors),
        accepted: AtomicU64::new(0),
        refused_peers: AtomicU64::new(0),
        descriptor_exhaustions: AtomicU64::new(0),
    })
}

fn accepting(acceptor: Box<dyn Acceptor>, common: &Arc<Common>) -> Accepting {
    Accepting {
        acceptor: Some(acceptor),
        arrival: None,
        home: Loops::start(1).expect("a thread").get(0),
        loops: Vec::new(),
        next: 0,
        serve: Box::new(drop),
        failed: None,
        common: Arc::clone(common),
    }
}

/// The milliseconds between each of these outcomes and the next try.
async fn pauses(outcomes: impl IntoIterator<Item = io::Result<()>>) -> (Vec<u128>, u64) {
    let (asked, outcomes) = (Arc::default(), outcomes.into_iter().collect::<VecDeque<_>>());
    let count = outcomes.len();
    let acceptor = Box::new(Scripted { outcomes, asked: Arc::clone(&asked) });
    let common = common(1);
    let mut accepting = accepting(acceptor, &common);
    // The paused clock advances by itself, so an hour leaves room for all pauses.
    tokio::time::timeout(Duration::from_secs(3600), accepting.accept()).await.expect_err("it goes on");
    let asked = asked.lock().expect("no panic");
    let pauses = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).take(count).collect();
    (pauses, common.descriptor_exhaustions.load(Ordering::Relaxed))
}

fn no_descriptor() -> io::Result<()> {
    Err(rustix::io::Errno::MFILE.into())
}

#[tokio::test(start_paused = true)]
async fn the_pause_doubles_up_to_a_second_and_a_success_ends_that() {
    let failures = || (0..10).map(|_| no_descriptor());
    let (pauses, exhaustions) = pauses(failures().chain([Ok(())]).chain(failures().take(2))).await;
    let doubling = [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000];
    assert_eq!(pauses, [&doubling[..], &[0, 5, 10]].concat());
    assert_eq!(exhaustions, 12);
}

#[tokio::test(start_paused = true)]
async fn whatever_the_system_has_run_out_of_counts() {
    use rustix::io::Errno;

    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
        assert_eq!(pauses([Err(errno.into())]).await, (vec![5], 1), "{errno}");
    }
    assert_eq!(pauses([Err(Errno::PERM.into())]).await, (vec![5], 0));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_has_left_costs_no_pause() {
    let left = || Err(io::ErrorKind::ConnectionAborted.into());
    let (pauses, exhaustions) = pauses([left(), left(), Ok(()), left()]).await;
    assert_eq!((pauses, exhaustions), (vec![0; 4], 0));
}

/// One whose accepting has failed for good.
struct Fails(Ended);

impl Acceptor for Fails {
    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }

    fn ended(&self) -> Option<Ended> {
        Some(self.0)
    }
}

/// Such as one whose engine has panicked: others go on, whatever else has ended before.
#[tokio::test(start_paused = true)]
async fn a_listener_goes_on_until_its_last_acceptor_has_failed() {
    for fail_first in [true, false] {
        let common = common(3);
        let has_ended = || (*common.stopped.borrow(), common.failed.borrow().is_some());
        let stopped = accepting(Box::new(Fails(Ended::One)), &common);
        for _ in 0..2 {
            if fail_first {
                accepting(Box::new(Fails(Ended::One)), &common).accept().await;
            } else {
                drop(accepting(Box::new(Fails(Ended::One)), &common));
            }
            assert_eq!(has_ended(), (false, false));
        }
        let mut last = stopped;
        last.accept().await;
        drop(last);
        assert_eq!(has_ended(), (true, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_whose_device_was_removed_ends_at_once() {
    let common = common(3);
    accepting(Box::new(Fails(Ended::All)), &common).accept().await;
    assert!(*common.stopped.borrow() && common.failed.borrow().is_some());
}
