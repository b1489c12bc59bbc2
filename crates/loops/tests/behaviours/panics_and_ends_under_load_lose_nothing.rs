//! Threads hand over tasks that panic in every place there is, abort them, and drop them, while loops end or die. Each
//! outcome is known, and the one that it may be; all that was handed over is dropped; whom it does not concern goes on.
//!
//! `ANYWIRE_SEEDS` says how many runs, `ANYWIRE_FIRST_SEED` where they begin.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use anywire_loops::{
    Deadline, Limits, LocalTask, LoopHandle, LoopState, Loops, Task, TaskError, local, spawn, stopping,
};

use crate::common::{BANG, Bomb, HANG, panicking_waker, poll_with, waker_that_panics_when_dropped};
use crate::random::{Random, for_each_seed};

#[test]
fn panics_and_ends_under_load_lose_nothing() {
    // The planned panics are thousands; the others are to be seen.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| info.payload().downcast_ref::<String>().cloned());
        if !info.payload().is::<Bomb>() && text.as_deref() != Some(BANG) {
            hook(info);
        }
    }));
    for_each_seed(300, |seed| {
        let (tell, told) = mpsc::channel();
        let run = thread::spawn(move || {
            run(&mut Random::new(seed));
            tell.send(()).expect("the test listens");
        });
        // Disconnected: the run has panicked, which the join tells.
        assert_ne!(told.recv_timeout(HANG), Err(mpsc::RecvTimeoutError::Timeout), "hangs");
        run.join().expect("no assertion failed");
    });
}

/// How many tasks each of two threads hands over.
const SENT: u64 = 100;

/// What is done to the loops as a whole while their tasks run.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// Nothing; they are shut down when all is done.
    Orderly,
    /// They are shut down, with little time.
    Shutdown,
    /// The last `Loops` is dropped.
    Dropped,
    /// The runtime of one of them panics.
    OneDies,
}

fn run(random: &mut Random) {
    let end = [End::Orderly, End::Shutdown, End::Dropped, End::OneDies][random.below(4) as usize];
    let hand_overs_waiting = if random.once_in(3) { 8 } else { 1000 };
    let loops = Loops::builder()
        .count(2)
        .limits(Limits { hand_overs_waiting, ..Limits::default() })
        .start()
        .expect("two loops can be had");
    let handles: Vec<_> = loops.iter().collect();
    let held = Arc::new(());
    let refused = Arc::new(AtomicU64::new(0));
    let (go, mut gates) =
        (0..2).map(|_| tokio::sync::oneshot::channel::<()>()).unzip::<_, _, Vec<_>, Vec<_>>();
    let bystanders: Vec<Task<bool>> = handles
        .iter()
        .map(|one| {
            let gate = gates.remove(0);
            one.spawn(|| async { gate.await.is_ok() })
        })
        .collect();

    let senders: Vec<_> = (0..2)
        .map(|_| {
            let sender = Sender {
                random: random.split(),
                loops: handles.clone(),
                held: Arc::clone(&held),
                refused: Arc::clone(&refused),
                may_stop: end != End::Orderly,
            };
            thread::spawn(move || sender.send())
        })
        .collect();
    for _ in 0..random.below(200) {
        thread::yield_now();
    }
    let (loops, early) = match end {
        End::Orderly => (Some(loops), None),
        End::Dropped => {
            drop(loops);
            (None, None)
        }
        End::Shutdown => {
            let deadline = Duration::from_millis(random.below(4));
            let early = loops.shutdown(deadline).expect("not on a loop");
            (Some(loops), Some(early))
        }
        End::OneDies => {
            drop(handles[0].spawn(|| async {
                let mut sleep = pin!(tokio::time::sleep(Duration::from_millis(1)));
                assert!(sleep.as_mut().poll(&mut Context::from_waker(&panicking_waker())).is_pending());
                pending::<()>().await;
            }));
            (Some(loops), None)
        }
    };
    for sender in senders {
        sender.join().expect("no assertion failed");
    }

    for (index, (go, bystander)) in go.into_iter().zip(bystanders).enumerate() {
        let _ = go.send(());
        let outcome = bystander.wait();
        match end {
            End::Orderly => assert_eq!(outcome, Ok(true), "the loop goes on"),
            End::OneDies if index == 1 => assert_eq!(outcome, Ok(true), "the other loop goes on"),
            _ => assert!(matches!(outcome, Ok(true) | Err(TaskError::Stopped)), "{outcome:?}"),
        }
    }
    if let Some(loops) = loops {
        let last = loops.shutdown(HANG).expect("not on a loop");
        let died = handles.iter().filter(|one| one.state() == LoopState::Died).count();
        assert_eq!((last.loops_stuck, last.loops_died), (0, died));
        assert!(died == 0 || end == End::OneDies);
        match end {
            End::Orderly => assert!(last.is_clean(), "{last:?}"),
            End::Shutdown => assert_eq!(early, Some(last), "what it cost does not change"),
            _ => {}
        }
    }
    for one in &handles {
        while one.state() == LoopState::Running {
            thread::yield_now();
        }
        assert_eq!(one.spawn(|| async {}).wait(), Err(TaskError::Stopped));
    }
    let counters = || handles.iter().map(LoopHandle::counters);
    let (taken, full) =
        (counters().map(|one| one.hand_overs).sum::<u64>(), counters().map(|one| one.refused).sum::<u64>());
    assert!(refused.load(Relaxed) <= full, "of those that were dropped nobody knows");
    match end {
        End::Orderly => assert_eq!(taken + full, 2 * SENT + 2, "the senders' and the bystanders"),
        _ => assert!(taken + full <= 2 * SENT + 3),
    }
    // The threads of dropped loops may still be dropping.
    while Arc::strong_count(&held) > 1 || counters().any(|one| one.tasks_live > 0) {
        thread::yield_now();
    }
}

/// A thread that hands over tasks, and knows what may become of each.
struct Sender {
    random: Random,
    loops: Vec<LoopHandle>,
    held: Arc<()>,
    refused: Arc<AtomicU64>,
    may_stop: bool,
}

impl Sender {
    fn send(mut self) {
        let mut sent = Vec::new();
        for number in 0..SENT {
            let one = &self.loops[self.random.below(2) as usize];
            let work = Work {
                number,
                random: self.random.split(),
                held: Arc::clone(&self.held),
                unbegun: Bomb(self.random.below(4) as u32),
            };
            let kind = Kind::any(&mut self.random);
            let mut task = one.spawn(move || work.begin(kind));
            let is_aborted = kind == Kind::Endless || self.random.once_in(6);
            if self.random.once_in(5) {
                let waker =
                    if self.random.once_in(2) { panicking_waker() } else { waker_that_panics_when_dropped() };
                let polled = poll_with(&mut task, &waker);
                // Who drops the last clone of it here has that panic.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
                if let Poll::Ready(outcome) = polled {
                    self.check(kind, number, is_aborted, outcome);
                    continue;
                }
            }
            if is_aborted && self.random.once_in(2) {
                task.abort();
            }
            match self.random.below(4) {
                0 if kind != Kind::Endless => drop(task),
                1 if kind != Kind::Endless => {
                    let outcome = task.wait();
                    self.check(kind, number, is_aborted, outcome);
                }
                _ => sent.push((kind, number, is_aborted, task)),
            }
        }
        for (kind, number, is_aborted, task) in sent {
            if is_aborted {
                task.abort();
            }
            let outcome = task.wait();
            self.check(kind, number, is_aborted, outcome);
        }
    }

    fn check(&self, kind: Kind, number: u64, is_aborted: bool, outcome: Result<Output, TaskError>) {
        let is_right = match &outcome {
            Ok(output) => output.number == number && kind.may_finish(),
            Err(TaskError::Panicked(_)) => kind.may_panic(),
            Err(TaskError::Aborted) => is_aborted,
            Err(TaskError::Stopped) => self.may_stop,
            Err(TaskError::Full) => self.refused.fetch_add(1, Relaxed) < u64::MAX,
            Err(_) => false,
        };
        if let Ok(mut output) = outcome {
            output.bomb.0 = 0;
            assert!(is_right, "{kind:?} number {number} gave {}", output.number);
        } else {
            assert!(is_right, "{kind:?} number {number}, aborted: {is_aborted}, ended with {outcome:?}");
        }
    }
}

#[derive(Debug)]
struct Output {
    number: u64,
    bomb: Bomb,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Finishes,
    PanicsInClosure,
    PanicsInFuture,
    DropsABomb,
    HoldsABombToTheEnd,
    GivesABomb,
    KeepsABomb,
    SpawnsOthers,
    LeavesWakersBehind,
    Endless,
}

impl Kind {
    fn any(random: &mut Random) -> Self {
        let all = [
            Self::Finishes,
            Self::PanicsInClosure,
            Self::PanicsInFuture,
            Self::DropsABomb,
            Self::HoldsABombToTheEnd,
            Self::GivesABomb,
            Self::KeepsABomb,
            Self::SpawnsOthers,
            Self::LeavesWakersBehind,
            Self::Endless,
        ];
        all[random.below(all.len() as u64) as usize]
    }

    fn may_panic(self) -> bool {
        matches!(self, Self::PanicsInClosure | Self::PanicsInFuture | Self::DropsABomb)
    }

    fn may_finish(self) -> bool {
        !self.may_panic() && self != Self::Endless
    }
}

/// What a task is about to do.
struct Work {
    number: u64,
    random: Random,
    held: Arc<()>,
    /// Goes off where the closure is dropped and has not begun.
    unbegun: Bomb,
}

impl Work {
    fn begin(mut self, kind: Kind) -> Pin<Box<dyn Future<Output = Output>>> {
        self.unbegun.0 = 0;
        let depth = 1 + self.random.below(4) as u32;
        if kind == Kind::PanicsInClosure {
            panic_any(Bomb(depth));
        }
        let holds = Bomb(if kind == Kind::HoldsABombToTheEnd { depth } else { 0 });
        Box::pin(Holding { future: Box::pin(self.go_on(kind, depth)), _holds: holds })
    }

    async fn go_on(mut self, kind: Kind, depth: u32) -> Output {
        for _ in 0..self.random.below(3) {
            tokio::task::yield_now().await;
        }
        match kind {
            Kind::PanicsInFuture => panic_any(Bomb(depth)),
            Kind::DropsABomb => drop(Bomb(depth)),
            Kind::Endless => {
                let _bomb = Bomb(depth);
                pending::<()>().await;
            }
            Kind::KeepsABomb => {
                struct First(#[expect(dead_code, reason = "dropped, not read")] Bomb);
                struct Second(#[expect(dead_code, reason = "dropped, not read")] Bomb);
                local(|| First(Bomb(depth)));
                local(|| Second(Bomb(depth)));
            }
            Kind::SpawnsOthers => self.spawn_others(depth).await,
            Kind::LeavesWakersBehind => {
                let deadline = Deadline::new();
                deadline.set(Duration::ZERO);
                let mut context = Context::from_waker(std::task::Waker::noop());
                let panics = panicking_waker();
                let _ = deadline.poll_expired(&mut Context::from_waker(&panics));
                let _ = pin!(stopping()).poll(&mut Context::from_waker(&panics));
                let _ = deadline.poll_expired(&mut context);
            }
            _ => {}
        }
        Output { number: self.number, bomb: Bomb(if kind == Kind::GivesABomb { depth } else { 0 }) }
    }

    async fn spawn_others(&mut self, depth: u32) {
        let panics = spawn(async move { panic_any(Bomb(depth)) });
        let mut gives = spawn(async move {
            tokio::task::yield_now().await;
            Bomb(depth)
        });
        let held = Arc::clone(&self.held);
        let mut endless = Ends(spawn(async move {
            let (_held, _bomb) = (held, Bomb(depth));
            pending::<()>().await;
        }));
        let _ = poll_with(&mut gives, &panicking_waker());
        match self.random.below(3) {
            0 => drop(gives),
            1 => gives.abort(),
            _ => {
                if let Ok(mut bomb) = gives.await {
                    bomb.0 = 0;
                }
            }
        }
        endless.0.abort();
        if self.random.once_in(2) {
            let outcome: Result<(), _> = panics.await;
            assert!(matches!(outcome, Err(TaskError::Panicked(_))), "{outcome:?}");
            let outcome = (&mut endless.0).await;
            assert_eq!(outcome, Err(TaskError::Aborted));
        }
    }
}

/// Aborts its task when dropped: its parent may be aborted first.
struct Ends(LocalTask<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A future that still holds something when it has given its output.
struct Holding {
    future: Pin<Box<dyn Future<Output = Output>>>,
    _holds: Bomb,
}

impl Future for Holding {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Output> {
        self.future.as_mut().poll(context)
    }
}
