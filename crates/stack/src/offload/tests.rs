//! Offloads against frames that are made here, byte by byte.

use anywire_packet::layout::{finish, finish_at};
use anywire_tcp::Frames;
use proptest::prelude::*;

use super::*;

const PARTIAL: Meta = Meta { checksum: Checksum::Partial, segment_bytes: 0, is_answered: false };
const FRAME_BYTES_MAX: usize = 65_549;

/// A segment of TCP with options, whose checksums are whole.
fn segment(is_v4: bool, seq: u32, payload: &[u8], flags: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let length = (32 + payload.len()) as u16;
    if is_v4 {
        frame.extend([0x08, 0, 0x45, 0]);
        frame.extend((length + 20).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([6, 64]);
        frame.extend((1..=32).map(|byte| byte * 7));
    }
    frame.extend([0, 80, 0x30, 0x39]);
    frame.extend(seq.to_be_bytes());
    frame.extend([1, 2, 3, 4, 0x80, flags, 1, 0, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 9, 9, 9, 9, 8, 8, 8, 8]);
    frame.extend(payload);
    let layout = Layout::of(&frame).expect("it is whole");
    layout.set_length(&mut frame, usize::from(length));
    assert!(finish(&mut frame));
    frame
}

/// The checksum of RFC 1071 over the pseudo header and all behind it, the plain way: 0 if it is right.
fn transport_sum(frame: &[u8]) -> u16 {
    let layout = Layout::of(frame).expect("it is whole");
    let addresses = if layout.is_v4 { &frame[26..34] } else { &frame[22..54] };
    let length = (layout.end - layout.transport_at) as u16;
    let protocol = if layout.is_tcp { 6 } else { 17 };
    let all =
        [addresses, &[0, protocol], &length.to_be_bytes(), &frame[layout.transport_at..layout.end]].concat();
    let total: u64 =
        all.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (0..4).fold(total, |sum, _| (sum & 0xffff) + (sum >> 16));
    !(folded as u16)
}

fn finished(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    assert!(finish(&mut frame));
    frame
}

/// All of a run as one frame, as a device writes it.
fn joined(frames: &Frames, first: usize, run: &Run) -> Vec<u8> {
    let mut whole = frames[first][..run.layout.payload_at].to_vec();
    run.write_headers(&mut whole);
    for number in first..first + run.count {
        whole.extend_from_slice(&frames[number][run.layout.payload_at..]);
    }
    whole
}

fn batch(all: &[Vec<u8>]) -> Frames {
    let mut frames = Frames::new();
    for frame in all {
        assert!(frames.push(frame), "room");
        frames.describe_last(PARTIAL);
    }
    frames
}

fn run_of(all: &[Vec<u8>]) -> usize {
    Run::starting_at(&batch(all), 0, FRAME_BYTES_MAX).map_or(0, |run| run.count)
}

proptest! {
    #[test]
    fn a_finished_checksum_is_right(is_v4: bool, payload: Vec<u8>, before: [u8; 2]) {
        let mut frame = segment(is_v4, 7, &payload, ACK);
        let at = Layout::of(&frame).expect("it is whole").checksum_at();
        prop_assert_eq!(transport_sum(&frame), 0);
        let right = frame.clone();
        frame[at..at + 2].copy_from_slice(&before);
        prop_assert_eq!(&finished(&frame), &right);
        // From a partial one, by its places alone.
        let layout = Layout::of(&frame).expect("it is whole");
        layout.leave_partial(&mut frame, layout.end - layout.transport_at);
        prop_assert!(finish_at(&mut frame, layout.transport_at, at));
        prop_assert_eq!(frame, right);
    }

    #[test]
    fn what_is_joined_is_cut_into_the_same(
        is_v4: bool,
        seq: u32,
        segment_bytes in 1_usize..1900,
        full in 0_usize..30,
        rest in 0_usize..1900,
        ends in prop::sample::select(vec![ACK, ACK | PSH, ACK | PSH | FIN]),
    ) {
        let rest = rest.min(segment_bytes);
        let mut all = Vec::new();
        for number in 0..=full {
            let is_last = number == full;
            let length = if is_last { rest.max(1) } else { segment_bytes };
            let payload: Vec<_> = (0..length).map(|at| (at * 31 + number) as u8).collect();
            let seq = seq.wrapping_add((number * segment_bytes) as u32);
            let mut frame = segment(is_v4, seq, &payload, if is_last { ends } else { ACK });
            if is_v4 {
                // What the cut counts.
                frame[19] = number as u8;
                let layout = Layout::of(&frame).expect("it is whole");
                layout.set_length(&mut frame, layout.end - layout.transport_at);
            }
            all.push(frame);
        }
        // The engine numbers no packet that may not be fragmented.
        let sent: Vec<_> = all.iter().cloned().map(|mut frame| {
            if is_v4 {
                frame[19] = 0;
            }
            frame
        }).collect();
        let frames = batch(&sent);
        let run = Run::starting_at(&frames, 0, FRAME_BYTES_MAX).expect("it is partial");
        prop_assert_eq!(run.count, all.len());
        let (mut cut, mut scratch) = (Vec::new(), Vec::new());
        let meta = Meta { checksum: Checksum::Partial, segment_bytes: run.segment_bytes as u16, ..Meta::default() };
        segments(&joined(&frames, 0, &run), meta, &mut scratch, |part, meta| {
            assert_eq!(meta, PARTIAL);
            cut.push(finished(part));
        });
        prop_assert_eq!(cut, all);
    }

    #[test]
    fn no_bytes_lead_to_a_panic(mut frame: Vec<u8>, is_v4: bool, cut in 0_usize..120, at in 0_usize..66, value: u8, size: u16) {
        let mut near = segment(is_v4, 1, &[5; 50], ACK);
        near[at] = value;
        near.truncate(cut);
        for frame in [&mut frame, &mut near] {
            let mut scratch = Vec::new();
            segments(frame, Meta { segment_bytes: size, ..PARTIAL }, &mut scratch, |_, _| ());
            if !frame.is_empty() {
                let again = frame.clone();
                Run::starting_at(&batch(&[frame.clone(), again]), 0, FRAME_BYTES_MAX);
            }
            finish(frame);
            finish_at(frame, at, at + usize::from(value));
        }
    }
}

#[test]
fn a_run_ends_where_headers_differ() {
    let two = |change: &dyn Fn(&mut Vec<u8>)| {
        let (one, mut two) = (segment(true, 1000, &[1; 100], ACK), segment(true, 1100, &[2; 100], ACK));
        change(&mut two);
        run_of(&[one, two])
    };
    assert_eq!(two(&|_| ()), 2);
    assert_eq!(two(&|frame| frame.extend([0; 6])), 2, "padding is not sent");
    for at in [0, 6, 15, 18, 22, 26, 33, 34, 37, 38, 41, 42, 45, 48, 49, 54, 65] {
        assert_eq!(two(&|frame| frame[at] ^= 1), 1, "byte {at}");
    }
    for (flags, count) in [(ACK | PSH, 2), (ACK | FIN, 2), (ACK | CWR, 1), (ACK | 4, 1), (2, 1)] {
        assert_eq!(two(&|frame| frame[47] = flags), count, "flags {flags}");
    }
    let three = |flags, middle: usize| {
        let first = segment(false, 0, &[1; 100], flags);
        run_of(&[first, segment(false, 100, &vec![2; middle], ACK), segment(false, 200, &[3; 100], ACK)])
    };
    assert_eq!((three(ACK, 100), three(ACK | PSH, 100), three(ACK, 99)), (3, 3, 2));
    assert_eq!((three(ACK | FIN, 100), three(ACK, 101)), (1, 1));
}

#[test]
fn what_must_leave_as_it_is_is_no_run() {
    let whole = segment(true, 1, &[1; 100], ACK);
    let mut frames = Frames::new();
    assert!(frames.push(&whole) && Run::starting_at(&frames, 0, FRAME_BYTES_MAX).is_none());
    let mut fragmentable = whole.clone();
    fragmentable[20] = 0;
    assert_eq!(run_of(&[fragmentable, segment(true, 101, &[1; 100], ACK)]), 1);
    // A super-frame has as much room as a packet of IP.
    let many: Vec<_> = (0..50).map(|number| segment(true, number * 1400, &[3; 1400], ACK)).collect();
    assert_eq!(run_of(&many), (65_535 - 52) / 1400);
}
