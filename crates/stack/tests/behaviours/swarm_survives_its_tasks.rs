//! What a task does wrong hurts that task alone, and is said clearly: panics, futures of other runtimes, bad calls.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::swarms::{Net, QUICK, address};
use anywire_stack::swarm::{Incoming, Tasks, current, park, sleep, try_current, wake, yield_now};

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let owned = panic.downcast_ref::<String>().cloned();
    owned.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

#[test]
fn a_panic_ends_one_task_and_is_counted() {
    let ended = Rc::new(Cell::new(0));
    let mut tasks = Tasks::with_capacity(100).expect("addresses are free");
    let make = |index: u32| {
        let ended = Rc::clone(&ended);
        async move {
            wake((index + 1) % 100);
            sleep(Duration::from_micros(1)).await;
            assert!(index % 10 != 3, "task {index} panics, as it was told to");
            ended.set(ended.get() + 1);
        }
    };
    tasks.spawn_many(100, make).expect("there is room");
    let mut finished = Vec::new();
    tasks.run(usize::MAX);
    while let Some(deadline) = tasks.next_deadline() {
        tasks.advance(deadline);
        tasks.run_with(usize::MAX, |index| finished.push(index));
    }
    assert_eq!((ended.get(), finished.len(), tasks.len()), (90, 100, 0));
    assert_eq!((tasks.counters().panicked, tasks.counters().finished), (10, 90));
    assert_eq!(Rc::strong_count(&ended), 1, "what a task held is dropped with it");
    // The slot of one that panicked is as good as any.
    tasks.spawn_at(3, make(4)).expect("it is free");
    assert_eq!(tasks.run(usize::MAX), 1);
}

/// Keeps the waker, as timers and channels do.
struct Foreign(Option<Waker>);

impl Future for Foreign {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0 = Some(context.waker().clone());
        Poll::Pending
    }
}

#[test]
fn a_future_that_keeps_a_waker_is_refused_with_the_reason() {
    let reason = Rc::new(Cell::new(String::new()));
    let told = Rc::clone(&reason);
    let mut tasks = Tasks::with_capacity(1).expect("addresses are free");
    let task = async move {
        let mut foreign = Foreign(None);
        let polled = std::future::poll_fn(|context| {
            Poll::Ready(catch_unwind(AssertUnwindSafe(|| Pin::new(&mut foreign).poll(context).is_pending())))
        });
        told.set(text(&*polled.await.expect_err("a clone panics")));
        Foreign(None).await;
    };
    tasks.spawn_at(0, task).expect("it is free");
    assert_eq!(tasks.run(usize::MAX), 1);
    assert_eq!((tasks.counters().panicked, tasks.len()), (1, 0));
    let reason = reason.take();
    assert!(reason.contains("keeps a waker") && reason.contains("another runtime"), "{reason}");
}

#[test]
fn a_future_that_wakes_itself_while_it_is_polled_works() {
    let mut polls = 0;
    let task = std::future::poll_fn(move |context| {
        polls += 1;
        context.waker().wake_by_ref();
        if polls == 5 { Poll::Ready(()) } else { Poll::Pending }
    });
    let mut tasks = Tasks::with_capacity(1).expect("addresses are free");
    tasks.spawn_at(0, task).expect("it is free");
    assert_eq!((tasks.run(usize::MAX), tasks.len()), (5, 0));
}

fn wake_and_give(index: u32) -> u32 {
    wake(index);
    index
}

#[test]
fn outside_of_a_task_there_is_no_current_one() {
    assert_eq!(try_current(), None);
    for call in [current, || wake_and_give(1)] {
        let panic = catch_unwind(call).expect_err("no task runs");
        assert!(text(&*panic).contains("outside of a task"), "{}", text(&*panic));
    }
    let mut tasks = Tasks::with_capacity(9).expect("addresses are free");
    tasks.spawn_at(8, async { assert_eq!((current(), try_current()), (8, Some(8))) }).expect("it is free");
    tasks.run(usize::MAX);
    assert_eq!((tasks.counters().finished, try_current()), (1, None));
}

#[test]
fn a_swarm_inside_of_a_task_is_refused_and_the_outer_one_goes_on() {
    let mut tasks = Tasks::with_capacity(2).expect("addresses are free");
    let make = |index: u32| async move {
        if index == 0 {
            let mut inner = Tasks::with_capacity(1).expect("addresses are free");
            inner.spawn_at(0, park()).expect("it is free");
            inner.run(1);
        }
        yield_now().await;
    };
    tasks.spawn_many(2, make).expect("there is room");
    tasks.run(usize::MAX);
    assert_eq!((tasks.counters().panicked, tasks.counters().finished), (1, 1));
}

/// Wakes another task when it is dropped.
struct WakesWhenDropped(u32, Rc<Cell<u32>>);

impl Drop for WakesWhenDropped {
    fn drop(&mut self) {
        wake(self.0);
        self.1.set(self.1.get() + 1);
    }
}

#[test]
fn destructors_may_wake_others() {
    let drops = Rc::new(Cell::new(0));
    let mut tasks = Tasks::with_capacity(3).expect("addresses are free");
    let make = |index: u32| {
        let guard = WakesWhenDropped((index + 1) % 3, Rc::clone(&drops));
        async move {
            park().await;
            drop(guard);
        }
    };
    tasks.spawn_many(3, make).expect("there is room");
    tasks.run(usize::MAX);
    // Task 0 is removed and wakes 1, which ends and wakes 2, which ends and wakes no task.
    assert!(tasks.remove(0));
    assert_eq!(tasks.run(usize::MAX), 2);
    assert_eq!((tasks.len(), drops.get()), (0, 3));
    tasks.spawn_at(0, make(0)).expect("it is free");
    drop(tasks);
    assert_eq!((drops.get(), try_current()), (4, None));
}

#[test]
fn a_panic_of_the_drivers_own_is_its_own() {
    let mut tasks = Tasks::with_capacity(2).expect("addresses are free");
    tasks.spawn_many(2, |_| yield_now()).expect("there is room");
    let panic = catch_unwind(AssertUnwindSafe(|| tasks.run_with(usize::MAX, |_| panic!("the driver's"))));
    assert_eq!(text(&*panic.expect_err("it goes through")), "the driver's");
    assert_eq!((tasks.counters().panicked, tasks.len(), tasks.run(usize::MAX)), (0, 1, 1));
}

#[test]
fn other_threads_wake_tasks_and_get_the_driver_up() {
    let (up, waits) = mpsc::channel();
    let mut tasks = Tasks::with_capacity(1000).expect("addresses are free");
    tasks.spawn_many(1000, |_| park()).expect("there is room");
    tasks.on_remote_wake(move || {
        let _ = up.send(());
    });
    tasks.run(usize::MAX);
    let others: Vec<_> = (0..4)
        .map(|other| {
            let remote = tasks.remote();
            std::thread::spawn(move || {
                // Each task several times, and some that do not exist.
                for index in (other..1200).step_by(2).cycle().take(3000) {
                    remote.wake(index);
                }
            })
        })
        .collect();
    while !tasks.is_empty() {
        waits.recv().expect("the swarm holds the other end");
        tasks.run(usize::MAX);
    }
    for other in others {
        other.join().expect("it does not panic");
    }
    assert_eq!(tasks.counters().finished, 1000);
    assert!(try_current().is_none());
}

#[test]
fn a_panic_while_a_task_is_made_ends_its_connection_alone() {
    let mut net = Net::new();
    let mut server = net.host(1, 100, |mut incoming: Incoming| {
        assert_ne!(incoming.peer.port(), 1003, "as it was told to");
        async move {
            while let Some(received) = incoming.conn.recv().await {
                incoming.conn.send(received).await;
            }
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let (answers, ended) = (Cell::new(0), Cell::new(0));
    let mut client = net.host(2, 100, |mut incoming: Incoming| {
        let (answers, ended) = (&answers, &ended);
        async move {
            incoming.conn.send(&b"ping"[..]).await;
            match incoming.conn.fill_to(4).await {
                Ok(()) => answers.set(answers.get() + 1),
                Err(_) => ended.set(incoming.local.port()),
            }
            park().await;
        }
    });
    for port in 1000..1010 {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(50, &mut [&mut server, &mut client]);
    assert_eq!((answers.get(), ended.get()), (9, 1003));
    assert_eq!((server.counters().tasks.panicked, server.tasks()), (1, 9));
}

/// A task that is removed wakes another one in its destructor, and then panics there: the wake counts, as it does when a task ends by
/// itself.
#[test]
fn a_wake_of_a_destructor_that_panics_counts() {
    struct Wakes;
    impl Drop for Wakes {
        fn drop(&mut self) {
            wake(1);
        }
    }
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a destructor panics"));
        }
    }
    for removed in [false, true] {
        let mut tasks: Tasks<Pin<Box<dyn Future<Output = ()>>>> = Tasks::with_capacity(2).expect("addresses");
        let polls = Rc::new(Cell::new(0));
        let count = Rc::clone(&polls);
        tasks
            .spawn_at(
                0,
                Box::pin(async move {
                    let (_panics, _wakes) = (Panics, Wakes);
                    if removed { park().await } else { yield_now().await }
                }),
            )
            .expect("free");
        tasks
            .spawn_at(
                1,
                Box::pin(async move {
                    loop {
                        count.set(count.get() + 1);
                        park().await
                    }
                }),
            )
            .expect("free");
        if removed {
            tasks.run(2);
            assert_eq!(polls.get(), 1);
            let _ = catch_unwind(AssertUnwindSafe(|| tasks.remove(0)));
        }
        tasks.run(10);
        assert_eq!(polls.get(), 2, "removed: {removed}");
    }
}

/// The caller is told of an ended task and panics: what that task has woken runs all the same.
#[test]
fn a_wake_counts_although_the_caller_panics_over_an_end() {
    for panics in [false, true] {
        let mut tasks: Tasks<Pin<Box<dyn Future<Output = ()>>>> =
            Tasks::with_capacity(2).expect("addresses are free");
        tasks.spawn_at(1, Box::pin(park())).expect("free");
        tasks.run(10);
        let ends = async move {
            wake(1);
            if panics {
                std::panic::resume_unwind(Box::new("the task panics"));
            }
        };
        tasks.spawn_at(0, Box::pin(ends)).expect("free");
        let told = catch_unwind(AssertUnwindSafe(|| {
            tasks.run_with(10, |_| std::panic::resume_unwind(Box::new("the caller panics")));
        }));
        assert!(told.is_err());
        tasks.run(10);
        assert_eq!(tasks.len(), 0, "panics: {panics}");
    }
}
