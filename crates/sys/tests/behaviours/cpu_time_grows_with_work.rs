//! Both clocks of CPU time count the work of a thread, and count nothing for a thread that waits.

use std::hint::black_box;
use std::sync::mpsc;
use std::time::Duration;

use anywire_sys::cpu;

fn work_until(mut enough: impl FnMut() -> bool) {
    while !enough() {
        black_box((0..10_000u64).fold(1, |product: u64, factor| black_box(product.wrapping_mul(factor | 1))));
    }
}

#[test]
fn a_thread_sees_its_own_work() {
    let before = cpu::current_thread_cpu().expect("getrusage works");
    let used = || cpu::current_thread_cpu().expect("getrusage works") - before;
    work_until(|| used().total() >= Duration::from_millis(20));
    assert!(used().user > Duration::ZERO);
}

#[test]
fn another_thread_sees_it_too() {
    let (tell_tid, tid) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let worker = std::thread::spawn(move || {
        tell_tid.send(cpu::thread_id()).expect("the test listens");
        // Ends when the test says so, or fails.
        work_until(|| stopped.try_recv() != Err(mpsc::TryRecvError::Empty));
        cpu::thread_run_time(cpu::thread_id()).expect("the thread runs")
    });
    let tid = tid.recv().expect("the worker tells");
    assert_ne!(tid, cpu::thread_id());
    while cpu::thread_run_time(tid).expect("the worker runs") < Duration::from_millis(20) {
        std::thread::yield_now();
    }
    stop.send(()).expect("the worker listens");
    let total = worker.join().expect("the worker ends well");
    assert!(total >= Duration::from_millis(20));
    let error = (0..1000).find_map(|_| {
        std::thread::yield_now();
        cpu::thread_run_time(tid).err()
    });
    // A thread lingers for a moment after it has been joined; it may be gone by now or not.
    assert!(error.is_none_or(|error| error.kind() == std::io::ErrorKind::NotFound));
}

#[test]
fn a_thread_of_no_process_is_not_found() {
    let error = cpu::thread_run_time(i32::MAX).expect_err("no such thread");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
