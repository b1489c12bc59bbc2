//! Bytes that differ from others by one.

/// Each of `bytes` replaced by each byte.
pub(crate) fn each_byte_replaced(bytes: &[u8], look: impl Fn(&[u8])) {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() {
        let before = bytes[at];
        for byte in 0..=u8::MAX {
            bytes[at] = byte;
            look(&bytes);
        }
        bytes[at] = before;
    }
}

/// `bytes` cut off at each place, without each byte, and with one more at each place that means something in HTTP/1.
pub(crate) fn a_byte_more_or_less(bytes: &[u8], look: impl Fn(&[u8])) {
    for at in 0..bytes.len() {
        let (before, behind) = bytes.split_at(at);
        look(before);
        look(&[before, &behind[1..]].concat());
        for byte in [b' ', b'\t', b':', b'\r', b'\n', b'-', b'a', b'1', 0, 0x7f, 0xff] {
            look(&[before, &[byte], behind].concat());
        }
    }
}
