//! What an end of HTTP/2 may send, by the frames alone (RFC 9113 sections 5.2 and 6.9).

use std::collections::HashMap;

/// The windows that one end has of the other.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) connection: i64,
    /// That of a new stream.
    first: i64,
    streams: HashMap<u32, i64>,
}

impl Windows {
    /// Those that hold at first.
    pub(crate) fn new() -> Self {
        Self { connection: 65_535, first: 65_535, streams: HashMap::new() }
    }

    /// Takes what the receiving end says of them. A frame that breaks a rule says nothing.
    pub(crate) fn hear(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, |bytes| i64::from(i32::from_be_bytes(bytes)));
        match kind {
            SETTINGS if flags & 1 == 0 => {
                let (settings, _) = payload.as_chunks::<6>();
                for [_, _, value @ ..] in settings.iter().filter(|setting| setting[..2] == [0, WINDOW]) {
                    let change = number(value) - self.first;
                    self.first += change;
                    self.streams.values_mut().for_each(|window| *window += change);
                }
            }
            // The first bit has no meaning.
            WINDOW_UPDATE if stream == 0 => self.connection += number(payload) & 0x7fff_ffff,
            WINDOW_UPDATE => *self.of(stream) += number(payload) & 0x7fff_ffff,
            _ => {}
        }
    }

    /// The sending end has sent so much of a body, with its padding.
    pub(crate) fn spend(&mut self, stream: u32, bytes: usize) {
        self.connection -= bytes as i64;
        *self.of(stream) -= bytes as i64;
    }

    /// How much the sending end may send on this stream.
    pub(crate) fn room(&mut self, stream: u32) -> i64 {
        self.connection.min(*self.of(stream))
    }

    /// The window of a stream alone.
    pub(crate) fn of(&mut self, stream: u32) -> &mut i64 {
        self.streams.entry(stream).or_insert(self.first)
    }
}

const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
/// SETTINGS_INITIAL_WINDOW_SIZE.
const WINDOW: u8 = 4;
