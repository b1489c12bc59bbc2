//! What the requests of a swarm ask for: `/TAG/NUMBER`, written and read without a look at each byte.

/// The text of a target, at a place from which it is checked word by word: byte by byte takes 130 instructions more.
#[repr(align(8))]
pub(super) struct Target(pub(super) [u8; TARGET_BYTES]);

/// `/TAG/NUMBER`, both in hexadecimal.
pub(super) fn target(tag: u32, number: u32) -> Target {
    let mut text = *b"/00000000/00000000";
    text[1..9].copy_from_slice(&digits(tag));
    text[10..].copy_from_slice(&digits(number));
    Target(text)
}

/// The numbers of a target, if it is one of these.
pub(super) fn numbers(target: &[u8]) -> Option<(u32, u32)> {
    let target: &[u8; TARGET_BYTES] = target.try_into().ok()?;
    let [tag, number] = [target[1..9].first_chunk()?, target[10..].first_chunk()?].map(value);
    (target[0] == b'/' && target[9] == b'/').then_some((tag?, number?))
}

/// The eight hexadecimal digits of a number, all worked out at once.
const fn digits(number: u32) -> [u8; 8] {
    // Four bits to a byte, the first ones highest.
    let mut bits = number as u64;
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // From ten on, there is a carry to the next four if six are added, and letters come after the digits.
    let letters = ((bits + 6 * ONES) >> 4) & ONES;
    (bits + b'0' as u64 * ONES + (b'a' - b'0' - 10) as u64 * letters).to_be_bytes()
}

/// The number that these are the digits of, if they are any.
fn value(text: &[u8; 8]) -> Option<u32> {
    let word = u64::from_be_bytes(*text);
    let mut bits = (word & (15 * ONES)) + 9 * ((word >> 6) & ONES);
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    let number = (bits | bits >> 16) as u32;
    (digits(number) == *text).then_some(number)
}

/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
const TARGET_BYTES: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_its_payload() {
        for both in [(0, 0), (1, 0x8000_0001), (u32::MAX, 0xabc), (0x0123_4567, 0x89ab_cdef)] {
            let text = target(both.0, both.1);
            assert_eq!(text.0, *format!("/{:08x}/{:08x}", both.0, both.1).as_bytes());
            assert_eq!(numbers(&text.0), Some(both));
        }
        for wrong in [
            "",
            "/",
            "/00000000-00000000",
            "/0000000g/00000000",
            "/0000000A/00000000",
            "/00000000/0000000",
            "/00000000/000000000",
        ] {
            assert_eq!(numbers(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
