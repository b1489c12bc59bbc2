//! Frames leave to the kernel: each with one write, gathered from where its parts lie.

use std::io::{self, IoSlice};

use anywire_packet::layout::Layout;
use anywire_sys::tap::{Header, Segmentation};
use anywire_tcp::Frames;

use super::{SUPER_FRAME_BYTES, Tap};
use crate::link_state::Link;
use crate::offload::{FRAMES_MAX, Run};

/// What has become of the first frames of a batch.
struct Sent {
    /// How many they were.
    frames: usize,
    bytes: usize,
    /// None if there was no room for them.
    result: io::Result<bool>,
}

impl Tap {
    /// Sends as many frames of a batch as there is room for, and takes them out.
    pub(super) fn send_all(&mut self, frames: &mut Frames) -> usize {
        let (mut done, mut sent) = (0, 0);
        self.is_full = false;
        while done < frames.len() && !self.link.is_gone() {
            let first = self.send_first(frames, done);
            match first.result {
                Ok(true) => {
                    self.link.set(Link::Up);
                    sent += first.frames;
                    self.counters.frames_out += first.frames as u64;
                    self.counters.bytes_out += first.bytes as u64;
                    self.counters.super_frames_out += u64::from(first.frames > 1);
                }
                Ok(false) => {
                    self.is_full = true;
                    break;
                }
                Err(fault) => {
                    self.note_fault(&fault);
                    self.counters.dropped_out += first.frames as u64;
                }
            }
            done += first.frames;
        }
        if self.link.is_gone() {
            self.counters.dropped_out += (frames.len() - done) as u64;
            frames.clear();
        } else {
            frames.remove_first(done);
        }
        sent
    }

    /// Sends frame `first` of a batch, together with those that make a super-frame with it.
    fn send_first(&self, frames: &Frames, first: usize) -> Sent {
        match Run::starting_at(frames, first, SUPER_FRAME_BYTES) {
            Some(run) => self.send_run(frames, first, &run),
            None => {
                let (header, frame) = (Header::default().to_bytes(), &frames[first]);
                let result = self.tap.send(&[IoSlice::new(&header), IoSlice::new(frame)]);
                Sent { frames: 1, bytes: frame.len(), result }
            }
        }
    }

    /// Sends a run as one frame: headers of its own, and the payloads from where they lie.
    fn send_run(&self, frames: &Frames, first: usize, run: &Run) -> Sent {
        let payload_at = run.layout.payload_at;
        let mut headers = [0; HEADERS_MAX];
        let headers = &mut headers[..payload_at];
        headers.copy_from_slice(&frames[first][..payload_at]);
        run.write_headers(headers);
        let header = header_of(run, headers).to_bytes();
        let mut parts = [IoSlice::new(&[]); 2 + FRAMES_MAX];
        (parts[0], parts[1]) = (IoSlice::new(&header), IoSlice::new(headers));
        let all = first..first + run.count;
        for (part, frame) in parts[2..].iter_mut().zip(all.map(|number| &frames[number])) {
            // Without the padding of a short frame.
            let end = Layout::of(frame).map_or(payload_at, |layout| layout.end);
            *part = IoSlice::new(&frame[payload_at..end]);
        }
        let bytes = run.count * payload_at + run.payload_bytes;
        Sent { frames: run.count, bytes, result: self.tap.send(&parts[..2 + run.count]) }
    }
}

/// What the kernel has to know of a run: it is to finish the checksum, and to cut it if it is of several segments.
fn header_of(run: &Run, headers: &[u8]) -> Header {
    let layout = &run.layout;
    let mut header = Header {
        needs_checksum: true,
        header_bytes: layout.payload_at as u16,
        checksum_start: layout.transport_at as u16,
        checksum_offset: (layout.checksum_at() - layout.transport_at) as u16,
        ..Header::default()
    };
    if run.payload_bytes > run.segment_bytes {
        header.segmentation = Some(if layout.is_v4 { Segmentation::Ipv4 } else { Segmentation::Ipv6 });
        header.has_congestion_mark = headers[layout.transport_at + 13] & CWR != 0;
        header.segment_bytes = run.segment_bytes as u16;
    }
    header
}

/// Bytes of the longest headers: Ethernet 14, IPv4 60, TCP 60; rounded up.
const HEADERS_MAX: usize = 160;

const CWR: u8 = 128;
