//! The Huffman code of HPACK (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: the lengths of the codes say it all, and both tables are made of them by the compiler.

use super::HpackError;

/// The length of each symbol's code in bits; the last symbol is the end of the string, which is never sent.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

const LONGEST_BITS: usize = 30;

/// All symbols whose codes have one length have consecutive codes.
#[derive(Clone, Copy)]
struct Length {
    /// The first code of this length.
    first: u32,
    /// The place of its symbol in [`Code::symbols`].
    at: u16,
    /// How many there are.
    count: u16,
}

struct Code {
    /// By symbol.
    codes: [u32; 257],
    /// The symbols in the order of their codes.
    symbols: [u16; 257],
    /// By length.
    lengths: [Length; LONGEST_BITS + 1],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        codes: [0; 257],
        symbols: [0; 257],
        lengths: [Length { first: 0, at: 0, count: 0 }; LONGEST_BITS + 1],
    };
    let (mut next, mut at, mut bits) = (0, 0, 1);
    while bits <= LONGEST_BITS {
        next <<= 1;
        code.lengths[bits] = Length { first: next, at, count: 0 };
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                code.codes[symbol] = next;
                code.symbols[at as usize] = symbol as u16;
                code.lengths[bits].count += 1;
                next += 1;
                at += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    code
}

/// What the first bits of the rest of a string mean: a symbol, and the length of its code; 0 if the code is longer.
const SHORT_BITS: u32 = 10;

static SHORT: [(u8, u8); 1 << SHORT_BITS] = {
    let code = build();
    let mut short = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let bits = LENGTHS[symbol] as u32;
        if bits <= SHORT_BITS {
            let first = code.codes[symbol] << (SHORT_BITS - bits);
            let mut index = first;
            while index < first + (1 << (SHORT_BITS - bits)) {
                short[index as usize] = (symbol as u8, bits as u8);
                index += 1;
            }
        }
        symbol += 1;
    }
    short
};

/// Appends what `coded` says to `out`.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    // The shortest code has five bits.
    out.reserve(coded.len() * 8 / 5);
    let mut rest = coded;
    // The next bits, from the top; all bits behind them are 0.
    let mut window = 0_u64;
    let mut bits = 0_u32;
    loop {
        while bits <= u64::BITS - 8
            && let [byte, after @ ..] = rest
        {
            window |= u64::from(*byte) << (u64::BITS - 8 - bits);
            bits += 8;
            rest = after;
        }
        let (symbol, length) = SHORT[(window >> (u64::BITS - SHORT_BITS)) as usize];
        let length = u32::from(length);
        if length != 0 && length <= bits {
            out.push(symbol);
            (window, bits) = (window << length, bits - length);
            continue;
        }
        match long(window, bits) {
            Some((symbol, length)) => {
                out.push(symbol);
                (window, bits) = (window << length, bits - length);
            }
            // What is left is padding: less than a byte, all ones (RFC 7541 section 5.2).
            None if rest.is_empty() && bits < 8 && window.leading_ones() >= bits => return Ok(()),
            None => return Err(HpackError::Huffman),
        }
    }
}

/// The first symbol of the window, if its code is a long one, and the length of the code.
#[cold]
fn long(window: u64, bits: u32) -> Option<(u8, u32)> {
    let longest = LONGEST_BITS as u32;
    (SHORT_BITS + 1..=longest.min(bits)).find_map(|length| {
        let Length { first, at, count } = CODE.lengths[length as usize];
        let offset = ((window >> (u64::BITS - length)) as u32).checked_sub(first)?;
        let symbol = (offset < u32::from(count)).then(|| CODE.symbols[usize::from(at) + offset as usize])?;
        // The end of a string must not stand in it.
        Some((u8::try_from(symbol).ok()?, length))
    })
}

/// How many bytes `text` takes.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum::<usize>().div_ceil(8)
}

/// Appends the code of `text` to `out`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut window, mut bits) = (0_u64, 0);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        window = window << length | u64::from(CODE.codes[usize::from(byte)]);
        bits += length;
        while bits >= 8 {
            bits -= 8;
            out.push((window >> bits) as u8);
        }
    }
    if bits > 0 {
        out.push((window << (8 - bits)) as u8 | 0xff >> bits);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    /// RFC 7541 appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc_decode_and_encode() {
        for (text, coded) in [
            ("www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
            ("no-cache", "a8eb10649cbf"),
            ("custom-value", "25a849e95bb8e8b4bf"),
            ("Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
            ("https://www.example.com", "9d29ad171863c78f0b97c8e9ae82ae43d3"),
            (
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
                "94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
            ),
        ] {
            let bytes: Vec<u8> = (0..coded.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&coded[at..at + 2], 16).expect("hex"))
                .collect();
            assert_eq!(decoded(&bytes).expect("valid"), text.as_bytes());
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!((out, encoded_len(text.as_bytes())), (bytes.clone(), bytes.len()));
        }
    }

    #[test]
    fn bad_padding_and_the_end_symbol_are_refused() {
        // `a` is 00011: the padding must be ones, and shorter than a byte.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        for coded in [&[0b0001_1110][..], &[0b0001_1111, 0xff], &[0xff; 4], &[0xff, 0xff, 0xff, 0xfc]] {
            assert_eq!(decoded(coded), Err(HpackError::Huffman), "{coded:?}");
        }
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text: Vec<u8>) {
            let mut coded = Vec::new();
            encode(&text, &mut coded);
            prop_assert_eq!(coded.len(), encoded_len(&text));
            prop_assert_eq!(decoded(&coded), Ok(text));
        }

        #[test]
        fn what_decodes_is_the_one_code_of_its_text(coded: Vec<u8>) {
            if let Ok(text) = decoded(&coded) {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, coded);
            }
        }
    }
}
