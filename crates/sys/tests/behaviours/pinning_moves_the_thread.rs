//! A pinned thread runs on its core and no other.

use anywire_sys::cpu;

#[test]
fn pinning_moves_the_thread() {
    let cores = cpu::available_cores();
    assert!(!cores.is_empty());
    // On a thread of its own, so that the test's own thread stays free.
    std::thread::spawn(move || {
        for core in cores {
            cpu::pin_current_thread(core).expect("the core is among the available ones");
            assert_eq!(cpu::available_cores(), [core]);
        }
    })
    .join()
    .expect("no assertion failed");
}
