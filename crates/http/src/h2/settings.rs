//! Settings: what each end tells the other about itself (RFC 9113 section 6.5).

use super::frame::{self, WINDOW_MAX, kind};
use super::hpack::DEFAULT_TABLE_BYTES;
use super::{Error, FrameFault};

/// What the peer has said, or the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) table_bytes: usize,
    pub(super) streams: usize,
    pub(super) window: u32,
    pub(super) frame_bytes: usize,
    pub(super) list_bytes: usize,
    pub(super) extended_connect: bool,
}

impl Settings {
    /// What holds before any frame (RFC 9113 section 6.5.2).
    pub(super) const INITIAL: Self = Self {
        table_bytes: DEFAULT_TABLE_BYTES,
        streams: usize::MAX,
        window: DEFAULT_WINDOW_BYTES,
        frame_bytes: FRAME_BYTES_MIN,
        list_bytes: usize::MAX,
        extended_connect: false,
    };

    /// Takes the values of a frame, one after the other. Values that it does not know have no meaning. Returns the smallest
    /// size of the table that has held meanwhile.
    pub(super) fn update(&mut self, payload: &[u8], from_server: bool) -> Result<usize, Error> {
        let refuse = |fault| Err(Error::Frame(fault));
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return refuse(FrameFault::SettingsLength);
        }
        let mut smallest_table_bytes = usize::MAX;
        for &[i1, i0, v3, v2, v1, v0] in settings {
            let value = u32::from_be_bytes([v3, v2, v1, v0]);
            match (u16::from_be_bytes([i1, i0]), value) {
                (id::TABLE_BYTES, _) => {
                    self.table_bytes = value as usize;
                    smallest_table_bytes = smallest_table_bytes.min(self.table_bytes);
                }
                (id::PUSH, 0) => {}
                (id::PUSH, 1) if !from_server => {}
                (id::PUSH, _) => {
                    return refuse(FrameFault::EnablePush);
                }
                (id::STREAMS, _) => self.streams = value as usize,
                (id::WINDOW, 0..=WINDOW_MAX) => self.window = value,
                (id::WINDOW, _) => {
                    return refuse(FrameFault::InitialWindowSize);
                }
                (id::FRAME_BYTES, 0x4000..=0xff_ffff) => self.frame_bytes = value as usize,
                (id::FRAME_BYTES, _) => {
                    return refuse(FrameFault::MaxFrameSize);
                }
                (id::LIST_BYTES, _) => self.list_bytes = value as usize,
                (id::EXTENDED_CONNECT, 1) => self.extended_connect = true,
                // Once said, it must not be taken back (RFC 8441 section 3).
                (id::EXTENDED_CONNECT, 0) if !self.extended_connect => {}
                (id::EXTENDED_CONNECT, _) => {
                    return refuse(FrameFault::EnableConnectProtocol);
                }
                (id::NO_OLD_PRIORITIES, 0 | 1) => {}
                (id::NO_OLD_PRIORITIES, _) => {
                    return refuse(FrameFault::NoRfc7540Priorities);
                }
                _ => {}
            }
        }
        Ok(smallest_table_bytes.min(self.table_bytes))
    }
}

/// Appends a frame with these settings.
pub(super) fn write(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    frame::head(out, settings.len() * 6, kind::SETTINGS, 0, 0);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(super) mod id {
    pub(crate) const TABLE_BYTES: u16 = 0x1;
    pub(crate) const PUSH: u16 = 0x2;
    pub(crate) const STREAMS: u16 = 0x3;
    pub(crate) const WINDOW: u16 = 0x4;
    pub(crate) const FRAME_BYTES: u16 = 0x5;
    pub(crate) const LIST_BYTES: u16 = 0x6;
    /// RFC 8441 section 3.
    pub(crate) const EXTENDED_CONNECT: u16 = 0x8;
    /// RFC 9218 section 2.1.
    pub(crate) const NO_OLD_PRIORITIES: u16 = 0x9;
}

/// The window of each stream, and of the connection, at the start.
pub(super) const DEFAULT_WINDOW_BYTES: u32 = 65_535;

/// Streams that a client opens at most before it knows the limit of its server, which is not to be smaller than this
/// (RFC 9113 section 6.5.2).
pub(super) const STREAMS_AT_FIRST: usize = 100;

/// The largest frame that each end takes at least, and that we take.
pub(super) const FRAME_BYTES_MIN: usize = 16_384;
