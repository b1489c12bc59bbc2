//! Memory that the process touches shows in both figures, and only then.

use anywire_sys::memory;

#[test]
fn memory_in_use_is_seen() {
    const SIZE: usize = 64 << 20;
    let before = memory::anonymous_bytes().expect("/proc is mounted");
    let resident_before = memory::resident_bytes().expect("/proc is mounted");
    let untouched: Vec<u8> = Vec::with_capacity(SIZE);
    let reserved = memory::anonymous_bytes().expect("/proc is mounted");
    assert!(reserved - before < SIZE as u64 / 2, "reserving is not using");
    let touched = vec![1u8; SIZE];
    let grown = memory::anonymous_bytes().expect("/proc is mounted") - before;
    let resident_grown = memory::resident_bytes().expect("/proc is mounted") - resident_before;
    assert!(grown >= SIZE as u64, "{grown}");
    assert!(resident_grown >= SIZE as u64, "{resident_grown}");
    drop((untouched, touched));
}
