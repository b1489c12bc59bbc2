//! What payloads consist of: bytes that follow from a connection and a message number, cheap to write and to
//! compare.
//!
//! The first word is the two numbers themselves, so that a payload that went astray says where it belongs;
//! the others follow from them by a mix and a step. A word is eight bytes: the compiler makes vectors of
//! them.

/// The shortest payload: the first word.
pub(crate) const BYTES_MIN: usize = 8;

/// The tag of a message to all connections: no connection has this number.
pub(crate) const TO_ALL: u32 = u32::MAX;

/// Writes the payload of a message.
#[inline]
pub(crate) fn fill(out: &mut [u8], tag: u32, number: u32) {
    let (head, mut word) = (first_word(tag, number), seed(tag, number));
    let Some((first, rest)) = out.split_first_chunk_mut::<8>() else {
        return out.copy_from_slice(&head.to_le_bytes()[..out.len()]);
    };
    *first = head.to_le_bytes();
    let (words, tail) = rest.as_chunks_mut::<8>();
    for chunk in words {
        *chunk = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
    // Most payloads are whole words: no call for nothing.
    if !tail.is_empty() {
        tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
    }
}

/// Whether a whole payload is that of a message.
#[inline]
pub(crate) fn is_whole(bytes: &[u8], tag: u32, number: u32) -> bool {
    let (head, mut word) = (first_word(tag, number), seed(tag, number));
    let Some((first, rest)) = bytes.split_first_chunk::<8>() else {
        return bytes == &head.to_le_bytes()[..bytes.len()];
    };
    let mut differs = u64::from_le_bytes(*first) ^ head;
    let (words, tail) = rest.as_chunks::<8>();
    for chunk in words {
        differs |= u64::from_le_bytes(*chunk) ^ word;
        word = word.wrapping_add(STEP);
    }
    differs == 0 && (tail.is_empty() || tail == &word.to_le_bytes()[..tail.len()])
}

/// Whether a part of a payload, from the byte `at` on, is that of a message.
#[cold]
pub(crate) fn is_part(bytes: &[u8], at: usize, tag: u32, number: u32) -> bool {
    let mut whole = vec![0; at + bytes.len()];
    fill(&mut whole, tag, number);
    whole[at..] == *bytes
}

/// The numbers that a payload begins with: tag and number of its message.
#[inline]
pub(crate) fn numbers(bytes: &[u8]) -> Option<(u32, u32)> {
    let head = u64::from_le_bytes(*bytes.first_chunk()?);
    Some(((head >> 32) as u32, head as u32))
}

const fn first_word(tag: u32, number: u32) -> u64 {
    (tag as u64) << 32 | number as u64
}

/// The mix of splitmix64 (Steele, Lea, Flood 2014): near numbers give far seeds.
const fn seed(tag: u32, number: u32) -> u64 {
    let mixed = (first_word(tag, number) ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The step from word to word: odd, with bits everywhere.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_recognised_whole_and_in_parts() {
        for length in 0..100 {
            let mut bytes = vec![0; length];
            fill(&mut bytes, 7, 9);
            assert!(is_whole(&bytes, 7, 9), "{length}");
            assert_eq!(numbers(&bytes), (length >= 8).then_some((7, 9)));
            for at in 0..length {
                assert!(is_part(&bytes[at..], at, 7, 9), "{length} from {at}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_seen() {
        let mut bytes = vec![0; 203];
        fill(&mut bytes, 1, 2);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&bytes, 1, 2), "{bit}");
            assert!(!is_part(&bytes, 0, 1, 2), "{bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn messages_differ() {
        let mut bytes = vec![0; 64];
        fill(&mut bytes, 1, 2);
        assert!(!is_whole(&bytes, 2, 1) && !is_whole(&bytes, 1, 3) && !is_part(&bytes[32..], 32, 1, 3));
    }
}
