//! Loops stop when their last handle is dropped, and leave nothing behind: no thread, no descriptor, no value.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use anywire_loops::{Loops, TaskError, local};

/// Both tests look at what the whole process has open.
static ALONE: Mutex<()> = Mutex::new(());

struct TellsDrop(mpsc::Sender<()>);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn dropping_the_last_loops_stops_them() {
    let _alone = ALONE.lock();
    let (tell, told) = mpsc::channel();
    let loops = Loops::start(2).expect("two loops can be had");
    let handles: Vec<_> = loops.iter().collect();
    let tasks: Vec<_> = handles
        .iter()
        .map(|one| {
            let (in_task, in_loop) = (TellsDrop(tell.clone()), TellsDrop(tell.clone()));
            one.spawn(|| async move {
                let _in_task = in_task;
                local(|| in_loop);
                std::future::pending::<()>().await;
            })
        })
        .collect();
    for one in &handles {
        // Taken in order, so the task before it has begun.
        one.spawn(|| async {}).wait().expect("the loop runs");
    }
    drop(tell);
    let clone = loops.clone();
    drop(loops);
    assert_eq!(handles[0].spawn(|| async { 1 }).wait(), Ok(1), "one clone keeps them running");
    drop(clone);
    for task in tasks {
        assert_eq!(task.wait(), Err(TaskError::Stopped));
    }
    // Two tasks and two values, then the end of the channel: all senders are gone.
    assert_eq!(told.into_iter().count(), 4);
    for one in handles {
        assert_eq!(one.spawn(|| async {}).wait(), Err(TaskError::Stopped));
        let thread = format!("/proc/self/task/{}", one.thread_id());
        while Path::new(&thread).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn starting_and_stopping_keeps_no_descriptors() {
    let _alone = ALONE.lock();
    let open = || fs::read_dir("/proc/self/fd").expect("/proc is mounted").count();
    let start_and_stop = || {
        let loops = Loops::start(2).expect("two loops can be had");
        for one in loops.iter() {
            drop(one.spawn(|| async { tokio::time::sleep(Duration::from_secs(600)).await }));
            drop(one.spawn(std::future::pending::<()>));
            one.spawn(|| async {}).wait().expect("the loop runs");
        }
        loops.shutdown(Duration::ZERO).expect("not on a loop");
    };
    // The first time opens what the process keeps once and for all.
    start_and_stop();
    let before = open();
    for _ in 0..20 {
        start_and_stop();
    }
    assert_eq!(open(), before);
}
