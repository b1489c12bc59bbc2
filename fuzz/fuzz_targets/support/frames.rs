//! Frames of HTTP/2 out of a fuzzer's bytes: most of them as they should be, so that what is behind them is reached.

/// Takes choices out of the bytes. Behind their end every choice is 0.
pub(crate) struct Choices<'b>(pub(crate) &'b [u8]);

impl<'b> Choices<'b> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(crate) fn bytes(&mut self, most: usize) -> &'b [u8] {
        let count = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The frames that bytes are made of: length, kind, flags, stream.
pub(crate) fn heads(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut heads = Vec::new();
    while let [l2, l1, l0, kind, flags, s3, s2, s1, s0, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *l2, *l1, *l0]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        heads.push((*kind, *flags, u32::from_be_bytes([*s3, *s2, *s1, *s0]), payload.to_vec()));
        bytes = rest;
    }
    heads
}

/// The next frame, or frames, for a peer of this role, on one of its first streams.
pub(crate) fn next_frame(choices: &mut Choices<'_>, to_server: bool) -> Vec<u8> {
    let kind = choices.byte() % 16;
    let stream = choices.below(6) as u32 * 2 + 1;
    let end = choices.byte() & 1;
    match kind {
        0..=3 => head(choices, stream, end, &fields(usize::from(kind), to_server)),
        4 | 5 => {
            let most = if kind == 4 { 20 } else { 200 };
            let data = choices.bytes(most).to_vec();
            padded(choices, 0, end, stream, &data)
        }
        6 => frame(3, 0, stream, &u32::from(choices.byte() % 16).to_be_bytes()),
        7 => {
            let mut payload = Vec::new();
            for _ in 0..choices.below(4) {
                payload.extend([0, choices.byte() % 10]);
                let values =
                    [0, 1, 100, 4096, 16_384, 65_535, 1 << 20, (1 << 24) - 1, (1 << 31) - 1, u32::MAX];
                payload.extend(values[choices.below(values.len())].to_be_bytes());
            }
            frame(4, 0, 0, &payload)
        }
        8 => frame(6, end, 0, &[choices.byte(); 8]),
        9 => {
            let increments = [0, 1, 1000, 1 << 20, (1 << 31) - 1, 1 << 31];
            let increment: u32 = increments[choices.below(increments.len())];
            frame(8, 0, if end == 1 { 0 } else { stream }, &increment.to_be_bytes())
        }
        10 => frame(2, 0, stream, &[0, 0, 0, choices.byte(), 16]),
        11 => frame(16, 0, 0, &[&stream.to_be_bytes()[..], b"u=", &[b'0' + choices.byte() % 10]].concat()),
        12 => frame(4, 1, 0, &[]),
        13 => frame(64 + choices.byte() % 8, end, stream, choices.bytes(20)),
        // Fields as the fuzzer likes.
        14 => {
            let own = choices.bytes(60).to_vec();
            let mut block = if to_server { fields(0, true) } else { fields(0, false) };
            block.extend(own);
            head(choices, stream, end, &block)
        }
        _ => {
            let (kind, flags, stream) = (choices.byte() % 12, choices.byte(), choices.byte() % 16);
            frame(kind, flags, u32::from(stream), choices.bytes(40))
        }
    }
}

/// A header block, whose fields go into the table or come from it.
fn fields(which: usize, of_request: bool) -> Vec<u8> {
    let start: &[u8] = match (of_request, which) {
        (true, 0 | 1) => b"\x82\x86\x84\x41\x01a",
        (true, 2) => b"\x83\x86\x04\x04/x?y\x41\x01a",
        // Trailers, or a head that lacks a field.
        (true, _) => b"",
        (false, 0 | 1) => b"\x88",
        (false, 2) => b"\x8d",
        (false, _) => b"\x08\x03100",
    };
    let rest: &[u8] = match which {
        0 => b"",
        1 => b"\x40\x03x-a\x01b\x7a\x87\xf1\xe3\xc2\xe5\xf2\x3a\x6b",
        2 => b"\x0f\x0d\x011\x10\x03x-b\x00",
        _ => b"\x00\x03x-t\x02hi",
    };
    [start, rest].concat()
}

/// HEADERS, perhaps padded, with a priority, or cut into CONTINUATION frames.
fn head(choices: &mut Choices<'_>, stream: u32, end: u8, block: &[u8]) -> Vec<u8> {
    match choices.byte() % 8 {
        0 => {
            let cut = choices.below(block.len() + 1);
            let (first, rest) = block.split_at(cut);
            [frame(1, end, stream, first), frame(9, 4, stream, rest)].concat()
        }
        1 => padded(choices, 1, end | 4, stream, block),
        2 => frame(1, end | 4 | 0x20, stream, &[&[0, 0, 0, 0, choices.byte()][..], block].concat()),
        _ => frame(1, end | 4, stream, block),
    }
}

fn padded(choices: &mut Choices<'_>, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    if choices.byte() % 4 > 0 {
        return frame(kind, flags, stream, payload);
    }
    let padding = choices.below(9);
    let bytes = [&[padding as u8][..], payload, &vec![0; padding]].concat();
    frame(kind, flags | 8, stream, &bytes)
}
