//! A reserved arena costs addresses; memory comes with each step, and goes when the arena is dropped.

use anywire_sys::arena::{Arena, Pages};
use anywire_sys::memory::{anonymous_bytes, huge_page_bytes};

#[test]
fn arena_takes_memory_only_as_it_grows() {
    let before = anonymous_bytes().expect("/proc is mounted");
    let taken = || anonymous_bytes().expect("/proc is mounted").saturating_sub(before);
    let mut arena = Arena::reserve(1 << 24, 1_u64).expect("128 MiB of addresses");
    assert!(taken() < STEP, "reserving took memory");

    assert!(arena.grow_to((STEPS * STEP) as usize / size_of::<u64>()));
    assert_eq!(arena.bytes() as u64, STEPS * STEP);
    let grown = taken();
    assert!((STEPS * STEP..(STEPS + 2) * STEP).contains(&grown), "{STEPS} steps of 2 MiB took {grown} bytes");
    // How many of its pages are huge is for the kernel to say: it may have found none in one piece.
    let huge = huge_page_bytes();
    println!("{} pages; in huge ones: {huge:?} bytes", arena.pages());
    if arena.pages() == Pages::Huge {
        assert!(huge.is_ok_and(|bytes| bytes >= STEPS * STEP), "pages from the pool were promised");
    }

    drop(arena);
    assert!(taken() < STEP, "dropping kept memory");
}

const STEP: u64 = 2 << 20;
const STEPS: u64 = 16;
