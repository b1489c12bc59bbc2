//! A histogram as text and back: HdrHistogram V2, deflated, in base64, which other tools read too.
//!
//! What is read comes from a file or another machine, so nothing of it is trusted: not its lengths, not its bounds. A histogram
//! with other bounds than ours is refused, because merging it would move its counts.

use std::io::Read;

use anywire_advice::Advice;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use crate::histogram::{HIGHEST_NS, LOWEST_NS, SIGNIFICANT_DIGITS};

/// Why a text is no histogram of ours. The fault lies with the file or the peer that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HdrError {
    /// It is not base64, or of a length that no histogram has.
    #[error("the histogram is no base64 text of at most {TEXT_BYTES_MAX} bytes{help}", help = Advice(REMEDY))]
    Text,
    /// It is no HdrHistogram of version 2, deflated.
    #[error("the histogram is no HdrHistogram V2, deflated{help}", help = Advice(REMEDY))]
    Format,
    /// It ends too early, or its compressed part is broken.
    #[error("the histogram is cut or broken{help}", help = Advice(REMEDY))]
    Broken,
    /// Its bounds are not those of this version: merging would move its counts.
    #[error(
        "the histogram has {digits} digits from {lowest} to {highest}, expected are {SIGNIFICANT_DIGITS} from \
         {LOWEST_NS} to {HIGHEST_NS} (ns){help}",
        help = Advice("measure again, with the same version on each machine")
    )]
    Bounds {
        /// Its significant digits.
        digits: u32,
        /// Its lowest value.
        lowest: u64,
        /// Its highest value.
        highest: u64,
    },
    /// It has counts beyond its bounds, or more than a number holds.
    #[error("the histogram has counts that it cannot have{help}", help = Advice(REMEDY))]
    Counts,
}

/// The text of a histogram; `None` if it cannot be encoded.
pub(crate) fn encode(histogram: &Histogram<u64>) -> Option<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).ok()?;
    Some(BASE64.encode(bytes))
}

/// Adds what a text holds to an empty histogram.
pub(crate) fn decode(text: &str, into: &mut Histogram<u64>) -> Result<(), HdrError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(HdrError::Text);
    }
    let bytes = BASE64.decode(text.trim()).map_err(|_| HdrError::Text)?;
    let mut outer = bytes.as_slice();
    if u32_of(&mut outer)? != COMPRESSED_COOKIE {
        return Err(HdrError::Format);
    }
    let deflated = u32_of(&mut outer)? as usize;
    let deflated = outer.get(..deflated).ok_or(HdrError::Broken)?;
    let mut inner = Vec::new();
    // A few bytes can inflate to any number: one more than fits shows that it is too many.
    let most = HEAD_BYTES + COUNTS_BYTES_MAX + 1;
    ZlibDecoder::new(deflated).take(most as u64).read_to_end(&mut inner).map_err(|_| HdrError::Broken)?;
    decode_inflated(&inner, into)
}

fn decode_inflated(mut inner: &[u8], into: &mut Histogram<u64>) -> Result<(), HdrError> {
    let inner = &mut inner;
    if u32_of(inner)? != COOKIE {
        return Err(HdrError::Format);
    }
    let length = u32_of(inner)? as usize;
    let offset = u32_of(inner)?;
    let digits = u32_of(inner)?;
    let (lowest, highest, ratio) = (u64_of(inner)?, u64_of(inner)?, f64::from_bits(u64_of(inner)?));
    if (digits, lowest, highest) != (u32::from(SIGNIFICANT_DIGITS), LOWEST_NS, HIGHEST_NS) {
        return Err(HdrError::Bounds { digits, lowest, highest });
    }
    if offset != 0 || ratio != 1.0 {
        return Err(HdrError::Format);
    }
    let mut counts = inner.get(..length).filter(|_| length <= COUNTS_BYTES_MAX).ok_or(HdrError::Broken)?;
    let (mut slot, mut total) = (0_u64, 0_u64);
    while !counts.is_empty() {
        let number = number_of(&mut counts)?;
        let Ok(count) = u64::try_from(number) else {
            // So many empty slots.
            slot = slot.checked_add(number.unsigned_abs()).ok_or(HdrError::Counts)?;
            continue;
        };
        if count > 0 {
            // The total is kept in a number too.
            total = total.checked_add(count).ok_or(HdrError::Counts)?;
            let value = value_of(slot).filter(|value| *value <= HIGHEST_NS).ok_or(HdrError::Counts)?;
            into.record_n(value, count).map_err(|_| HdrError::Counts)?;
        }
        slot += 1;
    }
    Ok(())
}

/// The least value that is counted in a slot: there are 2,048 of width 1, and then 1,024 of each doubling.
fn value_of(slot: u64) -> Option<u64> {
    let doubling = u32::try_from((slot / HALF).saturating_sub(1)).ok()?;
    let within = if slot < HALF { slot } else { slot % HALF + HALF };
    within.checked_shl(doubling).filter(|value| value >> doubling == within)
}

/// A number of the counts: LEB128 of at most nine bytes, zigzag.
fn number_of(bytes: &mut &[u8]) -> Result<i64, HdrError> {
    let mut value = 0_u64;
    for place in 0..9 {
        let (&byte, rest) = bytes.split_first().ok_or(HdrError::Broken)?;
        *bytes = rest;
        if place == 8 {
            // The ninth has eight bits.
            value |= u64::from(byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

fn u32_of(bytes: &mut &[u8]) -> Result<u32, HdrError> {
    let (first, rest) = bytes.split_first_chunk().ok_or(HdrError::Broken)?;
    *bytes = rest;
    Ok(u32::from_be_bytes(*first))
}

fn u64_of(bytes: &mut &[u8]) -> Result<u64, HdrError> {
    let (first, rest) = bytes.split_first_chunk().ok_or(HdrError::Broken)?;
    *bytes = rest;
    Ok(u64::from_be_bytes(*first))
}

const REMEDY: &str = "take the field `hdr` of a result as it is";
/// What the first four bytes are.
const COMPRESSED_COOKIE: u32 = 0x1c84_9304 | 0x10;
const COOKIE: u32 = 0x1c84_9303 | 0x10;
const HEAD_BYTES: usize = 40;
/// Half of the slots of width 1: twice the least power of two above 10^digits.
const HALF: u64 = 1024;
/// Every slot with a count of nine bytes: 27 doublings of 1,024 slots, and one more of them.
const COUNTS_BYTES_MAX: usize = 28 * 1024 * 9;
/// As long as an encoded histogram can be; deflating makes little longer.
const TEXT_BYTES_MAX: usize = (COUNTS_BYTES_MAX + 1024) / 3 * 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Latency;

    fn deflated(inner: &[u8]) -> String {
        use std::io::Write as _;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(inner).unwrap();
        let deflated = encoder.finish().unwrap();
        let mut bytes = COMPRESSED_COOKIE.to_be_bytes().to_vec();
        bytes.extend((deflated.len() as u32).to_be_bytes());
        bytes.extend(deflated);
        BASE64.encode(bytes)
    }

    fn head(digits: u32, lowest: u64, highest: u64, length: usize) -> Vec<u8> {
        let mut head = COOKIE.to_be_bytes().to_vec();
        head.extend((length as u32).to_be_bytes());
        head.extend(0_u32.to_be_bytes());
        head.extend(digits.to_be_bytes());
        head.extend(lowest.to_be_bytes());
        head.extend(highest.to_be_bytes());
        head.extend(1.0_f64.to_be_bytes());
        head
    }

    fn with_counts(counts: &[u8]) -> Result<Latency, HdrError> {
        let mut inner = head(3, LOWEST_NS, HIGHEST_NS, counts.len());
        inner.extend(counts);
        Latency::from_hdr(&deflated(&inner))
    }

    #[test]
    fn what_is_no_histogram_is_told() {
        let good = with_counts(&[0, 2]).unwrap();
        assert_eq!((good.count(), good.quantile(0.5).unwrap().as_nanos()), (1, 1));
        let text = good.summary().unwrap().hdr.unwrap();
        for (wrong, error) in [
            ("?".to_owned(), HdrError::Text),
            ("A".repeat(TEXT_BYTES_MAX + 4), HdrError::Text),
            (String::new(), HdrError::Broken),
            (BASE64.encode([0; 8]), HdrError::Format),
            (text[..text.len() / 4 / 2 * 4].to_owned(), HdrError::Broken),
            (deflated(&head(3, LOWEST_NS, HIGHEST_NS, 1)), HdrError::Broken),
            (deflated(&head(2, 1, 1000, 0)), HdrError::Bounds { digits: 2, lowest: 1, highest: 1000 }),
            (deflated(&[7; 40]), HdrError::Format),
        ] {
            assert_eq!(Latency::from_hdr(&wrong).unwrap_err(), error, "{wrong:.40}");
        }
    }

    #[test]
    fn counts_beyond_the_bounds_are_refused() {
        // The least number that there is, as zeros; then one behind them.
        let lowest = [0xff; 9];
        assert_eq!(
            with_counts(&[&lowest[..], &lowest, &lowest, &[2]].concat()).unwrap_err(),
            HdrError::Counts
        );
        // 2^20 empty slots.
        assert_eq!(with_counts(&[0xff, 0xff, 0x7f, 2]).unwrap_err(), HdrError::Counts);
        // Three times the largest count.
        let largest = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(with_counts(&[largest; 3].concat()).unwrap_err(), HdrError::Counts);
        assert_eq!(with_counts(&[0x80]).unwrap_err(), HdrError::Broken);
    }

    #[test]
    fn a_small_text_that_inflates_to_much_takes_no_memory() {
        let inner = vec![0; 50 << 20];
        assert_eq!(Latency::from_hdr(&deflated(&inner)).unwrap_err(), HdrError::Format);
        let mut inner = head(3, LOWEST_NS, HIGHEST_NS, 50 << 20);
        inner.resize(50 << 20, 0);
        assert_eq!(Latency::from_hdr(&deflated(&inner)).unwrap_err(), HdrError::Broken);
    }

    proptest! {
        // Each case reads all buckets of two histograms.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_comes_back_to_the_bucket(values in prop::collection::vec((0_u64..70_000_000_000, 1_u64..1 << 40), 1..200)) {
            let mut latency = Latency::new();
            for (nanoseconds, count) in values {
                latency.record_many(std::time::Duration::from_nanos(nanoseconds), count);
            }
            let summary = latency.summary().unwrap();
            let back = Latency::from_summary(&summary).unwrap();
            prop_assert_eq!(back.summary(), Some(summary));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_histogram_or_an_error(text in "[A-Za-z0-9+/]{0,400}", counts in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Latency::from_hdr(&text);
            let _ = with_counts(&counts);
        }
    }
}
