//! Raising the limit on descriptors takes effect, and does nothing the second time.

use anywire_sys::descriptors;

#[test]
fn descriptor_limit_rises_to_the_hard_one() {
    let start = descriptors::limit();
    assert_eq!(start.soft_before, start.soft);
    let first = descriptors::raise_limit().expect("raising to the hard limit needs no privilege");
    assert_eq!(first.soft_before, start.soft);
    assert_eq!(first.soft, first.hard);
    let second = descriptors::raise_limit().expect("nothing to do");
    assert_eq!((second.soft_before, second.soft), (first.hard, first.hard));
    assert_eq!(descriptors::limit(), second);
}
